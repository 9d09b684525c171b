"""Each operator is one module, and a query of the examples is planned as it."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from inspect import isabstract
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.query.explain.build import Settings, tree
from dbt.adapters.spark_streaming.query.explain.tree import in_order
from dbt.adapters.spark_streaming.query.frontend.streams import Known
from dbt.adapters.spark_streaming.query.generation.generate import program
from dbt.adapters.spark_streaming.query.plan import operators
from dbt.adapters.spark_streaming.query.plan.operator import Operator
from dbt.adapters.spark_streaming.query.windows.emission import Emission
from dbt.adapters.spark_streaming.query.windows.expansion import expand, expand_as_of
from dbt.adapters.spark_streaming.query.windows.window_arguments import make
from tests.planned import tree_of

for _module in pkgutil.iter_modules(operators.__path__):
    importlib.import_module(f"{operators.__name__}.{_module.name}")

KNOWN = {"s": Known("ts"), "t": Known("ts"), "u": Known("ts", ("k",)), "c": Known(None, ("k",), changes=True)}
S, T, U, C = (f"(select /*+ STREAM */ * from {name}) as {name}" for name in KNOWN)
TUMBLED = expand("s", make("tumble", "ts", "1 hour"))
REPLACED = expand("u", make("tumble", "ts", "1 hour"))
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


@pytest.mark.parametrize(("name", "operator"), OPERATORS)
def test_a_query_is_planned_as_an_operator(name: str, operator: type[Operator]) -> None:
    emission = EARLY if name == "WindowChanges" else Emission()
    ttl = DAY if name in NEEDS_TTL else None
    found = tree_of(EXAMPLES[name], KNOWN, ttl, ("k",), emission=emission)
    assert operator in {type(each) for each in found.dataflow.operators}
    made = program(found, emission, ttl=ttl)
    shown = {
        each.identity: each.operator for each in in_order(tree(found, made, Settings("m", emission, ttl)))
    }
    explained = {
        shown[each.name] for each in found.dataflow.operators if type(each) is operator and each.name in shown
    }
    assert explained <= {*(operator.shown_as or (name,))}
    assert explained or name in ("Source", "WindowResults")


def test_there_is_an_example_of_no_other_operator() -> None:
    assert sorted(EXAMPLES) == [name for name, _ in OPERATORS]


def test_the_page_of_operators_is_made_of_their_docstrings() -> None:
    """If not, put this table into the page."""
    rows = ["| operator | `explain` prints | what it does, and what it keeps |", "|---|---|---|"]
    for name, operator in OPERATORS:
        said = " ".join((operator.__doc__ or "").partition("\n\n")[0].split())
        rows.append(f"| {name} | {', '.join(operator.shown_as or (name,))} | {said} |")
    assert "\n".join(rows) in (Path(__file__).parents[3] / "docs/project/operators.md").read_text()
