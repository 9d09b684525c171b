"""Sources that `sources.yml` declares as streams: files, Kafka, or a table with options."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from ..util.paths import expand_home
from ..util.quoting import quote
from ..util.redaction import is_secret, redact_by_form, register_secrets, without_secrets, yaml_kind
from ..util.settings import (
    COLUMNS,
    SettingInfo,
    ValueType,
    as_options,
    is_columns,
    mapping_type,
    one_of_type,
    setting_names,
    text_type,
)
from ..util.text import did_you_mean
from . import file_options, messages, profile_connections, source_tables, unreadable
from .limits import without_limits

ICEBERG = "iceberg"
"""Format of a source that is an Iceberg table. It has a catalog, schema and name, like any table in dbt."""

KAFKA = "kafka"

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")
_OF_LENGTH = re.compile(
    r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\b((?:character|char|varchar)\s*\(\s*\d+\s*\))",
    re.IGNORECASE,
)

FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "avro", "xml")

_COLUMNS = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "type": {"type": "string"},
                    "data_type": {"type": "string"},
                },
            },
        },
    ]
}

SETTINGS = (
    SettingInfo("format", one_of_type(ICEBERG, KAFKA, *FILE_FORMATS), "format of the rows", ICEBERG),
    SettingInfo(
        "options",
        mapping_type("{path: data/orders}"),
        "Spark's options of the format. Files need `path`; a relative one starts at the project",
    ),
    SettingInfo("path", text_type("write a folder"), "another place for the option `path`"),
    SettingInfo(
        "schema",
        ValueType("text, mapping, or list", _COLUMNS),
        "columns and types: text as in `CREATE TABLE`, a mapping, or a list of `name` and `type`. `CHAR(n)` and "
        "`VARCHAR(n)` are read as `STRING`",
        default_text="found in the files",
    ),
    SettingInfo(
        "unique_key",
        COLUMNS,
        "a row replaces the earlier one with the same key "
        "([Upsert sources](../guides/changelogs.md#sources-with-a-unique_key))",
    ),
    SettingInfo(
        "value_format",
        one_of_type("json"),
        "Kafka: format of the messages' values, with a `schema`. Without it you get `key`, `value`, `topic`, `partition`, "
        "`offset`, `timestamp`",
    ),
    SettingInfo(
        "on_error",
        one_of_type(*unreadable.ON_ERROR),
        "what happens to [records that can't be read](#records-that-cant-be-read)",
        unreadable.WARN,
    ),
    SettingInfo(
        "connection",
        text_type("write the name of a connection"),
        "options from the profile under this name ([Secrets](#secrets))",
    ),
)
"""Keys of ``meta.stream`` of a source. `tests.reference_pages` generates the reference and the editors' JSON schemas."""

KEYS = setting_names(SETTINGS)


@dataclass(frozen=True)
class DeclaredSource:
    """A source that a stream reads."""

    name: str
    """``source.table``, for messages."""
    relation: str
    """The source's name in SQL."""
    format: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark's options of the format, ``path`` among them. They may hold secrets."""
    schema: str | None = None
    """The columns as DDL, ``a INT, b TIMESTAMP``; None if Spark infers them."""
    event_time: str | None = None
    value_format: str | None = None
    """Format of Kafka's message values: ``json``, with `schema`. None if they stay bytes."""
    unique_key: tuple[str, ...] = ()
    on_error: str = unreadable.WARN
    """Handling of unreadable records: one of `unreadable.ON_ERROR`."""

    identity: str = ""
    """``package.source.table``: two packages may have sources of one name."""

    @property
    def columns(self) -> str | None:
        """The columns of its rows as DDL; None if Spark infers them."""
        if self.schema is None or self.on_error != unreadable.KEEP_RAW:
            return self.schema
        raw = quote(unreadable.raw_column(self.options) or unreadable.RAW_RECORD)
        return f"{self.schema}, {raw} string"

    @property
    def read_settings(self) -> dict[str, object]:
        """Everything that affects the rows or columns read, as JSON without secrets."""
        options = {
            name: "" if is_secret(name) else redact_by_form(value)
            for name, value in without_limits(self.options).items()
        }
        return {
            "format": self.format,
            "options": options,
            "schema": self.schema,
            "value_format": self.value_format,
            "on_error": self.on_error,
        }

    @property
    def is_table(self) -> bool:
        """Whether the source is an existing Iceberg table, not files or messages."""
        return self.format == ICEBERG

    @property
    def is_files(self) -> bool:
        """Whether the source is a folder of files."""
        return self.format in FILE_FORMATS

    @classmethod
    def from_config(
        cls, name: str, relation: str, config: Any, event_time: str | None = None
    ) -> DeclaredSource:
        """Parses the ``stream`` mapping of a source's ``meta``.

        Raises:
            DbtRuntimeError: a key or a value is invalid. The message names it and the source.
        """
        _check_keys(name, config)
        format = _source_format(name, config.get("format"))
        options = _source_options(name, format, config)
        schema, value_format = _schema_ddl(name, config.get("schema")), config.get("value_format")
        _check_columns(name, format, options, schema, value_format)
        if event_time is not None and not (isinstance(event_time, str) and event_time.strip()):
            raise DbtRuntimeError(
                f"Source {name}: config 'event_time' is {event_time!r}; write the name of its column, or leave it out."
            )
        kind = value_format if format == KAFKA else format
        return cls(
            name=name,
            relation=relation,
            format=format,
            options=options,
            schema=schema,
            event_time=event_time,
            value_format=value_format,
            unique_key=_key_columns(name, config.get("unique_key")),
            on_error=_error_handling(name, kind, config.get("on_error"), options),
        )


