# ruff: noqa: E501
"""Connectors of CREATE TABLE as entries of sources.yml."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dbt.adapters.spark_streaming.sources.stream_source import DeclaredSource
from dbt.adapters.spark_streaming.translate.project import Translation, translate

COLUMNS = "id INT, `the name` STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '0.5' SECOND"


def translated(options: str, columns: str = COLUMNS, more: str = "") -> Translation:
    return translate(
        f"CREATE TABLE t ({columns}) WITH ({options}) {more}; INSERT INTO s SELECT id FROM t;", "x"
    )


def config(made: Translation) -> dict[str, Any]:
    tables = yaml.safe_load(made.files["models/sources.yml"])["sources"][0]["tables"]
    return dict(tables[0]["config"])


@pytest.mark.parametrize(
    ("options", "stream"),
    [
        (
            "'connector' = 'kafka', 'topic' = 'a;b', 'properties.bootstrap.servers' = '${HOST}:1', 'format' = 'json', "
            "'scan.startup.mode' = 'latest-offset', 'json.ignore-parse-errors' = 'true', 'properties.group.id' = 'g'",
            {
                "format": "kafka",
                "options": {
                    "kafka.bootstrap.servers": "{{ env_var('HOST') }}:1",
                    "subscribe": "a,b",
                    "startingOffsets": "latest",
                },
                "value_format": "json",
                "on_error": "warn",
            },
        ),
        (
            "'connector' = 'filesystem', 'path' = 'file:///in', 'format' = 'csv', 'csv.field-delimiter' = ';'",
            {"format": "csv", "options": {"path": "file:///in", "sep": ";"}, "on_error": "fail"},
        ),
        (
            "'connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet', 'source.monitor-interval' = '1 s'",
            {"format": "parquet", "options": {"path": "in"}},
        ),
        (
            "'connector' = 'datagen', 'rows-per-second' = '5'",
            {"format": "json", "options": {"path": "data/t"}},
        ),
        ("'connector' = 'hbase-2.2'", {"format": "json", "options": {"path": "data/t"}}),
    ],
)
def test_streams(options: str, stream: dict[str, Any]) -> None:
    found = config(translated(options))
    assert found["event_time"] == "ts"
    expected = {**stream, "schema": "id int, `the name` string, ts timestamp"}
    assert found["meta"]["stream"] == expected
    DeclaredSource.from_config("flink.t", "flink.t", found["meta"]["stream"], "ts")


def test_secrets_are_in_the_profile() -> None:
    made = translated(
        "'connector' = 'kafka', 'topic' = 'a', 'format' = 'json', 'properties.sasl.jaas.config' = 'user \"me\" password \"secret\"'"
    )
    assert "secret" not in "".join(text for path, text in made.files.items() if path != "profiles.yml")
    assert config(made)["meta"]["stream"]["connection"] == "t"
    assert "DBT_ENV_SECRET_T_KAFKA_SASL_JAAS_CONFIG" in made.files["profiles.yml"]
    assert 'password "secret"' not in made.files["profiles.yml"]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("'connector' = 'filesystem', 'path' = 's3a://KEY:hidden@bucket/in', 'format' = 'json'", "PATH"),
        ("'connector' = 'filesystem', 'path' = 's3a://${KEY}:hidden@bucket/in', 'format' = 'json'", "PATH"),
        (
            "'connector' = 'kafka', 'topic' = 'a', 'format' = 'json', 'properties.basic.auth.user-info' = 'me:hidden'",
            "KAFKA_BASIC_AUTH_USER_INFO",
        ),
        (
            "'connector' = 'kafka', 'topic' = 'a', 'format' = 'json', 'properties.registry' = 'https://me:hidden@registry'",
            "KAFKA_REGISTRY",
        ),
    ],
)
def test_what_has_secrets_by_its_name_or_its_value_is_in_the_profile(options: str, name: str) -> None:
    made = translated(options)
    assert not [path for path, text in made.files.items() if "hidden" in text]
    assert config(made)["meta"]["stream"]["connection"] == "t"
    assert f"DBT_ENV_SECRET_T_{name}" in made.files["profiles.yml"]


def test_a_lookup() -> None:
    made = translate(
        """CREATE TABLE o (id INT, p AS PROCTIME()) WITH ('connector' = 'datagen');
