"""Savepoints as they are noted: names, and what becomes of a restore that was cut short."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.storage.savepoints import (
    MIGRATION,
    TABLE,
    Savepoint,
    TableSnapshot,
    check_name,
    check_not_interrupted,
    checkpoint_copy,
    copy_savepoints,
    delete_files,
    find_savepoint,
    incomplete_savepoints,
    mark_incomplete,
    next_name,
    note_branches,
    noted_branches,
    savepoint_names,
    stored_savepoints,
    write_savepoint,
)


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), ())


def savepoint(name: str, made: int = 1, cause: str | None = None) -> Savepoint:
    tables = {TABLE: TableSnapshot("u", 17, 0, {"stream.key": "[]"})}
    return Savepoint(name, made, cause, None, "q", 3, 0, None, {**tables, "changelog": None})


def test_what_is_written_is_read_and_the_oldest_comes_first(model: StreamModel) -> None:
    made = [savepoint("late", 2), savepoint("early", 1)]
    for each in made:
        write_savepoint(model, each)
    (Path(model.savepoints) / "never-completed").mkdir()
    assert stored_savepoints(model.storage, model.savepoints) == made[::-1]
    assert find_savepoint(model, "late") == made[0]
    mark_incomplete(model, "late")
    with pytest.raises(StreamError, match=r"Model m: there is no savepoint 'late' of it; it has early\."):
        find_savepoint(model, "late")


def test_names(model: StreamModel) -> None:
    for name in ("a", "before-deploy", "2024-01-01_v1.2", "before-migration"):
        check_name(model, name)
    for name in ("", ".hidden", "a/b", "a b", "ä", "before-Migration-2", "x" * 101):
        with pytest.raises(StreamError, match="Model m: "):
            check_name(model, name)
    taken = ["before-migration-9", "before-edit-10", "before-11", "other-12"]
    assert next_name(taken, MIGRATION) == "before-migration-11"


def test_a_restore_that_was_cut_short(model: StreamModel) -> None:
    check_not_interrupted(model)
    model.storage.write_text(model.restoring, json.dumps({"name": "s", "kept_as": None}))
    with pytest.raises(StreamError) as raised:
        check_not_interrupted(model)
    assert raised.value.msg == (
        "Model m: the restore of its savepoint 's' was interrupted, so its state, its table and its checkpoint may be of "
        "different times. Run it again: `dbt-stream state restore m s`. To rebuild the model: `dbt run --full-refresh "
        "--select m`."
    )


def test_a_foreign_folder_is_no_incomplete_savepoint(model: StreamModel) -> None:
    for name in ("complete", "deleted"):
        model.storage.write_text(f"{checkpoint_copy(model, name)}/metadata", "{}")
        write_savepoint(model, savepoint(name))
    mark_incomplete(model, "deleted")
    note_branches(model, "half", {"u": 17})
    model.storage.write_text(f"{model.savepoints}/mine/notes.txt", "of a user")
    model.storage.write_text(f"{model.savepoints}/README", "of a user")
    model.storage.write_text(f"{model.savepoints}/mine/checkpoint/notes.txt", "of a user")
    model.storage.write_text(model.restoring, "{}")
    assert incomplete_savepoints(model) == ["deleted", "half"]
    assert savepoint_names(model) == ["complete", "deleted", "half"]


def test_files_that_are_deleted_are_all_that_were_written_and_no_others(model: StreamModel) -> None:
    checkpoint = checkpoint_copy(model, "good")
    written = (
        "metadata",
        "topics.json",
        "offsets/8",
        "commits/7",
        "sources/0/9.compact",
        "sources/1/offsets/0",
    )
    for name in written:
        model.storage.write_text(f"{checkpoint}/{name}", "{}")
    note_branches(model, "good", {"u": 17})
    write_savepoint(model, savepoint("good"))
    partial = f"{model.savepoints}/good/savepoint.json.{'0a' * 16}.partial"
    model.storage.write_text(partial, "{")
    write_savepoint(model, savepoint("good.2"))
    model.storage.write_text(model.restoring, "{}")
    foreign = [f"{model.savepoints}/good/{name}" for name in (".DS_Store", "checkpoint/sources/mine.txt")]
    for each in foreign:
        model.storage.write_text(each, "of a user")
    delete_files(model.storage, model.savepoints, "good")
    assert sorted(model.storage.modification_times(f"{model.savepoints}/good")) == foreign
    assert savepoint_names(model) == ["good.2"] and model.storage.exists(model.restoring)
    delete_files(model.storage, model.savepoints)
    assert sorted(model.storage.modification_times(model.savepoints)) == foreign
    assert model.storage.list(model.savepoints) == ["good"]
    for each in foreign:
        model.storage.delete(each)
    write_savepoint(model, savepoint("good"))
    delete_files(model.storage, model.savepoints)
    assert not model.storage.exists(model.savepoints)


def test_branches_of_an_incomplete_savepoint_are_known_after_a_swap(model: StreamModel) -> None:
    write_savepoint(model, savepoint("complete"))
    note_branches(model, "half", {"u": 17})
    swapped = replace(model, target="db.m__previous_0a1b2c3d")
    copy_savepoints(model.storage, model.savepoints, swapped.savepoints)
    assert [each.name for each in stored_savepoints(model.storage, swapped.savepoints)] == ["complete"]
    assert noted_branches(swapped, "half") == {"u": 17}
    assert incomplete_savepoints(swapped) == ["half"]
