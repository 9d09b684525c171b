"""A query that is refused since its state grows for ever is shown with a predicate on time, as its author wrote it."""

from __future__ import annotations

import re

import pytest

from dbt.adapters.spark_streaming.query.errors import UnboundedStateError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments

KNOWN = {"clicks": RelationInfo(event_time="ts"), "db.pages": RelationInfo(event_time="ts")}
LATELY = "ts >= CURRENT_TIMESTAMP() - INTERVAL '7' DAY"
_CALL = re.compile(r"\bstream\((\w+(?:\.\w+)?)\)")


def expanded(text: str) -> str:
    """A text as macros leave it."""
    return _CALL.sub(lambda call: expansion.expand_stream(call[1]), text)


def refusal(text: str, known: dict[str, RelationInfo] | None = None) -> str:
    with pytest.raises(UnboundedStateError) as problem:
        plan_query.plan(expanded(text), known or KNOWN)
    return str(problem.value)


def suggested(text: str) -> str:
    message = refusal(text)
    assert "bound it by time: " in message, message
    return message.partition("bound it by time: ")[2]


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        (
            "SELECT k, v FROM stream(clicks) QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) = 1",
            f"SELECT k, v FROM stream(clicks) WHERE {LATELY} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) = 1",
        ),
        (
            "SELECT k, u, COUNT(*) AS n FROM stream(clicks) GROUP BY k, u ORDER BY n DESC LIMIT 3",
            f"SELECT k, u, COUNT(*) AS n FROM stream(clicks) WHERE {LATELY} GROUP BY k, u ORDER BY n DESC LIMIT 3",
        ),
        (
            "WITH c AS (SELECT * FROM stream(clicks) WHERE v > 1) -- all\nSELECT k, COUNT(*) AS n FROM c GROUP BY k",
            f"WITH c AS (SELECT * FROM stream(clicks) WHERE v > 1 AND {LATELY}) SELECT k, COUNT(*) AS n FROM c GROUP BY k",
        ),
        ("SELECT DISTINCT k FROM stream(clicks)", f"SELECT DISTINCT k FROM stream(clicks) WHERE {LATELY}"),
        (
            "SELECT k FROM stream(clicks) UNION SELECT k FROM stream(db.pages)",
            f"SELECT k FROM stream(clicks) WHERE {LATELY} UNION SELECT k FROM stream(db.pages) WHERE {LATELY}",
        ),
        (
            "SELECT c.k, COUNT(*) AS n FROM stream(clicks) AS c LEFT JOIN dim AS d ON d.k = c.k GROUP BY c.k",
            "SELECT c.k, COUNT(*) AS n FROM stream(clicks) AS c LEFT JOIN dim AS d ON d.k = c.k "
            f"WHERE c.{LATELY} GROUP BY c.k",
        ),
        (
            "SELECT c.k, p.v FROM stream(clicks) AS c FULL JOIN stream(db.pages) AS p ON p.k = c.k",
            f"SELECT c.k, p.v FROM (SELECT * FROM stream(clicks) WHERE {LATELY}) AS c "
            f"FULL JOIN (SELECT * FROM stream(db.pages) WHERE {LATELY}) AS p ON p.k = c.k",
        ),
        (
            # Only one of them grows.
            "SELECT k, v > (SELECT MAX(v) FROM stream(db.pages)) AS is_more FROM stream(clicks)",
            f"SELECT k, v > (SELECT MAX(v) FROM stream(db.pages)) AS is_more FROM stream(clicks) WHERE {LATELY}",
        ),
    ],
)
def test_the_text_is_the_authors(text: str, instead: str) -> None:
    assert suggested(text) == instead


