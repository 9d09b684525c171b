"""Writes the connector of a CREATE TABLE as what sources.yml says of a source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import Note, Untranslatable
from .flink_parser import ddl_name
from .intervals import duration
from .script import CreateTable

_FORMATS = ("json", "csv", "parquet", "orc", "avro")
_CSV = {
    "csv.field-delimiter": "sep",
    "csv.quote-character": "quote",
    "csv.escape-character": "escape",
    "csv.null-literal": "nullValue",
}
_SINKS = ("print", "blackhole")
_GENERATORS = ("datagen", "faker", "nexmark")
_SECRET = re.compile(r"security|sasl|ssl|password|username|secret|token")
_STARTS = {"earliest-offset": "earliest", "latest-offset": "latest"}
_PASSED_OVER = re.compile(
    r"sink\.|properties\.group\.id|fields\.|rows-per-second|number-of-rows|.*(-|\.)rate$|scan\.parallelism"
)


@dataclass
class Described:
    """A table's entry in sources.yml."""

    meta: dict[str, Any]
    notes: list[Note] = field(default_factory=list)
    connection: dict[str, str] = field(default_factory=dict)
    """Options for the profile: they may be secrets."""


def described(table: CreateTable, line: int, is_looked_up: bool) -> Described:
    """Returns what sources.yml says of a table.

    Args:
        is_looked_up: whether models read it as a static or an external table.
    """
    left = {name: _with_variables(value) for name, value in table.options.items()}
    made = Described({})
    connector = left.pop("connector", left.pop("connector.type", ""))
    if connector == "jdbc":
        made.meta = {"lookup": _lookup(table, left, made)}
    else:
        stream: dict[str, Any] = {}
        if connector in ("kafka", "upsert-kafka"):
            _kafka(table, left, stream, made, line)
        elif connector == "filesystem":
            _files(table, left, stream, made, line)
        else:
            stream |= {"format": "json", "options": {"path": f"data/{table.name}"}}
            if connector in _GENERATORS:
                what = f"the connector {connector} makes rows up"
                left.clear()
            else:
                what = f"the connector {connector} has no counterpart" if connector else "it has no connector"
            made.notes.append(
                Note(
                    line,
                    f"{table.name} is read from JSON files in data/{table.name}, for {what}. Put rows there, or say in "
                    "sources.yml what it is.",
                )
            )
        if (
            stream.get("value_format", stream["format"]) in _FORMATS
            and table.physical
            and not needs_message(table)
        ):
            stream["schema"] = schema_of(table)
        if table.key and (connector == "upsert-kafka" or is_looked_up):
            stream["unique_key"] = list(table.key)
        if made.connection:
            stream["connection"] = table.name
        made.meta = {"stream": stream}
    if made.connection:
        names = ", ".join(made.connection)
        made.notes.append(
            Note(line, f"{names} of {table.name} go into profiles.yml, under connections: {table.name}.")
        )
    unread = [name for name in left if not _PASSED_OVER.match(name)]
    if unread:
        made.notes.append(
            Note(line, f"{', '.join(unread)} of {table.name} have no counterpart and are left out.")
        )
    return made


def needs_message(table: CreateTable) -> bool:
    """Returns whether a table has columns of the message of Kafka that its value is in."""
    return any(each.metadata for each in table.columns) and "kafka" in table.options.get("connector", "")


def schema_of(table: CreateTable) -> str:
    """Returns the columns of a table's rows as DDL."""
    return ", ".join(f"{ddl_name(each.name)} {each.type}" for each in table.physical)


def _with_variables(text: str) -> str:
    return re.sub(r"\$\{(\w+)\}", r"{{ env_var('\1') }}", text)


def _format(table: CreateTable, left: dict[str, str], made: Described, line: int) -> str:
    """Returns the format of a table's rows."""
    found = left.pop("format", left.pop("value.format", left.pop("format.type", "")))
    left.pop("key.format", None)
    if found not in _FORMATS:
        made.notes.append(
            Note(
                line,
                f"{table.name}: the format {found or '(none)'} isn't read. Write its rows as json, or correct sources.yml.",
            )
        )
    return found


