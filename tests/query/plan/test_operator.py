"""Each operator has all of its parts: a module, a sentence, the edge above it, its state, its meaning, its explanation, and
cases in the corpus. A new one fails here until it has them."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import isabstract
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.query.explain.build import Settings, build_tree
from dbt.adapters.spark_streaming.query.explain.tree import operators_in_order
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation.generate import generate_program
from dbt.adapters.spark_streaming.query.identity.fingerprints import lineages
from dbt.adapters.spark_streaming.query.plan import operators
from dbt.adapters.spark_streaming.query.plan.dataflow import Dataflow
from dbt.adapters.spark_streaming.query.plan.explanation import APPEND, RETRACT, Explanation
from dbt.adapters.spark_streaming.query.plan.operator import Operator
from dbt.adapters.spark_streaming.query.program import StatePart
from dbt.adapters.spark_streaming.query.windows.emission import Emission
from dbt.adapters.spark_streaming.query.windows.expansion import expand_as_of, expand_window
from dbt.adapters.spark_streaming.query.windows.window_arguments import make_window
from tests.corpus.entries import CORPUS, DUCKDB, KILL
from tests.planned import tree_of

for _module in pkgutil.iter_modules(operators.__path__):
    importlib.import_module(f"{operators.__name__}.{_module.name}")

KNOWN = {
    "s": RelationInfo("ts"),
    "t": RelationInfo("ts"),
    "u": RelationInfo("ts", ("k",)),
    "c": RelationInfo(None, ("k",), changes=True),
}
S, T, U, C = (f"(select /*+ STREAM */ * from {name}) as {name}" for name in KNOWN)
TUMBLED = expand_window("s", make_window("tumble", "ts", "1 hour"))
REPLACED = expand_window("u", make_window("tumble", "ts", "1 hour"))
WINDOWS = (
    f"select window_start, window_end, k, count(*) as n from {TUMBLED} group by window_start, window_end, k"
)
RUNNING = f"select ts, k, count(*) over (partition by k order by ts) as n from {S}"
EARLY = Emission(first=-60_000_000, update=60_000_000)
DAY = 86_400_000_000
NEEDS_TTL = {"GroupAggregate", "Recompute", "SetOperation", "WindowClose"}
BOUNDED = "t.k = s.k and t.ts between s.ts and s.ts + interval 1 hour"

EXAMPLES = {
    "ChangelogNormalize": f"select k, v from {U}",
    "GroupAggregate": f"select k, count(*) as n from {S} group by k",
    "Join": f"select s.k, t.v from {S} join {T} on {BOUNDED}",
    "LateRows": f"select s.k, t.v from {S} join {T} on {BOUNDED}",
    "Local": f"select a.k, b.n from ({RUNNING}) as a join ({RUNNING}) as b on a.ts = b.ts and a.n < b.n",
    "MaterializedProject": f"select c.k, d.name from {C} left join d on d.k = c.k",
    "OuterIntervalJoin": f"select s.k, t.v from {S} left join {T} on {BOUNDED}",
    "OverAggregate": f"select k, lag(v) over (partition by k order by ts) as before from {S}",
    "Project": f"select upper(k) as k from {S}",
    "Recompute": f"select k, percentile(v, 0.5) as p from {S} group by k",
    "SetOperation": f"select k from {S} intersect select k from {T}",
    "Source": f"select upper(k) as k from {S}",
    "TemporalFilter": f"select k from {S} where ts > current_timestamp() - interval 1 hour",
    "TemporalJoin": f"select s.k, r.v from {S} join {expand_as_of('u', '`s`.`ts`', 'ts', ['k'])} as r on r.k = s.k",
    "TopN": f"select * from (select k, v, row_number() over (partition by k order by v) as n from {S}) where n <= 3",
    "UnionAll": f"select k from {S} union all select k from {T}",
    "WindowAggregate": WINDOWS,
    "WindowBuffer": f"select window_start, window_end, percentile(v, 0.5) as p from {TUMBLED} group by 1, 2",
    "WindowChanges": f"select k, sum(n) as n from ({WINDOWS}) group by k",
    "WindowClose": f"select window_start, window_end, k, count(*) as n from (select w.* from {TUMBLED} as w join {T} "
    "on t.k = w.k) group by window_start, window_end, k",
    "WindowResults": WINDOWS,
    "WindowRows": f"select window_start, window_end, count(*) as n from {REPLACED} group by 1, 2",
}


APPENDS, RETRACTS = (APPEND, (), ()), (RETRACT, (), ())
EDGES: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "ChangelogNormalize": (RETRACT, ("k",), ()),
    "GroupAggregate": (RETRACT, ("k",), ()),
    "Join": APPENDS,
    "LateRows": (APPEND, (), ("ts",)),
    "Local": APPENDS,
    "MaterializedProject": RETRACTS,
    "OuterIntervalJoin": APPENDS,
    "OverAggregate": APPENDS,
    "Project": (APPEND, (), ("ts",)),
    "Recompute": (RETRACT, ("k",), ()),
    "SetOperation": RETRACTS,
    "Source": (APPEND, (), ("ts",)),
    "TemporalFilter": RETRACTS,
    "TemporalJoin": APPENDS,
    "TopN": (RETRACT, ("k", "n"), ()),
    "UnionAll": APPENDS,
    "WindowAggregate": APPENDS,
    "WindowBuffer": APPENDS,
    "WindowChanges": (RETRACT, ("k", "window_end"), ()),
    "WindowClose": APPENDS,
    "WindowResults": (APPEND, ("k", "window_end"), ("window_end", "window_start")),
    "WindowRows": (RETRACT, ("k",), ()),
}
"""The edge above the operator of each example: its mode, the columns that identify a row, and those with event time."""

IN_CORPUS = {
    "ChangelogNormalize": ("upsert sources: windows", "kinds: upserts"),
    "GroupAggregate": ("composed: streams: groups", "kinds: counts"),
    "Join": ("composed: streams: a join in time", "kinds: joined"),
    "LateRows": ("composed: streams: a join in time", "kinds: joined"),
    "Local": ("composed: operators: windows of two lengths", "kinds: two_lengths"),
    "MaterializedProject": ("composed: lookups: below a group by over groups", "kinds: counts_by_region"),
    "OuterIntervalJoin": ("composed: operators: full join in time", "kinds: with_orders"),
    "OverAggregate": ("composed: operators: lag in order of time", "kinds: ordered"),
    "Project": ("composed: streams: a join in time", "kinds: passed"),
    "Recompute": ("composed: streams: percentiles by cube", "kinds: of_all"),
    "SetOperation": ("composed: operators: except", "kinds: not_ordered"),
    "Source": ("composed: streams: groups", "kinds: passed"),
    "TemporalFilter": ("temporal filters: a left join", "kinds: recent"),
    "TemporalJoin": ("temporal joins: left", "kinds: as_of"),
    "TopN": ("composed: streams: topn that may fall", "kinds: ranking"),
    "UnionAll": ("composed: streams: union of streams", "kinds: of_both"),
    "WindowAggregate": ("composed: windows: topn of an aggregate", "kinds: cumulated"),
    "WindowBuffer": ("composed: windows: percentiles keep rows", "kinds: best_of_stacked"),
    "WindowChanges": ("kinds: early_sessions",),
    "WindowClose": ("composed: operators: windows of last rows", "kinds: sightings"),
    "WindowResults": ("composed: windows: qualify", "kinds: best"),
    "WindowRows": ("composed: operators: windows of last rows", "kinds: sightings"),
}
"""Queries of the corpus that are planned as an operator, one for each way in which it is run."""
NOT_ON_DUCKDB = {"WindowChanges"}
"""`differential/test_results.py` runs its own queries of windows with early and late results there."""


def concrete(base: type[Operator] = Operator) -> Iterator[type[Operator]]:
    for each in base.__subclasses__():
        if not isabstract(each):
            yield each
        yield from concrete(each)


OPERATORS = sorted({each.__name__: each for each in concrete()}.items())


@pytest.mark.parametrize(("name", "operator"), OPERATORS)
def test_an_operator_has_a_module_a_sentence_and_its_parts(name: str, operator: type[Operator]) -> None:
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    assert operator.__module__ == f"{operators.__name__}.{module}"
    assert operator.__doc__ and operator.__doc__.strip()[0].isupper()
    parts = (Operator.lineage, Operator.generate, Operator.explain)
    assert not {operator.lineage, operator.generate, operator.explain}.intersection(parts)


@dataclass(frozen=True)
class Example:
    """An example as it is planned."""

    flow: Dataflow
    parts: Mapping[str, StatePart]
    explained: Mapping[str, Explanation]
    """What `explain` prints, by the operator's name."""

    def of(self, operator: type[Operator]) -> list[Operator]:
        return [each for each in self.flow.operators if type(each) is operator]


