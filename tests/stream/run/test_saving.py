"""Leftovers of savepoints are removed, and nothing that somebody else put beside them."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.run import saving
from dbt.adapters.spark_streaming.stream.run.saving import delete_all_savepoints, savepoint_leftovers
from dbt.adapters.spark_streaming.stream.storage import savepoints
from dbt.adapters.spark_streaming.stream.storage.savepoints import Savepoint, TableSnapshot

NO_SPARK: Any = None
DAY = 86_400_000


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    made = StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), ())
    made.storage.write_text(f"{made.savepoints}/half/checkpoint/metadata", "{}")
    return made


def test_files_of_others_stay(model: StreamModel) -> None:
    others = [f"{model.savepoints}/{name}" for name in ("README", "mine/savepoint of may.json")]
    for each in others:
        model.storage.write_text(each, "of a user")
    assert savepoint_leftovers(NO_SPARK, model, remove=True) == [f"{model.savepoints}/half"]
    assert all(map(model.storage.exists, others))
    assert model.storage.list(model.savepoints) == ["README", "mine"]


def test_a_foreign_file_in_the_folder_of_a_savepoint_stays_and_the_branches_go(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As file managers leave them. A branch that stays keeps its snapshots for ever, and no new savepoint gets the name."""
    table = SimpleNamespace(uuid="u", name="db.m")
    branches = {"savepoint_half": 17, "savepoint_mine": 17}
    monkeypatch.setattr(saving, "model_tables", lambda *given: {"table": table, "state": None})
    monkeypatch.setattr(saving, "branches_with_prefix", lambda *given: branches)
    monkeypatch.setattr(saving, "remove_branch", lambda table, branch: branches.pop(branch))
    foreign = f"{model.savepoints}/half/.DS_Store"
    model.storage.write_text(foreign, "")
    savepoints.note_branches(model, "half", {"u": 17})
    expected = ["db.m: branch savepoint_half", f"{model.savepoints}/half"]
    assert savepoint_leftovers(NO_SPARK, model, remove=False) == expected
    assert savepoint_leftovers(NO_SPARK, model, remove=True) == expected
    assert branches == {"savepoint_mine": 17}
    assert [*model.storage.modification_times(model.savepoints)] == [foreign]
    assert savepoint_leftovers(NO_SPARK, model, remove=True) == []
    savepoints.note_branches(model, "half", {"u": 17})
    branches["savepoint_half"] = 17
    delete_all_savepoints(NO_SPARK, model)
    assert branches == {"savepoint_mine": 17}
    assert [*model.storage.modification_times(model.savepoints)] == [foreign]


def test_a_folder_that_is_no_savepoint_is_not_deleted(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "model_lock", lambda *given: nullcontext())
    monkeypatch.setattr(saving, "working_session", lambda spark: spark)
    model.storage.write_text(f"{model.savepoints}/mine/notes.txt", "of a user")
    for name in ("mine", "../m/half"):
        with pytest.raises(StreamError, match=f"Model m: there is no savepoint '{name}' of it; it has none"):
            saving.delete(NO_SPARK, model, name)
    saving.delete(NO_SPARK, model, "half")
    assert model.storage.list(model.savepoints) == ["mine"]


def test_a_model_is_reset_after_an_interrupted_restore(model: StreamModel) -> None:
    """As the message on an interrupted restore says."""
    model.storage.write_text(model.restoring, '{"name": "half", "kept_as": null}')
    delete_all_savepoints(NO_SPARK, model)
    assert not model.storage.exists(model.savepoints)


