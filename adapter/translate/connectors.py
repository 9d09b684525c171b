"""Translates the connector of a CREATE TABLE to the entry of a source in sources.yml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlglot import exp

from ..util.redaction import has_secrets
from .errors import Notes, Untranslatable
from .files import SourceTable
from .flink_parser import ddl_name
from .intervals import duration_text
from .script import Column, CreateTable

_FORMATS = ("json", "csv", "parquet", "orc", "avro")
_CSV = {
    "csv.field-delimiter": "sep",
    "csv.quote-character": "quote",
    "csv.escape-character": "escape",
    "csv.null-literal": "nullValue",
}
_RENAMED = {
    "connector.type": "connector",
    "connector.startup-mode": "scan.startup.mode",
    "connector.table": "table-name",
    "format.type": "format",
    "format.field-delimiter": "csv.field-delimiter",
    "format.quote-character": "csv.quote-character",
    "format.escape-character": "csv.escape-character",
    "format.null-literal": "csv.null-literal",
}
"""Option of Flink before 1.11 → its name since. Other options of a connector only lost the prefix ``connector.``."""
_PREFIX_OF_VALUES = re.compile(r"^value\.(?=format$|[\w-]+\.)")
_OBSOLETE = ("connector.version", "format.derive-schema", "update-mode")
_LISTED_PROPERTY = re.compile(r"connector\.properties\.(\d+)\.key")
SINKS = ("print", "blackhole")
"""Connectors that can only be written."""
_METADATA = ("topic", "partition", "offset", "timestamp")
"""Flink's metadata of Kafka's messages that Spark has under the same name."""
_GENERATORS = ("datagen", "faker", "nexmark")
_SECRET = re.compile(r"security|sasl|ssl|password|username|secret|token")
_STARTING_OFFSETS = {"earliest-offset": "earliest", "latest-offset": "latest"}
_IGNORED = re.compile(
    r"sink\.|properties\.group\.id|fields\.|rows-per-second|number-of-rows|.*(-|\.)rate$|scan\.parallelism"
)


def current_options(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a table under their names in Flink 1.11 and later. Options of the format of values lose the
    prefix ``value.``.

    >>> current_options({"connector.type": "kafka", "connector.properties.zookeeper.connect": "z", "update-mode": "append"})
    {'connector': 'kafka', 'properties.zookeeper.connect': 'z'}
    >>> current_options({"connector.properties.0.key": "group.id", "connector.properties.0.value": "g"})
    {'properties.group.id': 'g'}
    >>> current_options({"value.format": "json", "value.json.ignore-parse-errors": "true"})
    {'format': 'json', 'json.ignore-parse-errors': 'true'}
    >>> current_options({"value.debezium-json.ignore-parse-errors": "true", "value.fields-include": "ALL"})
    {'debezium-json.ignore-parse-errors': 'true', 'value.fields-include': 'ALL'}
    >>> current_options({"connector": "kafka-0.11", "format.ignore-parse-errors": "true", "format": "csv"})
    {'connector': 'kafka', 'csv.ignore-parse-errors': 'true', 'format': 'csv'}
    """
    format = options.get("format", options.get("format.type", ""))
    found = {}
    for name, value in options.items():
        if listed := _LISTED_PROPERTY.fullmatch(name):
            found[f"properties.{value}"] = options.get(f"connector.properties.{listed[1]}.value", "")
        elif name == "format.ignore-parse-errors":
            found[f"{format}.ignore-parse-errors"] = value
        elif name not in _OBSOLETE and not re.fullmatch(r"connector\.properties\.\d+\.value", name):
            found[_PREFIX_OF_VALUES.sub("", _RENAMED.get(name, name.removeprefix("connector.")))] = value
    if "connector" in found:
        found["connector"] = re.sub(r"^kafka-0\.1\d$", "kafka", found["connector"])
    return found


def needs_parsing(table: CreateTable) -> bool:
    """Returns whether a model has to parse a table's columns from Kafka's messages, because a source can't."""
    connector = table.options.get("connector", "")
    if any(each.metadata for each in table.columns) and "kafka" in connector:
        return True
    return connector == "kafka" and table.options.get("format") == "csv"