CREATE TABLE c (id INT, name STRING) WITH ('connector' = 'jdbc', 'url' = 'jdbc:mysql://h/d', 'table-name' = 'cust', 'username' = 'me',
'password' = 'secret', 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.expire-after-write' = '10 min', 'lookup.max-retries' = '5');
SELECT o.id, c.name FROM o LEFT JOIN c FOR SYSTEM_TIME AS OF o.p AS c ON c.id = o.id;""",
        "x",
    )
    tables = yaml.safe_load(made.files["models/sources.yml"])["sources"][0]["tables"]
    assert {each["name"]: each for each in tables}["c"]["config"]["meta"]["lookup"] == {
        "url": "jdbc:mysql://h/d",
        "dbtable": "cust",
        "cache_ttl": "10 minutes",
        "retries": 5,
        "connection": "c",
    }
    assert "LEFT JOIN {{ source('flink', 'c') }} AS c" in made.files["models/query_1.sql"]


def test_columns_of_the_message() -> None:
    made = translated(
        "'connector' = 'kafka', 'topic' = 'a', 'format' = 'json'",
        "id INT, k AS id * 2, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, WATERMARK FOR at AS at",
    )
    text = " ".join(made.files["models/t.sql"].split())
    assert "FROM_JSON(CAST(value AS STRING), 'id int', MAP('mode', 'FAILFAST')) AS message" in text
    assert (
        "SELECT *, id * 2 AS `k` FROM ( SELECT `message`.`id`, CAST(timestamp AS TIMESTAMP) AS `at`" in text
    )
    assert "event_time='at'" in text
    assert "value_format" not in config(made)["meta"]["stream"]


def test_csv_in_messages_is_parsed_in_a_model() -> None:
    """A source takes JSON out of messages only; a record that isn't CSV of the columns stops the stream, as in Flink."""
    options = "'connector' = 'kafka', 'topic' = 'a', 'format' = 'csv', 'csv.field-delimiter' = ';'"
    made = translated(options)
    text = " ".join(made.files["models/t.sql"].split())
    assert "{{ config(materialized='streaming_table', event_time='ts') }}" in text
    assert (
        "SELECT `message`.`id`, `message`.`the name`, `message`.`ts` FROM ( SELECT *, FROM_CSV( CAST(value AS STRING), "
        "'id int, `the name` string, ts timestamp', MAP('mode', 'FAILFAST', 'sep', ';') ) AS message" in text
    )
    assert config(made) == {
        "meta": {"stream": {"format": "kafka", "options": {"subscribe": "a"}}},
    }
    assert not any("csv" in note.text for note in made.notes)
    lenient = translated(f"{options}, 'csv.ignore-parse-errors' = 'true'").files["models/t.sql"]
    assert "FAILFAST" not in lenient


@pytest.mark.parametrize("format", ["avro", "parquet", "debezium-json"])
def test_other_formats_of_messages_are_said(format: str) -> None:
    made = translated(f"'connector' = 'kafka', 'topic' = 'a', 'format' = '{format}'")
    assert any(f"the format {format} isn't read" in note.text for note in made.notes)


def test_options_of_before_flink_1_11() -> None:
    old = translated(
        "'connector.type' = 'kafka', 'connector.version' = 'universal', 'connector.topic' = 'a', "
        "'connector.startup-mode' = 'earliest-offset', 'connector.properties.0.key' = 'bootstrap.servers', "
        "'connector.properties.0.value' = 'h:1', 'connector.properties.group.id' = 'g', 'update-mode' = 'append', "
        "'format.type' = 'json', 'format.derive-schema' = 'true'"
    )
    new = translated(
        "'connector' = 'kafka', 'topic' = 'a', 'scan.startup.mode' = 'earliest-offset', "
        "'properties.bootstrap.servers' = 'h:1', 'format' = 'json'"
    )
    assert config(old) == config(new)
    assert old.notes == new.notes


@pytest.mark.parametrize("connector", ["mysql-cdc", "postgres-cdc"])
def test_rows_of_a_table_of_changes_replace_each_other(connector: str) -> None:
    made = translated(f"'connector' = '{connector}'", "id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED")
    assert config(made)["meta"]["stream"]["unique_key"] == ["id"]


def test_a_table_like_another() -> None:
    made = translate(
        f"""CREATE TABLE a ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = 'a', 'format' = 'json');
CREATE TABLE b (more INT) WITH ('path' = 'b') LIKE a (EXCLUDING WATERMARKS);
SELECT more, id FROM b;""",
        "x",
    )
    found = config(made)
    assert "event_time" not in found
    assert found["meta"]["stream"]["options"] == {"path": "b"}
    assert found["meta"]["stream"]["schema"].endswith("ts timestamp, more int")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "'connector' = 'kafka', 'topic' = 'a', 'format' = 'debezium-json'",
            "the format debezium-json isn't read",
        ),
        ("'connector' = 'kafka', 'topic' = 'a', 'format' = 'json'", "not by scan.startup.mode group-offsets"),
        ("'connector' = 'hbase-2.2'", "the connector hbase-2.2 has no counterpart"),
        (
            "'connector' = 'filesystem', 'path' = 'a', 'format' = 'json', 'odd.option' = '1'",
            "odd.option of t have no counterpart",
        ),
        (
            "'connector' = 'upsert-kafka', 'topic' = 'a', 'value.format' = 'json'",
            "doesn't delete the row of its key",
        ),
        (
            "'connector' = 'filesystem', 'path' = 'a', 'format' = 'json', 'json.fail-on-missing-field' = 'true'",
            "json.fail-on-missing-field of t have no counterpart",
        ),
        (
            "'connector' = 'filesystem', 'path' = 'a', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true'",
            "t: a record that can't be read at all is a row of NULLs",
        ),
    ],
)
def test_what_has_no_counterpart_is_said(options: str, said: str) -> None:
    assert any(said in note.text and note.line == 1 for note in translated(options).notes)


