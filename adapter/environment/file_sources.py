"""Creates tables in the session catalog for the declared sources that a statement reads."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import unquote

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from ..sources.file_options import (
    is_pattern,
    is_true,
    matched_twice_message,
    path_matched_twice,
    pattern_like_folder_message,
    with_checked_header,
)
from ..sources.messages import batch_options, connector_advice
from ..sources.stream_source import KAFKA, DeclaredSource, all_sources, sources_in
from ..sources.unreadable import FAIL, FORMATS, LINE, UNREADABLE, Records
from ..util.quoting import literal, quote
from ..util.redaction import has_secrets, redacted_cause, without_secrets
from ..util.types import type_text
from .spark_errors import readable_error
from .stored_types import KEEPS, PARQUET, type_mismatch_message

logger = AdapterLogger("Spark")

_NO_DRIVER = re.compile(r"No suitable driver|ClassNotFoundException")
_ENDLESS = re.compile(r"StackOverflowError[\s\S]*?FileSystem\.listStatus")
"""The local file system lists a link to a folder as an entry of itself."""
_MISSING = re.compile(
    r"TABLE_OR_VIEW_NOT_FOUND|SCHEMA_NOT_FOUND|NoSuchTableException|NoSuchDatabaseException"
)

_JDBC = "jdbc"
_LINES = f"{LINE} string"
_LOOKED_INTO = 100
"""Maximum number of Parquet files whose types are checked before a source is read in batch."""
_CATALOG = "spark.sql.catalogImplementation"
"""Spark's setting of the kind of its built-in catalog: in memory, or a Hive metastore, which stores options of tables."""

OURS = "dbt_spark_streaming.source"
"""Property of a table or view that this adapter created for a source: its kind, and a digest of the statement that created
it."""


class DeclaredSources:
    """The declared sources that a session has tables for."""

    def __init__(self, session: Callable[[], Any]) -> None:
        self._session = session
        self._made: dict[str, DeclaredSource] = {}
        self._counted: dict[str, DeclaredSource] = {}
        self._lock = threading.Lock()

    def create_tables_named_in(self, sql: str) -> bool:
        """Creates the tables of all declared sources that a text names. Returns whether any was new."""
        return any([self.create_table_of(source) for source in sources_in(sql)])

    def forget_tables_named_in(self, sql: str) -> None:
        """Forgets the tables of all declared sources that a text names, so that the next read checks them again: new files
        may have other columns."""
        with self._lock:
            for source in sources_in(sql):
                self._made.pop(source.relation, None)

    @property
    def may_have_uncounted_values(self) -> bool:
        """Whether a source of this run may have unreadable values that `count_unreadable_values` hasn't counted yet."""
        with self._lock:
            return any(
                each.on_error != FAIL
                and each.format in (*FORMATS, KAFKA)
                and self._counted.get(each.relation) is not each
                for each in all_sources()
            )

    def count_unreadable_values(
        self, query: str, streams: Iterable[str]
    ) -> list[tuple[DeclaredSource, dict[str, int]]]:
        """Counts the rows with unreadable values of the declared sources that a query reads, also through views.

        Args:
            streams: relations of the query that are read as streams, which aren't counted.

        Returns:
            The counts by column, with all rows under the empty name, of each source that has such rows. A source is counted
                once a run.
        """
        session, found = self._session(), []
        streamed = [each.relation for each in sources_in(" ".join(streams))]
        for source in sources_in(str(session.sql(f"explain extended {query}").first()[0])):
            if source.relation in streamed:
                continue
            with self._lock:
                # Compared by identity, as in `create_table_of`.
                is_counted = self._counted.get(source.relation) is source
                self._counted[source.relation] = source
            if not is_counted and (counts := _count_unreadable_values(session, source)):
                found.append((source, counts))
        return found

    def create_table_of(self, source: DeclaredSource) -> bool:
        """Creates the table of a source. Returns whether it is new."""
        with self._lock:
            # Compared by identity: each run registers a new object, and the files may have changed between runs.
            if self._made.get(source.relation) is source:
                return False
            session = self._session()
            path = without_secrets(source.options.get("path", ""))
            try:
                if source.is_files and not _folder_exists(session, source):
                    raise DbtRuntimeError(
                        f"Source {source.name}: there is no folder {path}. It is the 'path' that "
                        "sources.yml gives; a relative one starts at the project."
                    )
                _create_relation(session, source)
                if (
                    source.is_files
                    and (folder := unread_folder(_folder_entries(session, source))) is not None
                ):
                    logger.warning(
                        f"Source {source.name}: {path} has no files itself, and those in its subfolder {folder} aren't "
                        "read: Spark reads only subfolders with names such as day=2025-01-01. To read all, write "
                        "'recursiveFileLookup: true' in its options."
                    )
            except DbtRuntimeError:
                raise
            except Exception as problem:
                where = f" ({path})" if path else ""
                if source.format == _JDBC and _NO_DRIVER.search(str(problem)):
                    raise DbtRuntimeError(
                        f"Source {source.name} can't be read, because there is no JDBC driver for its 'url'. Name the "
                        "driver's Maven coordinates under 'packages' in the profile, as in "
                        "org.postgresql:postgresql:42.7.7, and its class as 'driver' next to the 'url' if that isn't enough."
                    ) from redacted_cause(problem)
                if _ENDLESS.search(str(problem)):
                    raise DbtRuntimeError(
                        f"Source {source.name} can't be read{where}: it has a subfolder that is a symbolic link to another "
                        "folder, which can't be followed. Put the folder itself there, or name its path in another source; "
                        "links to files are read."
                    ) from redacted_cause(problem)
                raise DbtRuntimeError(
                    f"Source {source.name} can't be read as {source.format}{where}: "
                    f"{connector_advice(source.format, readable_error(problem))}"
                ) from redacted_cause(problem)
            self._made[source.relation] = source
            return True