def test_a_savepoint_that_an_interrupted_restore_needs_is_not_deleted(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without both, neither finishing the restore nor going back is possible."""
    monkeypatch.setattr(saving, "model_lock", lambda *given: nullcontext())
    monkeypatch.setattr(saving, "working_session", lambda spark: spark)
    removed: list[str] = []
    monkeypatch.setattr(saving, "delete_locked_savepoint", lambda spark, model, name: removed.append(name))
    for name in ("kept", "before-restore-1", "other"):
        model.storage.write_text(f"{model.savepoints}/{name}/savepoint.json", "{}")
    model.storage.write_text(model.restoring, '{"name": "kept", "kept_as": "before-restore-1"}')
    for name in ("kept", "before-restore-1"):
        with pytest.raises(StreamError, match="the restore of its savepoint 'kept' was interrupted"):
            saving.delete(NO_SPARK, model, name)
    saving.delete(NO_SPARK, model, "other")
    model.storage.delete(model.restoring)
    saving.delete(NO_SPARK, model, "kept")
    assert removed == ["other", "kept"]


def test_attempts_at_one_migration_share_a_savepoint(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a migration that fails three times would displace the savepoints to which an edit before is undone."""
    now = int(time.time() * 1000)
    position = SimpleNamespace(query_id="q", step=(3, 0))
    state = SimpleNamespace(uuid="u", snapshot_id=17)
    present: Any = SimpleNamespace(tables={"state": state, "changelog": None}, position=position)

    def saved(name: str, cause: str, until: int = now + 7 * DAY) -> Savepoint:
        tables = {"state": TableSnapshot("u", 17, 0, {}), "changelog": None}
        return Savepoint(name, until - 7 * DAY, cause, until, "q", 3, 0, None, tables)

    made: list[str] = []

    def make(spark: object, model: StreamModel, name: str, cause: str, found: object) -> Savepoint:
        made.append(name)
        return saved(name, cause)

    monkeypatch.setattr(saving, "current_tables", lambda *given: present)
    monkeypatch.setattr(saving, "_savepoint_branches", lambda *given: {})
    monkeypatch.setattr(saving, "_make_savepoint", make)
    savepoints.write_savepoint(model, saved("before-migration-1", "migration"))
    assert saving.save_before(NO_SPARK, model, "migration").name == "before-migration-1"
    assert made == []
    saving.save_before(NO_SPARK, model, "edit")
    present.position.step = (4, 0)
    saving.save_before(NO_SPARK, model, "migration")
    present.position.step, state.snapshot_id = (3, 0), 18
    saving.save_before(NO_SPARK, model, "migration")
    state.snapshot_id = 17
    savepoints.write_savepoint(model, saved("before-migration-1", "migration", until=now + DAY))
    saving.save_before(NO_SPARK, model, "migration")
    savepoints.write_savepoint(model, saved("before-migration-1", "restore"))
    saving.save_before(NO_SPARK, model, "restore")
    assert made == [f"before-{cause}-2" for cause in ("edit", *["migration"] * 3, "restore")]


class Remote(Storage):
    """A storage root that other machines write, too."""

    @property
    def is_local(self) -> bool:
        return False


def test_a_savepoint_that_another_machine_is_making_is_no_leftover(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy of the checkpoint would be gone when it is complete."""
    monkeypatch.setattr(saving, "model_lock", lambda *given: nullcontext())
    monkeypatch.setattr(saving, "working_session", lambda spark: spark)
    model = replace(model, storage=Remote(model.storage.root, lambda: None))
    file = f"{model.savepoints}/half/checkpoint/metadata"
    assert savepoint_leftovers(NO_SPARK, model, remove=True) == []
    with pytest.raises(StreamError) as raised:
        saving.save(NO_SPARK, model, "half")
    assert raised.value.msg == (
        "Model m: another process is making a savepoint 'half' of it, or was killed meanwhile. Choose another name, or "
        "delete that one with `dbt-stream state savepoint m --delete half`."
    )
    assert model.storage.exists(file)
    saving.delete(NO_SPARK, model, "half")
    assert model.storage.list(model.savepoints) == []
    model.storage.write_text(file, "{}")
    os.utime(file, (time.time() - 7200, time.time() - 7200))
    assert savepoint_leftovers(NO_SPARK, model, remove=True) == [f"{model.savepoints}/half"]
    assert model.storage.list(model.savepoints) == []
    model.storage.write_text(file, "{}")
    delete_all_savepoints(NO_SPARK, model)
    assert not model.storage.exists(model.savepoints)


def test_an_automatic_savepoint_has_another_name_than_one_that_is_being_made(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = replace(model, storage=Remote(model.storage.root, lambda: None))
    model.storage.write_text(f"{model.savepoints}/before-edit-4/checkpoint/metadata", "{}")
    monkeypatch.setattr(saving, "current_tables", lambda *given: None)
    monkeypatch.setattr(saving, "_savepoint_branches", lambda *given: {"savepoint_mine": "db.m"})
    made: list[str] = []
    monkeypatch.setattr(saving, "_make_savepoint", lambda spark, model, name, *given: made.append(name))
    saving.save_before(NO_SPARK, model, "edit")
    assert made == ["before-edit-5"]
