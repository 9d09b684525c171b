"""What a profile may say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.credentials import SETTINGS, SparkStreamingCredentials


def credentials(**profile: Any) -> SparkStreamingCredentials:
    """As dbt makes them of a profile."""
    data = SparkStreamingCredentials.translate_aliases(profile)
    SparkStreamingCredentials.validate(data)
    return SparkStreamingCredentials.from_dict(data)


@pytest.mark.parametrize("name", [each.name for each in SETTINGS if each.name != "schema"])
def test_a_key_without_a_value_is_not_given(name: str) -> None:
    """Such as 'server_side_parameters:' with comments below."""
    assert credentials(**{"schema": "s", name: None}) == credentials(schema="s")


def test_a_schema_is_enough() -> None:
    made = credentials(schema="shop")
    assert (made.method, made.host, made.master) == ("session", "local", "local[*]")
    assert made.file_format == "iceberg"
    assert made.database is None
    assert made.is_local


def test_dbt_validates_what_it_made() -> None:
    made = credentials(schema="shop")
    SparkStreamingCredentials.validate(made.to_dict(omit_none=True))


@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        ({}, "The profile needs a 'schema'"),
        (
            {"schema": "s", "sotrage_root": "x"},
            "'sotrage_root' is not a key of a spark_streaming profile; did",
        ),
        # dbt-spark's, for ways to run Spark that are not ours
        ({"schema": "s", "token": "t"}, "'token' is not a key"),
        ({"schema": "s", "method": "thrift"}, "'thrift' is not a method"),
        ({"schema": "s", "method": "connect"}, "'method: connect' needs a 'host' that starts with sc://"),
        (
            {"schema": "s", "host": "sc://h:15002"},
            "'host: sc://h:15002' means nothing with 'method: session'",
        ),
        ({"schema": "s", "catalog": "my-catalog"}, "'catalog: my-catalog' is not a name"),
        (
            {"schema": "s", "packages": ["sqlite"]},
            "those look like group:artifact:version. Short names are kafka, avro, delta and s3",
        ),
        ({"schema": "s", "packages": "a:b:1"}, "'packages' in the profile must be a list"),
        (
            {"schema": "s", "server_side_parameters": []},
            "'server_side_parameters' in the profile must be a mapping",
        ),
        (
            {"schema": "s", "server_side_parameters": {"spark": {"driver": {"memory": "4g"}}}},
            "'spark' in 'server_side_parameters' of the profile is a mapping, and must be one value",
        ),
        (
            {"schema": "s", "catalog_options": {"type": ["rest"]}},
            "'type' in 'catalog_options' of the profile is a list, and must be one value",
        ),
        ({"schema": "s", "master": 4}, "'master' in the profile must be text, not 4"),
        # Of an environment variable that isn't set. The storage root would be the project's folder.
        (
            {"schema": "s", "storage_root": ""},
            "'storage_root' in the profile must be text, not an empty text",
        ),
        (
            {"schema": "s", "server_side_parameters": {"spark.sql.caseSensitive": True}},
            "'spark.sql.caseSensitive' can't be true",
        ),
    ],
)
def test_what_means_nothing_is_refused(profile: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DbtRuntimeError, match=re.escape(sentence)):
        credentials(**profile)


def test_ansi_is_off_unless_the_profile_says_otherwise() -> None:
    key = "spark.sql.ansi.enabled"
    assert credentials(schema="s").server_side_parameters[key] == "false"
    assert credentials(schema="s", server_side_parameters={key: True}).server_side_parameters[key] == "true"
    assert credentials(schema="s", server_side_parameters={key: "TRUE"}).server_side_parameters[key] == "true"


def test_yaml_values_become_sparks() -> None:
    made = credentials(
        schema="s",
        server_side_parameters={
            "spark.ui.enabled": True,
            "spark.sql.shuffle.partitions": 7,
            "spark.driver.memory": None,
        },
        catalog_options={"type": "rest", "cache-enabled": False, "warehouse": None},
    )
    assert "spark.driver.memory" not in made.server_side_parameters
    assert made.server_side_parameters["spark.ui.enabled"] == "true"
    assert made.server_side_parameters["spark.sql.shuffle.partitions"] == "7"
    assert made.catalog_options == {"type": "rest", "cache-enabled": "false"}


def test_a_relative_folder_starts_at_the_project(tmp_path: Path) -> None:
    made = credentials(schema="s", storage_root="kept/here", cache_dir="jars")
    made.resolve_paths(tmp_path)
    assert (made.storage_root, made.cache_dir) == (str(tmp_path / "kept" / "here"), str(tmp_path / "jars"))
    made.resolve_paths("/elsewhere")
    assert (made.storage_root, made.cache_dir) == (str(tmp_path / "kept" / "here"), str(tmp_path / "jars"))


def test_another_file_system_stays_as_it_is() -> None:
    made = credentials(schema="s", storage_root="s3a://bucket/dbt")
    made.resolve_paths("/project")
    assert made.storage_root == "s3a://bucket/dbt"


def test_dbt_debug_shows_no_secrets() -> None:
    made = credentials(
        schema="x",
        method="connect",
        host="sc://spark:15002/;token=swordfish;user_id=me",
        storage_root="s3a://AKIA:swordfish@bucket/root",
    )
    shown = dict(made.connection_info())
    assert shown["host"] == "sc://spark:15002/;token=***;user_id=me"
    assert shown["storage_root"] == "s3a://***@bucket/root"
    with pytest.raises(DbtRuntimeError) as raised:
        credentials(schema="x", catalog_options=["password=swordfish"])
    assert raised.value.msg == (
        "'catalog_options' in the profile must be a mapping of the catalog's options to values, not a list."
    )