@pytest.mark.parametrize(
    "text",
    [
        "select k, v from stream(clicks) qualify row_number() over (partition by k order by v) = 1",
        "select k, v, rank() over (partition by k order by v) from stream(clicks) qualify rank() over (order by u) <= 3",
        "select * from (select *, row_number() over (partition by k order by v) as rn from stream(clicks)) where rn < 9",
        "select k, u, count(*) as n from stream(clicks) group by k, u order by n desc limit 3",
        "with c as (select * from stream(clicks) where v > 1) select k, count(*) as n from c group by k",
        "with c as (select * from clicks where v > 1) select k, count(*) as n from stream(c) group by k",
        "with c as (select * from stream(clicks)) select a.k, b.v from c as a join c as b on a.k = b.v",
        "select distinct k from stream(clicks)",
        "select distinct * from stream(clicks)",
        "select k from stream(clicks) where k in (select k from stream(db.pages))",
        "select k from stream(clicks) where k not in (select k from stream(db.pages) where v > 1)",
        "select k from stream(clicks) as a where exists (select 1 from stream(db.pages) as b where b.k = a.k)",
        "select k from stream(clicks) union select k from stream(db.pages)",
        "select k from stream(clicks) except select k from stream(db.pages)",
        "select k from stream(clicks) intersect all select k from stream(db.pages)",
        "select k, (select max(v) from stream(db.pages)) as m from stream(clicks)",
        "select k from stream(clicks) as a where v > (select avg(v) from stream(db.pages) as b where b.k = a.k)",
        "select a.k, b.v from stream(clicks) as a join stream(db.pages) as b on a.k = b.k",
        "select a.k, b.v from stream(clicks) as a left join stream(db.pages) as b using (k)",
        "select x.k, count(*) as n from stream(clicks) x, stream(db.pages) y where x.k = y.k group by x.k having sum(v) > 2",
        "select a.k, b.v from stream(clicks) a join (select k, max(v) as v from stream(db.pages) group by k) b on a.k = b.k",
        "select k, lag(v) over (partition by k order by ts) as before from stream(clicks)",
        "select k, sum(v) over (partition by k order by ts) as so_far from stream(clicks)",
        "select k, lead(v) over (partition by k order by v) as after from stream(clicks)",
        "select k, percentile(v, 0.5) as p from stream(clicks) group by k",
        "select k, u, count(*) as n from stream(clicks) group by cube(k, u)",
        "select k, count(*) as n from stream(clicks) group by k union all select v, sum(v) from stream(db.pages) group by v",
        "select n, count(*) as m from (select k, count(*) as n from stream(clicks) group by k) group by n",
        "select k, count(*) as n from stream(clicks) lateral view explode(vs) as v group by k",
        "select `__row_time`, count(*) as n from stream(clicks) group by `__row_time`",
    ],
)
def test_what_is_suggested_is_not_refused(text: str) -> None:
    instead = suggested(text)
    assert instead.count("stream(") == text.count("stream(")
    plan_query.plan(expanded(instead), KNOWN)


def test_beside_windows_no_predicate_is_shown_for_it_is_no_bound() -> None:
    windows = expansion.expand_window("clicks", window_arguments.make_window("tumble", "ts", "10 minutes"))
    counts = f"select k, count(*) as n from {windows} group by window_start, window_end, k"
    assert "by time" not in refusal(
        f"select k, count(*) as n from stream(db.pages) group by k union all {counts}"
    )


def test_of_a_long_query_the_select_with_the_predicate_is_shown() -> None:
    sums = ", ".join(f"sum(case when v > {number} then v end) as sum_above_{number}" for number in range(40))
    message = refusal(f"select k, {sums} from (select k, v from stream(clicks) where v > 3) group by k")
    assert message.endswith(
        f"; or bound it by time, where it reads its streams: SELECT k, v FROM stream(clicks) WHERE v > 3 AND {LATELY}"
    )
    message = refusal(f"select k, {sums} from stream(clicks) group by k")
    assert message.endswith(
        f"; or bound it by time, where it reads its streams: SELECT … FROM stream(clicks) WHERE {LATELY} GROUP BY k"
    )


def test_of_a_stream_without_an_event_time_it_is_said_that_it_needs_one() -> None:
    assert refusal("select k, count(*) as n from stream(other) group by k").endswith(
        "; or name the event time of other in dbt's config event_time, and bound the query by time: SELECT k, COUNT(*) AS n "
        "FROM stream(other) WHERE event_time >= CURRENT_TIMESTAMP() - INTERVAL '7' DAY GROUP BY k"
    )


def test_where_no_predicate_helps_none_is_shown() -> None:
    # Rows that go would have to be taken out of a list, whose order depends on how they came.
    assert refusal("select k, collect_list(v) as vs from stream(clicks) group by k").endswith(
        "idle for so long."
    )


@pytest.mark.parametrize(
    ("call", "macro"),
    [
        ("window(ts, '10 minutes')", "tumble(relation, 'ts', '10 minutes')"),
        ("window(ts, '10 minutes', '5 minutes')", "hop(relation, 'ts', '5 minutes', '10 minutes')"),
    ],
)
def test_windows_of_sparks_are_those_of_a_macro(call: str, macro: str) -> None:
    found = refusal(f"select {call} as w, k, count(*) as n from stream(clicks) group by {call}, k")
    assert (
        f"Read the stream through a macro, FROM {{{{ {macro} }}}} … GROUP BY window_start, window_end"
        in found
    )
