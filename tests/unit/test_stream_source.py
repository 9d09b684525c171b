"""What sources.yml may say of a stream."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment.file_sources import at_project, create_table, create_view
from dbt.adapters.spark_streaming.relation import SparkStreamingRelation
from dbt.adapters.spark_streaming.stream_source import StreamSource, stream_source
from dbt.adapters.spark_streaming.unreadable import Records


def source(config: Any, event_time: str | None = None) -> StreamSource:
    return StreamSource.from_config("raw.bid", "`spark_catalog`.`raw`.`bid`", config, event_time)


BIDS = {"format": "kafka", "options": {"kafka.bootstrap.servers": "x:9092", "subscribe": "bids"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"a": "INT", "b": "TIMESTAMP"},
        [{"name": "a", "type": "INT"}, {"name": "b", "type": "TIMESTAMP"}],
        [{"name": "a", "data_type": "INT"}, {"name": "b", "data_type": "TIMESTAMP"}],
    ],
)
def test_a_schema_may_be_a_mapping_or_a_list(schema: Any) -> None:
    assert (
        source({"format": "csv", "options": {"path": "x"}, "schema": schema}).schema
        == "`a` INT, `b` TIMESTAMP"
    )


def test_ddl_stays_as_it_is() -> None:
    assert source({"format": "csv", "path": "x", "schema": "a INT"}).schema == "a INT"


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("parquet", "Source raw.bid: 'stream' must be a mapping with 'format' and 'options'"),
        (
            {"fromat": "csv"},
            "Source raw.bid: 'fromat' is not a key of 'stream'. Known keys are: connection, format,",
        ),
        ({"format": ["csv"]}, "Source raw.bid: 'format' must be a name"),
        ({"format": "csv"}, "Source raw.bid: the format csv needs a 'path' under 'options'"),
        (
            {"format": "csv", "options": {"path": "x", "maxFilesPerTriger": 3}},
            "Source raw.bid: 'maxFilesPerTriger' under 'options' is no option of the format csv; did you mean "
            "'maxFilesPerTrigger'?",
        ),
        ({"format": "csv", "options": "x"}, "Source raw.bid: 'options' must be a mapping"),
        ({"format": "kafka", "schema": [{"type": "INT"}]}, "Source raw.bid: 'schema' must be text like"),
        (
            {"format": "kafka", "options": {"subscribe": "bids"}},
            "Source raw.bid: the format kafka needs 'kafka.bootstrap.servers' and one of 'subscribe'",
        ),
        ({**BIDS, "schema": "a INT"}, "Source raw.bid: 'schema' says what is in a message, but not how"),
        ({**BIDS, "value_format": "json"}, "Source raw.bid: 'value_format: json' needs a 'schema'"),
        (
            {**BIDS, "value_format": "avro"},
            "Source raw.bid: 'value_format' is 'avro'; write 'json', or leave",
        ),
        (
            {"format": "json", "path": "x", "on_error": "ignore"},
            "Source raw.bid: 'on_error' is 'ignore'; write one of",
        ),
        (
            {"format": "parquet", "path": "x", "on_error": "drop"},
            "Source raw.bid: 'on_error' is for records of json, csv, xml and for Kafka's messages with",
        ),
        ({**BIDS, "on_error": "drop"}, "Source raw.bid: 'on_error' is for records of"),
        (
            {"format": "csv", "options": {"path": "x", "mode": "FAILFAST"}, "on_error": "drop"},
            "Source raw.bid: its option 'mode: FAILFAST' means 'on_error: fail', and 'on_error' is 'drop'.",
        ),
        (
            {"format": "csv", "options": {"path": "x", "mode": "strict"}},
            "Source raw.bid: the option 'mode' is 'strict'. Leave it out, and write 'on_error'",
        ),
        (
            {"format": "csv", "path": "x", "connection": "crm"},
            "Source raw.bid: 'connection' is 'crm', which is no name under 'connections' in the profile. The target of",
        ),
        (
            {"format": "csv", "path": "x", "value_format": "json"},
            "Source raw.bid: 'value_format' is for Kafka's messages",
        ),
    ],
)
def test_what_means_nothing_is_refused(config: Any, sentence: str) -> None:
    with pytest.raises(DbtRuntimeError, match=re.escape(sentence)):
        source(config)


def test_messages_are_taken_apart_in_batch_too() -> None:
    made = source({**BIDS, "value_format": "json", "schema": "a INT"})
    assert create_table(made).startswith("create table `spark_catalog`.`raw`.`bid` using kafka options (")
    records = Records.of("raw.bid", "kafka", [("a", "int")], made.on_error, {})
    assert records is not None
    view = create_view(made, "raw.messages", records)
    assert view.startswith(
        "create or replace view `spark_catalog`.`raw`.`bid` as select `a` from (select __message.`a`"
    )
    assert "from_json(cast(value as string), '`a` int, `__raw_record` string'" in view


@pytest.mark.parametrize(
    ("mode", "on_error"), [("PERMISSIVE", "warn"), ("failfast", "fail"), ("DropMalformed", "drop")]
)
def test_sparks_mode_says_what_becomes_of_records(mode: str, on_error: str) -> None:
    assert source({"format": "csv", "options": {"path": "x", "mode": mode}}).on_error == on_error


def test_a_record_that_is_kept_is_a_column() -> None:
    kept = {"format": "json", "path": "x", "schema": "a INT", "on_error": "keep_raw"}
    assert source(kept).columns == "a INT, `_raw_record` string"
    named = {**kept, "options": {"columnNameOfCorruptRecord": "bad"}}
    assert source(named).columns == "a INT, `bad` string"


def test_options_are_sparks() -> None:
    made = source({"format": "CSV", "options": {"path": "x", "header": True, "maxFilesPerTrigger": 1}})
    assert made.format == "csv"
    assert made.options == {"path": "x", "header": "true", "maxFilesPerTrigger": "1"}


def test_a_relative_path_starts_at_the_project() -> None:
    made = source({"format": "csv", "path": "data/bids"})
    assert at_project(made, "/project").options["path"] == "/project/data/bids"
    remote = source({"format": "csv", "path": "s3a://bucket/bids"})
    assert at_project(remote, "/project").options["path"] == "s3a://bucket/bids"


def test_the_statement_that_makes_it_readable() -> None:
    made = source({"format": "csv", "options": {"path": "/d'ir", "sep": "\\t"}, "schema": "a INT"})
    assert create_table(made) == (
        r"create table `spark_catalog`.`raw`.`bid` (a INT) using csv options ('sep' '\\t') location '/d\'ir'"
    )


def node(meta: dict[str, Any], event_time: str | None = None) -> Any:
    """What dbt has of a source."""
    return SimpleNamespace(
        database=None,
        schema="raw",
        identifier="bid",
        name="bid",
        source_name="raw",
        quoting_dict={},
        catalog_name=None,
        meta={},
        config=SimpleNamespace(meta=meta, event_time=event_time),
    )


QUOTING = SimpleNamespace(quoting={})


def test_files_are_in_the_sessions_catalog() -> None:
    stream = {"format": "json", "options": {"path": "x"}}
    relation = SparkStreamingRelation.create_from(QUOTING, node({"stream": stream}, "ts"))
    assert str(relation) == "`spark_catalog`.`raw`.`bid`"
    known = stream_source(str(relation))
    assert known is not None
    assert (known.name, known.format, known.event_time) == ("raw.bid", "json", "ts")


def test_a_unit_tests_fixture_is_the_source_it_stands_for() -> None:
    """dbt makes a node of its own of it, without the source's meta, and asks it for the columns."""
    SparkStreamingRelation.create_from(
        QUOTING, node({"stream": {"format": "json", "options": {"path": "x"}}})
    )
    fixture = node({})
    fixture.resource_type = "model"
    assert str(SparkStreamingRelation.create_from(QUOTING, fixture)) == "`spark_catalog`.`raw`.`bid`"
    fixture.source_name = "other"  # in the same schema
    assert str(SparkStreamingRelation.create_from(QUOTING, fixture)) == "raw.bid"


def test_limits_keep_the_name() -> None:
    stream = {"format": "json", "options": {"path": "x"}}
    relation = SparkStreamingRelation.create_from(QUOTING, node({"stream": stream}), limit=0)
    assert str(relation) == "(select * from `spark_catalog`.`raw`.`bid` where false limit 0)"


def test_a_table_is_where_tables_are() -> None:
    relation = SparkStreamingRelation.create_from(QUOTING, node({"stream": {"format": "iceberg"}}))
    assert str(relation) == "raw.bid"
    assert stream_source("raw.bid") is not None


def test_the_older_meta_counts_too() -> None:
    older = node({})
    older.meta = {"stream": {"format": "json", "path": "x"}}
    assert SparkStreamingRelation.create_from(QUOTING, older).declared


def test_other_sources_are_as_before() -> None:
    assert str(SparkStreamingRelation.create_from(QUOTING, node({"owner": "me"}))) == "raw.bid"
