"""What sources.yml may say of a stream."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment.file_sources import create_table_sql, create_view_sql
from dbt.adapters.spark_streaming.relation import SparkStreamingRelation
from dbt.adapters.spark_streaming.sources import stream_source as registry
from dbt.adapters.spark_streaming.sources.source_tables import without_read_digest
from dbt.adapters.spark_streaming.sources.stream_source import (
    DeclaredSource,
    stream_source,
    with_absolute_path,
    with_declared_names,
)
from dbt.adapters.spark_streaming.sources.unreadable import Records


def source(config: Any, event_time: str | None = None) -> DeclaredSource:
    return DeclaredSource.from_config("raw.bid", "`spark_catalog`.`raw`.`bid`", config, event_time)


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
            "Source raw.bid: 'fromat' is not a key of 'stream'; did you mean 'format'? Known keys are: connection, format,",
        ),
        ({"format": ["csv"]}, "Source raw.bid: 'format' must be a name"),
        (
            {"format": "Delta", "options": {"path": "x"}},
            "Source raw.bid: its 'format' is Delta, and Delta tables aren't read as streams. Leave 'stream' out to read the",
        ),
        (
            {"format": "rate"},
            "Source raw.bid: its 'format' is 'rate', which can't be read as a stream. Formats are iceberg, kafka, parquet,",
        ),
        ({"format": "csv"}, "Source raw.bid: the format csv needs a 'path' under 'options'"),
        (
            {"format": "csv", "path": "a", "options": {"path": "b"}},
            "Source raw.bid: 'path' is given twice, as 'a' and under 'options' as 'b'; keep one of them.",
        ),
        (
            {"format": "csv", "options": {"path": "x", "maxFilesPerTriger": 3}},
            "Source raw.bid: 'maxFilesPerTriger' under 'options' is no option of the format csv; did you mean "
            "'maxFilesPerTrigger'?",
        ),
        (
            {"format": "csv", "options": {"path": "x", "nullValue": None}},
            "Source raw.bid: 'nullValue' under 'options' is null, which YAML makes of NULL, ~ and what begins with #.",
        ),
        (
            {"format": "xml", "options": {"path": "x", "rowtag": True}},
            "Source raw.bid: 'rowtag' under 'options' is true, which YAML makes of YES, ON and TRUE. Put the text in",
        ),
        (
            {"format": "csv", "options": {"path": "x", "encoding": "UTF-16"}},
            "Source raw.bid: 'encoding' under 'options' is UTF-16, in which Spark doesn't find the ends of lines: write "
            "'multiLine: true' next to it.",
        ),
        (
            {"format": "json", "options": {"path": "x", "lineSep": ""}},
            "Source raw.bid: 'lineSep' under 'options' is empty: dbt drops a line break at the end of a text.",
        ),
        (
            {"options": {"branch": "audit"}},
            "Source raw.bid: 'branch' under 'options' isn't read by a stream of an Iceberg table: a stream reads the "
            "table's main branch;",
        ),
        (
            {"options": {"snapshot-id": 7}},
            "'snapshot-id' under 'options' isn't read by a stream of an Iceberg",
        ),
        (
            {"path": "x"},
            "Source raw.bid: 'path' under 'options' isn't read by a stream of an Iceberg table: the",
        ),
        (
            {"options": {"streaming-max-row-per-micro-batch": 7}},
            "would have no effect. Leave it out; the options there are: streaming-max-rows-per-micro-batch, ",
        ),
        (
            {**BIDS, "options": {**BIDS["options"], "endingOffsets": "latest"}},  # type: ignore[dict-item]
            "Source raw.bid: 'endingOffsets' under 'options' isn't read by a stream of Kafka, so it would have no "
            "effect.",
        ),
        (
            {"schema": "a INT"},
            "Source raw.bid: 'schema' is for files and Kafka's messages; an Iceberg table has its own columns.",
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


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("format", ["", [], False]),
        ("options", ["", [], False, 0]),
        ("schema", ["", " ", [], {}, False]),
        ("unique_key", ["", " ", [], {}, False, 5, [""], {"a": 1}]),
        ("on_error", ["", [], False]),
        ("connection", ["", [], False]),
        ("path", ["", " ", ["/in"], 5]),
    ],
)
def test_what_is_empty_is_given(key: str, values: list[Any]) -> None:
    config = {"format": "csv", "path": "/in", "schema": "a int"}
    without = {name: value for name, value in config.items() if name != key}
    if key not in ("format", "path"):
        assert source({**config, key: None}) == source(without)
    for value in values:
        with pytest.raises(DbtRuntimeError, match=f"Source raw.bid: .*{key}"):
            source({**config, key: value})


def test_an_option_or_a_format_that_is_none_is_not_given() -> None:
    assert source({"format": None, "options": {"locality": None}}) == source({})


@pytest.mark.parametrize("value", ["", [], 5, True, ["ts"]])
def test_an_event_time_is_a_column(value: Any) -> None:
    with pytest.raises(DbtRuntimeError, match=r"config 'event_time' is .*; write the name of its column"):
        source({}, value)


def test_messages_are_taken_apart_in_batch_too() -> None:
    made = source({**BIDS, "value_format": "json", "schema": "a INT"})
    assert create_table_sql(made, "abc").startswith(
        "create table if not exists `spark_catalog`.`raw`.`bid` using kafka options ("
    )
    records = Records.of_source("raw.bid", "kafka", [("a", "int")], made.on_error, {})
    assert records is not None
    view = create_view_sql(made, "raw.messages", records, "abc")
    assert view.startswith(
        "create view if not exists `spark_catalog`.`raw`.`bid` tblproperties ('dbt_spark_streaming.source' = 'abc') as "
        "select `a` from (select if(__plain, __message.`a`, __row.record.`a`) as `a`"
    )
    assert "from_json(__value, '`a` int, `__raw_record` string'" in view
    assert "cast(value as string) as __value" in view


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
    assert with_absolute_path(made, "/project").options["path"] == "/project/data/bids"
    remote = source({"format": "csv", "path": "s3a://bucket/bids"})
    assert with_absolute_path(remote, "/project").options["path"] == "s3a://bucket/bids"


def test_the_statement_that_makes_it_readable() -> None:
    made = source({"format": "csv", "options": {"path": "/d'ir", "sep": "\\t"}, "schema": "a INT"})
    assert create_table_sql(made, "abc") == (
        r"create table if not exists `spark_catalog`.`raw`.`bid` (a INT) using csv options ('sep' '\\t') location '/d\'ir' "
        "tblproperties ('dbt_spark_streaming.source' = 'abc')"
    )


@pytest.fixture(autouse=True)
def no_other_run() -> Any:
    """Sources of a run are forgotten with it."""
    registry.forget_sources()
    yield
    registry.forget_sources()


def node(
    meta: dict[str, Any],
    event_time: str | None = None,
    name: str = "bid",
    source_name: str = "raw",
    package: str = "shop",
) -> Any:
    """What dbt has of a source."""
    return SimpleNamespace(
        database=None,
        schema="raw",
        identifier=name,
        name=name,
        source_name=source_name,
        package_name=package,
        quoting_dict={},
        catalog_name=None,
        meta={},
        config=SimpleNamespace(meta=meta, event_time=event_time),
    )


QUOTING = SimpleNamespace(quoting={})


def made(config: dict[str, Any], **said: Any) -> str:
    """How SQL names a source."""
    return str(SparkStreamingRelation.create_from(QUOTING, node({"stream": config}, **said)))


OWN = re.compile(r"`spark_catalog`\.`dbt_source_raw_[0-9a-f]{8}_[0-9a-f]{8}`\.`bid`")


def test_files_have_a_table_of_their_own_in_the_sessions_catalog() -> None:
    relation = made({"format": "json", "options": {"path": "x"}}, event_time="ts")
    assert OWN.fullmatch(relation)
    known = stream_source(relation)
    assert known is not None
    assert (known.name, known.format, known.event_time) == ("raw.bid", "json", "ts")


FOLDER = {"format": "csv", "options": {"path": "/eu", "header": True}, "schema": "a INT"}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (FOLDER, {"source_name": "other"}),
        (FOLDER, {"package": "another"}),
        (FOLDER, {"name": "Bid"}),
        ({**FOLDER, "options": {"path": "/us", "header": True}}, {}),
        ({**FOLDER, "options": {"path": "/eu", "header": False}}, {}),
        ({**FOLDER, "schema": "a BIGINT"}, {}),
        ({**FOLDER, "format": "json"}, {}),
    ],
)
def test_a_source_is_what_it_reads(config: Any, said: dict[str, Any]) -> None:
    one, other = made(FOLDER), made(config, **said)
    assert one.lower() != other.lower()
    first, second = stream_source(one), stream_source(other)
    assert first is not None
    assert second is not None
    assert (first.options["path"], second.format) == ("/eu", config["format"])


def test_a_folder_belongs_to_its_project(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for root in ("/home/a", "/home/b"):
        monkeypatch.setattr(registry, "_root", None)
        registry.set_project_root(root)
        names.append(made({"format": "json", "path": "data"}))
    assert names[0] != names[1]
    assert stream_source(names[0]).options["path"] == "/home/a/data"


def test_limits_and_secrets_make_no_other_source() -> None:
    one = made(FOLDER)
    assert made({**FOLDER, "options": {**FOLDER["options"], "maxFilesPerTrigger": 1}}) == one  # type: ignore[dict-item]
    topics = [made({**BIDS, "options": {**BIDS["options"], "kafka.sasl.jaas.config": jaas}}) for jaas in "ab"]  # type: ignore[dict-item]
    assert topics[0] == topics[1]


def test_messages_have_the_authors_name() -> None:
    relation = made(FOLDER)
    for text in (relation, relation.replace("`", ""), without_read_digest(relation)):
        assert with_declared_names(f"no column {text}.ts here") == "no column raw.bid.ts here"
    assert with_declared_names("`spark_catalog`.`raw`.`bid`") == "`spark_catalog`.`raw`.`bid`"


def test_another_run_has_its_own_sources() -> None:
    relation = made(FOLDER)
    registry.forget_sources()
    assert stream_source(relation) is None


def test_two_declarations_of_one_table_say_the_same_of_it() -> None:
    made({"format": "iceberg"}, event_time="ts")
    made({"format": "iceberg"}, event_time="ts", source_name="other")
    assert stream_source("raw.bid") is not None
    made({"format": "iceberg", "unique_key": "id"}, event_time="ts", source_name="third")
    with pytest.raises(
        DbtRuntimeError, match=r"are the same table raw\.bid, and sources\.yml .* \(unique_key\)"
    ):
        stream_source("raw.bid")


def test_a_unit_tests_fixture_is_the_source_it_stands_for() -> None:
    """dbt makes a node of its own of it, without the source's meta, and asks it for the columns."""
    relation = made({"format": "json", "options": {"path": "x"}})
    fixture = node({})
    fixture.resource_type = "model"
    assert str(SparkStreamingRelation.create_from(QUOTING, fixture)) == relation
    fixture.source_name = "other"  # in the same schema
    assert str(SparkStreamingRelation.create_from(QUOTING, fixture)) == "raw.bid"


