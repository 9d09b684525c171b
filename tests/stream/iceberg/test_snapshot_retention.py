"""Which snapshots of a table the streams of a storage root still need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.iceberg.snapshot_retention import (
    RequiredSnapshots,
    required_snapshots,
)
from dbt.adapters.spark_streaming.stream.storage.checkpoint import next_snapshots
from dbt.adapters.spark_streaming.stream.storage.savepoints import (
    TABLE,
    Savepoint,
    TableSnapshot,
    checkpoint_copy,
    write_savepoint,
)


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), ())


def savepoint(name: str, made: int = 1, cause: str | None = None) -> Savepoint:
    tables = {TABLE: TableSnapshot("u", 17, 0, {"stream.key": "[]"})}
    return Savepoint(name, made, cause, None, "q", 3, 0, None, {**tables, "changelog": None})


def checkpoint(folder: Path, planned: dict[int, int], done: list[int], began: int | None = None) -> None:
    for log in ("offsets", "commits", "sources/0/offsets"):
        (folder / log).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": folder.name}))
    for batch, snapshot in planned.items():
        (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offset(snapshot)}\n-")
    for batch in done:
        (folder / "commits" / str(batch)).write_text("v1\n{}")
    if began is not None:
        (folder / "sources/0/offsets/0").write_text(offset(began))


def offset(snapshot: int) -> str:
    return json.dumps({"version": 1, "snapshot_id": snapshot, "position": 1, "scan_all_files": False})


def reads(root: Path, name: str, *tables: str) -> None:
    folder = root / "checkpoints" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sources.json").write_text(json.dumps([{"relation": each, "reads": each} for each in tables]))


def test_snapshots_that_a_savepoint_would_read_again_are_held(model: StreamModel) -> None:
    for name, cause, snapshot in (("asked", None, 11), ("before-edit-1", "edit", 12), ("half", None, 13)):
        folder = Path(checkpoint_copy(model, name))
        checkpoint(folder, {0: snapshot}, [0])
        if name != "half":
            write_savepoint(model, savepoint(name, cause=cause))
    assert next_snapshots(model.storage, checkpoint_copy(model, "asked")) == {0: 11, 1: None}
    assert required_snapshots(model.storage, "db.e") == RequiredSnapshots({11: f"{model.key}/asked"})


def test_streams_hold_where_their_next_micro_batch_begins(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path), lambda: None)
    assert required_snapshots(storage, "db.t") == RequiredSnapshots()
    checkpoint(tmp_path / "checkpoints" / "cut_short", {1: 11, 2: 12}, [0, 1], began=10)
    checkpoint(tmp_path / "checkpoints" / "at_rest", {1: 21, 2: 22}, [1, 2], began=20)
    checkpoint(tmp_path / "checkpoints" / "first_cut_short", {0: 31}, [], began=30)
    checkpoint(tmp_path / "checkpoints" / "waiting", {}, [], began=-1)
    (tmp_path / "checkpoints" / "never_began").mkdir()
    assert required_snapshots(storage, "db.t") == RequiredSnapshots(
        {11: "cut_short", 22: "at_rest", 30: "first_cut_short"}
    )


def test_streams_that_have_read_nothing_of_a_table_hold_all_of_it(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path), lambda: None)
    checkpoint(tmp_path / "checkpoints" / "read", {1: 11}, [1], began=10)
    reads(tmp_path, "read", "db.read", "db.`has-no-rows-yet`")
    checkpoint(tmp_path / "checkpoints" / "waiting", {}, [], began=-1)
    reads(tmp_path, "waiting", "db.empty")
    reads(tmp_path, "begins", "db.begins", "/a/folder")
    held = {
        name: required_snapshots(storage, name).whole
        for name in ("db.read", "db.`has-no-rows-yet`", "`db`.empty", "db.begins", "db.x")
    }
    assert list(held.values()) == [None, "read", "waiting", "begins", None]


def test_what_is_no_checkpoint_holds_nothing_and_what_cannot_be_read_everything(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path), lambda: None)
    checkpoint(tmp_path / "checkpoints" / "read", {1: 11}, [1], began=10)
    (tmp_path / "checkpoints" / ".DS_Store").write_text("of a file manager")
    assert required_snapshots(storage, "db.t") == RequiredSnapshots({11: "read"})
    (tmp_path / "checkpoints" / "broken").mkdir()
    (tmp_path / "checkpoints" / "broken" / "sources.json").write_text("[{")
    assert required_snapshots(storage, "db.t").whole == "broken"


def test_a_savepoint_whose_file_cannot_be_read_holds_what_it_would_read_again(model: StreamModel) -> None:
    for name, snapshot in (("newer", 11), ("other", 12)):
        checkpoint(Path(checkpoint_copy(model, name)), {0: snapshot}, [0])
        write_savepoint(model, savepoint(name))
    (Path(model.savepoints) / "newer" / "savepoint.json").write_text('{"format": 99}')
    held = {11: f"{model.key}/newer", 12: f"{model.key}/other"}
    assert required_snapshots(model.storage, "db.e") == RequiredSnapshots(held)


def test_an_automatic_savepoint_holds_snapshots_while_it_is_restored(model: StreamModel) -> None:
    """A process that is killed in a restore leaves no checkpoint that would hold them."""
    checkpoint(Path(checkpoint_copy(model, "before-edit-1")), {0: 11}, [0])
    write_savepoint(model, savepoint("before-edit-1", cause="edit"))
    assert required_snapshots(model.storage, "db.e") == RequiredSnapshots()
    model.storage.write_text(model.restoring, json.dumps({"name": "before-edit-1", "kept_as": None}))
    assert required_snapshots(model.storage, "db.e") == RequiredSnapshots({11: f"{model.key}/before-edit-1"})
