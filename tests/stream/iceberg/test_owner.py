"""A target reads nothing of another target's models that have the same names under one storage root."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.cli import deploy, savepoints, status, stop
from dbt.adapters.spark_streaming.cli.project import Selection
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.project import stream_node
from dbt.adapters.spark_streaming.service import health
from dbt.adapters.spark_streaming.service.health import (
    RUNNING,
    SERVICE,
    Health,
    health_in_other_process,
    read_health,
)
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.iceberg import owner

PREFIX = "spark.sql.catalog.lakehouse"
NODE: Any = {"unique_id": "model.shop.views", "name": "views", "relation_name": "shop.views", "config": {}}


def settings(root: Path, **options: str) -> dict[str, str]:
    found = {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{root}/catalog.db",
        "warehouse": f"{root}/warehouse",
    } | options
    return {PREFIX: "org.apache.iceberg.spark.SparkCatalog"} | {f"{PREFIX}.{k}": v for k, v in found.items()}


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    """A model of a target, that runs."""
    storage: Any = Storage(str(tmp_path), lambda: None)
    made = StreamModel("views", "lakehouse.shop.views", "lakehouse.shop.views__state", storage, ())
    session: Any = type("Session", (), {"conf": settings(tmp_path)})
    owner.claim(session, made, uuid="u")
    health.write_health(storage, made.health, Health("views", RUNNING, 1.0, by=SERVICE), 15.0)
    storage.write_text(made.progress, '{"model": "views"}')
    return of_target(made, tmp_path)


def of_target(model: StreamModel, root: Path, **options: str) -> StreamModel:
    catalog = owner.catalog_identity(settings(root, **options), model.storage, model.target)
    return replace(model, catalog=catalog)


OTHERS = [
    {"uri": "jdbc:sqlite:/elsewhere/catalog.db"},
    {"warehouse": "s3://elsewhere"},
    {"type": "rest", "uri": "https://catalog"},
]


@pytest.mark.parametrize("options", OTHERS)
def test_another_catalog_is_told_without_spark(
    model: StreamModel, tmp_path: Path, options: dict[str, str]
) -> None:
    assert owner.other_catalog_problem(model) is None
    other = of_target(model, tmp_path, **options)
    said = owner.other_catalog_problem(other)
    assert said is not None
    assert "belong to the table lakehouse.shop.views of another catalog (name lakehouse" in said
    assert owner.other_catalog_problem(replace(model, catalog=None)) is None, (
        "a server's settings aren't known"
    )
    # What the profile doesn't say, somebody else may have set.
    assert owner.other_catalog_problem(replace(model, catalog={"name": "lakehouse"})) is None
    owner.forget_owner(model)
    assert owner.other_catalog_problem(other) is None


def test_health_is_the_first_targets(
    model: StreamModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health.os, "getpid", lambda: 1)
    other = of_target(model, tmp_path, **OTHERS[0])
    assert health_in_other_process(model) is not None
    assert health_in_other_process(other) is None, "a run of it isn't passed over"
    health.write_health(model.storage, model.health, Health("views", health.STOPPED, 1.0), 15.0)
    with pytest.raises(StreamError), health.publishing_failure(other):
        raise StreamError("it can't begin")
    found = read_health(model)
    assert found is not None
    assert found.state == health.STOPPED


def test_a_note_that_cant_be_read_is_one_models_problem(
    model: StreamModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.storage.write_text(f"{model.storage.tables}/{model.key}.json", "")
    model.storage.delete(model.progress)
    with pytest.raises(StreamError, match="can't be read, so nothing is known of the table"):
        owner.other_catalog_problem(model)
    assert not health.belongs_to_other_catalog(model), "the process that runs all models starts"
    monkeypatch.setattr(health.os, "getpid", lambda: 1)
    assert health_in_other_process(model) is not None
    project: Any = Project(model, tmp_path)
    monkeypatch.setattr(stream_node, "model_without_configs", lambda node, environment: model)
    (entry,) = status.collect_status(project, Selection())
    assert entry["state"] == RUNNING
    model.storage.delete(model.health)
    (entry,) = status.collect_status(project, Selection())
    assert "can't be read" in entry["note"]


HIVE = {f"{PREFIX}.type": "hive"}
GLUE = {f"{PREFIX}.catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog"}


@pytest.mark.parametrize(
    ("catalog", "setting"),
    [
        (HIVE, "spark.hadoop.hive.metastore.uris"),
        (HIVE, "hive.metastore.uris"),
        (HIVE, "spark.hadoop.javax.jdo.option.ConnectionURL"),
        (HIVE, f"{PREFIX}.hadoop.hive.metastore.uris"),
        (GLUE, f"{PREFIX}.glue.id"),
        (GLUE, f"{PREFIX}.client.region"),
    ],
)
def test_what_says_where_a_catalog_is_beside_its_uri(
    model: StreamModel, catalog: dict[str, str], setting: str
) -> None:
    one, other = (
        owner.catalog_identity(catalog | {setting: value}, model.storage, model.target)
        for value in ("eu", "us")
    )
    assert one != other
    assert one == owner.catalog_identity(catalog | {setting: "eu"}, model.storage, model.target)


def test_glues_region_is_the_environments(model: StreamModel, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for region in ("eu-central-1", "us-east-1"):
        monkeypatch.setenv("AWS_REGION", region)
        found.append(owner.catalog_identity(GLUE, model.storage, model.target)["client.region"])
        assert "client.region" not in owner.catalog_identity(HIVE, model.storage, model.target)
    assert found == ["eu-central-1", "us-east-1"]


def test_a_relative_database_is_another_in_another_folder(
    model: StreamModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        for uri in ("jdbc:sqlite:catalog.db", "jdbc:sqlite:./catalog.db"):
            found.add(owner.catalog_identity({f"{PREFIX}.uri": uri}, model.storage, model.target)["uri"])
    assert found == {f"jdbc:sqlite:<storage_root>/{folder}/catalog.db" for folder in ("a", "b")}
    for uri in ("jdbc:sqlite::memory:", "jdbc:sqlite:/x/catalog.db", "jdbc:postgresql://db/shop"):
        assert owner.catalog_identity({f"{PREFIX}.uri": uri}, model.storage, model.target)["uri"] == uri


class Project:
    """A project of one model."""

    def __init__(self, model: StreamModel, root: Path) -> None:
        self.model, self._conf = model, settings(root, **OTHERS[0])

    def parsed_manifest(self) -> Any:
        return None

    def names_by_id(self, manifest: Any) -> dict[str, str]:
        return {NODE["unique_id"]: "views"}

    def streaming_models(self, selection: Selection, manifest: Any) -> list[Any]:
        return [NODE]

    def streaming_model(self, name: str) -> Any:
        return NODE

    def environment(self) -> Any:
        catalog = SimpleNamespace(tableExists=lambda name: False)
        return SimpleNamespace(session=lambda: SimpleNamespace(conf=self._conf, catalog=catalog))


def test_status_and_stop(model: StreamModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project: Any = Project(model, tmp_path)
    for name in ("model_without_configs", "stream_model"):
        monkeypatch.setattr(stream_node, name, lambda *arguments: project.model)
    monkeypatch.setattr(status, "lag_seconds", lambda progress: None)
    (entry,) = status.collect_status(project, Selection())
    assert (entry["state"], entry["progress"]["model"]) == (RUNNING, "views")

    project.model = of_target(model, tmp_path, **OTHERS[0])
    (entry,) = status.collect_status(project, Selection())
    assert (entry["state"], entry["progress"]) == ("stopped", None)
    assert "belong to the table lakehouse.shop.views of another catalog" in entry["note"]
    for command in (
        lambda: stop.stop_model(project, "views", 1),
        lambda: stop.reset_model(project, "views"),
        lambda: savepoints.list_savepoints(project, "views"),
        lambda: deploy.deployment_status(project, "views"),
    ):
        with pytest.raises(StreamError, match="of another catalog"):
            command()
    assert not model.storage.exists(model.stop_request)


def test_foreign_files_in_the_folder_of_savepoints_make_it_nobodys(model: StreamModel) -> None:
    """They are left there when the model is reset, and its next run begins."""
    owner.forget_owner(model)
    no_spark: Any = None
    model.storage.write_text(f"{model.savepoints}/good/.DS_Store", "")
    owner.check_owner(no_spark, model)
    model.storage.write_text(f"{model.savepoints}/good/savepoint.json", "{}")
    with pytest.raises(StreamError, match="Model views: there is a folder"):
        owner.check_owner(no_spark, model)
    assert owner.model_folders(model) == [model.savepoints]