def _create_relation(session: Any, source: DeclaredSource) -> None:
    """Creates the table of a source. If its records need parsing, it is a view over a table of raw records."""
    session.sql(f"create schema if not exists {source.relation.rpartition('.')[0]}")
    records = records_of(session, source)
    if records is None or not (records.differs_from_spark or source.format == KAFKA):
        _create_catalog_entry(session, source)
        if source.format in KEEPS:
            _check_file_types(session, source)
        return
    raw, records = _raw_source_and_records(session, source, records)
    _create_catalog_entry(session, raw)
    _create_unless_same(session, source, "view", partial(create_view_sql, source, raw.relation, records))


def _raw_source_and_records(
    session: Any, source: DeclaredSource, records: Records
) -> tuple[DeclaredSource, Records]:
    """Returns a source's unparsed records as another source, and their parser, both with the columns of folder names."""
    raw = replace(source, relation=f"{source.relation.removesuffix('`')}__records`")
    if source.format == KAFKA:
        return raw, records
    format = "text" if records.are_texts else source.format
    folders = _folder_columns(session, format, records)
    more = [(name, kind) for name, kind in folders.items() if name not in dict(records.fields)]
    records = replace(records, fields=[*records.fields, *more], folders=[*folders])
    own = _LINES if records.are_texts else records.schema
    columns = ", ".join([own, *(f"{quote(name)} {kind}" for name, kind in folders.items())])
    return replace(raw, format=format, options=records.read_options, schema=columns), records


def _count_unreadable_values(session: Any, source: DeclaredSource) -> dict[str, int]:
    """Returns how many rows of a source have unreadable values: by column, and all under the empty name. Empty if there are
    none, or if the first one stops the run."""
    records = None if source.on_error == FAIL else records_of(session, source)
    if records is None:
        return {}
    raw, records = _raw_source_and_records(session, source, records)
    if source.format == KAFKA:
        rows = session.table(raw.relation)
    else:
        rows = session.read.format(raw.format).options(**raw.options).schema(raw.schema).load()
    for columns in records.select_lists():
        rows = rows.selectExpr(*columns)
    rows = rows.selectExpr(f"{records.unreadable_values_sql()} as {UNREADABLE}")
    names = rows.schema[UNREADABLE].dataType.names
    counted = rows.selectExpr(
        f"count({UNREADABLE})", *(f"count({UNREADABLE}.{quote(name)})" for name in names)
    ).first()
    return {name: count for name, count in zip(["", *names], counted, strict=True) if count}


def _folder_columns(session: Any, format: str, records: Records) -> dict[str, str]:
    """Returns the columns from folder names with their types: the declared type, else the one that Spark infers."""
    own, last = (_LINES, LINE) if records.are_texts else (records.schema, records.raw)
    found = session.read.format(format).options(**records.read_options).schema(own).load().schema
    declared = dict(records.fields)
    return {
        field.name: declared.get(field.name, type_text(field.dataType))
        for field in found.fields[found.names.index(last) + 1 :]
    }


