"""Leftovers of savepoints are removed, and nothing that somebody else put beside them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.run import saving
from dbt.adapters.spark_streaming.stream.run.saving import forget_all, leftovers

NO_SPARK: Any = None


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    made = StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), ())
    made.storage.write_text(f"{made.savepoints}/half/checkpoint/metadata", "{}")
    return made


def test_files_of_others_stay(model: StreamModel) -> None:
    others = [f"{model.savepoints}/{name}" for name in ("README", "mine/savepoint of may.json")]
    for each in others:
        model.storage.write_text(each, "of a user")
    assert leftovers(NO_SPARK, model, remove=True) == [f"{model.savepoints}/half"]
    assert all(map(model.storage.exists, others))
    assert model.storage.list(model.savepoints) == ["README", "mine"]


def test_a_model_is_reset_after_an_interrupted_restore(model: StreamModel) -> None:
    """As the message on an interrupted restore says."""
    model.storage.write_text(model.restoring, '{"name": "half", "kept_as": null}')
    forget_all(NO_SPARK, model)
    assert not model.storage.exists(model.savepoints)


def test_a_savepoint_that_an_interrupted_restore_needs_is_not_deleted(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without both, neither finishing the restore nor going back is possible."""
    monkeypatch.setattr(saving, "locked", lambda *given: nullcontext())
    monkeypatch.setattr(saving, "working_session", lambda spark: spark)
    removed: list[str] = []
    monkeypatch.setattr(saving, "remove", lambda spark, model, name: removed.append(name))
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