def test_limits_keep_the_name() -> None:
    stream = {"format": "json", "options": {"path": "x"}}
    relation = SparkStreamingRelation.create_from(QUOTING, node({"stream": stream}), limit=0)
    assert str(relation) == f"(select * from {made(stream)} where false limit 0)"


def test_a_table_is_where_tables_are() -> None:
    relation = SparkStreamingRelation.create_from(QUOTING, node({"stream": {"format": "iceberg"}}))
    assert str(relation) == "raw.bid"
    assert stream_source("raw.bid") is not None


def test_the_older_meta_counts_too() -> None:
    older = node({})
    older.meta = {"stream": {"format": "json", "path": "x"}}
    assert SparkStreamingRelation.create_from(QUOTING, older).source_table


def test_other_sources_are_as_before() -> None:
    assert str(SparkStreamingRelation.create_from(QUOTING, node({"owner": "me"}))) == "raw.bid"


@pytest.mark.parametrize(
    "schema",
    [
        "a CHAR(2), b varchar( 10 )",
        {"a": "char(2)", "b": "VARCHAR(10)"},
        [{"name": "a", "type": "Char(2)"}, {"name": "b", "data_type": "string"}],
    ],
)
def test_texts_of_a_length_are_texts(schema: object) -> None:
    config = {"format": "json", "path": "/in", "schema": schema}
    found = DeclaredSource.from_config("raw.events", "raw.events", config).schema
    assert found is not None and found.replace("`", "").lower() == "a string, b string"
