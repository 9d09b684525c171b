"""Halves of files that a killed process left are found by name and age, whichever model they are of."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.lifecycle import orphans
from dbt.adapters.spark_streaming.stream.lifecycle.orphans import (
    dropped_models,
    orphans_of_model,
    orphans_of_storage,
)
from dbt.adapters.spark_streaming.stream.storage import deployments
from dbt.adapters.spark_streaming.stream.storage.deployments import PROMOTED, STAGED, Swap

HALF = "m.json.0123456789abcdef0123456789abcdef.partial"
HOUR = 3_600_000


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    made = Storage(str(tmp_path), lambda: None)
    for folder in (made.progress, made.locks, made.tables, made.cleaned, f"{made.deployments}/db.m"):
        for name in ("m.json", HALF):
            made.write_text(f"{folder}/{name}", "{}")
            os.utime(f"{folder}/{name}", (10 * 3600, 10 * 3600))
    return made


def test_halves_of_files_are_found_and_whole_ones_are_not(storage: Storage) -> None:
    folders = (
        storage.progress,
        storage.locks,
        storage.tables,
        storage.cleaned,
        f"{storage.deployments}/db.m",
    )
    halves = [f"{folder}/{HALF}" for folder in folders]
    assert orphans_of_storage(storage, before=11 * HOUR, remove=False) == halves
    assert all(map(storage.exists, halves)), "they are only looked for"
    assert orphans_of_storage(storage, before=11 * HOUR, remove=True) == halves
    assert not any(map(storage.exists, halves))
    assert storage.exists(f"{storage.progress}/m.json")


def test_a_young_file_may_be_being_written(storage: Storage) -> None:
    assert orphans_of_storage(storage, before=9 * HOUR, remove=True) == []
    assert storage.exists(f"{storage.progress}/{HALF}")


def test_nothing_counts_as_dropped_while_it_is_unknown_which_tables_are_being_renamed(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path), lambda: None)
    storage.write_text(f"{storage.checkpoints}/db.m/metadata", "{}")
    file = f"{deployments.deployment_folder(storage, 'db.m')}/deployment.json"
    storage.write_text(file, "{")
    no_spark: Any = None
    assert list(dropped_models(no_spark, storage, ["db"])) == [
        f"{file} can't be read, so nothing is known of the deployment of db.m. Put the file back, or delete it and drop the "
        "tables that it describes. Until then what is left of dropped models is left alone."
    ]


@pytest.mark.parametrize(("phase", "to"), [(STAGED, PROMOTED), (PROMOTED, STAGED)])
def test_no_file_of_a_model_is_an_orphan_while_its_versions_are_being_swapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str, to: str
) -> None:
    storage = Storage(str(tmp_path), lambda: None)
    model = StreamModel("m", "lake.db.m", "lake.db.m__state", storage, ())
    swap = Swap(to, {"table": "u"}, {"table": "v"})
    deployments.write_deployment(
        storage, replace(deployments.new_deployment(model, "u"), phase=phase, swap=swap)
    )
    asked: list[str] = []

    def table_asked_for(_: Any, version: StreamModel, role: str) -> None:
        asked.append(f"{role} of {version.target}")

    monkeypatch.setattr(orphans, "model_lock", lambda spark, model: nullcontext())
    monkeypatch.setattr(orphans, "model_tables", lambda spark, version: {})
    monkeypatch.setattr(orphans, "owned_table", table_asked_for)
    half = f"{model.checkpoint}/offsets/.1.0123.tmp"
    storage.write_text(half, "")
    no_spark: Any = None
    with pytest.raises(StreamError, match="was interrupted, so its table, its state and its checkpoint"):
        orphans_of_model(no_spark, model, before=1 << 62, remove=True)
    assert asked == [] and storage.exists(half)
