"""Spark's settings of a target."""

from __future__ import annotations

import os
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment.session import (
    ICEBERG_EXTENSIONS,
    LOCAL_FILES,
    required_packages,
    spark_settings,
)
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.sources.connectors import ICEBERG_VERSION


def settings_of(root: str = "/data/spark", **profile: Any) -> dict[str, str]:
    return spark_settings(SparkStreamingCredentials(schema="s", **profile), Storage(root, lambda: None))


def test_the_embedded_catalog_is_in_the_storage_root() -> None:
    conf = settings_of()
    assert conf["spark.sql.defaultCatalog"] == "lakehouse"
    assert conf["spark.sql.catalog.lakehouse.type"] == "jdbc"
    assert conf["spark.sql.catalog.lakehouse.uri"].startswith("jdbc:sqlite:/data/spark/catalog.db")
    assert conf["spark.sql.catalog.lakehouse.warehouse"] == "/data/spark/warehouse"
    assert conf["spark.sql.catalog.lakehouse.cache-enabled"] == "false"


@pytest.mark.parametrize("affinity", [True, False])
def test_all_processors_of_this_machine_are_used(affinity: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has no `sched_getaffinity`."""
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    if affinity:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7)), raising=False)
    else:
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert settings_of()["spark.sql.shuffle.partitions"] == "7"
    assert settings_of(master="local[3]")["spark.sql.shuffle.partitions"] == "3"


def test_options_without_a_type_are_added_to_the_embedded_catalog() -> None:
    conf = settings_of(catalog_options={"warehouse": "/elsewhere"})
    assert conf["spark.sql.catalog.lakehouse.type"] == "jdbc"
    assert conf["spark.sql.catalog.lakehouse.warehouse"] == "/elsewhere"


def test_options_with_a_type_are_all_there_is() -> None:
    conf = settings_of(catalog="prod", catalog_options={"type": "rest", "uri": "http://rest"})
    of_catalog = {key: value for key, value in conf.items() if key.startswith("spark.sql.catalog.")}
    assert of_catalog == {
        "spark.sql.catalog.prod": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.prod.type": "rest",
        "spark.sql.catalog.prod.uri": "http://rest",
        # A cache would hide from a session what a stream has written in its own.
        "spark.sql.catalog.prod.cache-enabled": "false",
    }
    asked = settings_of(catalog="prod", catalog_options={"type": "rest", "cache-enabled": True})
    assert asked["spark.sql.catalog.prod.cache-enabled"] == "true"


def test_sqlite_is_fetched_for_the_embedded_catalog_only() -> None:
    embedded = SparkStreamingCredentials(schema="s")
    rest = SparkStreamingCredentials(schema="s", catalog_options={"type": "rest"}, packages=["g:a:1"])
    assert any("sqlite" in coordinate for coordinate in required_packages(embedded))
    assert not any("sqlite" in coordinate for coordinate in required_packages(rest))
    assert required_packages(rest)[-1] == "g:a:1"


def test_packages_may_have_short_names() -> None:
    """What a name excludes goes next to what the profile excludes."""
    found = required_packages(SparkStreamingCredentials(schema="s", packages=["s3", "g:a:1"]))
    assert found[-1] == "g:a:1"
    assert "s3" not in found
    assert f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}" in found
    conf = settings_of(packages=["s3"], server_side_parameters={"spark.jars.excludes": "g:b"})
    assert conf["spark.jars.excludes"] == "software.amazon.awssdk:bundle,g:b"
    kafka = SparkStreamingCredentials(schema="s", packages=["kafka"])
    assert required_packages(kafka)[-1].startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.")
    assert "spark.jars.excludes" not in settings_of(packages=["kafka"])


@pytest.mark.parametrize("package", ["delta", "io.delta:delta-spark_4.1_2.13:4.1.0"])
def test_delta_is_configured_by_its_package(package: str) -> None:
    conf = settings_of(packages=[package], server_side_parameters={"spark.sql.extensions": "a.B"})
    assert conf["spark.sql.extensions"].split(",") == [
        ICEBERG_EXTENSIONS,
        "io.delta.sql.DeltaSparkSessionExtension",
        "a.B",
    ]
    assert conf["spark.sql.catalog.spark_catalog"] == "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    assert conf["spark.jars.excludes"].count("org.apache.hadoop:*") == 1
    mine = settings_of(packages=[package], server_side_parameters={"spark.sql.catalog.spark_catalog": "c.D"})
    assert mine["spark.sql.catalog.spark_catalog"] == "c.D"
    assert "spark.sql.catalog.spark_catalog" not in settings_of(packages=["kafka"])
    with pytest.raises(DbtRuntimeError, match="Give the Iceberg catalog another name"):
        settings_of(packages=[package], catalog="spark_catalog", catalog_options={"type": "hive"})


def test_on_one_machine_no_process_is_started_for_each_file() -> None:
    own = SparkStreamingCredentials(schema="s", server_side_parameters={"spark.hadoop.fs.file.impl": "x.Y"})
    elsewhere = SparkStreamingCredentials(schema="s", master="spark://host:7077")
    key = "spark.hadoop.fs.file.impl"
    assert settings_of()[key].endswith("BareLocalFileSystem")
    assert LOCAL_FILES in required_packages(SparkStreamingCredentials(schema="s"))
    assert spark_settings(own, Storage("/data", lambda: None))[key] == "x.Y"
    # Executors on other machines have other class paths, and a catalog of its own has a file system of its own.
    assert LOCAL_FILES not in required_packages(elsewhere)
    assert key not in spark_settings(elsewhere, Storage("/data", lambda: None))
    assert key not in settings_of(catalog_options={"type": "rest"})


def test_statements_are_explained_at_length_to_a_ui_alone() -> None:
    key = "spark.sql.ui.explainMode"
    assert settings_of()[key] == "simple"
    assert key not in settings_of(server_side_parameters={"spark.ui.enabled": "true"})
    assert settings_of(server_side_parameters={key: "cost"})[key] == "cost"


def test_the_embedded_catalog_needs_a_local_root() -> None:
    with pytest.raises(DbtRuntimeError, match="The storage root s3a://b/x isn't on this machine"):
        settings_of("s3a://b/x")


def test_the_profile_has_the_last_word() -> None:
    conf = settings_of(
        server_side_parameters={"spark.sql.session.timeZone": "Asia/Tokyo", "spark.ui.enabled": True}
    )
    assert conf["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert conf["spark.ui.enabled"] == "true"


def test_extensions_come_beside_icebergs() -> None:
    conf = settings_of(server_side_parameters={"spark.sql.extensions": "a.B,c.D"})
    assert conf["spark.sql.extensions"] == f"{ICEBERG_EXTENSIONS},a.B,c.D"


@pytest.mark.parametrize(
    ("master", "partitions"), [("local[1]", "2"), ("local[6]", "6"), ("local[3,2]", "3")]
)
def test_as_many_shuffle_partitions_as_cores(master: str, partitions: str) -> None:
    assert settings_of(master=master)["spark.sql.shuffle.partitions"] == partitions


def test_a_cluster_keeps_sparks_own_shuffle_partitions() -> None:
    assert "spark.sql.shuffle.partitions" not in settings_of(master="yarn")


@pytest.mark.parametrize(("root", "raw"), [("/shared/spark", True), ("s3a://b/x", False)])
def test_checkpoints_on_a_file_system_have_no_checksums_beside_them(root: str, raw: bool) -> None:
    conf = settings_of(root, master="spark://host:7077", catalog_options={"type": "rest"})
    assert ("spark.hadoop.fs.AbstractFileSystem.file.impl" in conf) is raw
