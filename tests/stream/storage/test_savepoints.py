"""Savepoints as they are noted: names, what holds snapshots, and the part of a checkpoint that is copied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.iceberg.snapshot_retention import Unread, unread
from dbt.adapters.spark_streaming.stream.storage.checkpoint import (
    Checkpoint,
    copy_checkpoint,
    files_read,
    next_snapshots,
    read_checkpoint,
)
from dbt.adapters.spark_streaming.stream.storage.savepoints import (
    MIGRATION,
    TABLE,
    Picture,
    Savepoint,
    check_name,
    check_whole,
    checkpoint_of,
    find,
    forget,
    listed,
    next_name,
    write,
)


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), ())


def savepoint(name: str, made: int = 1, cause: str | None = None) -> Savepoint:
    tables = {TABLE: Picture("u", 17, 0, {"stream.key": "[]"})}
    return Savepoint(name, made, cause, None, "q", 3, 0, None, {**tables, "changelog": None})


def test_what_is_written_is_read_and_the_oldest_comes_first(model: StreamModel) -> None:
    made = [savepoint("late", 2), savepoint("early", 1)]
    for each in made:
        write(model, each)
    (Path(model.savepoints) / "never-completed").mkdir()
    assert listed(model.storage, model.savepoints) == made[::-1]
    assert find(model, "late") == made[0]
    forget(model, "late")
    with pytest.raises(StreamError, match=r"Model m: there is no savepoint 'late' of it; it has early\."):
        find(model, "late")


def test_names(model: StreamModel) -> None:
    for name in ("a", "before-deploy", "2024-01-01_v1.2", "before-migration"):
        check_name(model, name)
    for name in ("", ".hidden", "a/b", "a b", "ä", "before-Migration-2", "x" * 101):
        with pytest.raises(StreamError, match="Model m: "):
            check_name(model, name)
    taken = ["before-migration-9", "before-edit-10", "before-11", "other-12"]
    assert next_name(taken, MIGRATION) == "before-migration-11"


def test_a_restore_that_was_cut_short(model: StreamModel) -> None:
    check_whole(model)
    model.storage.write_text(model.restoring, json.dumps({"name": "s", "kept_as": None}))
    with pytest.raises(StreamError) as raised:
        check_whole(model)
    assert raised.value.msg == (
        "Model m: the restore of its savepoint 's' was interrupted, so its state, its table and its checkpoint may be of "
        "different times. Run it again: `dbt-stream state restore m s`. To rebuild the model: `dbt run --full-refresh "
        "--select m`."
    )


def checkpoint(folder: Path, offsets: dict[int, str], done: list[int]) -> None:
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q"}')
    (folder / "sources.json").write_text('[{"relation":"e","reads":"db.e"}]')
    for number, offset in offsets.items():
        (folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{offset}")
        (folder / "offsets" / f".{number}.crc").write_text("of Hadoop")
    for number in done:
        (folder / "commits" / str(number)).write_text("v1\n{}")


def of_table(snapshot: int) -> str:
    return json.dumps({"version": 1, "snapshot_id": snapshot, "position": 1, "scan_all_files": False})


def test_the_copy_of_a_checkpoint_says_the_same_in_few_files(tmp_path: Path) -> None:
    storage, path, to = Storage(str(tmp_path), lambda: None), str(tmp_path / "a"), str(tmp_path / "b")
    checkpoint(tmp_path / "a", {n: json.dumps({"logOffset": n}) for n in range(40)}, list(range(39)))
    for number in range(40):
        name = f"{number}.compact" if number % 10 == 9 else str(number)
        entries = range(number + 1) if number % 10 == 9 else [number]
        lines = [json.dumps({"path": f"file:///f/{n}", "timestamp": 1, "batchId": n}) for n in entries]
        (tmp_path / "a" / "sources" / "0" / name).write_text("\n".join(["v1", *lines]))
    copy_checkpoint(storage, path, to)
    assert read_checkpoint(storage, to) == read_checkpoint(storage, path) == Checkpoint("q", 39, 38)
    assert files_read(storage, to, 0) == files_read(storage, path, 0) == {f"file:///f/{n}" for n in range(40)}
    assert len(storage.files(to)) == 2 + 2 + 2 + 11
    assert not list(Path(to).rglob(".*"))


def test_snapshots_that_a_savepoint_would_read_again_are_held(model: StreamModel) -> None:
    for name, cause, snapshot in (("asked", None, 11), ("before-edit-1", "edit", 12), ("half", None, 13)):
        checkpoint(Path(checkpoint_of(model, name)), {0: of_table(snapshot)}, [0])
        if name != "half":
            write(model, savepoint(name, cause=cause))
    assert next_snapshots(model.storage, checkpoint_of(model, "asked")) == {0: 11}
    assert unread(model.storage, "db.e") == Unread({11: f"{model.key}/asked"})