def planned(name: str, text: str = "") -> Example:
    emission = EARLY if name == "WindowChanges" else Emission()
    ttl = DAY if name in NEEDS_TTL else None
    found = tree_of(text or EXAMPLES[name], KNOWN, ttl, ("k",), emission=emission)
    made = generate_program(found, emission, ttl=ttl)
    explained = operators_in_order(build_tree(found, made, Settings("m", emission, ttl)))
    return Example(
        found.dataflow, {part.name: part for part in made.parts}, {each.identity: each for each in explained}
    )


@pytest.mark.parametrize(("name", "operator"), OPERATORS)
def test_a_query_is_planned_as_an_operator(name: str, operator: type[Operator]) -> None:
    example = planned(name)
    found = example.of(operator)
    assert found
    shown = {example.explained[each.name].operator for each in found if each.name in example.explained}
    assert shown <= {*(operator.shown_as or (name,))}
    assert shown or name in ("Source", "WindowResults")


@pytest.mark.parametrize(("name", "operator"), OPERATORS)
def test_the_edge_above_an_operator(name: str, operator: type[Operator]) -> None:
    relation = planned(name).of(operator)[0].relation
    mode = RETRACT if relation.changes else APPEND
    assert (mode, tuple(sorted(relation.key or ())), tuple(sorted(relation.times))) == EDGES[name]