def unknown_metadata(table: CreateTable) -> list[Column]:
    """Returns the metadata columns that a source doesn't have."""
    known = _METADATA if "kafka" in table.options.get("connector", "") else ()
    return [each for each in table.columns if each.metadata is not None and each.metadata not in known]


def parsed_value_expression(table: CreateTable) -> exp.Expr:
    """Returns the expression that parses the value of a Kafka message."""
    options = table.options
    format = options.get("format", "")
    ignored = options.get(f"{format}.ignore-parse-errors", "")
    settings = {} if ignored.lower() == "true" else {"mode": "FAILFAST"}
    if format == "csv":
        settings |= {ours: options[name] for name, ours in _CSV.items() if name in options}
    arguments = [exp.cast(exp.column("value"), "string"), exp.Literal.string(schema_ddl(table))]
    if settings:
        pairs = [exp.Literal.string(each) for pair in settings.items() for each in pair]
        arguments.append(exp.Anonymous(this="map", expressions=pairs))
    return exp.Anonymous(this="from_csv" if format == "csv" else "from_json", expressions=arguments)


def schema_ddl(table: CreateTable) -> str:
    """Returns the columns of a table's rows as DDL."""
    return ", ".join(f"{ddl_name(each.name)} {each.type}" for each in table.physical)


def _with_variables(text: str) -> str:
    """Replaces variables of a script, ``${NAME}``, by environment variables in Jinja."""
    return re.sub(r"\$\{(\w+)\}", r"{{ env_var('\1') }}", text)


