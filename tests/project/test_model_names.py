"""Every command that takes a model takes its version and its package, and says so where a name is ambiguous."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.cli.project import DbtProject, ProjectError, Selection
from dbt.adapters.spark_streaming.project import model_names


def node(package: str, name: str, version: int | None = None, table: str | None = None) -> dict[str, Any]:
    own = name if version is None else f"{name}.v{version}"
    return {
        "name": name,
        "version": version,
        "package_name": package,
        "unique_id": f"model.{package}.{own}",
        "fqn": [package, *own.split(".")],
        "relation_name": f"s.{table or own.replace('.', '_')}",
    }


NODES = [
    node("shop", "m", 1),
    node("shop", "m", 2, "current"),
    node("shop", "only", 1),
    node("shop", "orders"),
    node("other", "orders"),
    node("shop", "m_v2"),
]


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> DbtProject:
    monkeypatch.setattr(DbtProject, "streaming_models", lambda *_: NODES)
    return DbtProject(Path(), None, None, None, None)


@pytest.mark.parametrize(
    ("name", "unique_id"),
    [
        ("m.v1", "model.shop.m.v1"),
        ("shop.m.v2", "model.shop.m.v2"),
        ("model.shop.m.v2", "model.shop.m.v2"),
        ("only", "model.shop.only.v1"),
        ("other.orders", "model.other.orders"),
        ("m_v2", "model.shop.m_v2"),
    ],
)
def test_one(project: DbtProject, name: str, unique_id: str) -> None:
    assert project.streaming_model(name)["unique_id"] == unique_id


def test_ambiguous_names_list_the_candidates_and_their_tables(project: DbtProject) -> None:
    with pytest.raises(ProjectError) as refused:
        project.streaming_model("m")
    assert str(refused.value) == (
        "'m' is the name of 2 models: m.v1 (table s.m_v1), m.v2 (table s.current). Name one of them."
    )
    with pytest.raises(
        ProjectError, match=r"other\.orders \(table s\.orders\), shop\.orders \(table s\.orders\)"
    ):
        project.streaming_model("orders")
    for name in ("m.v3", "v1", "current", "shop"):
        with pytest.raises(ProjectError, match=f"There is no streaming model '{name}'"):
            project.streaming_model(name)


def test_selectors_are_of_one_model(tmp_path: Path) -> None:
    """dbt's own selection also takes the models in a folder that is called as the model, and all versions."""
    profile = {"type": "spark_streaming", "schema": "s", "storage_root": str(tmp_path / "root")}
    text = "{{ config(materialized='streaming_table') }} select 1 as one"
    versions = "models: [{name: m, latest_version: 2, versions: [{v: 1}, {v: 2}]}]"
    files = {
        "dbt_project.yml": "{name: shop, profile: p}",
        "profiles.yml": json.dumps({"p": {"target": "dev", "outputs": {"dev": profile}}}),
        "models/m.yml": versions,
        **{f"models/{name}.sql": text for name in ("m_v1", "m_v2", "m/v1/x", "orders", "orders/z")},
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    read = DbtProject(tmp_path, tmp_path, None, None, None)
    manifest = read.parsed()
    for node in read.streaming_models(manifest=manifest):
        found = read.streaming_models(Selection((model_names.selector(node),)), manifest)
        assert [each["unique_id"] for each in found] == [node["unique_id"]]
