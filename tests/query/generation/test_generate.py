"""Each text of a program says which parts of the state it reads: where a name is of two types, that decides its column."""

from __future__ import annotations

import re

import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program, Rows, StatePart, Step
from dbt.adapters.spark_streaming.query.windows.emission import FINAL, Emission
from tests.corpus import operators, unwindowed, windows
from tests.planned import plan_of
from tests.thorough import mostly_thorough

_MINUTE, _DAY = 60_000_000, 86_400_000_000
_EMISSIONS = {
    "final": FINAL,
    "early": Emission(first=0, update=_MINUTE, last=_MINUTE),
    "late": Emission(last=_MINUTE),
}
_PART = re.compile(r"\bpart = '([^']*)'")
_STATE = re.compile(r"\b(?:from|join) state\b")


def _texts(made: Step | StatePart) -> list[str]:
    own = (made.append, made.fold) if isinstance(made, StatePart) else (made.sql, made.fresh)
    return [text for text in (*own, made.initial) if text]


def _check(program: Program) -> int:
    found = 0
    made: list[Step | StatePart] = [*program.output_steps, *program.of(Step), *program.parts]
    assert not any(_STATE.search(rows.sql) for rows in program.of(Rows))
    for each in made:
        for text in _texts(each):
            parts = {*_PART.findall(text)}
            assert parts <= {*each.reads}, each.name
            # Nobody reads the state without saying of which part.
            assert len(_STATE.findall(text)) <= len(_PART.findall(text)), each.name
            found += len(parts)
    fired = program.upsert.fired if program.upsert is not None else ""
    assert not any(_STATE.search(text) for text in (program.output, fired))
    return found


@pytest.mark.parametrize("emission", mostly_thorough(_EMISSIONS, ["early"]))
def test_windows(emission: str) -> None:
    found = 0
    for text in windows.QUERIES.values():
        plan = plan_of(text)
        try:
            program = generate.program(plan, _EMISSIONS[emission], upsert=emission != "final")
        except plan_query.QueryError:
            continue
        found += _check(program)
    assert found > 50


@pytest.mark.parametrize("name", mostly_thorough(unwindowed.QUERIES, [*unwindowed.QUERIES][::4]))
def test_without_windows(name: str) -> None:
    ttl = _DAY if name in unwindowed.TTL else None
    program = generate.program(unwindowed.planned(name), ttl=ttl)
    _check(program)
    if program.remake is not None:
        _check(program.remake(()))


@pytest.mark.parametrize("name", mostly_thorough(operators.QUERIES, [*operators.QUERIES][::4]))
def test_trees(name: str) -> None:
    ttl = 30 * _DAY if name in operators.TTL else None
    plan = operators.planned(name)
    program = generate.program(plan, ttl=ttl)
    found = _check(program)
    assert found
    if program.remake is not None and plan.dataflow.groups:
        _check(program.remake([*plan.dataflow.groups]))
