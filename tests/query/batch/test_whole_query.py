"""Texts in batch: with windows from slices wherever a query stays within them, and as plain SQL."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.batch.whole_query import within_windows
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.plan.plain_batch_text import in_plain_sql, plain_batch_text
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.query.windows.expansion import expand_window
from dbt.adapters.spark_streaming.query.windows.window_arguments import make_window

A = "(select /*+ STREAM */ * from a)"


def steps(relation: str, emit: str = "on_change") -> str:
    return expansion.expand_window(
        relation, window_arguments.make_window("cumulate", "ts", "5 minutes", "20 minutes", emit=emit)
    )


def counted(over: str) -> str:
    return (
        f"select window_start, window_end, k, count(*) as n from {over} group by window_start, window_end, k"
    )


def test_a_text_that_is_run_as_it_is_leaves_silent_steps_out() -> None:
    text = counted(steps("shop.bids"))
    assert whole_query.whole_input_text(text) == whole_query.batch_text(text) != text


@pytest.mark.parametrize(
    "text",
    [
        "select k from shop.bids -- 'emit on_change'",
        "not even SQL",
        counted(steps("shop.bids", "every_step")),
        counted("shop.bids"),
    ],
)
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert whole_query.whole_input_text(text) == text


def test_steps_of_which_nothing_says_whose_they_are_are_refused() -> None:
    with pytest.raises(QueryError, match="group them by window_start, window_end, or leave emit out"):
        whole_query.whole_input_text(f"select * from {steps('shop.bids')}")


@pytest.mark.parametrize(
    "text",
    [
        counted(steps("base")),
        f"select *, row_number() over (partition by window_end order by n) as place from ({counted(steps('base'))})",
        f"select * from ({counted(steps('base'))}) order by n desc limit 2",
    ],
)
def test_rows_may_stand_in_the_place_of_a_table(text: str) -> None:
    """As dbt's unit tests have them."""
    given = f"with base as (select timestamp'2024-03-04 00:01:00' as ts, 'a' as k, 1 as v) {text}"
    planned = whole_query.batch_text(given)
    assert "HAVING COUNT(CASE WHEN" in planned
    if "limit" in text:
        assert "LIMIT" not in planned  # a rank with its ties broken, as over a table


def test_a_mix_of_tables_that_says_not_which_is_the_stream_is_refused_as_before() -> None:
    with pytest.raises(QueryError, match=r"cumulate\(\) has shop.bids, shop.users under it; mark the one"):
        whole_query.batch_text(
            f"with base as (select ts, k from shop.bids join shop.users using (k)) {counted(steps('base'))}"
        )


OF_CTE = expand_window("o", make_window("cumulate", "ts", "1 minute", "1 day"))
CURVE = expand_window("shop.orders", make_window("cumulate", "ts", "1 minute", "1 day"))
POINTS = (
    f"select k, window_start, window_end, count(*) as n from {CURVE} group by k, window_start, window_end"
)
OF_O = POINTS.replace(CURVE, OF_CTE)

FIRST_ROWS = (
    f"select ts, k from (select *, row_number() over (partition by k order by ts) as r from {A}) where r = 1"
)


def _sliced(query: str) -> str:
    """The text for batch, with windows from slices."""
    return plain_batch_text(query, None, {}, (), within_windows)


@pytest.mark.parametrize(
    "query",
    [
        f"select *, n - lag(n) over (partition by k order by window_end) as more from ({POINTS}) as p",
        f"with p as ({POINTS}) select k, max(n) as most from p group by k",
        f"with p as ({POINTS}), q as (select * from p where n > 1) select count(*) as n from q",
        f"select p.k, t.name, n from t join (select * from ({POINTS}) where n > 1) as p on p.k = t.k limit 3",
        f"select k, n from ({POINTS}) union all select k, v from {A}",
        f"with shop as (select 1 as a), orders as (select 2 as b) select max(n) as m from ({POINTS}) as p",
        f"with o as (select * from t), p as ({OF_O}) select *, lag(n) over (partition by k order by window_end) as m from p",
        f"with o as (select * from t) select max(n) as m from ({OF_O}) as p",
        f"with i as (select * from t), o as (select * from i where v > 0), p as (with t as (select 1) {OF_O}), "
        "q as (select *, lag(n) over (partition by k order by window_end) as m from p) select * from q where m > n",
        POINTS.replace("as n", "as n, lag(count(*)) over (partition by k order by window_end) as m"),
        f"with o as (select * from t) {OF_O.replace('as n', 'as n, sum(count(*)) over (order by window_end) as m')}",
        f"select * from ({POINTS.replace('as n', 'as n, rank() over (order by count(*)) as r')}) as p where r < 4",
        f"{POINTS.replace('as n', 'as n, (select max(x) from dim as d where d.k = c.k) as m')}".replace(
            CURVE, f"{CURVE} as c"
        ),
        f"{POINTS} limit 7",
        POINTS.replace("shop.orders", f"({FIRST_ROWS})"),
        f"with o as ({FIRST_ROWS}) {OF_O}",
        f"with o as ({FIRST_ROWS}), p as ({OF_O}) select *, lag(n) over (partition by k order by window_end) as m from p",
        f"with o as ({FIRST_ROWS}) {OF_O.replace('by k, w', 'by rollup(k), w')}",
        POINTS.replace(
            "shop.orders", f"(select a.ts, b.k from {A} as a join {A} as b on a.k = b.k and a.ts = b.ts)"
        ),
    ],
)
def test_windows_below_other_queries_are_computed_from_slices(query: str) -> None:
    found = _sliced(query)
    assert found.count("_slices as (") == 1
    # Each row isn't repeated for all the windows that it is in.
    assert "LATERAL VIEW EXPLODE" not in found


