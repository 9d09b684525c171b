"""A state that was never written is dropped, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.state import table as table_module
from dbt.adapters.spark_streaming.stream.state.table import StateTable
from tests.stream.iceberg.test_commit import BY_HAND, FIRST, Snapshot

NO_SPARK: Any = None


class Table:
    """A table that another process may write."""

    name = "db.m__state"
    known: int | None = None

    def __init__(self, *written: Snapshot) -> None:
        self._written = written
        self._loaded: tuple[Snapshot, ...] = ()

    def refresh(self) -> None:
        self._loaded = self._written

    def snapshots(self) -> Iterator[Snapshot]:
        return iter(self._loaded)

    @property
    def snapshot_id(self) -> int | None:
        return self._loaded[0].snapshotId() if self._loaded else None


@pytest.mark.parametrize("written", [(), (FIRST,), (BY_HAND,)], ids=["nobody", "another run", "somebody"])
def test_a_state_that_another_run_has_written_meanwhile_is_not_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: tuple[Snapshot, ...]
) -> None:
    """On remote storage no lock excludes it. Its first rows would be gone."""
    dropped: list[object] = []
    monkeypatch.setattr(table_module, "drop_owned_table", lambda *given: dropped.append(given))
    state = StateTable.__new__(StateTable)
    state._model = StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), ())
    table: Any = Table(*written)
    state._table = table
    if not written:
        state.drop_empty_table(NO_SPARK)
        assert len(dropped) == 1 and not state.exists
        state.drop_empty_table(NO_SPARK)
        assert len(dropped) == 1
        return
    with pytest.raises(StreamError, match=r"db\.m__state was written by another run meanwhile"):
        state.drop_empty_table(NO_SPARK)
    assert dropped == []
