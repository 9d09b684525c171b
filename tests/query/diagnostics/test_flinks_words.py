"""What is written as in Flink is recognised, and the message says what to write instead."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from tests.planned import plan_of

A = "(select /*+ STREAM */ * from a)"
WINDOW = "tumble() is a macro here: write FROM {{ tumble(relation, 'time_column', '10 minutes') }}"
VERSIONS = "as_of(source('raw', 'rates'), 'o.ordered_at')"
PATTERN = "partition by k order by ts measures last(x.v) as y pattern (x+) define x as x.v > 1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"select * from {A} match_recognize ({PATTERN})", "MATCH_RECOGNIZE isn't supported"),
        (f"select * from a MATCH_RECOGNIZE\n({PATTERN}) as m", "LAG() OVER"),
        (f"select 1 from {A} as o join r for system_time as of o.ts as r on r.k = o.k", VERSIONS),
        (f"select 1 from {A} as o left join {A} for system_time as of o.ts as r on r.k = o.k", VERSIONS),
        (f"select 1 from {A} as o join r for system_time as of proctime() as r on r.k = o.k", "lookup join"),
        ("select * from tumble(raw.orders, 'ts', '5 minutes')", WINDOW),
        ("select * from HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTES)", "hop() is a macro here"),
        ("select * from table(tumble(table a, descriptor(ts), interval '1' hour))", WINDOW),
        ("select * from table(tumble(data => table a, timecol => descriptor(ts)))", WINDOW),
        (
            f"select tumble_start(ts, interval 5 minute), count(*) from {A} group by tumble(ts, interval 5 minute)",
            WINDOW,
        ),
        (
            f"select session_end(ts, interval '1' hour) from {A} group by session(ts, interval '1' hour)",
            "session() is a",
        ),
        (f"select tumble_proctime(ts, interval '1' hour) from {A} group by k", WINDOW),
        (
            f"select /*+ STATE_TTL('a' = '1d') */ k, count(*) as n from {A} group by k",
            "config state_ttl='1 day'",
        ),
        (
            f"select k /*+ STATE_TTL('a' = '1d', 'b' = '2d') */, count(*) from {A} group by k",
            "config state_ttl='1 day'",
        ),
        (f"select /*+ LOOKUP('table'='c', 'async'='true') */ k from {A}", "cache_ttl and retries"),
        (f"select k from {A} /*+ OPTIONS('scan.startup.mode'='latest-offset') */", "under meta.stream"),
        (f"select k, PROCTIME() as p from {A}", "PROCTIME() is Flink's"),
        (f"select count(*) from {A} where ts < proctime()", "PROCTIME() is Flink's"),
        (f"select * from {A} where ts > CURRENT_WATERMARK(ts)", "CURRENT_WATERMARK() is Flink's"),
        (f"select k, current_watermark(ts) as w from {A}", "ts > current_timestamp() - INTERVAL '1' HOUR"),
        (f"set 'table.exec.state.ttl' = '1 d'; select k from {A}", "config state_ttl='1 day'"),
        (f"SET table.exec.mini-batch.enabled=true; select k from {A}", "MINI_BATCH('5 seconds', 10000)"),
        ("create table t (a int, watermark for ts as ts) with ('connector' = 'kafka')", "sources.yml"),
        (f"INSERT INTO sink SELECT k FROM {A}", "dbt-stream translate FILE.sql"),
        (f"create temporary view v as select k from {A}", "A model is one SELECT"),
    ],
)
def test_what_is_written_as_in_flink(text: str, said: str) -> None:
    with pytest.raises(QueryError) as problem:
        plan_of(text)
    assert said in str(problem.value)


@pytest.mark.parametrize(
    "text",
    [
        f"select k, 'PROCTIME()' as a, \"match_recognize\" as b from {A} -- FOR SYSTEM_TIME AS OF o.ts",
        f"select /* STATE_TTL('a'='1d') */ k from {A} where k <> '/*+ STATE_TTL(1) */'",
        f"select o.k from {A} as o join r for system_time as of '2024-01-01' as r on r.k = o.k",
        f"select /*+ BROADCAST(r) */ o.k, tumble_x(o.k) from {A} as o join r on r.k = o.k",
    ],
)
def test_texts_comments_and_sparks_own_syntax_are_left_alone(text: str) -> None:
    plan_of(text)


def test_another_mistake_is_not_taken_for_flinks_syntax() -> None:
    with pytest.raises(QueryError, match="doesn't parse"):
        plan_of(f"select 'match_recognize' as a from {A} where ( -- table.exec.x")