def _errors(left: dict[str, str], format: str) -> dict[str, str]:
    """Returns on_error: Flink stops at a record that it can't read, unless its format ignores errors."""
    ignored = left.pop(
        f"{format}.ignore-parse-errors", left.pop(f"value.{format}.ignore-parse-errors", "false")
    )
    for name in ("timestamp-format.standard", "fail-on-missing-field", "encode.decimal-as-plain-number"):
        left.pop(f"{format}.{name}", None)
    return {"on_error": "warn" if ignored.lower() == "true" else "fail"} if format in ("json", "csv") else {}


def _kafka(
    table: CreateTable, left: dict[str, str], stream: dict[str, Any], made: Described, line: int
) -> None:
    options: dict[str, str] = {}
    for name in [each for each in left if each.startswith("properties.")]:
        if name != "properties.group.id":
            into = made.connection if _SECRET.search(name) else options
            into[name.replace("properties", "kafka", 1)] = left.pop(name)
    if pattern := left.pop("topic-pattern", None):
        options["subscribePattern"] = pattern
    else:
        options["subscribe"] = left.pop("topic", table.name).replace(";", ",")
    mode = left.pop("scan.startup.mode", "group-offsets")
    if mode in _STARTS:
        options["startingOffsets"] = _STARTS[mode]
    elif mode == "timestamp":
        options["startingTimestamp"] = left.pop("scan.startup.timestamp-millis", "")
    elif stream.get("format") is None and "upsert" not in table.options["connector"]:
        made.notes.append(
            Note(
                line,
                f"{table.name} begins with the oldest messages, not by scan.startup.mode {mode}. Set startingOffsets in "
                "sources.yml if that is wrong.",
            )
        )
    stream |= {"format": "kafka", "options": options}
    format = _format(table, left, made, line)
    if format == "json" and not needs_message(table):
        stream |= {"value_format": "json", **_errors(left, format)}
    if "upsert" in table.options["connector"]:
        made.notes.append(
            Note(
                line,
                f"{table.name}: a message without a value (a tombstone) doesn't delete the row of its key.",
            )
        )


def _files(
    table: CreateTable, left: dict[str, str], stream: dict[str, Any], made: Described, line: int
) -> None:
    format = _format(table, left, made, line)
    options = {"path": left.pop("path", left.pop("connector.path", f"data/{table.name}"))}
    options |= {ours: left.pop(name) for name, ours in _CSV.items() if name in left}
    left.pop("source.monitor-interval", None)
    stream |= {
        "format": format if format in _FORMATS else "json",
        "options": options,
        **_errors(left, format),
    }


def _lookup(table: CreateTable, left: dict[str, str], made: Described) -> dict[str, Any]:
    found: dict[str, Any] = {"url": left.pop("url", "")}
    if name := left.pop("table-name", None):
        found["dbtable"] = name
    if driver := left.pop("driver", None):
        found["driver"] = driver
    for flink, ours in (("username", "user"), ("password", "password")):
        if flink in left:
            made.connection[ours] = left.pop(flink)
    for flink in ("lookup.partial-cache.expire-after-write", "lookup.cache.ttl"):
        if flink in left:
            found["cache_ttl"] = _duration(left.pop(flink))
    if retries := left.pop("lookup.max-retries", None):
        found["retries"] = int(retries)
    for flink in ("lookup.cache", "lookup.cache.max-rows", "lookup.partial-cache.max-rows"):
        left.pop(flink, None)
    if made.connection:
        found["connection"] = table.name
    return found


def _duration(text: str) -> str:
    try:
        return duration(text)
    except Untranslatable:
        return text


def is_only_sink(options: Mapping[str, str]) -> bool:
    """Returns whether a connector takes rows and gives none."""
    return options.get("connector") in _SINKS