class TableConnector:
    """The connector of a table. `_left` holds the options that haven't been translated yet.

    Args:
        notes: gets a note on each option that has no translation, or one to check.
    """

    def __init__(self, table: CreateTable, notes: Notes) -> None:
        self._table, self._notes = table, notes
        self._left = {name: _with_variables(value) for name, value in table.options.items()}
        self._connection: dict[str, str] = {}

    def source_entry(self, is_looked_up: bool) -> SourceTable:
        """Returns the entry of a table in sources.yml.

        Args:
            is_looked_up: whether models read it as a static or an external table.
        """
        table = self._table
        connector = self._take_option("connector")
        if connector == "jdbc":
            meta: dict[str, Any] = {"lookup": self._lookup_settings()}
        else:
            stream = self._stream_settings(connector)
            is_parsed = stream.get("value_format", stream["format"]) in _FORMATS
            if is_parsed and table.physical and not needs_parsing(table):
                stream["schema"] = schema_ddl(table)
            if table.key and (connector == "upsert-kafka" or connector.endswith("-cdc") or is_looked_up):
                stream["unique_key"] = list(table.key)
            if self._connection:
                stream["connection"] = table.name
            meta = {"stream": stream}
        if self._connection:
            names = ", ".join(self._connection)
            self._note(f"{names} of {table.name} go into profiles.yml, under connections: {table.name}.")
        unread = [name for name in self._left if not _IGNORED.match(name)]
        if unread:
            self._note(f"{', '.join(unread)} of {table.name} have no counterpart and are left out.")
        time = table.watermark[0] if table.watermark else None
        is_in_rows = time in {each.name for each in table.physical} and not needs_parsing(table)
        return SourceTable(meta, time if is_in_rows else None, self._connection)

    def _take_option(self, name: str, default: str = "") -> str:
        return self._left.pop(name, default)

    def _move_option(self, name: str, ours: str, options: dict[str, Any], default: str = "") -> None:
        """Moves an option to `options` under Spark's name, or to the profile's options if it holds or is about a secret."""
        is_about_secrets = ours.startswith("kafka.") and _SECRET.search(ours) is not None
        is_in_profile = is_about_secrets or has_secrets({ours: self._table.options.get(name, "")})
        (self._connection if is_in_profile else options)[ours] = self._take_option(name, default)

    def _note(self, text: str) -> None:
        self._notes.add(self._table.line, text)

    def _stream_settings(self, connector: str) -> dict[str, Any]:
        if connector in ("kafka", "upsert-kafka"):
            return self._kafka_settings()
        if connector == "filesystem":
            return self._file_settings()
        if connector in _GENERATORS:
            why = f"the connector {connector} generates rows"
            self._left.clear()
        else:
            why = f"the connector {connector} has no counterpart" if connector else "it has no connector"
        name = self._table.name
        self._note(
            f"{name} is read from JSON files in data/{name}, because {why}. Put rows there, or correct sources.yml."
        )
        return {"format": "json", "options": {"path": f"data/{name}"}}

    def _checked_format(self, known: Sequence[str] = _FORMATS) -> str:
        """Returns the format of the table's rows, with a note unless it is known."""
        found = self._take_option("format")
        self._take_option("key.format")
        if found not in known:
            self._note(
                f"{self._table.name}: the format {found or '(none)'} isn't read. Write its rows as json, or correct "
                "sources.yml."
            )
        return found

    def _error_settings(self, format: str) -> dict[str, str]:
        """Returns the setting `on_error`: Flink stops at a record that it can't read, unless its format ignores errors."""
        is_ignored = self._take_option(f"{format}.ignore-parse-errors").lower() == "true"
        if self._left.get(f"{format}.fail-on-missing-field", "").lower() != "true":
            self._take_option(f"{format}.fail-on-missing-field")
        for name in ("timestamp-format.standard", "encode.decimal-as-plain-number"):
            self._take_option(f"{format}.{name}")
        if format not in ("json", "csv"):
            return {}
        if is_ignored:
            self._note(
                f"{self._table.name}: a record that can't be read at all is a row of NULLs, and Flink leaves it out. Filter "
                "such rows."
            )
        return {"on_error": "warn" if is_ignored else "fail"}

    def _kafka_settings(self) -> dict[str, Any]:
        table, options = self._table, dict[str, str]()
        for name in [each for each in self._left if each.startswith("properties.")]:
            if name != "properties.group.id":
                self._move_option(name, name.replace("properties", "kafka", 1), options)
        if pattern := self._take_option("topic-pattern"):
            options["subscribePattern"] = pattern
        else:
            options["subscribe"] = self._take_option("topic", table.name).replace(";", ",")
        is_upsert = "upsert" in table.options["connector"]
        mode = self._take_option("scan.startup.mode", "group-offsets")
        if mode in _STARTING_OFFSETS:
            options["startingOffsets"] = _STARTING_OFFSETS[mode]
        elif mode == "timestamp":
            options["startingTimestamp"] = self._take_option("scan.startup.timestamp-millis")
        elif not is_upsert:
            self._note(
                f"{table.name} begins with the oldest messages, not by scan.startup.mode {mode}. Set startingOffsets in "
                "sources.yml if that is wrong."
            )
        stream: dict[str, Any] = {"format": "kafka", "options": options}
        is_message = needs_parsing(table)
        format = self._checked_format(("json", "csv") if is_message else ("json",))
        errors = self._error_settings(format)
        if is_message:
            for name in _CSV:
                self._take_option(name)
        elif format == "json":
            stream |= {"value_format": "json", **errors}
        if is_upsert:
            self._note(
                f"{table.name}: a message without a value (a tombstone) doesn't delete the row of its key."
            )
        return stream

    def _file_settings(self) -> dict[str, Any]:
        format = self._checked_format()
        options = dict[str, str]()
        self._move_option("path", "path", options, f"data/{self._table.name}")
        options |= {ours: self._take_option(name) for name, ours in _CSV.items() if name in self._left}
        self._take_option("source.monitor-interval")
        known = format if format in _FORMATS else "json"
        return {"format": known, "options": options, **self._error_settings(format)}

    def _lookup_settings(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._move_option("url", "url", found)
        if name := self._take_option("table-name"):
            found["dbtable"] = name
        if driver := self._take_option("driver"):
            found["driver"] = driver
        for flink, ours in (("username", "user"), ("password", "password")):
            if flink in self._left:
                self._connection[ours] = self._take_option(flink)
        for flink in ("lookup.partial-cache.expire-after-write", "lookup.cache.ttl"):
            if flink in self._left:
                found["cache_ttl"] = self._take_option(flink)
                with suppress(Untranslatable):
                    found["cache_ttl"] = duration_text(found["cache_ttl"])
        if retries := self._take_option("lookup.max-retries"):
            found["retries"] = int(retries) if retries.isdigit() else retries
        for flink in ("lookup.cache", "lookup.cache.max-rows", "lookup.partial-cache.max-rows"):
            self._take_option(flink)
        if self._connection:
            found["connection"] = self._table.name
        return found