def test_a_number_of_retries_may_be_a_variable() -> None:
    made = translate(
        "CREATE TABLE t (id INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:x', 'lookup.max-retries' = '${RETRIES}'); "
        "INSERT INTO s SELECT id FROM t;",
        "x",
    )
    assert config(made)["meta"]["lookup"]["retries"] == "{{ env_var('RETRIES') }}"


@pytest.mark.parametrize(
    ("options", "metadata", "said"),
    [
        (
            "'connector' = 'filesystem', 'path' = 'a', 'format' = 'json'",
            "file.path",
            "t has no metadata column file.path here",
        ),
        (
            "'connector' = 'kafka', 'topic' = 'a', 'format' = 'json'",
            "headers",
            "t has no metadata column headers here",
        ),
    ],
)
def test_metadata_that_is_not_there_is_said(options: str, metadata: str, said: str) -> None:
    made = translated(options, f"id INT, m STRING METADATA FROM '{metadata}'")
    assert any(said in note.text and note.line == 1 for note in made.notes)


def test_no_secret_is_copied() -> None:
    """Not from a URL, a hint, or a statement that becomes a comment."""
    made = translate(
        """CREATE TABLE t (id INT, p AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');
CREATE TABLE c (id INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:mysql://h/d?user=me&password=hidden', 'table-name' = 'c');
CREATE TEMPORARY TABLE IF NOT EXISTS d (id FROBNICATE) WITH ('connector' = 'jdbc', 'password' = 'hidden');
CREATE TABLE e (id INT, n INT) WITH ('connector' = 'jdbc', 'password' = 'hidden') AS SELECT id FROM t;
INSERT INTO s SELECT t.id FROM t /*+ OPTIONS('properties.sasl.password'='hidden') */
JOIN c FOR SYSTEM_TIME AS OF t.p ON c.id = t.id;""",
        "x",
    )
    assert not [path for path, text in made.files.items() if "hidden" in text]
    assert not [note for note in made.notes if "hidden" in str(note)]
    tables = yaml.safe_load(made.files["models/sources.yml"])["sources"][0]["tables"]
    lookup = {each["name"]: each for each in tables}["c"]["config"]["meta"]["lookup"]
    assert lookup == {"dbtable": "c", "connection": "c"}
    output = yaml.safe_load(made.files["profiles.yml"])["x"]["outputs"]["dev"]
    assert output["connections"] == {"c": {"url": "{{ env_var('DBT_ENV_SECRET_C_URL', '') }}"}}


def test_a_table_of_changes_with_metadata_is_refused() -> None:
    """A source takes the columns out of messages and has a key, or has the messages and their metadata."""
    made = translated(
        "'connector' = 'upsert-kafka', 'topic' = 'a', 'value.format' = 'json'",
        "id INT, at TIMESTAMP(3) METADATA FROM 'timestamp', PRIMARY KEY (id) NOT ENFORCED",
    )
    assert (
        "Not translated, line 1: t is of upsert-kafka and has metadata columns" in made.files["models/t.sql"]
    )
    assert "it reads t, which is disabled" in made.files["models/s.sql"]
