"""Whether a commit may be made, going by the snapshots that are there right before it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dbt.adapters.spark_streaming.stream.iceberg.commit import CommitCondition
from dbt.adapters.spark_streaming.stream.iceberg.table import APPEND, COMMIT, REPLACE


class Snapshot:
    """One of Iceberg's."""

    def __init__(
        self, number: int, by: str | None = None, operation: str = APPEND, parent: int | None = None
    ) -> None:
        self._number, self._operation = number, operation
        self._parent = number - 1 if parent is None else parent
        self._summary = {} if by is None else {"stream.batch-id": "7", COMMIT: by}

    def snapshotId(self) -> int:
        return self._number

    def parentId(self) -> int | None:
        return self._parent or None

    def operation(self) -> str:
        return self._operation

    def summary(self) -> Summary:
        return Summary(self._summary)


class Summary(dict[str, str]):
    """Java's map."""

    def containsKey(self, name: str) -> bool:
        return name in self


def holds(
    snapshots: Sequence[Snapshot], known: int | None, by_anyone: bool = False, name: str = "mine"
) -> bool:
    return CommitCondition(known, by_anyone, name).holds(iter(snapshots))


FIRST = Snapshot(1, "first")
BY_HAND, COMPACTED = Snapshot(2), Snapshot(2, operation=REPLACE)
OTHERS = Snapshot(2, "another run's")


def test_a_commit_comes_right_after_what_the_run_knows() -> None:
    assert holds([], None)
    assert holds([FIRST], 1)


def test_no_other_run_has_committed() -> None:
    assert not holds([FIRST], None)
    assert not holds([OTHERS, FIRST], 1)
    assert not holds([Snapshot(3), OTHERS, FIRST], 1)


def test_others_may_add_rows_but_not_change_what_is_put_in_their_place() -> None:
    for by_anyone in (False, True):
        assert holds([BY_HAND, FIRST], 1, by_anyone) is not by_anyone
        assert holds([BY_HAND], None, by_anyone) is not by_anyone
        assert holds([COMPACTED, FIRST], 1, by_anyone)


def test_a_snapshot_that_has_expired_is_known_by_the_next() -> None:
    assert holds([COMPACTED], 1)
    assert not holds([Snapshot(4, operation=REPLACE)], 1)


def test_a_table_that_was_rolled_back_or_made_anew_is_another() -> None:
    assert not holds([FIRST], 2)
    assert not holds([], 2)


def test_a_commit_that_was_made_already_isnt_refused() -> None:
    condition = CommitCondition(1, name="mine")
    with pytest.raises(RuntimeError, match="made already"):
        condition.holds(iter([Snapshot(3, "another run's"), Snapshot(2, "mine"), FIRST]))
    assert not condition.refused
