"""Rankings and the filters that end them."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.normalize.rankings import orders, qualify
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.plan.state.window_steps import WindowBufferSpec
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of, windows_of

TUMBLE = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "10 minutes"))
OVER = "over (partition by window_start, window_end, channel order by price desc, url)"


def top(where: str, rank: str = f"row_number() {OVER}", rows: str = TUMBLE) -> Plan:
    return plan_of(f"select * from (select *, {rank} as rn from {rows}) where {where}")


def kept(plan: Plan) -> WindowBufferSpec:
    (spec,) = plan.dataflow.window_specs
    assert isinstance(spec, WindowBufferSpec)
    return spec


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("rn <= 3", 3),
        ("rn < 3", 2),
        ("3 >= rn", 3),
        ("3 > rn", 2),
        ("rn = 1", 1),
        ("rn between 2 and 5", 5),
        ("rn in (1, 4)", 4),
        ("(rn = 1 or rn = 4)", 4),
        ("rn <= 9 and rn <= 4 and price > 10", 4),
    ],
)
def test_rows_that_can_not_be_in_the_ranking_are_not_kept(where: str, rows: int) -> None:
    plan = top(where)
    found = kept(plan).top
    assert found is not None
    assert (found.function, found.partition, found.rows) == ("row_number", ("`row`.`channel`",), rows)
    assert plan.shape["topn"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"select *, row_number() {OVER} as rn from {TUMBLE}", "nothing ends the ranking"),
        (
            f"select * from (select *, row_number() {OVER} as rn from {TUMBLE} where price > 3) where rn < 3",
            "a filter below the ranking",
        ),
        (
            f"select * from (select *, row_number() {OVER} as rn, sum(price) {OVER} as s from {TUMBLE}) where rn < 3",
            "the sum needs all rows",
        ),
    ],
)
def test_else_all_rows_are(text: str, why: str) -> None:
    assert kept(plan_of(text)).top is None, why


def test_ties_go_by_the_select_list() -> None:
    text = f"select * from (select window_end, price + 1 as p, row_number() {OVER} as rn from {TUMBLE}) where rn < 3"
    found = kept(plan_of(text)).top
    assert found is not None
    assert found.order == "`row`.`price` DESC, `row`.`url`, struct(`row`.`price` + 1)"


@pytest.mark.parametrize(
    ("text", "columns", "bound"),
    [
        (f"select *, row_number() {OVER} as rn from {TUMBLE} qualify rn <= 3", "*", "rn <= 3"),
        (f"select price from {TUMBLE} qualify row_number() {OVER} <= 3", "price", "_w <= 3"),
        (
            f"select price, row_number() {OVER} as place from {TUMBLE} qualify row_number() {OVER} <= 3",
            "price, place",
            "`place` <= 3",
        ),
        (f"select * from {TUMBLE} qualify row_number() {OVER} <= 3", "* EXCEPT (_w)", "_w <= 3"),
    ],
)
def test_qualify_is_a_filter_on_a_rank(text: str, columns: str, bound: str) -> None:
    plan = plan_of(text)
    assert plan.dataflow.windows is not None
    assert plan.dataflow.windows.sql.startswith(f"SELECT {columns} FROM (SELECT ")
    assert plan.dataflow.windows.sql.endswith(f"AS _t WHERE {bound}")
    assert len(plan.ranks) == 1
    found = kept(plan).top
    assert found is not None
    assert found.rows == 3


def test_qualify_over_groups() -> None:
    text = f"""select window_start, window_end, channel, count(*) as n from {TUMBLE} group by 1, 2, 3
        qualify rank() over (partition by window_start, window_end order by count(*) desc) <= 2"""
    assert windows_of(text).sql.endswith("AS _t WHERE _w <= 2")


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (
            "select u, sum(v) as v from t group by u qualify rank() over (order by sum(v) desc) <= 3",
            "RANK() OVER (ORDER BY SUM(v) DESC) AS _w",
        ),
        ("select k, sum(v) as v from t group by k qualify avg(v) > 3", "AVG(v) AS _w"),
        (
            "select k, sum(v) as v from t group by k qualify sum(w) filter (where v > 1) > 3",
            "SUM(w) FILTER(WHERE v > 1) AS _w",
        ),
        # The function of an OVER reads the groups.
        (
            "select k, sum(v) as v from t group by k qualify sum(v) over (order by k) > 3",
            "SUM(SUM(v)) OVER (ORDER BY k) AS _w",
        ),
        ("select k, -v as v from t qualify max(v) over () > 3", "MAX(-v) OVER () AS _w"),
        (
            "select k, max(u) as u from t group by k qualify sum(v) filter (where ok) > 3",
            "SUM(v) FILTER(WHERE ok) AS _w",
        ),
        (
            "select k from t group by k qualify percentile_cont(0.5) within group (order by v) filter (where ok) > 3",
            "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY v) FILTER(WHERE ok) AS _w",
        ),
    ],
)
def test_aggregates_in_qualify_are_computed_below(text: str, hidden: str) -> None:
    below = qualify.rewrite_qualify(parse(text)).args["from_"].this.this
    assert [sql(item) for item in below.expressions[len(parse(text).expressions) :]] == [hidden]


def test_order_by_reads_no_item_in_an_aggregate() -> None:
    tree = parse("select u, sum(v) as v from t group by u order by sum(v) + 1, v limit 3")
    made = [sql(each) for each in orders.order_by_columns(tree.args["order"], tree)]
    assert made == ["SUM(v) + 1", "SUM(v)"]


@pytest.mark.parametrize(
    ("by", "above"),
    [
        ("sum(v)", "`v`"),
        ("v + 1", "v + 1"),
        ("count(*)", "`__sorted_by_0`"),
        ("sum(v) + v", "`__sorted_by_0`"),
    ],
)
def test_aggregates_that_order_what_qualify_leaves_are_computed_below(by: str, above: str) -> None:
    text = (
        f"select k, sum(v) as v from t group by k qualify rank() over (order by k) < 3 order by {by} limit 3"
    )
    made = qualify.rewrite_qualify(parse(text))
    assert [sql(each) for each in made.args["order"].expressions] == [above]


def test_qualify_within_qualify() -> None:
    rows = f"select price from {TUMBLE} qualify row_number() {OVER} <= 3"
    tree = qualify.rewrite_qualify(parse(f"select price from ({rows}) qualify row_number() {OVER} <= 2"))
    assert [select for select in tree.find_all(exp.Select) if select.args.get("qualify")] == []


def test_ranks_share_places() -> None:
    found = kept(top("rn <= 2", f"dense_rank() {OVER}")).top
    assert found is not None
    assert (found.function, found.order) == ("dense_rank", "`row`.`price` DESC, `row`.`url`")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: top("rn <= 3", "row_number() over (partition by window_start, window_end)"),
            "has no ORDER BY, so any row could come first",
        ),
        (lambda: top("rn >= 3"), "'rn >= 3' sets no upper bound to the rank rn; add rn <= N."),
        (
            lambda: plan_query.plan_windows(
                f"select * from (select *, row_number() over (order by price) as rn from {TUMBLE}) where rn <= 3"
            ),
            "ranks rows of different windows together",
        ),
    ],
)
def test_refused(call: Any, sentence: str) -> None:
    with pytest.raises(QueryError) as refusal:
        call()
    assert sentence in str(refusal.value)


def test_a_group_by_is_no_topn() -> None:
    text = f"select window_start, window_end, count(*) as n from {TUMBLE} group by 1, 2"
    assert not plan_of(text).shape["topn"]
