"""A restore that can't be finished isn't begun."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.iceberg import ownership
from dbt.adapters.spark_streaming.stream.lifecycle import restoring
from dbt.adapters.spark_streaming.stream.sink import append


def test_a_foreign_table_with_the_name_of_the_changelog_is_found_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run begins while a restore is incomplete, and one that fails at its end would never be complete."""
    storage = Storage(str(tmp_path), lambda: None)
    model = StreamModel("m", "db.m", "db.m__state", storage, (), changelog=True)
    storage.write_text(f"{model.checkpoint}/metadata", "{}")
    spark: Any = SimpleNamespace(catalog=SimpleNamespace(tableExists=lambda name: name == model.changes))
    program: Any = SimpleNamespace(keeps_state=False, upsert=None)
    saved: Any = SimpleNamespace(name="good")
    monkeypatch.setattr(ownership, "find_table", lambda *given: None)
    monkeypatch.setattr(append, "load_table", lambda *given: None)
    monkeypatch.setattr(
        restoring, "model_tables", lambda *given: dict.fromkeys(("state", "changelog", "table"))
    )
    monkeypatch.setattr(restoring, "_snapshots_to_restore", lambda *given: {})
    monkeypatch.setattr(restoring, "_effect_if_usable", lambda *given: None)
    monkeypatch.setattr(restoring, "_source_problems", lambda *given: ())
    monkeypatch.setattr(restoring, "save_before", lambda *given, **others: saved)
    monkeypatch.setattr(restoring, "copy_checkpoint", lambda *given: None)
    with pytest.raises(
        StreamError, match="there is a table of that name that this package didn't make for the model"
    ):
        restoring._restore_savepoint(spark, model, program, saved, keep=True)
    assert not storage.exists(model.restoring)
    assert storage.exists(f"{model.checkpoint}/metadata")
