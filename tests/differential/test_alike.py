"""Trees of operators are edited, on DuckDB: what only is written otherwise goes on, and has the rows of the query from its
beginning; what goes on as if it were the same is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cache, partial
from typing import Any

import duckdb
import pytest
import sqlglot

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream.evolution.compare import evolution
from tests.corpus import operators, windows
from tests.corpus.entries import ONLY_SPARK
from tests.corpus.unwindowed import DAY, KNOWN
from tests.differential import duck
from tests.differential.evolving import Evolving, Unlike
from tests.differential.outcome import Rows, compare
from tests.differential.rewordings import changed, parse, reworded, sql
from tests.differential.two_streams import put, rows_of
from tests.evolution import KEPT, MIGRATED, REFUSED, signed
from tests.planned import tree_of
from tests.thorough import mostly_thorough

PIECES, EDIT = 6, 3
TTL = 300 * DAY
NAMES = [name for name in operators.QUERIES if f"operators: {name}" not in ONLY_SPARK]
WINDOWS = [name for name in windows.QUERIES if f"windows: {name}" not in ONLY_SPARK]
WINDOWS_IN_CI = ["full join of two streams"]
IN_CI = ["groups of windows", "topn of a join of groups", "windows with groups", "except", "a cte twice"]


@pytest.fixture(scope="module")
def laboratory() -> duck.Laboratory:
    """Two streams in pieces, with NULLs, ties, and rows up to 20 minutes out of order."""
    made = duck.Laboratory()
    put(made, partial(rows_of, number=90))
    return made


class Edited(Evolving):
    """A query over the bids and asks."""

    delay = timedelta(hours=1)

    def _planned(self, text: str) -> Program:
        return generate.generate_program(
            _plan(text, self._config, self._laboratory.ask), ttl=self._config["ttl"]
        )


def _plan(text: str, config: Mapping[str, Any], ask: Any) -> Plan:
    made = plan_query.plan if config.get("alone") else tree_of
    return made(text, KNOWN, config["ttl"], operators.DOMAINS, ask)


def _config(name: str) -> dict[str, Any]:
    return {"ttl": TTL if name in operators.TTL else None}


def _batch(laboratory: duck.Laboratory, plan: Plan) -> Rows:
    return duck.rows_of(laboratory.base.execute(duck.translated(whole_query.batch_sql(plan))).fetchall())


REFUSED_STILL: Mapping[str, set[str]] = {
    "other aliases": {"in"},
    "aliases where there were none": {"scalar"},
    # Behind a `*` above windows all columns are read, and a join below them keeps what is read. So does an OVER.
    "streams in WITH": {
        "in",
        "scalar",
        "q7",
        "windows of two left joins in time",
        "rows of windows of a left join in time",
        "groups of running totals",
    },
}
"""By edit the queries of which it still makes another one."""
WINDOWS_REFUSED_STILL: Mapping[str, set[str]] = {}
"""The same of windows that are all there is."""
ABOVE_THE_STATE = {
    "percentile of groups",
    "collected groups",
    "stddev of groups",
    "percentile over groups with the same columns",
}
"""Their aggregates are computed from rows that are kept, and rows of the table are the new query's from when something comes
to their groups on."""


@pytest.mark.parametrize("name", mostly_thorough(NAMES, IN_CI[3:4]))
def test_what_is_written_otherwise_goes_on(laboratory: duck.Laboratory, name: str) -> None:
    refused = _refused(laboratory, operators.QUERIES[name], _config(name))
    assert refused.keys() == {edit for edit, names in REFUSED_STILL.items() if name in names}, refused


@pytest.mark.parametrize("name", mostly_thorough(WINDOWS, WINDOWS_IN_CI))
def test_windows_that_are_written_otherwise_go_on(laboratory: duck.Laboratory, name: str) -> None:
    refused = _refused(laboratory, windows.QUERIES[name], {"ttl": None, "alone": True})
    assert refused.keys() == {edit for edit, names in WINDOWS_REFUSED_STILL.items() if name in names}, refused


def _refused(laboratory: duck.Laboratory, text: str, config: Mapping[str, Any]) -> dict[str, str]:
    """By edit that leaves a query what it is why it is refused; those that aren't go on, and have the query's rows."""
    refused = {}
    for edit, tree in reworded(parse(text)).items():
        other = sql(tree)
        try:
            plan = _plan(other, config, laboratory.ask)
            wanted = _batch(laboratory, plan)
        except (QueryError, duckdb.Error, duck.Untranslated):
            continue  # it makes no query of it
        edited = Edited(laboratory, text, config)
        edited.take(0, EDIT)
        said = edited.edit(other)
        if said == REFUSED:
            refused[edit] = edited.why
            continue
        assert said in (KEPT, MIGRATED), edit
        edited.take(EDIT, PIECES)
        edited.made.flush()
        assert compare(wanted, edited.made.rows()) == "", (edit, other)
    return refused


@pytest.mark.parametrize("name", mostly_thorough(NAMES, IN_CI[3:4]))
def test_what_goes_on_as_the_same_is_the_same(laboratory: duck.Laboratory, name: str) -> None:
    text, config = operators.QUERIES[name], _config(name)

    @cache
    def batch(of: str) -> Rows:
        return _batch(laboratory, _plan(of, config, laboratory.ask))

    known = signed(generate.generate_program(_plan(text, config, laboratory.ask), ttl=config["ttl"]))
    for edit, tree in changed(parse(text)):
        other = sql(tree)
        try:
            plan = _plan(other, config, laboratory.ask)
            program = generate.generate_program(plan, ttl=config["ttl"])
        except (QueryError, sqlglot.ParseError, duckdb.Error, duck.Untranslated):
            continue
        found = evolution(known, signed(program, known))
        if found.refused:
            continue
        try:
            wanted = batch(other)
        except (duckdb.Error, duck.Untranslated):
            continue
        if not found.is_migration:
            assert name in ABOVE_THE_STATE or compare(batch(text), wanted) == "", f"{edit}\n{other}"
            continue
        try:
            edited = Edited(laboratory, text, config)
            edited.take(0, EDIT)
            said = edited.edit(other)
        except (duckdb.Error, duck.Untranslated, Unlike):
            continue
        if said != REFUSED and found.rebuilt and not found.new:
            # All that there is, is made anew.
            edited.take(EDIT, PIECES)
            edited.made.flush()
            assert compare(wanted, edited.made.rows()) == "", f"{edit}\n{other}"
