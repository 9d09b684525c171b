"""Queries written by hand, on DuckDB: as a stream in cuts they have batch's rows. (A few of them run on Spark, too.)"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.over_aggregate import OverAggregate
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from tests.corpus import lookups, operators
from tests.corpus.entries import COMPOSED, CORPUS, DUCKDB, tagged
from tests.corpus.lookups import KINDS_OF_NAMES, NAMES, ROWS_OF_NAMES
from tests.corpus.unwindowed import DAY, KNOWN, A, B
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.tables import Row, cuts
from tests.differential.tree import Column, Model, Written
from tests.differential.two_streams import ASKS, BIDS, put, rows_of
from tests.planned import tree_of
from tests.thorough import mostly_thorough


@pytest.fixture(scope="module")
def laboratory() -> duck.Laboratory:
    """Two streams in six pieces, with NULLs, ties, and rows up to 40 minutes out of order."""
    made = duck.Laboratory()
    put(made)
    made.table("names", NAMES, ROWS_OF_NAMES)
    made.table("kinds", NAMES, KINDS_OF_NAMES)
    return made


def _numbered(name: str) -> list[Row]:
    """The same rows, each with a number of its own: a bid as its bidder, an ask as its price."""
    at = 1 if name == "bids" else 2
    return [(*row[:at], number, *row[at + 1 :]) for number, row in enumerate(rows_of(name))]


def _made(plan: Plan, ttl: int | None = None) -> tuple[str, Program]:
    return whole_query.batch_sql(plan), generate.generate_program(plan, ttl=ttl)


_ON_DUCKDB = [*tagged(COMPOSED, DUCKDB)]
_RUNNING = [name for name in operators.QUERIES if "running" in name]


@pytest.mark.parametrize("name", mostly_thorough(_ON_DUCKDB, _ON_DUCKDB[::36]))
@pytest.mark.parametrize("cuts", [4])
def test_a_stream_has_the_rows_of_batch(laboratory: duck.Laboratory, name: str, cuts: int) -> None:
    planned = CORPUS[name].planned()
    assert planned.batch is not None
    outcome = laboratory.stream(planned.batch, planned.program, cuts, delay=timedelta(hours=1))
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


@pytest.mark.parametrize("name", mostly_thorough(_RUNNING, _RUNNING[:1]))
@pytest.mark.parametrize("cuts", mostly_thorough([1, 2, 6], [2]))
def test_running_totals_of_the_types_that_spark_gives_them(
    laboratory: duck.Laboratory, name: str, cuts: int
) -> None:
    plan = operators.planned(name, laboratory.ask)
    assert any(isinstance(each, OverAggregate) and each.running for each in plan.dataflow.operators)
    outcome = laboratory.stream(*_made(plan), cuts, delay=timedelta(minutes=25))
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


def test_of_running_totals_the_state_has_a_row_for_each_key(laboratory: duck.Laboratory) -> None:
    plan = operators.planned("running totals", laboratory.ask)
    model = Model(
        Written(
            whole_query.batch_sql(plan),
            (*BIDS, *(Column(n, "") for n in "s n given least most mean".split())),
        )
    )
    made = duck.Streamed(
        model, generate.generate_program(plan), laboratory.base.cursor(), fold=True, delay=60_000_000
    )
    for cut in cuts(6):
        made.take(cut)
    made.flush()
    (table,) = (each for part, each in made.parts.items() if part.startswith("running_"))
    run, *_ = [row[0] for row in made.database.execute(f"describe {table}").fetchall() if "__run_" in row[0]]
    keys = {row[2] for row in rows_of("bids")}
    assert made.database.execute(f'select count(*), count("{run}") from {table}').fetchone() == (
        len(keys),
        len(keys),
    )


@pytest.mark.parametrize("in_operators", [False, True])
@pytest.mark.parametrize(
    "items", mostly_thorough(["total, item, bidder, n", "* except (bidder)"], ["* except (bidder)"])
)
def test_a_place_may_get_worse_by_a_tie(laboratory: duck.Laboratory, in_operators: bool, items: str) -> None:
    """The count that is ordered by stays, and of equal ones the first column of the select list tells who is first."""
    at = datetime(2024, 3, 4, 8)
    laboratory.put("bids", BIDS, [[(at, 1, "a", 1), (at, 2, "a", 2)], [], [(at, 1, "a", 100)]])
    query = f"""select * from (select {items}, row_number() over (partition by item order by n desc) as rn
        from (select item, bidder, count(*) filter (where price < 50) as n, sum(price) as total from {B}
        group by item, bidder)) where rn <= 1"""
    made = tree_of if in_operators else plan_query.plan
    outcome = laboratory.stream(
        *_made(made(query, KNOWN, None, ("item", "bidder"))), 3, delay=timedelta(hours=1)
    )
    put(laboratory)
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


@pytest.mark.parametrize("in_operators", [False, True])
@pytest.mark.parametrize("by", mostly_thorough(["m", "m % 2", "case when m > 1 then 'much' end"], ["m % 2"]))
def test_a_group_that_leaves_its_ranking_makes_way(
    laboratory: duck.Laboratory, in_operators: bool, by: str
) -> None:
    at = datetime(2024, 3, 4, 8)
    laboratory.put("bids", BIDS, [[(at, 1, "a", 1), (at, 1, "b", 1)], [], [(at, 1, "a", 2)]])
    query = f"""select * from (select item, bidder, m, row_number() over (partition by {by} order by item, bidder) as rn
        from (select item, bidder, max(price) as m from {B} group by item, bidder)) where rn <= 1"""
    made = tree_of if in_operators else plan_query.plan
    outcome = laboratory.stream(
        *_made(made(query, KNOWN, None, ("item", "bidder"))), 3, delay=timedelta(hours=1)
    )
    put(laboratory)
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


@pytest.mark.parametrize("in_operators", [False, True])
def test_ties_of_a_limit_go_the_same_way_in_batch(in_operators: bool) -> None:
    made = tree_of if in_operators else plan_query.plan
    text = f"select item, n from (select item, count(*) as n from {B} group by item) order by n limit 1"
    assert "ORDER BY n, STRUCT(item, n)" in whole_query.batch_sql(made(text, KNOWN, None, ("item",)))


def test_what_a_table_outside_gave_is_taken_back_as_it_was(laboratory: duck.Laboratory) -> None:
    """Whatever it says by then: each group is in the sum of one name, or of none."""
    batch, program = _made(lookups.planned("below a group by over groups"), 30 * DAY)

    def others(cut: int) -> None:
        rows = [(item, f"{name} {cut}", factor) for item, name, factor in ROWS_OF_NAMES[1:]]
        laboratory.table("names", NAMES, rows if cut else ROWS_OF_NAMES[1:])

    *_, last = laboratory.steps(batch, program, 4, timedelta(hours=1), others)
    laboratory.table("names", NAMES, ROWS_OF_NAMES)
    found = [row for row, times in last.items() for _ in range(times)]
    # What comes last is of what was said last, and all of every group is in it.
    assert sum(n for _, n, _ in found) == 150
    assert all(name is None or name.endswith(" 3") for name, *_ in found)


@pytest.mark.parametrize("kind", mostly_thorough(["left", "full", "left anti"], ["full"]))
@pytest.mark.parametrize("cuts", mostly_thorough([1, 3, 6], [3]))
def test_a_row_that_has_met_none_comes_once(laboratory: duck.Laboratory, kind: str, cuts: int) -> None:
    """Also where rows are late, and what they should have met is gone: each comes alone or with others, never both."""
    items = (
        "b.bidder as one, cast(null as bigint) as other"
        if "anti" in kind
        else "b.bidder as one, a.price as other"
    )
    text = f"select {items} from {B} as b {kind} join {A} as a on {operators.AROUND}"
    put(laboratory, _numbered)
    plan = tree_of(text, KNOWN)
    *steps, last = laboratory.steps(*_made(plan), cuts, timedelta(minutes=1))
    put(laboratory)
    assert all(not before - after for before, after in zip([*steps], [*steps[1:], last], strict=True))
    alone = [one for (one, other), times in last.items() for _ in range(times) if other is None]
    met = {one for one, other in last if other is not None}
    assert len(alone) == len(set(alone)) and not met & set(alone)
    if kind == "left" or (kind == "full" and cuts == 1):
        # A late row of a full join is dropped where all that it meets has come alone.
        assert met | set(alone) >= set(range(150))
    if kind == "full":
        others = [other for (one, other), times in last.items() for _ in range(times) if one is None]
        assert len(others) == len(set(others)) and not {o for one, o in last if one is not None} & set(others)


@pytest.mark.parametrize("on_time", mostly_thorough([True, False], [False]))
def test_a_late_row_of_a_full_join_meets_what_has_not_come_alone(
    laboratory: duck.Laboratory, on_time: bool
) -> None:
    """What it would have met came with another, on time, or else alone: then there is no place for it."""

    def at(time: str) -> datetime:
        return datetime.fromisoformat(f"2024-03-04 {time}")

    first = [(at("09:30"), 1, "x", 0)] if on_time else []
    laboratory.put("bids", BIDS, [first, [(at("10:21"), 9, "z", 0)], [(at("09:40"), 2, "x", 0)]])
    laboratory.put("asks", ASKS, [[(at("10:00"), "x", 7)], [(at("10:21"), "y", 8)], []])
    text = f"""select b.bidder as one, a.price as other from {B} as b full join {A} as a
        on a.item = b.item and a.ts between b.ts and b.ts + interval 1 hour"""
    *_, last = laboratory.steps(*_made(tree_of(text, KNOWN)), 3, timedelta(minutes=1))
    put(laboratory)
    found = {row for row, times in last.items() if times}
    expected: list[tuple[int | None, int]] = [(1, 7), (2, 7)] if on_time else [(None, 7)]
    assert found == {(9, None), (None, 8), *expected}
