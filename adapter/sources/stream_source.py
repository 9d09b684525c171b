"""What `sources.yml` says of a source that is a stream: files, Kafka, or a table with options."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from ..util.quoting import quote
from ..util.redaction import is_secret, kind_of, remember, without_recognised, without_secrets
from . import file_options, messages, profile_connections, source_tables, unreadable
from .limits import without_limits

KEYS = ("format", "options", "path", "schema", "value_format", "unique_key", "on_error", "connection")

ICEBERG = "iceberg"
"""A source in this format is a table of its catalog, which dbt refers to as to any other."""

KAFKA = "kafka"

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")
_OF_LENGTH = re.compile(
    r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\b((?:character|char|varchar)\s*\(\s*\d+\s*\))",
    re.IGNORECASE,
)

FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "avro", "xml")


@dataclass(frozen=True)
class DeclaredSource:
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

    identity: str = ""
    """``package.source.table``: two packages may have sources of one name."""

    @property
    def columns(self) -> str | None:
        """The columns of its rows as DDL; None where Spark finds them."""
        if self.schema is None or self.on_error != unreadable.KEEP_RAW:
            return self.schema
        raw = quote(unreadable.raw_column(self.options) or unreadable.RAW_RECORD)
        return f"{self.schema}, {raw} string"

    @property
    def reads(self) -> dict[str, object]:
        """What is read, as JSON without secrets: sources that differ here have other rows, or others of their columns."""
        options = {
            name: "" if is_secret(name) else without_recognised(value)
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
        """Whether it is a table of a catalog, not something that is declared by `sources.yml`."""
        return self.format == ICEBERG

    @property
    def is_files(self) -> bool:
        """Whether it is a folder of files."""
        return self.format in FILE_FORMATS

    @classmethod
    def from_config(
        cls, name: str, relation: str, config: Any, event_time: str | None = None
    ) -> DeclaredSource:
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
        format = "iceberg" if config.get("format") is None else config["format"]
        if not isinstance(format, str):
            raise DbtRuntimeError(f"Source {name}: 'format' must be a name such as parquet, not {format!r}.")
        if format.lower() not in (ICEBERG, KAFKA, *FILE_FORMATS):
            raise DbtRuntimeError(f"Source {name}: {_unknown(format)}")
        options = {} if config.get("options") is None else config["options"]
        if not isinstance(options, Mapping):
            raise DbtRuntimeError(
                f"Source {name}: 'options' must be a mapping of names to values, not {kind_of(options)}."
            )
        profile_connections.warn_of_secrets(name, options)
        texts = profile_connections.below(
            profile_connections.options_of(name, config.get("connection")),
            {str(key): _text(value) for key, value in options.items() if value is not None},
        )
        if (path := config.get("path")) is not None:
            texts["path"] = str(path)
        if format.lower() in FILE_FORMATS and not texts.get("path", "").strip():
            raise DbtRuntimeError(
                f"Source {name}: the format {format} needs a 'path' under 'options': the folder of its files."
            )
        if format.lower() in FILE_FORMATS:
            for option, like in file_options.misspelt(format.lower(), texts).items():
                raise DbtRuntimeError(
                    f"Source {name}: '{option}' under 'options' is no option of the format {format}; did you mean '{like}'?"
                )
        for option, known in file_options.unread(format.lower(), texts).items():
            raise DbtRuntimeError(f"Source {name}: {_unread(format.lower(), option, known)}")
        if format.lower() == "xml":
            # The other one gives a whole file for a record that can't be read.
            texts = {"useLegacyXMLParser": "true", **texts}
        schema, value_format = _schema(name, config.get("schema")), config.get("value_format")
        if format.lower() == KAFKA:
            if problem := messages.problem(texts, value_format, schema):
                raise DbtRuntimeError(f"Source {name}: {problem}")
        elif value_format is not None:
            raise DbtRuntimeError(f"Source {name}: 'value_format' is for Kafka's messages; leave it out.")
        elif schema is not None and format.lower() == "iceberg":
            raise DbtRuntimeError(
                f"Source {name}: 'schema' is for files and Kafka's messages; an Iceberg table has its own columns. "
                "Leave it out."
            )
        if event_time is not None and not (isinstance(event_time, str) and event_time.strip()):
            raise DbtRuntimeError(
                f"Source {name}: config 'event_time' is {event_time!r}; write the name of its column, or leave it out."
            )
        kind = value_format if format.lower() == KAFKA else format.lower()
        return cls(
            name=name,
            relation=relation,
            format=format.lower(),
            options=texts,
            schema=schema,
            event_time=event_time,
            value_format=value_format,
            unique_key=_names(name, config.get("unique_key")),
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


_TABLES = {"delta": "Delta", "hudi": "Hudi"}


def _unknown(format: str) -> str:
    """Why a format isn't one of a stream, and what to write instead."""
    known = f"Formats are {', '.join((ICEBERG, KAFKA, *FILE_FORMATS))}."
    if (tables := _TABLES.get(format.lower())) is None:
        return f"its 'format' is {without_secrets(repr(format))}, which no stream is read in. {known}"
    return (
        f"its 'format' is {format}, and {tables} tables aren't read as streams. Leave 'stream' out to read the table in "
        "batch; for a stream, have an incremental model copy the rows that come to an Iceberg table, and read that. "
        f"{known}"
    )


_OF_BATCH = {
    "branch": "a stream reads the table's main branch; to read another one, make a table of it",
    "tag": "a stream goes on with the table's main branch, and a tag stays where it is",
    "path": "the table is the one that the source's 'schema' and 'identifier' name",
}


