"""How far a stream has read a table: whole snapshots, or nothing is compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.sources.as_of import _fully_read

SOURCE = StreamSource("events", "lake.db.events")


def table(rows: int = 5, known: bool = True) -> Any:
    summary = {"added-data-files": "2", "total-data-files": "7"}
    return SimpleNamespace(
        has_ancestor=lambda snapshot: known,
        summary_count=lambda what: rows,
        java=SimpleNamespace(snapshot=lambda snapshot: SimpleNamespace(summary=lambda: summary)),
    )


def read(model: StreamModel, position: int, all_files: bool = False, snapshot: int = 17, **of: Any) -> Any:
    scan = str(all_files).lower()
    offset = f'{{"version":1,"snapshot_id":{snapshot},"position":{position},"scan_all_files":{scan}}}'
    return _fully_read(model, SOURCE, table(**of), offset)


@pytest.fixture
def model(tmp_path: Any) -> StreamModel:
    return StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), (SOURCE,))


def test_a_whole_snapshot(model: StreamModel) -> None:
    assert read(model, 2) == 17
    assert read(model, 7, all_files=True) == 17
    assert read(model, -1, snapshot=-1, rows=0) is None


@pytest.mark.parametrize(
    ("offset", "sentence"),
    [
        ({"position": 1}, "has read 1 of 2 files"),
        ({"position": 2, "all_files": True}, "has read 2 of 7 files"),
        ({"position": -1}, "has not read the snapshot 17"),
        ({"position": -1, "snapshot": -1}, "has read nothing of events yet"),
        ({"position": 2, "known": False}, "no longer has the snapshot 17"),
    ],
)
def test_all_else_is_refused(model: StreamModel, offset: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StreamError, match=sentence) as refused:
        read(model, **offset)
    assert "dbt run --select m" in str(refused.value)
