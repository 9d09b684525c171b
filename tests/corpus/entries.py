"""The corpus as one list: every query by its name, with tags that say where it is from and which tests read it.

Tests of plans (`tests.golden`, `query/plan/test_operator.py`, `query/explain`) read all of it, others what has their tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from dbt.adapters.spark_streaming.project import streaming
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.program import Program
from tests import evolution
from tests.corpus import (
    lookups,
    operators,
    regressions,
    temporal_filters,
    temporal_joins,
    unwindowed,
    upsert_sources,
    windows,
)
from tests.corpus.unwindowed import DAY
from tests.differential import planning
from tests.differential.tree import Case
from tests.functional.stream.kinds import KINDS, Kind
from tests.oracle.cases import ORACLE, case_names
from tests.oracle.streams import planned as planned_case

COMPOSED = "composed"
"""Written by hand over two streams; `differential/test_composed.py` runs them on DuckDB, `functional/query` on Spark."""
DUCKDB, SPARK, EVOLUTION, KILL = "duckdb", "spark", "evolution", "kill"
"""Run on DuckDB in cuts; run on Spark; edited in every way while their state is kept; killed at every point."""

ONLY_SPARK = {
    "streams: topn of rows with maps",
    "streams: percentiles",
    "streams: percentiles of first rows",
    "operators: decimals of groups",
    "operators: running totals of decimals",
}
"""Composed queries that DuckDB can't run."""
_ORACLE_TABLES = ("auction", "bid", "page_view", "person", "sales")


@dataclass(frozen=True)
class Planned:
    """A query as it is planned."""

    plan: Plan
    program: Program
    batch: str | None = None
    """Its text in batch, of queries whose text in batch is compared."""
    ttl: int | None = None
    """Its `state_ttl` in microseconds, of composed queries."""


@dataclass(frozen=True)
class Entry:
    """A query of the corpus."""

    name: str
    tags: frozenset[str]
    planned: Callable[[], Planned]


def _made(plan: Plan, ttl: int | None = None) -> Planned:
    return Planned(plan, generate.generate_program(plan, ttl=ttl), whole_query.batch_sql(plan), ttl)


def _of_windows(name: str) -> Planned:
    return _made(windows.planned(name))


def _of_streams(name: str) -> Planned:
    return _made(unwindowed.planned(name), DAY if name in unwindowed.TTL else None)


def _of_operators(name: str) -> Planned:
    return _made(operators.planned(name), 30 * DAY if name in operators.TTL else None)


def _of_lookups(name: str) -> Planned:
    return _made(lookups.planned(name), 30 * DAY)


def _of_temporal_filters(name: str) -> Planned:
    return _made(temporal_filters.planned(name), temporal_filters.ttl_of(name))


def _of_temporal_joins(name: str) -> Planned:
    return _made(temporal_joins.planned(name))


def _of_upsert_sources(name: str) -> Planned:
    return _made(upsert_sources.planned(name), upsert_sources.ttl_of(name))


def _differential(case: Case) -> Planned:
    upstream = None if case.upstream is None else planning.planned(case.upstream)
    node = planning.node_of(case.model, "m")
    plan = streaming.plan_model(node, case.model.text(), planning.known_of(case, upstream))
    return Planned(plan, streaming.model_program(node, plan))


def _evolution(operator: str) -> Planned:
    for config in ({}, {"state_ttl": "1 day"}):
        try:
            plan, program = evolution.planned(evolution.Query(operator).text(), config)
            return Planned(plan, program, whole_query.batch_sql(plan))
        except QueryError as problem:
            refusal = problem
    raise refusal


def _kind(kind: Kind) -> Planned:
    return Planned(kind.plan, kind.program)


def _oracle(name: str) -> Planned:
    assert ORACLE is not None
    found = planned_case(ORACLE, name, _ORACLE_TABLES)
    return Planned(found.plan, found.program, whole_query.batch_sql(found.plan))


def _entries() -> Iterator[Entry]:
    for source, queries, planned in (
        ("windows", windows.QUERIES, _of_windows),
        ("streams", unwindowed.QUERIES, _of_streams),
        ("operators", operators.QUERIES, _of_operators),
        ("lookups", lookups.QUERIES, _of_lookups),
    ):
        for name in queries:
            tags = {COMPOSED, source}
            tags |= set() if f"{source}: {name}" in ONLY_SPARK else {DUCKDB}
            tags |= set() if source == "lookups" else {SPARK}
            yield Entry(f"{COMPOSED}: {source}: {name}", frozenset(tags), partial(planned, name))
    for source, queries, planned in (
        ("temporal filters", temporal_filters.QUERIES, _of_temporal_filters),
        ("temporal joins", temporal_joins.QUERIES, _of_temporal_joins),
        ("upsert sources", upsert_sources.QUERIES, _of_upsert_sources),
    ):
        for name in queries:
            yield Entry(f"{source}: {name}", frozenset({source, DUCKDB}), partial(planned, name))
    for group in ("EXAMPLES", "SHORT_LIVED", "IN_TIME", "BECAME_EQUAL"):
        tags = {"regressions", group.lower(), DUCKDB}
        for name, case in getattr(regressions, group).items():
            yield Entry(f"regressions {group.lower()}: {name}", frozenset(tags), partial(_differential, case))
    for operator in evolution.OPERATORS:
        yield Entry(
            f"evolution: {operator}", frozenset({EVOLUTION, DUCKDB, SPARK}), partial(_evolution, operator)
        )
    for name, kind in KINDS.items():
        yield Entry(f"kinds: {name}", frozenset({"kinds", SPARK, KILL}), partial(_kind, kind))
    if ORACLE is not None:
        for name in case_names():
            yield Entry(f"oracle: {name}", frozenset({"oracle", DUCKDB, SPARK}), partial(_oracle, name))


CORPUS: Mapping[str, Entry] = {each.name: each for each in _entries()}


def tagged(*tags: str) -> dict[str, Entry]:
    """Returns the queries that have all of these tags, by name."""
    return {name: each for name, each in CORPUS.items() if each.tags.issuperset(tags)}
