"""Random queries have the same rows as a stream and in batch, or are refused. More of them: bench/differential.py."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.regressions import (
    BECAME_EQUAL,
    EXAMPLES,
    GROUPS_OF_TWO_STREAMS,
    LONG,
    SHORT_LIVED,
    stream,
)
from tests.differential import duck, planning, spark, tables
from tests.differential.generate import Generator
from tests.differential.outcome import EQUAL, NO_BATCH, REFUSED
from tests.differential.tree import Call, Model, Written
from tests.thorough import mostly_thorough

ON_DUCKDB = [range(8), range(8, 28)]
ON_SPARK = range(2)
_SLOW = [
    "groups of a join of groups",
    "medians of groups",
    "medians of windows of last rows",
    "INTERSECT of groups",
    "windows of last rows",
    "OVER groups",
    "a join of groups",
]


@pytest.fixture(scope="module")
def on_duckdb() -> duck.Laboratory:
    return duck.Laboratory()


@pytest.fixture(scope="module")
def on_spark(spark: Any, storage_root: Path) -> Iterator[Any]:
    laboratory = _spark_laboratory(spark, storage_root)
    yield laboratory
    laboratory.forget()


def _spark_laboratory(session: Any, root: Path) -> spark.Laboratory:
    return spark.Laboratory(session, root)


def _run(laboratory: duck.Laboratory | spark.Laboratory, numbers: range) -> Counter[str]:
    found: Counter[str] = Counter()
    rows = tables.make(1)
    for number in numbers:
        case = planning.advised(Generator(f"ci {number}").case())
        outcome = laboratory.run(case, rows)
        assert not outcome.is_wrong, f"query 'ci {number}': {outcome.kind}\n{outcome.detail}\n{case}"
        assert outcome.kind != NO_BATCH, f"query 'ci {number}' can't be compared: {outcome.detail}\n{case}"
        found[outcome.kind] += 1
    return found


@pytest.mark.parametrize("numbers", mostly_thorough(ON_DUCKDB, ON_DUCKDB[:1]), ids=str)
def test_random_programs_on_duckdb(on_duckdb: duck.Laboratory, numbers: range) -> None:
    found = _run(on_duckdb, numbers)
    assert found[EQUAL] > len(numbers) // 2


@pytest.mark.parametrize(
    "part",
    mostly_thorough(
        ["current_timestamp()", "emit='on_change'", "stream(odd)", "sum(sums)"],
        ["emit='on_change'", "stream(odd)"],
    ),
)
def test_random_programs_that_have_it(on_duckdb: duck.Laboratory, part: str) -> None:
    rows, found = tables.make(2), Counter[str]()
    for number in itertools.count():
        case = Generator(f"with {part} {number}").case()
        if part in str(case):
            outcome = on_duckdb.run(planning.advised(case), rows)
            assert outcome.kind in (EQUAL, REFUSED), f"{outcome.kind}\n{outcome.detail}\n{case}"
            found[outcome.kind] += 1
            if found[EQUAL] == 3:
                break


@pytest.mark.parametrize(
    "name", mostly_thorough(SHORT_LIVED, [each for each in SHORT_LIVED if each not in _SLOW][6:7])
)
def test_when_state_is_folded_changes_nothing(on_duckdb: duck.Laboratory, name: str) -> None:
    case, rows = SHORT_LIVED[name], tables.make(1)
    folded, as_it_came = (on_duckdb.streamed(case, rows, fold) for fold in (True, False))
    assert folded == as_it_came
    lasting = replace(case, model=replace(case.model, config=(("state_ttl", LONG),)))
    assert folded != on_duckdb.streamed(lasting, rows, True), "nothing expired"


@pytest.mark.thorough
def test_a_stream_that_is_silent_at_first_ends_no_life(on_duckdb: duck.Laboratory) -> None:
    rows = tables.make(1)
    orders = rows.streams["orders"]
    every, half = tuple(row for piece in orders for row in piece), len(orders) // 2
    silent = [()] * (len(orders) - half - 1)
    late = replace(rows, streams={**rows.streams, "orders": (*silent, every, *[()] * half)})
    outcome = on_duckdb.run(GROUPS_OF_TWO_STREAMS, late)
    assert outcome.kind == EQUAL, outcome.detail


@pytest.mark.parametrize("call", ["session", "dynamic_cumulate"])
def test_a_row_at_the_very_end_of_a_session_is_of_it(on_duckdb: duck.Laboratory, call: str) -> None:
    lengths = ("5 minutes",) if call == "session" else ("5 minutes", "5 minutes")
    windows = Call(call, "ts", lengths, partition_by=("k",)).expand("clicks")
    text = f"""select window_start, window_end, k, count(*) as n from {windows}
      group by window_start, window_end, k"""
    # The second row brings the watermark to the end of the first one's session.
    begin = datetime(2024, 3, 4, 10, tzinfo=timezone.utc)
    later = begin + timedelta(minutes=5)
    rows = [(time, key, *[None] * 9) for time, key in ((begin, "a"), (later, "b"), (later, "a"))]
    pieces = [rows[place // 2 : place // 2 + place % 2] for place in range(tables.PIECES)]
    on_duckdb.put("clicks", tables.CLICKS, pieces)
    on_duckdb.tables = None
    model = Model(Written(text, ()))
    outcome = on_duckdb.stream(model.text(), planning.planned(model), 3, timedelta())
    assert outcome.kind == EQUAL, outcome.detail


BEGIN = datetime(2024, 3, 4, 10, tzinfo=timezone.utc)
_LAST = f"""(select * from (select *, row_number() over (partition by k order by ts desc) as rn
  from {stream("clicks")}) where rn = 1)"""


def _windows(*found: tuple[float, float, int]) -> str:
    """Windows from minute to minute after `BEGIN`, with a count each."""
    at = [f"timestamp'{BEGIN + timedelta(minutes=minutes):%F %T}'" for each in found for minutes in each[:2]]
    rows = [f"({at[2 * place]}, {at[2 * place + 1]}, {each[2]})" for place, each in enumerate(found)]
    return f"select * from values {', '.join(rows)} as t(window_start, window_end, n)"


@pytest.mark.parametrize(
    ("call", "rows", "found"),
    [
        # d comes late, f when the state of its window has expired.
        pytest.param(
            Call("tumble", "ts", ("10 minutes",)),
            [(0, "a"), (1, "b"), (30, "c"), (5, "d"), (200, "e"), (6, "f")],
            [(0, 10, 3), (30, 40, 1), (200, 210, 1)],
            marks=pytest.mark.thorough,
        ),
        # A session that is open keeps what it is of, however long ago it began.
        pytest.param(
            Call("session", "ts", ("90 minutes",), partition_by=("g",)),
            [(0, "a"), (70, "b"), (75, None), (80, "c"), (300, "d"), (500, "e")],
            [(0, 170, 4), (300, 390, 1), (500, 590, 1)],
            marks=pytest.mark.thorough,
        ),
        # A late row puts two sessions together, one of which had ended long ago.
        (
            Call("session", "ts", ("10 minutes",), partition_by=("g",)),
            [(0, "a"), (20, "b"), (75, None), (10, "c"), (200, "e"), (300, "f")],
            [(0, 30, 3), (75, 85, 1), (200, 210, 1), (300, 310, 1)],
        ),
    ],
)
def test_windows_and_what_expires(
    on_duckdb: duck.Laboratory, call: Call, rows: list[Any], found: list[tuple[float, float, int]]
) -> None:
    """Over the last row of each `k`, all of one `g`; the state is kept for an hour."""
    text = f"""select window_start, window_end, count(*) as n from {call.expand(_LAST)}
      group by window_start, window_end"""
    at = [(BEGIN + timedelta(minutes=minutes), key, *[None] * 9) for minutes, key in rows]
    on_duckdb.put("clicks", tables.CLICKS, [[row] for row in at])
    on_duckdb.tables = None
    model = Model(Written(text, ()), (("state_ttl", "1 hour"),))
    outcome = on_duckdb.stream(_windows(*found), planning.planned(model), 6, timedelta())
    assert outcome.kind == EQUAL, outcome.detail


@pytest.mark.thorough
def test_random_queries_on_spark(on_spark: spark.Laboratory) -> None:
    found = _run(on_spark, ON_SPARK)
    assert found[EQUAL] > len(ON_SPARK) // 2


@pytest.mark.parametrize("name", mostly_thorough(EXAMPLES, [*EXAMPLES][::36]))
def test_what_once_differed_on_duckdb(on_duckdb: duck.Laboratory, name: str) -> None:
    outcome = on_duckdb.run(EXAMPLES[name], tables.make(1))
    assert outcome.kind in (EQUAL, REFUSED), outcome.detail


@pytest.mark.parametrize("name", mostly_thorough(BECAME_EQUAL, [*BECAME_EQUAL][::18]))
def test_what_became_equal_on_duckdb(on_duckdb: duck.Laboratory, name: str) -> None:
    outcome = on_duckdb.run(BECAME_EQUAL[name], tables.make(1))
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


@pytest.mark.parametrize("name", mostly_thorough(EXAMPLES, []))
def test_what_once_differed_on_spark(on_spark: spark.Laboratory, name: str) -> None:
    outcome = on_spark.run(EXAMPLES[name], tables.make(1))
    assert not outcome.is_wrong, outcome.detail


@pytest.mark.parametrize("name", mostly_thorough(BECAME_EQUAL, []))
def test_what_became_equal_on_spark(on_spark: spark.Laboratory, name: str) -> None:
    outcome = on_spark.run(BECAME_EQUAL[name], tables.make(1))
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"
