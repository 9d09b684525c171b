"""Leftovers of savepoints are removed, and nothing that somebody else put beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
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
