"""What `sources.yml` says of a source that is a stream: files, Kafka, or a table with options."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from . import file_options, messages, profile_connections, unreadable
from .redaction import kind_of, remember, without_secrets
from .stream.identifiers import quoted

KEYS = ("format", "options", "path", "schema", "value_format", "unique_key", "on_error", "connection")

# A source in one of these is a table of its catalog, which dbt refers to as to any other.
TABLE_FORMATS = ("iceberg", "delta")

KAFKA = "kafka"

FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "avro", "xml")


@dataclass(frozen=True)
class StreamSource:
    """A source as a stream reads it."""

    name: str
    """``source.table``, for messages."""
    relation: str
    """How SQL refers to it."""
    format: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark's options of the format, ``path`` among them. They may hold secrets."""
    schema: str | None = None
    """The columns as DDL, ``a INT, b TIMESTAMP``; None where Spark finds them."""
    event_time: str | None = None
    value_format: str | None = None
    """How Kafka's messages are written: ``json``, with `schema`. None: they stay as they are."""
    unique_key: tuple[str, ...] = ()
    on_error: str = unreadable.WARN
    """What becomes of records that can't be read: one of `unreadable.ON_ERROR`."""

    @property
    def columns(self) -> str | None:
        """The columns of its rows as DDL; None where Spark finds them."""
        if self.schema is None or self.on_error != unreadable.KEEP_RAW:
            return self.schema
        raw = quoted(unreadable.raw_column(self.options) or unreadable.RAW_RECORD)
        return f"{self.schema}, {raw} string"

    @property
    def is_table(self) -> bool:
        """Whether it is a table of a catalog, not something that is declared by `sources.yml`."""
        return self.format in TABLE_FORMATS

    @property
    def is_files(self) -> bool:
        """Whether it is a folder of files."""
        return self.format in FILE_FORMATS

    @classmethod
    def from_config(
        cls, name: str, relation: str, config: Any, event_time: str | None = None
    ) -> StreamSource:
        """Read the ``stream`` mapping of a source's ``meta``.

        Raises:
            DbtRuntimeError: a key or a value that means nothing, named with the source.
        """
        if not isinstance(config, Mapping):
            raise DbtRuntimeError(
                f"Source {name}: 'stream' must be a mapping with 'format' and 'options', not {kind_of(config)}."
            )
        for key in config:
            if key not in KEYS:
                raise DbtRuntimeError(
                    f"Source {name}: '{key}' is not a key of 'stream'. Known keys are: {', '.join(sorted(KEYS))}."
                )
        format = config.get("format", "iceberg")
        if not isinstance(format, str):
            raise DbtRuntimeError(f"Source {name}: 'format' must be a name such as parquet, not {format!r}.")
        options = config.get("options") or {}
        if not isinstance(options, Mapping):
            raise DbtRuntimeError(
                f"Source {name}: 'options' must be a mapping of names to values, not {kind_of(options)}."
            )
        profile_connections.warn_of_secrets(name, options)
        texts = profile_connections.below(
            profile_connections.options_of(name, config.get("connection")),
            {str(key): _text(value) for key, value in options.items()},
        )
        if "path" in config:
            texts["path"] = str(config["path"])
        if format.lower() in FILE_FORMATS and "path" not in texts:
            raise DbtRuntimeError(
                f"Source {name}: the format {format} needs a 'path' under 'options': the folder of its files."
            )
        if format.lower() in FILE_FORMATS:
            for option, like in file_options.misspelt(format.lower(), texts).items():
                raise DbtRuntimeError(
                    f"Source {name}: '{option}' under 'options' is no option of the format {format}; did you mean '{like}'?"
                )
        if format.lower() == "xml":
            # The other one gives a whole file for a record that can't be read.
            texts = {"useLegacyXMLParser": "true", **texts}
        schema, value_format = _schema(name, config.get("schema")), config.get("value_format")
        if format.lower() == KAFKA:
            if problem := messages.problem(texts, value_format, schema):
                raise DbtRuntimeError(f"Source {name}: {problem}")
        elif value_format is not None:
            raise DbtRuntimeError(f"Source {name}: 'value_format' is for Kafka's messages; leave it out.")
        kind = value_format if format.lower() == KAFKA else format.lower()
        return cls(
            name=name,
            relation=relation,
            format=format.lower(),
            options=texts,
            schema=schema,
            event_time=event_time,
            value_format=value_format,
            unique_key=_names(config.get("unique_key")),
            on_error=_on_error(name, kind, config.get("on_error"), texts),
        )


def _on_error(name: str, format: str | None, value: Any, options: Mapping[str, str]) -> str:
    """What becomes of records that can't be read, which Spark's option `mode` may say as well."""
    mode = next((text for option, text in options.items() if option.lower() == "mode"), None)
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
            f"Source {name}: the option 'mode' is {mode!r}. Leave it out, and write 'on_error' beside 'options': one of "
            f"{', '.join(unreadable.ON_ERROR)}."
        )
    same = unreadable.MODES[mode.lower()]
    if value not in (None, same):
        raise DbtRuntimeError(
            f"Source {name}: its option 'mode: {mode}' means 'on_error: {same}', and 'on_error' is '{value}'. Leave 'mode' "
            "out."
        )
    return same


def _schema(name: str, schema: Any) -> str | None:
    """Columns as DDL, from DDL, a mapping, or dbt's list of columns."""
    if schema is None or isinstance(schema, str):
        return schema
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
    return ", ".join(f"{quoted(column)} {type_}" for column, type_ in columns)


def _names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def _text(value: Any) -> str:
    """A value as Spark's options have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


_known: dict[str, StreamSource] = {}
_lock = threading.Lock()


def register(source: StreamSource) -> None:
    """Make a source known to this process."""
    remember(source.options)
    with _lock:
        _known[source.relation] = source


def stream_source(relation: str) -> StreamSource | None:
    """The source that SQL refers to as `relation`; None if there is none that says it is a stream."""
    return _known.get(relation)


def known_sources() -> list[StreamSource]:
    """All sources of this process that say they are streams."""
    with _lock:
        return list(_known.values())
