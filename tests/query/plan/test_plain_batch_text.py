"""The text of a model in batch, where it doesn't stay within windows."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.plain_batch_text import in_plain_sql, plain_batch_text
from dbt.adapters.spark_streaming.query.windows.expansion import expand_as_of, expand_window
from dbt.adapters.spark_streaming.query.windows.window_arguments import make_window
from tests.planned import plan_of

A, B = ("(select /*+ STREAM */ * from a)", "(select /*+ STREAM */ * from b)")
KNOWN = {name: RelationInfo(event_time="ts") for name in "ab"}


def text_of(query: str, known: dict[str, RelationInfo] = KNOWN) -> str:
    """The text for batch of a stream's plan."""
    return plan_of(query, known).batch(in_plain_sql)


def test_a_text_that_needs_no_change_stays_as_it_is() -> None:
    text = "select k, -- by key\n  count(*) as n from t group by k"
    assert plain_batch_text(text, None, {}, (), in_plain_sql) == text


def test_rows_that_the_stream_drops_are_left_out_of_a_join_in_brackets() -> None:
    join = f"{A} as p left join {B} as q on p.k = q.k and p.ts between q.ts - interval 1 hour and q.ts"
    found = text_of(f"select p.k, q.v from ({join})")
    assert found.count("BETWEEN CAST('0001-01-01T00:00:00.000000Z' AS TIMESTAMP)") == 2
    assert found == text_of(f"select p.k, q.v from {join}")


def test_rows_that_the_stream_drops_are_left_out_of_a_join_in_brackets_with_a_name() -> None:
    other = "(select /*+ STREAM */ k as kb, v as vb, ts as tsb from b)"
    found = text_of(
        f"select k, vb from ({A} as a left join {other} as b on a.k = b.kb and a.ts = b.tsb) as z"
    )
    assert "`a`.`ts` BETWEEN" in found and "`b`.`tsb` BETWEEN" in found


def test_versions_in_brackets_are_read_from_the_changelog() -> None:
    join = f"{A} as a left join {expand_as_of('v', '`a`.`ts`', 'since', ['k'])} as r on r.k = a.k"
    changing = {"v": RelationInfo(changes=True, key=("k",))}
    in_brackets, plain = (
        plain_batch_text(f"select a.k, r.x from {each}", None, changing, (), in_plain_sql)
        for each in (f"({join})", join)
    )
    assert in_brackets == plain and "`v__changes`" in plain and "LATERAL" not in plain


def test_steps_are_left_out_in_brackets() -> None:
    steps = expand_window("a", make_window("cumulate", "ts", "1 minute", "1 hour", emit="on_change"))
    groups = "select window_end, k, count(*) as n from {} group by window_start, window_end, k"
    for read in (f"{steps} as w", f"({steps} as w)"):
        found = text_of(f"select k, sum(n) as m from ({groups.format(read)}) group by k")
        assert "HAVING COUNT(CASE WHEN" in found


def test_an_author_may_use_the_names_of_generated_columns() -> None:
    found = text_of(f"select k as __rank, v from {A} as a order by v limit 3")
    assert "AS __rank__2" in found and found.endswith("WHERE __rank__2 <= 3")
    of_table = {"a": RelationInfo(event_time="ts", columns=("k", "__rank", "ts"))}
    assert "EXCEPT (__rank__2)" in text_of(f"select * from {A} as a order by k limit 3", of_table)