@pytest.mark.parametrize(("name", "operator"), OPERATORS)
def test_the_state_of_an_operator(name: str, operator: type[Operator]) -> None:
    """Its sentence says whether it has one. Each part is appended to, compacted, explained, and its rows go."""
    example = planned(name)
    states = [
        state
        for each in example.of(operator)
        if each.name in example.explained
        for state in example.explained[each.name].state
    ]
    said = " ".join((operator.__doc__ or "").lower().split())
    assert ("keeps" in said, "no state." in said) == (bool(states), not states)
    for state in states:
        part = example.parts[state.part]
        assert part.append and part.fold and state.rows and state.clears and state.columns


@pytest.mark.parametrize(("name", "operator"), OPERATORS)
def test_what_identifies_an_operator(name: str, operator: type[Operator]) -> None:
    """The same text gives the same names; a text that means the same gives the same lineage."""
    example = planned(name)
    again, wrapped = planned(name), planned(name, f"with q as ({EXAMPLES[name]}) select * from q")
    names, same = ({each.name for each in of.of(operator)} for of in (example, again))
    assert names == same
    means, others = (
        {lineages(of.flow)[each.name].meaning for each in of.of(operator)} for of in (example, wrapped)
    )
    assert means <= others


@pytest.mark.parametrize(("name", "operator"), OPERATORS)
def test_an_operator_is_in_the_corpus(name: str, operator: type[Operator]) -> None:
    tags: set[str] = set()
    for entry in map(CORPUS.__getitem__, IN_CORPUS[name]):
        tags |= entry.tags
        assert operator in {type(each) for each in entry.planned().plan.dataflow.operators}, entry.name
    assert (DUCKDB in tags) == (name not in NOT_ON_DUCKDB)
    assert KILL in tags


def test_there_is_an_example_of_no_other_operator() -> None:
    names = [name for name, _ in OPERATORS]
    assert sorted(EXAMPLES) == sorted(EDGES) == sorted(IN_CORPUS) == names


def test_the_page_of_operators_is_made_of_their_docstrings() -> None:
    """If not, put this table into the page."""
    rows = ["| operator | `explain` prints | what it does, and what it keeps |", "|---|---|---|"]
    for name, operator in OPERATORS:
        said = " ".join((operator.__doc__ or "").partition("\n\n")[0].split())
        rows.append(f"| {name} | {', '.join(operator.shown_as or (name,))} | {said} |")
    assert "\n".join(rows) in (Path(__file__).parents[3] / "docs/project/operators.md").read_text()
