"""Which groups keep the row that they gave last: those whose values differ when they are added up in another order."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.aggregates.aggregates import Types
from dbt.adapters.spark_streaming.query.aggregates.model import Metric
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.state.groups import is_inexact
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Step
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.query.state_signature import GroupState, ResultTimes, Signature, TreeState
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.query.windows.emission import FINAL
from dbt.adapters.spark_streaming.stream.evolution.compare import differences, evolution
from tests.planned import signature_of
from tests.query.auctions import COUNTS, GROUPED_BIDS, B, auction_plan

WHOLE = Types("bigint", "bigint", "double", "int")
MEAN_OF_WHOLE = Types("double", "bigint", "double", "int")
DECIMAL = Types("decimal(14,6)", "decimal(20,2)", "decimal(38,18)", "decimal(10,2)")
DOUBLE = Types("double", "double", "double", "double")


@pytest.mark.parametrize(
    ("function", "types", "inexact"),
    [
        ("count", None, False),
        ("max", None, False),
        ("sum", WHOLE, False),
        ("sum", DECIMAL, False),
        ("sum", DOUBLE, True),
        ("sum", None, True),
        ("avg", DECIMAL, False),
        ("avg", MEAN_OF_WHOLE, True),
        ("avg", DOUBLE, True),
        ("stddev", None, True),
        ("approx_count_distinct", None, True),
    ],
)
def test_only_floating_point_depends_on_the_order(function: str, types: Types | None, inexact: bool) -> None:
    assert (
        is_inexact(
            Metric("m", function, ("n",), None, None, exp.func(function, exp.column("n")), types=types)
        )
        is inexact
    )


def _tree(last_output: str | None = None, results: ResultTimes | None = None) -> Signature:
    tree = TreeState(
        operators={"g": "by k"},
        inputs={"g": ()},
        root="g",
        can_rebuild=True,
        groups={"g": GroupState("g", last_output=last_output)},
        parts={"g": ("g_groups", *([last_output] if last_output else []))},
        output="output",
        has_ttl=True,
    )
    return Signature(tree=tree, results=results)


def test_a_state_with_rows_given_last_goes_on_where_they_are_needed_no_more() -> None:
    assert differences(_tree("g_given"), _tree()) == []
    # The other way they would be missing for the groups that are there.
    assert evolution(_tree(), _tree("g_given")).refused


def test_results_of_windows_come_when_they_came() -> None:
    late, once = ResultTimes(complete=300_000_000, last=300_000_000), ResultTimes()
    assert evolution(_tree(), _tree(results=late)).refused
    assert evolution(_tree(results=late), _tree(results=once)).refused
    assert differences(_tree(results=late), _tree(results=late)) == []


def test_a_tree_over_windows_notes_when_its_results_come() -> None:
    window = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "1 hour"))
    counted = f"select window_end, k, count(*) as c from {window} group by window_start, window_end, k"
    plan = plan_query.plan(f"select c, count(*) as n from ({counted}) group by c", domains=("c",))
    assert signature_of(plan).results == ResultTimes(**asdict(FINAL))


@pytest.mark.parametrize(
    ("text", "ttl", "rewritten"),
    [
        (f"select n, count(*) as c from ({COUNTS}) group by n", None, [True, False]),
        (f"select n, count(*) as c from ({COUNTS}) group by n", DAY, [False, False]),
        # A sum of doubles is taken back as it was given.
        (f"select n, sum(s) as s from ({GROUPED_BIDS}) group by n", None, [False, False]),
        (f"select sum(n) as c from (select count(*) as n from {B}) where n > 2", None, [False, False]),
        (
            f"select d, count(*) as c from (select item, count(distinct bidder) as d from {B} group by item) group by d",
            None,
            [False, False],
        ),
        # The result: its rows are put out from the state.
        (GROUPED_BIDS, None, [False]),
    ],
)
def test_which_groups_may_be_written_as_a_whole(text: str, ttl: int | None, rewritten: list[bool]) -> None:
    program = generate.generate_program(auction_plan(text, ttl), ttl=ttl)
    parts = [part for part in program.parts if part.name.endswith("_groups")]
    assert [part.rewrite is not None for part in parts] == rewritten
    for part in parts:
        whole = [
            step.name
            for step in program.items_of_kind(Step)
            if step.full_scan is not None and step.full_scan.part == part.name
        ]
        assert bool(whole) is (part.rewrite is not None)
        if part.rewrite is not None:
            assert whole[0] in part.rewrite.sql
            assert part.rewrite.grows_by in {step.name for step in program.items_of_kind(Step)}