def _check_keys(name: str, config: Any) -> None:
    if not isinstance(config, Mapping):
        raise DbtRuntimeError(
            f"Source {name}: 'stream' must be a mapping with 'format' and 'options', not {yaml_kind(config)}."
        )
    for key in config:
        if key not in KEYS:
            raise DbtRuntimeError(
                f"Source {name}: '{key}' is not a key of 'stream'{did_you_mean(key, KEYS)} "
                f"Known keys are: {', '.join(sorted(KEYS))}."
            )


def _source_format(name: str, value: Any) -> str:
    """Returns a source's format in lower case."""
    if value is None:
        return ICEBERG
    if not isinstance(value, str):
        raise DbtRuntimeError(f"Source {name}: 'format' must be a name such as parquet, not {value!r}.")
    if value.lower() not in (ICEBERG, KAFKA, *FILE_FORMATS):
        raise DbtRuntimeError(f"Source {name}: {_unknown_format_message(value)}")
    return value.lower()


def _source_options(name: str, format: str, config: Mapping[str, Any]) -> dict[str, str]:
    """Returns a source's options for Spark, with those of its connection."""
    given = {} if config.get("options") is None else config["options"]
    if not isinstance(given, Mapping):
        raise DbtRuntimeError(
            f"Source {name}: 'options' must be a mapping of names to values, not {yaml_kind(given)}."
        )
    profile_connections.warn_of_secrets(name, given)
    found = profile_connections.override_connection(
        profile_connections.connection_options(name, config.get("connection")),
        as_options(given),
    )
    if (path := config.get("path")) is not None:
        if not isinstance(path, str):
            raise DbtRuntimeError(f"Source {name}: 'path' is {path!r}; write a folder.")
        if (other := given.get("path", path)) != path:
            raise DbtRuntimeError(
                f"Source {name}: 'path' is given twice, as '{path}' and under 'options' as '{other}'; keep one of them."
            )
        found["path"] = path
    if format in FILE_FORMATS:
        shown = config["format"]
        if not found.get("path", "").strip():
            raise DbtRuntimeError(
                f"Source {name}: the format {shown} needs a 'path' under 'options': the folder of its files."
            )
        for option, value in given.items():
            if problem := file_options.yaml_text_problem(str(option), value):
                raise DbtRuntimeError(f"Source {name}: '{option}' under 'options' {problem}")
        if problem := file_options.encoding_problem(format, found):
            raise DbtRuntimeError(f"Source {name}: 'encoding' under 'options' {problem}")
        for option, like in file_options.misspelt_options(format, found).items():
            raise DbtRuntimeError(
                f"Source {name}: '{option}' under 'options' is no option of the format {shown}; did you mean '{like}'?"
            )
    for option, known in file_options.unread_options(format, found).items():
        raise DbtRuntimeError(f"Source {name}: {_unread_option_message(format, option, known)}")
    # Spark's other XML parser returns the whole file for an unreadable record.
    return {"useLegacyXMLParser": "true", **found} if format == "xml" else found


def _check_columns(
    name: str, format: str, options: Mapping[str, str], schema: str | None, value_format: Any
) -> None:
    """Raises if columns are declared that a source of this format can't have."""
    if format == KAFKA:
        if problem := messages.kafka_options_problem(options, value_format, schema):
            raise DbtRuntimeError(f"Source {name}: {problem}")
    elif value_format is not None:
        raise DbtRuntimeError(f"Source {name}: 'value_format' is for Kafka's messages; leave it out.")
    elif schema is not None and format == ICEBERG:
        raise DbtRuntimeError(
            f"Source {name}: 'schema' is for files and Kafka's messages; an Iceberg table has its own columns. "
            "Leave it out."
        )


