"""Queries external tables once per micro-batch for its keys, in chunks. A join reads the answers.

::

    distinct keys of the micro-batch − cached keys → requests of one chunk of keys each → rows under a view

A failed request is retried. Nothing of the micro-batch is written before its answers arrive, so if the retries fail
too, the next run repeats it. A key that a database rejects as invalid for its column has no row; bisection isolates
such a key.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from ...query.program import Lookup
from ...util.quoting import quote as quoted
from ...util.redaction import without_secrets
from ..common.errors import StreamError, TransientError, cause
from ..common.failpoints import around
from ..common.lookup_source import LookupSource
from ..common.model import StreamModel
from ..common.periodic import Periodic
from ..progress.report import BatchMetrics
from ..sources.rows import BatchCache, scan_cached
from ..sources.source_schemas import check_columns
from .jdbc import JdbcTable, bound_value_sql, is_invalid_value, key_kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PAUSE, _LONGEST = 0.5, 30.0
"""Pause before the first retry, which doubles with each retry, and its maximum, in seconds."""

wait, now = time.sleep, time.monotonic

Key = tuple[Any, ...]


class Lookups:
    """The lookup tables of a model. Caches live for one run."""

    def __init__(self, model: StreamModel) -> None:
        self._model = model
        self._sources = {source.relation: source for source in model.lookups}
        self._tables: dict[str, _LookupTable] = {}

    def rows_for_keys(
        self, spark: SparkSession, lookup: Lookup, cache: BatchCache, metrics: BatchMetrics
    ) -> DataFrame:
        """Returns the rows of a lookup table for the keys of a micro-batch, from the cache or the database.

        Raises:
            SchemaChanged: the table has other columns than when the run began, and the query reads all of them.
            StreamError: the table doesn't answer, or can't be queried by these columns.
        """
        lookup_table = self._open_lookup_table(spark, lookup)
        lookup_table.check_columns(spark)
        keys = lookup_table.keys(spark, lookup)
        if lookup_table.source.cache_ttl is None:
            return lookup_table.request_rows(spark, keys, metrics)
        missing = lookup_table.missing_keys(keys)
        metrics.lookup_cached += len(keys) - len(missing)
        if missing:
            lookup_table.cache_rows(missing, lookup_table.request_rows(spark, missing, metrics))
        rows = lookup_table.cached_rows(spark, keys)
        cache.persist(rows)  # so that their number is known
        return scan_cached(rows)

    def no_rows(self, spark: SparkSession, lookup: Lookup) -> DataFrame:
        """Returns an empty DataFrame with the columns of the lookup table."""
        lookup_table = self._open_lookup_table(spark, lookup)
        return lookup_table.table.to_dataframe(spark, lookup_table.table.empty_rows())

    def _open_lookup_table(self, spark: SparkSession, lookup: Lookup) -> _LookupTable:
        if lookup.view not in self._tables:
            source = self._sources.get(lookup.relation)
            if source is None:
                raise StreamError(
                    f"Model {self._model.name}: there is no source for its lookup table {lookup.relation}."
                )
            self._tables[lookup.view] = _LookupTable(spark, self._model, source, lookup)
        return self._tables[lookup.view]


class _LookupTable:
    """A lookup table and its key columns."""

    def __init__(self, spark: SparkSession, model: StreamModel, source: LookupSource, lookup: Lookup) -> None:
        self._model = model
        self.source = source
        self._key = lookup.key
        self._cache: dict[Key, tuple[float, list[tuple[Any, ...]]]] = {}
        self._reads_all = lookup.columns is None
        self._checks = Periodic()
        wanted = None if lookup.columns is None else [*lookup.columns, *lookup.key]
        with self._checks.running():
            self.table: JdbcTable = self._with_retries(lambda: JdbcTable(spark, source.options, wanted))
        fields = {field.name.lower(): field.dataType for field in self.table.schema.fields}
        for name in lookup.key:
            if name not in fields:
                raise StreamError(
                    f"Model {model.name}: the lookup table {source.name} has no column {name}, which a join compares. It "
                    f"has {', '.join(self.table.names)}."
                )
        self._types = [fields[name] for name in lookup.key]
        for name, type_ in zip(lookup.key, self._types, strict=True):
            if key_kind(type_) is None:
                raise StreamError(
                    f"Model {model.name}: the column {name} of the lookup table {source.name} is a "
                    f"{type_.simpleString().upper()}, which can't be the key of a lookup. Join by a number, text, a date, "
                    "a time or a boolean."
                )

    def check_columns(self, spark: SparkSession) -> None:
        """Raises if the table's columns have changed and the query reads all of them. Queries the database now and then."""
        if not self._reads_all or not self._checks.is_due:
            return
        with self._checks.running():
            found = self._with_retries(lambda: JdbcTable(spark, self.source.options, None)).schema
        now, before = (
            {quoted(each.name): each.dataType for each in schema.fields}
            for schema in (found, self.table.schema)
        )
        check_columns(self._model, self.source.name, now, before)

    def keys(self, spark: SparkSession, lookup: Lookup) -> list[Key]:
        """Returns the distinct keys of the micro-batch that the table may contain."""
        found = spark.sql(lookup.keys)
        for name, field, type_ in zip(self._key, found.schema.fields, self._types, strict=True):
            if key_kind(field.dataType) != key_kind(type_):
                has, given = (each.simpleString().upper() for each in (type_, field.dataType))
                raise StreamError(
                    f"Model {self._model.name}: the column {name} of the lookup table {self.source.name} is a {has}, "
                    f"and the join compares it with a {given}; cast the stream's side: cast(… as {type_.simpleString()})."
                )
        pairs = zip(found.columns, self._types, strict=True)
        shaped = found.selectExpr(*(f"{bound_value_sql(name, type_)} as {name}" for name, type_ in pairs))
        distinct = dict.fromkeys(tuple(row) for row in shaped.collect())
        return [key for key in distinct if None not in key]

    def request_rows(self, spark: SparkSession, keys: Sequence[Key], metrics: BatchMetrics) -> DataFrame:
        """Requests the rows of the keys from the database, in chunks."""
        found = self.table.empty_rows()
        if keys:
            size = self.source.chunk_size
            waiting = [keys[start : start + size] for start in range(0, len(keys), size)]

            def ask() -> None:
                with self.table.connection() as connection:
                    while waiting:
                        metrics.lookup_requests += 1
                        try:
                            found.addAll(self.table.query_keys(connection, self._key, waiting[0]))
                        except Py4JJavaError as problem:
                            if len(waiting[0]) > 1 and is_invalid_value(problem):
                                middle = len(waiting[0]) // 2
                                waiting[:1] = [waiting[0][:middle], waiting[0][middle:]]
                                continue
                            if not self.table.is_key_refused(connection, self._key, waiting[0][0], problem):
                                raise
                        metrics.lookup_keys += len(waiting.pop(0))

            with around("lookup.ask", self._model.name):
                self._with_retries(ask)
        return self.table.to_dataframe(spark, found)

    def _with_retries(self, attempt: Any) -> Any:
        """Runs an attempt, with retries after growing pauses. Raises if the last one fails."""
        pause = _PAUSE
        for retries_left in range(self.source.retries, -1, -1):
            try:
                return attempt()
            except (Py4JError, PySparkException) as problem:
                if not retries_left:
                    times = f"{self.source.retries + 1} times" if self.source.retries else "once"
                    raise TransientError(
                        f"Model {self._model.name}: the lookup table {self.source.name} "
                        f"({without_secrets(self.source.options['url'])}) doesn't answer: {cause(problem)} It was "
                        f"tried {times}. Nothing of this micro-batch is lost; the next run continues with it."
                    ) from problem
            wait(pause)
            pause = min(2 * pause, _LONGEST)
        raise AssertionError("unreachable")

    # The cache.

    def missing_keys(self, keys: Sequence[Key]) -> list[Key]:
        """Returns the keys that aren't cached, and drops expired entries."""
        at = now()
        self._cache = {key: entry for key, entry in self._cache.items() if entry[0] > at}
        return [key for key in keys if key not in self._cache]

    def cache_rows(self, keys: Sequence[Key], rows: DataFrame) -> None:
        """Caches the rows that a request returned, by key. A key may have no row."""
        until = now() + (self.source.cache_ttl or 0) / 1e6
        found: dict[Key, list[tuple[Any, ...]]] = {key: [] for key in keys}
        kinds = self._column_types
        names = {name.lower(): name for name in kinds}
        shaped = (
            bound_value_sql(names[quoted(name)], type_)
            for name, type_ in zip(self._key, self._types, strict=True)
        )
        for row in rows.selectExpr(*map(_exact_value_sql, kinds, kinds.values()), *shaped).collect():
            values = tuple(row)
            # A database may compare less strictly than Spark, so a row may match no requested key.
            if (of := found.get(values[len(names) :])) is not None:
                of.append(values[: len(names)])
        self._cache |= {key: (until, listed) for key, listed in found.items()}

    def cached_rows(self, spark: SparkSession, keys: Sequence[Key]) -> DataFrame:
        """Returns the cached rows of the keys."""
        rows = [row for key in keys for row in self._cache[key][1]]
        none, kinds = self.table.to_dataframe(spark, self.table.empty_rows()), self._column_types
        packed = none.selectExpr(
            *(f"{_exact_value_sql(name, kind)} as {name}" for name, kind in kinds.items())
        )
        made = spark.createDataFrame(rows, packed.schema, verifySchema=False)
        return made.selectExpr(
            *(
                f"timestamp_micros({name}) as {name}" if kind == "timestamp" else name
                for name, kind in kinds.items()
            )
        )

    @property
    def _column_types(self) -> dict[str, str]:
        """Types of the columns, by their quoted names."""
        return {quoted(field.name): field.dataType.simpleString() for field in self.table.schema.fields}


def _exact_value_sql(name: str, type_: str) -> str:
    """Returns SQL for a column in a form that Python can hold exactly. A timestamp becomes microseconds: a Python datetime
    is in the process's time zone, where some local times occur twice."""
    return f"unix_micros({name})" if type_ == "timestamp" else name