def test_a_query_from_slices_defines_the_ctes_that_it_reads() -> None:
    found = _sliced(
        f"with a as (select 1), i as (select * from t), o as (select * from i where v > 0), p as ({OF_O}) "
        "select *, lag(n) over (partition by k order by window_end) as m from p, a"
    )
    slices = found[found.index("p AS (") :]
    assert "from t\n" in slices and "v > 0" in slices.replace("`", "")


def test_each_query_over_windows_is_computed_from_slices() -> None:
    other = POINTS.replace("shop.orders", "shop.returns")
    found = _sliced(f"select a.k, a.n, b.n as m from ({POINTS}) as a join ({other}) as b on a.n > b.n")
    assert found.count("_slices as (") == 2


@pytest.mark.parametrize(
    "query",
    [
        # Another name hides a CTE that the query reads.
        f"with i as (select * from t), o as (select * from i) "
        f"select * from (with i as (select 1 as a) select max(n) as m from ({OF_O}) as p)",
        f"with i as (select * from t), o as (select * from i) select max(n) as m from (with i as (select 1) {OF_O}) as p",
        # A CTE has the name of the table that its own rows, or those of an earlier one, come from.
        f"with o as (select ts, k, v * 2 as v from o), p as ({OF_O}) select max(n) as m from p",
        f"with o as (select * from i), i as (select * from t), p as ({OF_O}) select max(n) as m from p, i",
        # Rows that differ whenever they are read are read once.
        POINTS.replace(
            "shop.orders", f"(select a.ts, b.k from {A} as a join {A} as b on a.k = b.k where rand() < 0.5)"
        ),
        f"with o as (select *, rand() as r from t) select max(n) as m from ({OF_O}) as p",
        # Its columns may be those of the query around it.
        f"select k from t where exists (select max(n) as m from ({POINTS}) as p having m > 3)",
        f"select k from t, lateral (select max(n) as m from ({POINTS}) as p where p.k = t.k)",
        # ORDER BY, and the grouping sets, aren't divided from the groups.
        POINTS.replace("as n", "as n, lag(count(*)) over (partition by k order by window_end) as m")
        + " order by n",
        POINTS.replace("as n", "as n, lag(count(*)) over (order by window_end) as m").replace(
            "by k, w", "by rollup(k), w"
        ),
        # Without groups there is nothing to divide.
        f"select distinct k, count(*) over () as n from {CURVE}",
        f"select k, sum(v) over (order by ts) as n from {CURVE}",
        # These windows pass their rows on.
        f"select k, count(*) as n from {CURVE} group by k",
    ],
)
def test_windows_that_have_no_slices_stay_plain_sql(query: str) -> None:
    assert _sliced(query) == plain_batch_text(query, None, {}, (), in_plain_sql)


def test_names_that_generated_sql_uses_stay_the_author_s_in_slices() -> None:
    points = POINTS.replace("select k,", "select k as clock,").replace("group by k", "group by clock")
    found = _sliced(f"select max(clock) as clock, count(*) as state from ({points}) as windows")
    assert "_slices as (" in found and found.endswith("AS windows")


@pytest.mark.parametrize(
    ("arguments", "slices"),
    [
        (("tumble", "ts", "1 hour"), 0),
        (("hop", "ts", "10 minutes", "1 hour"), 0),
        (("hop", "ts", "5 minutes", "1 hour"), 1),
        (("cumulate", "ts", "5 minutes", "1 hour"), 1),
    ],
)
def test_below_other_queries_slices_are_for_rows_in_many_windows(
    arguments: tuple[str, ...], slices: int
) -> None:
    points = POINTS.replace(CURVE, expand_window("shop.orders", make_window(*arguments)))
    above = f"select *, lag(n) over (partition by k order by window_end) as m from ({points}) as p"
    assert whole_query.batch_text(above).count("_slices as (") == slices
    assert whole_query.batch_text(points).count("_slices as (") == 1


@pytest.mark.parametrize("query", [POINTS, f"select *, count(*) over () as m from ({POINTS})"])
def test_a_table_that_is_called_like_the_view_of_a_stream_is_read_as_it_is(query: str) -> None:
    rows = "(select o.* from (select /*+ STREAM */ * from orders) as o join stream_orders using (k))"
    over = expand_window(rows, make_window("cumulate", "ts", "1 minute", "1 day"))
    found = whole_query.batch_text(query.replace(CURVE, over))
    assert "JOIN stream_orders" in found
    assert "stream_orders as (" not in found
