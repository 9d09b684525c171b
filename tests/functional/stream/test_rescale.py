"""State stands apart from who computes with it: another number of tasks moves none of it, and a restart reads none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.stream.common import session
from tests.corpus.windows import window
from tests.functional.quick import session_set
from tests.functional.stream.harness import CUMULATE, TUMBLE, Stream
from tests.planned import plan_of
from tests.thorough import mostly_thorough

E = "(select /*+ STREAM */ * from events)"
GROUPS = f"select k, count(*) as c, sum(v) as s, count(distinct x) as d from {E} group by k"
OVER = "select window_start, window_end, k, count(*) as c, sum(v) as s{} from {} group by window_start, window_end, k"
QUERIES = {
    "windows with distinct values": (
        OVER.format(", count(distinct x) as d", window("cumulate", "1 second", "5 seconds", of="events")),
        CUMULATE,
    ),
    "a ranking of groups": (
        f"select k, s, r from (select *, row_number() over (order by s desc, k) as r from ({GROUPS})) where r <= 3",
        "k string, s bigint, r int",
    ),
    "groups": (GROUPS, "k string, c bigint, s bigint, d bigint"),
}
PIECES = [
    [(1000 * piece + 10 * n, "abcdefg"[n % 7], n * (piece + 1) % 11, n % 5) for n in range(40)]
    for piece in range(3)
]


@contextmanager
def tasks(spark: Any, number: int) -> Iterator[None]:
    """As in a process that has so many cores and shuffle partitions; micro-batches are computed as large ones are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "_FEW_ROWS", -1)
        patch.setattr(type(spark.sparkContext), "defaultParallelism", number)
        with session_set(spark, {"spark.sql.shuffle.partitions": str(number)}):
            yield


def stream(spark: Any, root: Path, query: str, columns: str) -> Stream:
    return Stream(
        spark, root, generate.generate_program(plan_of(query, {"events": RelationInfo("ts")})), columns
    )


def files(s: Stream) -> set[str]:
    """The files of its state, of rows and of deletes."""
    return {row[0] for row in s.spark.sql(f"select file_path from {s.model.state}.files").collect()}


def operations(s: Stream) -> list[str]:
    """What made each snapshot of its state, the oldest first."""
    text = f"select operation from {s.model.state}.snapshots order by committed_at"
    return [row[0] for row in s.spark.sql(text).collect()]


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, []))
def test_another_number_of_tasks_moves_no_state(spark: Any, storage_root: Path, name: str) -> None:
    at_once, changed = (stream(spark, storage_root, *QUERIES[name]) for _ in range(2))
    for piece in PIECES:
        at_once.add(*piece)
    at_once.run()
    written: set[str] = set()
    for number, piece in zip((2, 5, 1), PIECES, strict=True):
        with tasks(spark, number):
            if written:
                # The change alone.
                changed.run()
                assert files(changed) == written
            changed.add(*piece)
            changed.run()
        assert written < files(changed), "what came before is where it was, and more came"
        written = files(changed)
    assert set(operations(changed)) == {"append"}
    for each in (at_once, changed):
        each.flush()
    assert changed.rows() == at_once.rows()
    assert len(changed.rows()) >= 3


@pytest.mark.thorough
def test_a_restart_reads_what_the_next_micro_batch_needs(spark: Any, storage_root: Path) -> None:
    """Files of the state that a run doesn't read may as well be away."""
    s = stream(
        spark,
        storage_root,
        OVER.format("", window("tumble", "1 minute", of="events")),
        TUMBLE,
    )
    s.add((0, "a", 1), (1, "b", 2))
    s.run()
    with away(s) as names:
        assert names
        assert s.run().batches == 0, "nothing is new"
        # Rows of a window that stays open are added, and nothing is looked up.
        s.add((2, "a", 3))
        s.run()
    # What it adds up when the window closes is all there.
    s.add((120_000, "c", 1))
    s.run()
    assert s.rows() == [(0, 60_000, "a", 2, 4), (0, 60_000, "b", 1, 2)]

    s = stream(spark, storage_root, *QUERIES["groups"])
    s.add((0, "a", 1), (1, "b", 2))
    s.run()
    with away(s):
        assert s.run().batches == 0
    s.add((2, "a", 3))
    (groups, values) = sorted(s.run().state, key=lambda each: each.part, reverse=True)
    assert (groups.part, values.part) == (s.part("groups"), s.part("distinct_x"))
    assert [each.figures.scans for each in (groups, values)] == [1, 1]


@contextmanager
def away(s: Stream) -> Iterator[set[str]]:
    """All files of a state's rows that there are, taken away meanwhile."""
    names = files(s)
    paths = [Path(name.removeprefix("file:")) for name in names]
    for path in paths:
        path.rename(path.with_suffix(".away"))
    try:
        yield names
    finally:
        for path in paths:
            path.with_suffix(".away").rename(path)