def _error_handling(name: str, format: str | None, value: Any, options: Mapping[str, str]) -> str:
    """Returns the handling of unreadable records, which Spark's option `mode` may also set."""
    mode = file_options.by_lower_name(options).get("mode")
    if value is not None and value not in unreadable.ON_ERROR:
        raise DbtRuntimeError(
            f"Source {name}: 'on_error' is {without_secrets(repr(value))}; write one of {', '.join(unreadable.ON_ERROR)}."
        )
    if format not in unreadable.FORMATS:
        if value is not None:
            raise DbtRuntimeError(
                f"Source {name}: 'on_error' is for records of {', '.join(unreadable.FORMATS)} and for Kafka's messages with "
                "'value_format: json'; leave it out."
            )
        return unreadable.WARN
    if mode is None:
        return value or unreadable.WARN
    if mode.lower() not in unreadable.MODES:
        raise DbtRuntimeError(
            f"Source {name}: the option 'mode' is {mode!r}. Leave it out, and write 'on_error' next to 'options': "
            f"one of {', '.join(unreadable.ON_ERROR)}."
        )
    same = unreadable.MODES[mode.lower()]
    if value not in (None, same):
        raise DbtRuntimeError(
            f"Source {name}: its option 'mode: {mode}' means 'on_error: {same}', and 'on_error' is '{value}'. Leave 'mode' "
            "out."
        )
    return same


_OTHER_TABLES = {"delta": "Delta", "hudi": "Hudi"}


def _unknown_format_message(format: str) -> str:
    """Returns why a source can't be read as a stream in this format, and what to write instead."""
    formats = (ICEBERG, KAFKA, *FILE_FORMATS)
    known = f"Formats are {', '.join(formats)}."
    proposal = did_you_mean(format, formats)
    if (tables := _OTHER_TABLES.get(format.lower())) is None:
        return f"its 'format' is {without_secrets(repr(format))}, which can't be read as a stream{proposal} {known}"
    return (
        f"its 'format' is {format}, and {tables} tables aren't read as streams. Leave 'stream' out to read the table in "
        "batch; for a stream, have an incremental model copy new rows to an Iceberg table, and read that. "
        f"{known}"
    )


_WITHOUT_EFFECT = {
    "branch": "a stream reads the table's main branch; to read another one, make a table of it",
    "tag": "a stream follows the table's main branch, and a tag doesn't move",
    "path": "the table is the one that the source's 'schema' and 'identifier' name",
}
"""Option of a table → why a stream doesn't read it."""


def _unread_option_message(format: str, option: str, known: Sequence[str]) -> str:
    """Returns why a stream of a format doesn't read an option, and what to write instead."""
    what = "an Iceberg table" if format == "iceberg" else "Kafka"
    why = _WITHOUT_EFFECT.get(option.lower()) if format == "iceberg" else None
    problem = f"'{option}' under 'options' isn't read by a stream of {what}"
    if why is not None:
        return f"{problem}: {why}. Leave it out."
    return f"{problem}, so it would have no effect. Leave it out; the options there are: {', '.join(dict.fromkeys(known))}."


def _schema_ddl(name: str, schema: Any) -> str | None:
    """Returns columns as DDL, from DDL, a mapping, or dbt's list of columns."""
    if schema is None:
        return None
    if isinstance(schema, str) and schema.strip():
        return _without_lengths(schema)
    columns: list[tuple[Any, Any]]
    if isinstance(schema, Mapping):
        columns = list(schema.items())
    elif isinstance(schema, list) and all(isinstance(column, Mapping) for column in schema):
        columns = [(column.get("name"), column.get("type", column.get("data_type"))) for column in schema]
    else:
        columns = [(None, None)]
    if not columns or not all(isinstance(part, str) and part for column in columns for part in column):
        raise DbtRuntimeError(
            f"Source {name}: 'schema' must be text like 'a INT, b TIMESTAMP', a mapping of columns to types, or a "
            f"list of columns with 'name' and 'type'; it is {without_secrets(repr(schema))}."
        )
    return _without_lengths(", ".join(f"{quote(column)} {type_}" for column, type_ in columns))


def _without_lengths(schema: str) -> str:
    """Replaces types CHAR(n) and VARCHAR(n) in DDL by STRING: Spark's readers don't support them.

    >>> _without_lengths("a CHAR(3), `b char(3)` varchar ( 10 ) COMMENT 'no char(1)', c struct<d: Varchar(2)>")
    "a STRING, `b char(3)` STRING COMMENT 'no char(1)', c struct<d: STRING>"
    """
    return _OF_LENGTH.sub(lambda found: "STRING" if found[1] else found[0], schema)