def _unread(format: str, option: str, known: Sequence[str]) -> str:
    """Why an option means nothing to a stream of a format, and what to write instead."""
    what = "an Iceberg table" if format == "iceberg" else "Kafka"
    why = _OF_BATCH.get(option.lower()) if format == "iceberg" else None
    said = f"'{option}' under 'options' isn't read by a stream of {what}"
    if why is not None:
        return f"{said}: {why}. Leave it out."
    return f"{said}, so it would be passed over. Leave it out; the options there are: {', '.join(dict.fromkeys(known))}."


def _schema(name: str, schema: Any) -> str | None:
    """Columns as DDL, from DDL, a mapping, or dbt's list of columns."""
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
    """Columns as DDL in which texts of a length are STRINGs: Spark's readers know no others.

    >>> _without_lengths("a CHAR(3), `b char(3)` varchar ( 10 ) COMMENT 'no char(1)', c struct<d: Varchar(2)>")
    "a STRING, `b char(3)` STRING COMMENT 'no char(1)', c struct<d: STRING>"
    """
    return _OF_LENGTH.sub(lambda found: "STRING" if found[1] else found[0], schema)


def _names(name: str, value: Any) -> tuple[str, ...]:
    """The columns of a source's key; none where it says none."""
    if value is None:
        return ()
    columns = [value] if isinstance(value, str) else value
    if (
        not isinstance(columns, list)
        or not columns
        or not all(isinstance(each, str) and each.strip() for each in columns)
    ):
        raise DbtRuntimeError(
            f"Source {name}: 'unique_key' is {without_secrets(repr(value))}; write a column or a list of columns."
        )
    return tuple(columns)


def _text(value: Any) -> str:
    """A value as Spark's options have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Registry:
    """The declared sources of one run of dbt."""

    def __init__(self) -> None:
        self.by_relation: dict[str, DeclaredSource] = {}
        self.by_schema: dict[str, DeclaredSource] = {}
        """Those that are no tables of the models' catalog, by the schema that is made for each."""
        self.names: dict[str, str] = {}
        """``source.table`` by the schema's name without what is read."""
        self.conflicts: dict[str, str] = {}
        """By relation, why it can't be told which of two sources is meant."""

    def add(self, source: DeclaredSource) -> None:
        other = self.by_relation.get(source.relation)
        if other is not None and other.identity != source.identity:
            if problem := _conflict(other, source):
                self.conflicts[source.relation] = problem
        self.by_relation[source.relation] = source
        for schema in source_tables.schemas_in(source.relation):
            self.by_schema[schema] = source
            self.names[source_tables.without_place(schema)] = source.name


def _conflict(one: DeclaredSource, other: DeclaredSource) -> str | None:
    """Why two sources that are one table can't both be read as streams; None if they say the same of it."""
    said = {
        "event_time": one.event_time == other.event_time,
        "unique_key": one.unique_key == other.unique_key,
        "options": one.options == other.options,
        "format": one.format == other.format,
        "schema": one.schema == other.schema,
    }
    if not (differ := [key for key, same in said.items() if not same]):
        return None
    return (
        f"Sources {one.name} and {other.name} are the same table {one.relation}, and sources.yml says different things of "
        f"it ({', '.join(differ)}). Say the same of both, or keep one of them."
    )


_registry = _Registry()
_lock = threading.Lock()
_root: Path | None = None


def start_at(project_root: str | Path) -> None:
    """Has relative paths of sources begin at a project's folder. A run of dbt says so before it reads its sources."""
    global _root
    _root = Path(project_root)


def project_root() -> Path | None:
    """The folder at which relative paths of sources begin; None: no project was read."""
    return _root


def forget_all() -> None:
    """Forget the sources of the run before: a run of dbt knows its own alone."""
    global _registry
    with _lock:
        _registry = _Registry()


def register(source: DeclaredSource) -> None:
    """Make a source known to this run."""
    remember(source.options)
    with _lock:
        _registry.add(source)


def stream_source(relation: str) -> DeclaredSource | None:
    """The source that SQL refers to as `relation`; None if there is none that says it is a stream.

    Raises:
        DbtRuntimeError: two sources are this table and say different things of it.
    """
    if problem := _registry.conflicts.get(relation):
        raise DbtRuntimeError(problem)
    return _registry.by_relation.get(relation)


def source_of(identity: str) -> DeclaredSource | None:
    """The declared source of a package, as in ``shop.raw.orders``."""
    with _lock:
        return next((each for each in _registry.by_schema.values() if each.identity == identity), None)


def sources_in(text: str) -> list[DeclaredSource]:
    """The declared sources whose tables a text names."""
    known = _registry.by_schema
    return [known[schema] for schema in source_tables.schemas_in(text) if schema in known]


def declared_earlier(text: str) -> str | None:
    """The name of a source whose table a text names, where it is declared otherwise now, or not at all; else None."""
    known = _registry
    for schema in source_tables.schemas_in(text):
        if schema not in known.by_schema:
            return known.names.get(source_tables.without_place(schema), schema)
    return None


def as_written(text: str) -> str:
    """A text in which declared sources are called as their author calls them, ``source.table``."""
    return source_tables.renamed(text, _registry.names.get)


def at_project(source: DeclaredSource, project_root: str | Path) -> DeclaredSource:
    """The same source with a path that doesn't depend on where dbt was called."""
    path = source.options.get("path")
    if path is None or _SCHEME.match(path):
        return source
    absolute = (Path(project_root) / Path(path).expanduser()).resolve()
    return replace(source, options={**source.options, "path": str(absolute)})
