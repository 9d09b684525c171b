"""Declared sources as tables of the session catalog, made when a statement reads them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.errors import readable
from dbt.adapters.spark_streaming.literals import literal
from dbt.adapters.spark_streaming.messages import advice, in_batch
from dbt.adapters.spark_streaming.redaction import cause_of, without_secrets
from dbt.adapters.spark_streaming.stream.identifiers import type_text
from dbt.adapters.spark_streaming.stream_source import KAFKA, StreamSource, known_sources
from dbt.adapters.spark_streaming.unreadable import FORMATS, Records

_NO_DRIVER = re.compile(r"No suitable driver|ClassNotFoundException")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")


class DeclaredSources:
    """The declared sources that a session has tables for."""

    def __init__(self, session: Callable[[], Any]) -> None:
        self._session = session
        self._made: dict[str, StreamSource] = {}
        self._lock = threading.Lock()

    def make_mentioned(self, sql: str, project_root: str) -> None:
        """Make the tables of all declared sources that a statement names.

        Raises:
            DbtRuntimeError: one can't be read, with its name and path.
        """
        if "`spark_catalog`." in sql:
            for source in known_sources():
                if not source.is_table and source.relation in sql:
                    self.make(source, project_root)

    def make_all(self, project_root: str) -> bool:
        """Make all that can be made: a view that reads one doesn't name it. True if any was new."""
        before = dict(self._made)
        for source in known_sources():
            if not source.is_table:
                try:
                    self.make(source, project_root)
                except DbtRuntimeError:
                    pass  # reported where it is named
        return before != self._made

    def make(self, source: StreamSource, project_root: str) -> None:
        """Make one.

        Raises:
            DbtRuntimeError: it can't be read, with its name and path.
        """
        located = at_project(source, project_root)
        with self._lock:
            if self._made.get(source.relation) == located:
                return
            session = self._session()
            path = without_secrets(located.options.get("path", ""))
            if located.is_files and not _exists(session, located.options["path"]):
                raise DbtRuntimeError(
                    f"Source {source.name}: there is no folder {path}. It is the 'path' that "
                    "sources.yml gives; a relative one starts at the project."
                )
            schema_name = source.relation.rpartition(".")[0]
            try:
                session.sql(f"create schema if not exists {schema_name}")
                records = records_of(session, located)
                if records is None or not (records.differs or source.format == KAFKA):
                    session.sql(f"drop table if exists {source.relation}")
                    session.sql(create_table(located))
                else:
                    raw = replace(located, relation=f"{source.relation.removesuffix('`')}__records`")
                    if source.format != KAFKA:
                        raw = replace(raw, options=records.reading, schema=records.schema)
                    session.sql(f"drop table if exists {raw.relation}")
                    session.sql(create_table(raw))
                    session.sql(create_view(located, raw.relation, records))
            except Exception as problem:
                where = f" ({path})" if path else ""
                if source.format == "jdbc" and _NO_DRIVER.search(str(problem)):
                    raise DbtRuntimeError(
                        f"Source {source.name} can't be read, for there is no JDBC driver for its 'url'. Name the driver's "
                        "Maven coordinates under 'packages' in the profile, as in org.postgresql:postgresql:42.7.7, "
                        "and its class as 'driver' beside the 'url' if it isn't found by that alone."
                    ) from cause_of(problem)
                cause = advice(readable(problem)) if source.format == KAFKA else readable(problem)
                raise DbtRuntimeError(
                    f"Source {source.name} can't be read as {source.format}{where}: {cause}"
                ) from cause_of(problem)
            self._made[source.relation] = located


def at_project(source: StreamSource, project_root: str) -> StreamSource:
    """The same source with a path that doesn't depend on where dbt was called."""
    path = source.options.get("path")
    if path is None or _SCHEME.match(path):
        return source
    absolute = (Path(project_root) / Path(path).expanduser()).resolve()
    return replace(source, options={**source.options, "path": str(absolute)})


def create_table(source: StreamSource) -> str:
    """The statement that makes a declared source readable."""
    options = {key: value for key, value in source.options.items() if key != "path"}
    if source.format == KAFKA:
        options = in_batch(options)
    statement = f"create table {source.relation}"
    if source.schema and source.format != KAFKA:
        statement += f" ({source.schema})"
    statement += f" using {source.format}"
    if options:
        listed = ", ".join(f"{literal(key)} {literal(value)}" for key, value in options.items())
        statement += f" options ({listed})"
    if "path" in source.options:
        statement += f" location {literal(source.options['path'])}"
    return statement


def create_view(source: StreamSource, raw: str, records: Records) -> str:
    """The statement that makes the rows readable that the records of `raw` become."""
    inner = raw
    if source.format == KAFKA:
        first, then = map(", ".join, records.of_messages())
        inner = f"(select {then} from (select {first} from {raw}))"
    return f"create or replace view {source.relation} as {records.rows(inner)}"


def records_of(session: Any, source: StreamSource) -> Records | None:
    """How records of a source become rows; None: they are rows as Spark reads them."""
    if source.format == KAFKA and source.value_format is None:
        return None
    if source.format != KAFKA and source.format not in FORMATS:
        return None
    if source.schema is not None:
        schema = session.createDataFrame([], source.schema).schema
    else:
        schema = session.read.format(source.format).options(**source.options).load().schema
    fields = [(field.name, type_text(field.dataType)) for field in schema.fields]
    return Records.of(source.name, source.format, fields, source.on_error, source.options)


def _exists(session: Any, path: str) -> bool:
    if not hasattr(session, "_jvm"):
        return True  # a server's files; it says itself what it lacks
    hadoop_path = session._jvm.org.apache.hadoop.fs.Path(path)
    files = hadoop_path.getFileSystem(session._jsc.hadoopConfiguration())
    found = files.globStatus(hadoop_path)
    return found is not None and len(found) > 0
