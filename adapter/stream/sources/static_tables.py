"""Compares the current columns of the static tables that a query joins with their columns when the query started.

Each micro-batch reads the current rows of a static table. The texts that write the result name its columns, so a column
that is added to `d.*` would be left out without a message. The query is restarted instead. The checkpoint records the
columns in ``static.json``: a column that was added later is NULL in all rows that a state keeps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...sources.source_tables import without_read_digest
from ...sources.stream_source import DeclaredSource, stream_source
from ..common.errors import TransientError
from ..common.identifiers import parts
from ..common.model import StreamModel
from ..common.periodic import Periodic
from ..common.session import sql
from ..iceberg.table import stored_types
from .file_columns import field_types
from .source_schemas import check_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Columns = Mapping[str, str]
"""Path of a column or nested field, in lower case → type."""

STATIC = "static.json"
"""File of a checkpoint: static table → its `Columns`."""


class StaticTables:
    """The static tables of a query as they were when it started.

    Raises:
        SchemaChanged: files have other columns than when the query was planned.
        TransientError: a table doesn't exist.
    """

    def __init__(self, spark: SparkSession, model: StreamModel, tables: Sequence[str]) -> None:
        self._spark, self._model = spark, model
        self._began = {table: _columns(self._spark, self._model, table) for table in tables}
        self._files = {table: source for table in tables if (source := _source_of_files(table)) is not None}
        """Table → the declared source that it is, for tables whose columns Spark infers from files."""
        self._in_files: Mapping[str, Columns] = {}
        self._checks = Periodic()
        self._find_columns_in_files()
        for table, found in self._in_files.items():
            # The entry has the columns from when the query was planned, and one for raw records if they are kept.
            if had := self._began[table]:
                check_columns(
                    model, table, found, {path: kind for path, kind in had.items() if path in found}
                )

    def _find_columns_in_files(self) -> None:
        """Finds the columns in files."""
        with self._checks.running():
            self._in_files = {table: self._columns_in_files(source) for table, source in self._files.items()}

    def check(self) -> None:
        """Raises unless the tables have the columns and types from when the query started."""
        for table, had in self._began.items():
            check_columns(self._model, table, _columns(self._spark, self._model, table), had)
        if self._files and self._checks.is_due:
            before = self._in_files
            self._find_columns_in_files()
            for table, found in self._in_files.items():
                check_columns(self._model, table, found, before[table])

    def note(self, begun: bool) -> None:
        """Records the columns in the checkpoint."""
        before = _stored_columns(self._model) if begun else {}
        now = {without_read_digest(table): columns for table, columns in self._began.items()}
        found = {table: {**before.get(table, {}), **columns} for table, columns in now.items()}
        if found != before:
            self._model.storage.write_text(f"{self._model.checkpoint}/{STATIC}", json.dumps(found))

    def _columns_in_files(self, source: DeclaredSource) -> Columns:
        from pyspark.errors import AnalysisException

        options = {name: value for name, value in source.options.items() if name != "path"}
        reader = self._spark.read.format(source.format).options(**options)
        try:
            return field_types(reader.load(source.options["path"]).schema)
        except AnalysisException:
            return {}  # no file; reading it says so


def later_columns(
    spark: SparkSession, model: StreamModel, tables: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yields name and type of each column and nested field of static tables that came since the recorded ones."""
    noted = _stored_columns(model)
    for table in tables:
        if (known := noted.get(without_read_digest(table))) is not None:
            columns = _columns(spark, model, table)
            later = {path: kind for path, kind in columns.items() if path not in known}
            for path, kind in stored_types(spark, later).items() if later else ():
                yield parts(path)[-1], kind


def _columns(spark: SparkSession, model: StreamModel, table: str) -> Columns:
    from pyspark.errors import AnalysisException

    try:
        schema = sql(spark, f"select * from {table}").schema
    except AnalysisException as problem:
        if problem.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
            return {}  # it can only be read with another relation
        raise TransientError(
            f"Model {model.name}: the table {table}, which it joins, doesn't exist now; it may be in the middle of a "
            "rebuild. Nothing of this micro-batch was ingested, and the next run continues."
        ) from problem
    return field_types(schema)


def _source_of_files(table: str) -> DeclaredSource | None:
    """Returns the declared source behind a table if Spark finds its columns in files."""
    source = stream_source(table)
    return None if source is None or not source.is_files or source.schema is not None else source


def _stored_columns(model: StreamModel) -> Mapping[str, Columns]:
    return model.storage.read_json(f"{model.checkpoint}/{STATIC}")
