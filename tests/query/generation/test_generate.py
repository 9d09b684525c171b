"""Each text of a program says which parts of the state it reads: where a name is of two types, that decides its column.
A program for a state has that state's names."""

from __future__ import annotations

import re

import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program, Rows, StatePart, Step
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
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
    made: list[Step | StatePart] = [*program.output_steps, *program.items_of_kind(Step), *program.parts]
    assert not any(_STATE.search(rows.sql) for rows in program.items_of_kind(Rows))
    for each in made:
        for text in _texts(each):
            parts = {*_PART.findall(text)}
            assert parts <= {*each.reads}, each.name
            # Nobody reads the state without saying of which part.
            assert len(_STATE.findall(text)) <= len(_PART.findall(text)), each.name
            found += len(parts)
    fired = program.upsert.affected_keys if program.upsert is not None else ""
    assert not any(_STATE.search(text) for text in (program.output, fired))
    return found


@pytest.mark.parametrize("emission", mostly_thorough(_EMISSIONS, ["early"]))
def test_windows(emission: str) -> None:
    found = 0
    for text in windows.QUERIES.values():
        plan = plan_of(text)
        try:
            program = generate.generate_program(plan, _EMISSIONS[emission], upsert=emission != "final")
        except plan_query.QueryError:
            continue
        found += _check(program)
    assert found > 50


@pytest.mark.parametrize("name", mostly_thorough(unwindowed.QUERIES, [*unwindowed.QUERIES][::4]))
def test_without_windows(name: str) -> None:
    ttl = _DAY if name in unwindowed.TTL else None
    program = generate.generate_program(unwindowed.planned(name), ttl=ttl)
    _check(program)
    if program.rebuild is not None:
        _check(program.rebuild(()))


@pytest.mark.parametrize("name", mostly_thorough(operators.QUERIES, [*operators.QUERIES][::4]))
def test_trees(name: str) -> None:
    ttl = 30 * _DAY if name in operators.TTL else None
    plan = operators.planned(name)
    program = generate.generate_program(plan, ttl=ttl)
    found = _check(program)
    assert found
    if program.rebuild is not None and plan.dataflow.groups:
        _check(program.rebuild([*plan.dataflow.groups]))


@pytest.mark.parametrize("name", mostly_thorough(operators.QUERIES, [*operators.QUERIES][::4]))
def test_a_program_for_a_state_has_its_names(name: str) -> None:
    ttl = 30 * _DAY if name in operators.TTL else None
    plan = operators.planned(name)
    program = generate.generate_program(plan, ttl=ttl)
    assert program.with_names is not None and program.fingerprints is not None
    own = program.fingerprints()
    windows = [each.name for each in plan.dataflow.window_operators]
    # The table with a source's last rows is always named after that source.
    names = {
        each: f"{each}_of_old"
        for each in [*own.parts, *own.groups, *windows]
        if not each.startswith("normalize_")
    }
    made = program.with_names(names)
    assert made.fingerprints is not None
    assert _check(made) == _check(program)
    found = made.fingerprints()
    assert found.parts == {names.get(each, each): means for each, means in own.parts.items()}
    assert found.groups == {names[each]: means for each, means in own.groups.items()}
    assert made.signature.tree.all_parts <= {part.name for part in made.parts}
    for part in made.parts:
        assert "_of_old" in part.name or part.name == "output" or part.name.startswith("normalize_")
        for each in names:
            # Its columns are called like it.
            assert not re.search(rf"`{each}_(row|times|given)`", part.append + part.fold), part.name
    if program.rebuild is not None:
        assert made.rebuild is not None
        again = made.rebuild([names[each] for each in own.groups])
        assert {each.name for each in again.parts} == {each.name for each in made.parts}


@pytest.mark.parametrize("items", ["k, v", "count(*) as n"])
@pytest.mark.parametrize("where", ["ts > current_timestamp() - interval '1' hour", "v > 1"])
def test_rows_that_are_filtered_on_arrival(items: str, where: str) -> None:
    over = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "1 minute"))
    by = " group by window_start, window_end" if "count" in items else ""
    program = generate.generate_program(
        plan_of(f"select window_start, window_end, {items} from {over} where {where}{by}")
    )
    assert program.filters_on_arrival == ("current_timestamp" in where)
