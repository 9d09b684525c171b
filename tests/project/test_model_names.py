"""Every command that takes a model takes its version and its package, and says so where a name is ambiguous."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming import environment
from dbt.adapters.spark_streaming.cli import status
from dbt.adapters.spark_streaming.cli.project import DbtProject, ProjectError, Selection
from dbt.adapters.spark_streaming.cli.run import Service
from dbt.adapters.spark_streaming.project import model_names
from dbt.adapters.spark_streaming.service.restart_policy import RestartPolicy


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
        "packages.yml": "packages: [{local: dbt_packages/other}]",
        "dbt_packages/other/dbt_project.yml": "{name: other, profile: p}",
        "dbt_packages/other/models/m.yml": versions,
        **{
            f"dbt_packages/other/models/{name}.sql": text.replace("config(", "config(schema='o', ")
            for name in ("m_v1", "m_v2", "orders")
        },
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    read = DbtProject(tmp_path, tmp_path, None, None, None)
    manifest = read.parsed_manifest()
    for node in read.streaming_models(manifest=manifest):
        found = read.streaming_models(Selection((model_names.exact_selector(node),)), manifest)
        assert [each["unique_id"] for each in found] == [node["unique_id"]]


def test_selectors_of_models_in_folders_with_odd_names(tmp_path: Path) -> None:
    """dbt reads a space, a comma, a plus and a star in a selector as its own."""
    text = "{{ config(materialized='streaming_table') }} select 1 as one"
    profile = {"type": "spark_streaming", "schema": "s", "storage_root": str(tmp_path / "root")}
    files = {
        "dbt_project.yml": "{name: shop, profile: p}",
        "profiles.yml": json.dumps({"p": {"target": "dev", "outputs": {"dev": profile}}}),
    }
    folders = [
        "daily reports",
        "daily_reports",
        "a,b",
        "a+",
        "@c",
        "x*y",
        "[abc]",
        "d.e",
        "d",
        "1+2",
        "in:out",
    ]
    for number, folder in enumerate(folders):
        files[f"models/{folder}/m{number}.sql"] = text
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    read = DbtProject(tmp_path, tmp_path, None, None, None)
    manifest = read.parsed_manifest()
    nodes = read.streaming_models(manifest=manifest)
    assert len(nodes) == len(folders)
    for node in nodes:
        for selector in (model_names.exact_selector(node), f"+{model_names.path_selector(node)}"):
            found = read.streaming_models(Selection((selector,)), manifest)
            assert [each["unique_id"] for each in found] == [node["unique_id"]], selector


def test_names_of_models_that_two_packages_have() -> None:
    found = model_names.unambiguous_names(NODES)
    assert found == {
        "model.shop.m.v1": "m.v1",
        "model.shop.m.v2": "m.v2",
        "model.shop.only.v1": "only.v1",
        "model.shop.orders": "shop.orders",
        "model.other.orders": "other.orders",
        "model.shop.m_v2": "m_v2",
    }
    for unique_id, name in found.items():
        assert [each["unique_id"] for each in model_names.models_named(name, NODES)] == [unique_id]


def test_commands_name_models_that_two_packages_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A selection is of one of them, and a service runs both."""
    # The environment of another target would close the one of the test run.
    monkeypatch.setattr(environment, "get_environment", environment._make_environment)
    profile = {"type": "spark_streaming", "schema": "s", "storage_root": str(tmp_path / "root")}
    files = {
        "profiles.yml": json.dumps({"p": {"target": "dev", "outputs": {"dev": profile}}}),
        "packages.yml": "packages: [{local: dbt_packages/other}]",
    }
    for name, folder in {"shop": ".", "other": "dbt_packages/other"}.items():
        files[f"{folder}/dbt_project.yml"] = f"{{name: {name}, profile: p}}"
        for model, kind in {
            "orders": "streaming_table",
            "plain": "view" if name == "shop" else "streaming_table",
        }.items():
            files[f"{folder}/models/{model}.sql"] = (
                f"{{{{ config(materialized='{kind}', schema='{name}') }}}} select 1 as a"
            )
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    read = DbtProject(tmp_path, tmp_path, None, None, None)
    assert read.selected_names(Selection(("shop.orders",))) == ["shop.orders"]
    assert sorted(read.selected_names(Selection())) == ["other.orders", "other.plain", "shop.orders"]
    shown = status.collect_status(read, Selection(("orders",)))
    assert sorted(each["model"] for each in shown) == ["other.orders", "shop.orders"]
    manifest = read.parsed_manifest()
    names = read.names_by_id(manifest)
    service = Service(
        read,
        manifest,
        read.streaming_models(manifest=manifest),
        read.environment(),
        "1 second",
        RestartPolicy(),
        False,
    )
    assert sorted(service.supervisor.models) == sorted(names[id] for id in names if "shop.plain" not in id)
