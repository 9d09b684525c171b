"""What a savepoint keeps: maintenance leaves it, and one of another storage root is left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import Retention, StreamSource
from dbt.adapters.spark_streaming.stream.iceberg import maintenance
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable
from dbt.adapters.spark_streaming.stream.lifecycle import orphans
from dbt.adapters.spark_streaming.stream.lifecycle.restoring import undo
from dbt.adapters.spark_streaming.stream.run import saving
from dbt.adapters.spark_streaming.stream.run.saving import delete, save
from dbt.adapters.spark_streaming.stream.state import table as state
from dbt.adapters.spark_streaming.stream.storage import savepoints
from dbt.adapters.spark_streaming.stream.storage.savepoints import stored_savepoints

from . import programs
from .harness import Stream, sorted_rows
from .programs import SECOND
from .test_restoring import GROUPS, back, groups, refused, root, take

__all__ = ["root"]  # a fixture


@pytest.mark.thorough
def test_maintenance_leaves_what_savepoints_name(
    spark: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "EVERY", 2)
    monkeypatch.setattr(saving, "AUTOMATIC", 1)
    monkeypatch.setattr(state, "_RETENTION", Retention(max_snapshots=1))
    few = Retention(max_snapshots=1, max_snapshot_age=1)
    up = Stream(spark, root, programs.pass_through(), "ts timestamp, k string, v bigint")
    up.program = replace(up.program, output="select ts, k, v from stream")
    up.model = replace(up.model, retention=few)
    down = groups(spark, root)
    down.reads(StreamSource("events", up.model.target))
    down.model = replace(down.model, retention=few)
    text = GROUPS.replace("events", up.model.target)

    def feed(numbers: range) -> None:
        for number in numbers:
            up.add((number * 1000, f"k{number % 3}", number))
            up.run()
            down.run()

    feed(range(2))
    take(down, "kept")
    feed(range(2, 7))
    left = IcebergTable(spark, up.model.target).snapshot_count
    assert left >= 5, "the savepoint reads them again"
    # What `dbt-stream clean` removes: half a savepoint, and its tag.
    half = Path(down.model.savepoints) / "half" / "checkpoint" / "metadata"
    half.parent.mkdir(parents=True)
    half.write_text("{}")
    table = IcebergTable(spark, down.model.target)
    assert table.snapshot_id is not None
    savepoints.note_branches(down.model, "half", {str(table.java.uuid()): table.snapshot_id})
    for branch in ("half", "of_somebody"):
        spark.sql(f"alter table {down.model.target} create branch savepoint_{branch}")
    found = orphans.orphans_of_model(spark, down.model, before=2**60, remove=True).files
    assert {f"{down.model.target}: branch savepoint_half", str(half.parent.parent)} <= set(found)
    assert f"{down.model.target}: branch savepoint_of_somebody" not in found
    assert back(down, "kept").savepoint.name == "kept"
    assert down.run().rows_in == 5
    assert down.rows() == sorted_rows(spark.sql(text).collect())
    # Savepoints that nobody asked for hold nothing of others' tables, and are few.
    delete(spark, down.model, "kept")
    feed(range(7, 10))
    assert IcebergTable(spark, up.model.target).snapshot_count < left
    for _ in range(saving.AUTOMATIC + 1):
        take(down, "asked")
        back(down, "asked")
        delete(spark, down.model, "asked")
    names = [each.name for each in stored_savepoints(down.model.storage, down.model.savepoints)]
    assert len(names) == saving.AUTOMATIC
    assert names[-1] == f"before-restore-{saving.AUTOMATIC + 2}"
    assert undo(spark, down.model, down.program).savepoint.name == names[-1]
    assert [each.name for each in stored_savepoints(down.model.storage, down.model.savepoints)] == names[:-1]
    assert down.rows() == sorted_rows(spark.sql(text).collect())


def test_savepoints_of_another_storage_root_are_left_alone(spark: Any, root: Path, tmp_path: Path) -> None:
    stream = groups(spark, root)
    stream.add((0, "a", 1))
    stream.run()
    take(stream, "first")
    stream.add((1 * SECOND, "a", 2))
    stream.run()
    # The same catalog, seen from a machine that has only that.
    elsewhere = replace(stream.model, storage=Storage(str(tmp_path / "elsewhere"), lambda: spark))
    assert saving.savepoint_leftovers(spark, elsewhere, remove=True) == []
    refused(save, spark, elsewhere, "second")
    back(stream, "first")
    assert [row[1:] for row in stream.rows()] == [(1, 1)]
