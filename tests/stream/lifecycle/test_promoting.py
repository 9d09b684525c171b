"""Versions that another process swaps meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.iceberg.ownership import OF, ROLE
from dbt.adapters.spark_streaming.stream.lifecycle import promoting
from dbt.adapters.spark_streaming.stream.storage import deployments
from dbt.adapters.spark_streaming.stream.storage.deployments import PROMOTED, Swap

NO_SPARK: Any = None


def test_a_deployment_that_was_promoted_during_its_clean_up_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its file nothing names the previous version, to which it may have to go back."""
    model = StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), ())
    staged = deployments.new_deployment(model, "u")
    promoted = replace(staged, phase=PROMOTED, promoted=1)
    deployments.write_deployment(model.storage, staged)
    monkeypatch.setattr(promoting.owner, "check_owner", lambda spark, model: None)
    monkeypatch.setattr(
        promoting,
        "_drop_version",
        lambda spark, beside: deployments.write_deployment(model.storage, promoted),
    )
    promoting.clean_up(NO_SPARK, model)
    assert deployments.read_deployment(model.storage, model.target) == promoted
    monkeypatch.setattr(promoting, "_drop_version", lambda spark, beside: None)
    assert promoting.clean_up(NO_SPARK, model) == promoted
    assert deployments.read_deployment(model.storage, model.target) is None


def test_a_swap_leaves_foreign_files_in_the_folders_of_savepoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), ())
    swap = Swap(
        PROMOTED,
        dict.fromkeys(("state", "changelog", "table")),
        dict.fromkeys(("state", "changelog", "table")),
    )
    found = replace(deployments.new_deployment(model, "u"), swap=swap)
    versions = [model, *(deployments.version_of_model(model, name) for name in (found.new, found.previous))]
    foreign = [f"{each.savepoints}/{name}" for each in versions for name in ("good/.DS_Store", "README")]
    for each in versions:
        model.storage.write_text(f"{each.savepoints}/good/savepoint.json", "{}")
        model.storage.write_text(f"{each.checkpoint}/metadata", "{}")
    for path in foreign:
        model.storage.write_text(path, "of a user")
    monkeypatch.setattr(promoting.owner, "claim", lambda *given: None)
    monkeypatch.setattr(
        promoting, "model_tables", lambda *given: dict.fromkeys(("state", "changelog", "table"))
    )
    monkeypatch.setattr(promoting, "readers_beyond", lambda *given: ())
    promoting._execute_swap(NO_SPARK, model, found)
    assert sorted(model.storage.modification_times(model.storage.savepoints)) == sorted(foreign)


class FakeTable:
    """A table in a catalog."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.uuid, self.properties = "u", properties

    def property(self, name: str) -> str | None:
        return self.properties.get(name)

    def set_properties(self, properties: dict[str, str]) -> None:
        self.properties |= properties

    def refresh(self) -> None:
        """Reads the table again."""


@pytest.mark.parametrize(
    ("was", "owner"),
    [
        ({}, None),
        ({"owner": "somebody"}, None),
        ({ROLE: "table", OF: "db.other"}, "db.other"),
        ({ROLE: "state", OF: "db.m"}, "db.m"),
        ({ROLE: "table", OF: "db.m"}, "db.m__previous"),
        ({ROLE: "batch", OF: "db.m"}, "db.m__previous"),
    ],
)
def test_a_foreign_table_stays_foreign_when_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: dict[str, str], owner: str | None
) -> None:
    """Otherwise the clean-up drops it."""
    model = StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), ())
    table = FakeTable(dict(was))
    monkeypatch.setattr(
        promoting, "find_table", lambda spark, name: table if name.endswith("__previous") else None
    )
    for _ in range(2):  # again, as after a kill
        promoting._rename_table(
            NO_SPARK, "table", "u", model, deployments.version_of_model(model, "db.m__previous")
        )
    assert table.property(OF) == owner
    assert table.property(ROLE) == ("table" if owner == "db.m__previous" else was.get(ROLE))
