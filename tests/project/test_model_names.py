"""Every command that takes a model takes its version and its package, and says so where a name is ambiguous."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.cli.project import DbtProject, ProjectError
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


def test_selectors_are_of_one_model() -> None:
    assert [model_names.selector(each) for each in NODES[:2]] == ["fqn:shop.m.v1", "fqn:shop.m.v2"]
