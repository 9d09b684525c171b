"""Rankings and the filters that end them."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError, UnboundedStateError
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.normalize.rankings import rank_filters
from dbt.adapters.spark_streaming.query.plan.operator import Operator
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.plan.operators.join import Join
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.query.plan.operators.top_n import TopN
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Step
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from tests.query.auctions import FIRST, auction_flow, auction_plan, bid_ranking, keeping
from tests.query.trees import KNOWN, OTHER, STREAM, flow, kinds, tops_of


def ranking(rows: str) -> str:
    return f"(select k, v, row_number() over (partition by k order by v, ts) as rn from {rows})"


def test_a_filter_ends_the_ranking_it_names() -> None:
    found = flow(
        f"select x.k, y.v from {ranking(STREAM)} as x join {ranking(OTHER)} as y on x.k = y.k "
        "where x.rn <= 3 and y.rn = 1"
    )
    assert sorted(each.top.rows for each in tops_of(found)) == [1, 3]
    found = flow(
        f"select x.k, y.v from {ranking(STREAM)} as x join {ranking(OTHER)} as y on x.k = y.k where x.rn <= 3"
    )
    assert [each.top.rows for each in tops_of(found)] == [3]
    assert "Recompute" in kinds(found)


def test_a_filter_ends_a_ranking_of_different_rows() -> None:
    found = flow(
        "select * from (select distinct k, row_number() over (partition by k order by v) as rn "
        f"from {STREAM}) where rn <= 2"
    )
    assert [each.top.rows for each in tops_of(found)] == [2]


def test_a_ranking_without_an_end_says_what_would_bound_it() -> None:
    with pytest.raises(UnboundedStateError) as problem:
        plan_query.plan(f"select k, row_number() over (partition by k order by v) as r from {STREAM}", KNOWN)
    assert str(problem.value) == (
        "'ROW_NUMBER() OVER (PARTITION BY k ORDER BY v)' ranks all rows that ever come; say how many are asked for: "
        "WHERE r <= 10 in the query around it. To have the query as it is: The state of this query grows without "
        "bound: it keeps every row that ever comes. Set state_ttl (as in '7 days') to forget what was idle for so "
        "long; or bound it by time: SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r FROM stream(db.s) "
        "WHERE ts >= CURRENT_TIMESTAMP() - INTERVAL '7' DAY"
    )


@pytest.mark.parametrize(
    ("items", "rows"),
    [
        ("k, sum(v) filter (where rn <= 2) as s", 2),
        ("k, max(case when rn = 1 then v end) as a, count(distinct if(rn <= 3, v, null)) as b", 3),
        ("k, sum(case when rn = 1 then v else 0 end) as s", None),
        ("k, count(*) as n, count_if(rn = 1) as one", None),
        ("k, try_sum(v) as n, count_if(rn = 1) as one", None),
    ],
)
def test_aggregates_that_pass_over_other_places_end_a_ranking(items: str, rows: int | None) -> None:
    found = flow(f"select {items} from {ranking(STREAM)} as r group by k")
    tops = [each.top.rows for each in tops_of(found)]
    assert rows in tops or (rows is None and not any(tops))


def test_a_ranking_of_a_table_that_is_no_stream_is_read_as_it_is() -> None:
    """Its text is what a state of the query above is known by."""
    ranked = "select k, x, row_number() over (partition by k order by x) as rn from db.dim"
    text = f"select d.x from {STREAM} as s left join ({ranked}) as d on d.k = s.k and d.rn = 1"
    assert sql(rank_filters.push_down_bounds(parse(text))) == sql(parse(text))


NUMBERS = "row_number() over (partition by k order by ts)"


def test_numbers_of_rows_are_a_ranking_which_has_to_have_an_end() -> None:
    numbered = f"(select *, {NUMBERS} as rn from {STREAM})"
    assert "TopN" in kinds(flow(f"select * from {numbered} where rn <= 3", None))
    with pytest.raises(UnboundedStateError, match="ranks all rows that ever come; say how many"):
        flow(f"select * from {numbered}", None)


def test_first_rows_that_are_the_result_come_once() -> None:
    found = bid_ranking(FIRST)
    assert (found.final, found.relation.changes) == (True, False)
    program = generate.generate_program(auction_plan(FIRST))
    assert program.upsert is None
    assert "due <= (select struct(*) from clock).watermark_after" in program.output_steps[-1].sql
    (part,) = program.parts
    assert part.closes == "due"


@pytest.mark.parametrize("ttl", [None, 10**12])
@pytest.mark.parametrize(
    ("above", "kinds"),
    [
        (
            "select n, count(*) as m from (select x, count(*) as n from {} group by x) group by n",
            [TopN, GroupAggregate, GroupAggregate],
        ),
        ("select percentile(y, 0.5) as p from {}", [TopN, Recompute]),
        (
            "select a.x, a.n from (select x, count(*) as n from {0} group by x) as a join "
            "(select x, max(y) as m from {0} group by x) as b on a.x = b.x",
            [TopN, GroupAggregate, GroupAggregate, Join],
        ),
    ],
)
def test_first_rows_below_something_come_at_once_and_are_taken_back(
    above: str, kinds: list[type[Operator]], ttl: int | None
) -> None:
    text = above.format(f"({FIRST})")
    assert keeping(auction_flow(text, ttl)) == kinds  # read twice, they are one operator
    found = bid_ranking(text, ttl)
    assert (found.final, found.relation.changes) == (False, True)
    program = generate.generate_program(auction_plan(text, ttl), ttl=ttl)
    assert program.upsert is not None
    texts = [step.sql for step in program.items_of_kind(Step)]
    assert not any("due" in each for each in texts)
    # How long what stands above is idle is measured on the watermark, since what is taken back has no time of its own.
    assert any("watermark_after as `__row_time`" in each for each in texts) == (ttl is not None)
    assert not any("as timestamp) as `__row_time`" in each for each in texts)


@pytest.mark.parametrize(
    "rows",
    [
        f"select row_number() over (partition by k order by v, ts) as rn, *, rand() as r from {STREAM}",
        f"""select k, x, rand() as r, row_number() over (partition by k order by v, ts) as rn
            from {STREAM} lateral view explode(array(v, 1)) as x""",
    ],
)
def test_random_values_beside_a_rank_that_is_computed_again_are_refused(rows: str) -> None:
    with pytest.raises(QueryError, match="ranks and calls a non-deterministic function"):
        flow(f"select k, r from ({rows}) where rn = 1")


def test_rows_that_a_generator_makes_are_ranked_from_all_rows() -> None:
    rows = f"select k, explode(v) as x, row_number() over (partition by k order by ts) as rn from {STREAM}"
    found = flow(f"select k, x from ({rows}) where rn <= 2")
    (made,) = (each for each in found.operators if isinstance(each, Recompute))
    assert made.top is None


@pytest.mark.parametrize(
    "call", ["percentile_cont(0.5) within group (order by v)", "listagg(v) within group (order by v)"]
)
def test_an_ordered_aggregate_of_over_has_a_value_for_each_row(call: str) -> None:
    """Taken for an aggregate of all rows, its result would have the key of a single row."""
    found = flow(f"select k, {call} over (partition by k) as x from {STREAM}")
    assert [each.label for each in found.operators if isinstance(each, Recompute)] == ["OVER"]
    assert found.root.relation.keys == ()