def _key_columns(name: str, value: Any) -> tuple[str, ...]:
    """Returns the key columns of a source; empty if it declares none."""
    if value is None:
        return ()
    if not is_columns(value):
        raise DbtRuntimeError(
            f"Source {name}: 'unique_key' is {without_secrets(repr(value))}; write a column or a list of columns."
        )
    return (value,) if isinstance(value, str) else tuple(value)


class _Registry:
    """The declared sources of one dbt run."""

    def __init__(self) -> None:
        self.by_relation: dict[str, DeclaredSource] = {}
        self.by_schema: dict[str, DeclaredSource] = {}
        """Name of the schema that is made for a source → the source. Sources that are Iceberg tables have none."""
        self.names: dict[str, str] = {}
        """Schema name without the digest of what is read → ``source.table``."""
        self.conflicts: dict[str, str] = {}
        """Relation → why two sources with this table conflict."""

    def add(self, source: DeclaredSource) -> None:
        other = self.by_relation.get(source.relation)
        if other is not None and other.identity != source.identity:
            if problem := _conflict_message(other, source):
                self.conflicts[source.relation] = problem
        self.by_relation[source.relation] = source
        for schema in source_tables.schemas_in(source.relation):
            self.by_schema[schema] = source
            self.names[source_tables.without_read_digest(schema)] = source.name


def _conflict_message(one: DeclaredSource, other: DeclaredSource) -> str | None:
    """Returns why two sources that are one table can't both be streams; None if they agree."""
    keys = ("event_time", "unique_key", "options", "format", "schema")
    if not (differ := [key for key in keys if getattr(one, key) != getattr(other, key)]):
        return None
    return (
        f"Sources {one.name} and {other.name} are the same table {one.relation}, and sources.yml says different things of "
        f"it ({', '.join(differ)}). Say the same of both, or keep one of them."
    )


_registry = _Registry()
_lock = threading.Lock()
_root: Path | None = None


def set_project_root(project_root: str | Path) -> None:
    """Sets the project folder that relative paths of sources start at. Called before dbt reads the sources."""
    global _root
    _root = Path(project_root)


def project_root() -> Path | None:
    """Returns the folder that relative paths of sources start at; None if no project was read."""
    return _root


def forget_sources() -> None:
    """Clears the sources of an earlier dbt run in this process."""
    global _registry
    with _lock:
        _registry = _Registry()


def register(source: DeclaredSource) -> None:
    """Registers a source for this run."""
    register_secrets(source.options)
    with _lock:
        _registry.add(source)


def stream_source(relation: str) -> DeclaredSource | None:
    """Returns the source that SQL names `relation`; None if none is declared as a stream.

    Raises:
        DbtRuntimeError: two sources are this table and differ.
    """
    if problem := _registry.conflicts.get(relation):
        raise DbtRuntimeError(problem)
    return _registry.by_relation.get(relation)


def source_with_identity(identity: str) -> DeclaredSource | None:
    """Returns the declared source of an identity such as ``shop.raw.orders``; None if there is none."""
    with _lock:
        return next((each for each in _registry.by_schema.values() if each.identity == identity), None)


def all_sources() -> list[DeclaredSource]:
    """Returns the declared sources of this run."""
    with _lock:
        return list(_registry.by_schema.values())


def sources_in(text: str) -> list[DeclaredSource]:
    """Returns the declared sources whose tables a text names."""
    known = _registry.by_schema
    return [known[schema] for schema in source_tables.schemas_in(text) if schema in known]


def name_declared_earlier(text: str) -> str | None:
    """Returns the first source in a text that was declared otherwise when its table was named; None if there is none."""
    known = _registry
    for schema in source_tables.schemas_in(text):
        if schema not in known.by_schema:
            return known.names.get(source_tables.without_read_digest(schema), schema)
    return None


def with_declared_names(text: str) -> str:
    """Returns a text with declared sources under their names in `sources.yml`, ``source.table``."""
    return source_tables.rename_tables(text, _registry.names.get)


def with_absolute_path(source: DeclaredSource, project_root: str | Path) -> DeclaredSource:
    """Returns the source with an absolute path, independent of the working directory."""
    path = source.options.get("path")
    if path is None or _SCHEME.match(path):
        return source
    absolute = (Path(project_root) / expand_home(path)).resolve()
    return replace(source, options={**source.options, "path": str(absolute)})
