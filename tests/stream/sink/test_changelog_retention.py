"""What others did with a changelog right before its old changes are compacted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.iceberg.table import DELETE_FILES, RECORDS
from dbt.adapters.spark_streaming.stream.sink import changelog_retention
from dbt.adapters.spark_streaming.stream.sink.changelog_retention import OldChanges

NO_SPARK: Any = None


class Table:
    """A changelog that somebody has deleted rows of, which this run sees with the next refresh."""

    known = 1

    def __init__(self) -> None:
        self.counts = {RECORDS: 1_000_000, DELETE_FILES: 0}

    def property(self, name: str) -> str | None:
        return "[[7, 0]]" if name.endswith("changes-times") else None

    def summary_count(self, what: str) -> int:
        return self.counts[what]

    def last_summary(self) -> dict[str, str]:
        return {}

    def snapshots(self) -> list[Any]:
        return []


def test_deleted_rows_do_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table: Any = Table()

    def rebase(model: StreamModel, of: Any) -> bool:
        of.counts[DELETE_FILES] = 1
        return True

    def files_with_values_up_to(*given: object) -> None:
        pytest.fail("rows that are deleted would be written again")

    monkeypatch.setattr(changelog_retention.commit, "rebase", rebase)
    monkeypatch.setattr(changelog_retention.commit, "files_with_values_up_to", files_with_values_up_to)
    model = StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), ())
    assert OldChanges(model, table).compact(NO_SPARK, live=10) == 0
    assert table.counts[DELETE_FILES] == 1