def _create_catalog_entry(session: Any, source: DeclaredSource) -> None:
    """Creates the table of a source, or a view with its columns alone where the catalog would store its secrets."""
    is_stored = session.conf.get(_CATALOG, "in-memory") == "hive"
    if not (is_stored and has_secrets(source.options)):
        _create_unless_same(session, source, "table", partial(create_table_sql, source))
        return
    columns = {field.name: type_text(field.dataType) for field in _source_schema(session, source).fields}
    _create_unless_same(session, source, "view", partial(create_columns_view_sql, source, columns))


def _check_file_types(session: Any, source: DeclaredSource) -> None:
    """Raises if a file has a column of another type, whose values Spark would convert."""
    options = {key: value for key, value in source.options.items() if key != "path"}
    table = session.table(source.relation)
    files = [unquote(file) for file in table.inputFiles()]
    if source.format == PARQUET:
        # Most files of a source are alike. Each start of a stream comes by here, too, and it looks into all that it reads.
        files = files[:: len(files) // _LOOKED_INTO + 1]
    if (text := type_mismatch_message(session, source.format, options, files, [table.schema])) is not None:
        raise DbtRuntimeError(f"Source {source.name}: {text}.")


def _create_unless_same(
    session: Any, source: DeclaredSource, kind: str, statement: Callable[[str], str]
) -> None:
    """Creates a table or view unless an identical one exists. An outdated one is dropped if it has the property `OURS`.

    Raises:
        DbtRuntimeError: a relation of this name exists that the adapter didn't create.
    """
    name, made_by = source.relation, f"{kind} {hashlib.sha256(statement('').encode()).hexdigest()}"
    found = _table_properties(session, name)
    if found is not None and OURS not in found:
        raise DbtRuntimeError(
            f"Source {source.name} is read through the {kind} {name.replace('`', '')}, but dbt-spark-streaming didn't "
            "create what has that name, and leaves it unchanged. Rename it, or drop it if nobody needs it."
        )
    if found is not None:
        if found[OURS] == made_by and not _has_other_columns(session, source):
            return
        session.sql(f"drop {found[OURS].partition(' ')[0]} if exists {name}")
    session.sql(statement(made_by))


def _table_properties(session: Any, name: str) -> dict[str, str] | None:
    """Returns the properties of a table or view, or None if it doesn't exist."""
    try:
        return {row[0]: row[1] for row in session.sql(f"show tblproperties {name}").collect()}
    except Exception as problem:
        if _MISSING.search(str(problem)):
            return None
        raise


def _has_other_columns(session: Any, source: DeclaredSource) -> bool:
    """Returns whether a database's table, or files without declared columns, have other columns than when the table was
    created."""
    if source.schema is not None or not (source.is_files or source.format == _JDBC):
        return False
    now, then = _source_schema(session, source), session.table(source.relation).schema
    return bool(now.simpleString() != then.simpleString())


def _source_schema(session: Any, source: DeclaredSource) -> Any:
    """Returns the schema of a source as Spark reads it: the declared columns, or those that Spark finds."""
    is_kafka = source.format == KAFKA
    reader = session.read.format(source.format)
    reader = reader.options(**(batch_options(source.options) if is_kafka else source.options))
    return (reader.schema(source.schema) if source.schema and not is_kafka else reader).load().schema


def create_table_sql(source: DeclaredSource, made_by: str) -> str:
    """Returns the statement that creates the table of a declared source."""
    given = with_checked_header(source.format, source.options)
    options = {key: value for key, value in given.items() if key != "path"}
    if source.format == KAFKA:
        options = batch_options(options)
    statement = f"create table if not exists {source.relation}"
    if source.schema and source.format != KAFKA:
        statement += f" ({source.schema})"
    statement += f" using {source.format}"
    if options:
        listed = ", ".join(f"{literal(key)} {literal(value)}" for key, value in options.items())
        statement += f" options ({listed})"
    if "path" in source.options:
        statement += f" location {literal(source.options['path'])}"
    return f"{statement} {_ownership_clause(made_by)}"


def create_columns_view_sql(source: DeclaredSource, columns: Mapping[str, str], made_by: str) -> str:
    """Returns the statement that creates a view with the columns of a source, for queries that are only analysed. Its rows
    can't be read: a Hive metastore would store the source's secrets."""
    why = (
        f"Source {source.name} can't be read in batch here, only as a stream: Spark's own catalog is a Hive metastore "
        f"({_CATALOG}), which would keep the source's secrets in plain text. Leave that setting out (models in a Hive "
        "metastore need 'catalog_options' with 'type: hive'), or give Spark the secrets in a file, such as "
        "java.security.auth.login.config."
    )
    listed = ", ".join(f"cast(null as {kind}) as {quote(name)}" for name, kind in columns.items())
    return (
        f"create view if not exists {source.relation} {_ownership_clause(made_by)} as select {listed} from range(1) "
        f"where raise_error({literal(why)}) is null"
    )


def create_view_sql(source: DeclaredSource, raw: str, records: Records, made_by: str) -> str:
    """Returns the statement that creates the view of a source's rows, parsed from the records of the table `raw`. It names
    the types of folder names, which a new folder may change: Spark keeps a view's types."""
    inner, kinds = raw, dict(records.fields)
    if records.folders:
        typed = (f"cast({quote(name)} as {kinds[name]}) as {quote(name)}" for name in records.folders)
        inner = f"(select * except ({', '.join(map(quote, records.folders))}), {', '.join(typed)} from {raw})"
    for columns in records.select_lists():
        inner = f"(select {', '.join(columns)} from {inner})"
    return f"create view if not exists {source.relation} {_ownership_clause(made_by)} as {records.rows_sql(inner)}"


def records_of(session: Any, source: DeclaredSource) -> Records | None:
    """Returns the parser of a source's records, or None if Spark reads them as rows."""
    if source.format == KAFKA and source.value_format is None:
        return None
    if source.format != KAFKA and source.format not in FORMATS:
        return None
    if source.schema is not None:
        schema = session.createDataFrame([], source.schema).schema
    else:
        schema = _source_schema(session, source)
    fields = [(field.name, type_text(field.dataType)) for field in schema.fields]
    return Records.of_source(source.name, source.format, fields, source.on_error, source.options)


def _ownership_clause(made_by: str) -> str:
    return f"tblproperties ({literal(OURS)} = {literal(made_by)})"


def unread_folder(entries: Iterable[tuple[str, bool]]) -> str | None:
    """Returns a subfolder of a folder from which Spark reads nothing; None if it reads something, or there is nothing.

    Args:
        entries: names in the folder, and whether each is a folder.

    >>> unread_folder([("_spark_metadata", True), ("2025", True)]), unread_folder([])
    ('2025', None)
    >>> unread_folder([("archive", True), ("a.json", False)]), unread_folder([("archive", True), ("day=1", True)])
    (None, None)
    """
    found = None
    for name, is_folder in entries:
        if name.startswith(("_", ".")) and "=" not in name:
            continue
        if not is_folder or "=" in name:
            return None
        found = found or name
    return found


def _folder_entries(session: Any, source: DeclaredSource) -> Iterator[tuple[str, bool]]:
    """Yields the names in a source's folder, and whether each is a folder. Nothing if other subfolders are read, too."""
    path = source.options["path"]
    if is_pattern(path) or is_true(source.options, "recursiveFileLookup") or not hasattr(session, "_jvm"):
        return
    folder = session._jvm.org.apache.hadoop.fs.Path(path)
    # An iterator, for a folder may have many files, and the first one says enough.
    entries = folder.getFileSystem(session._jsc.hadoopConfiguration()).listStatusIterator(folder)
    while entries.hasNext():
        each = entries.next()
        yield each.getPath().getName(), bool(each.isDirectory())


def _folder_exists(session: Any, source: DeclaredSource) -> bool:
    """Returns whether the folder of a source exists, or one that matches its pattern.

    Raises:
        DbtRuntimeError: a folder exists whose name contains the characters of a pattern, or the pattern matches a file
            twice.
    """
    path = source.options["path"]
    if not hasattr(session, "_jvm"):
        return True  # the files of a Spark Connect server, which reports itself if they are missing
    hadoop_path = session._jvm.org.apache.hadoop.fs.Path(path)
    files = hadoop_path.getFileSystem(session._jsc.hadoopConfiguration())
    if is_pattern(path) and files.exists(hadoop_path):
        raise DbtRuntimeError(f"Source {source.name}: {pattern_like_folder_message(without_secrets(path))}")
    found = files.globStatus(hadoop_path)
    if found is None:
        return False
    # Other patterns match paths of one depth, each once.
    if "{" in path:
        matches = [(str(each.getPath()), bool(each.isDirectory())) for each in found]
        twice = path_matched_twice(matches, is_true(source.options, "recursiveFileLookup"))
        if twice is not None:
            raise DbtRuntimeError(
                f"Source {source.name}: {without_secrets(matched_twice_message(twice, path))}"
            )
    return len(found) > 0
