"""Writes each micro-batch's changes to the model's updating table, exactly once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...query.program import CHANGE_TYPE, TABLE_BEFORE, Upsert
from ...util.quoting import quote as quoted
from ..common.errors import StreamError
from ..common.failpoints import around
from ..common.model import StreamModel
from ..common.session import are_few, register_view, sql
from ..common.table_rows import Columns, one_file_sql
from ..iceberg import commit
from ..iceberg.position_deletes import FILE, PATH, PLACE, POSITION, are_possible, has_names_of_iceberg
from ..iceberg.table import COMMIT, DELETED, FOLLOWED
from ..progress.position import Position
from ..sources.rows import BatchCache, Observed, scan_cached
from .append import DECIDED, AppendSink, Sink
from .change_types import ADDS, AFTER, BEFORE, DELETE, INSERT
from .changelog import change_rows_sql, summed_changes_sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SMALL = 100_000
"""Maximum rows of a table that is rewritten as a whole, which costs no more than writing delete files."""
_TINY = 20_000
"""Maximum rows of a table that is rewritten by the same job that compares it with the result."""
_LARGE = 5_000_000
"""Maximum rows of a table that a micro-batch rewrites because of earlier deletes; a larger one is compacted."""
_FIRED, _CHANGED, _COMPARED, _NEW = "fired_windows", "changed_rows", "compared_rows", "new_rows"
_FOUND_AGAIN = "old_rows_found_again"
_KINDS = (INSERT, AFTER, DELETE)
_WORN = 3
"""The table is rewritten when its deleted rows, times this factor, exceed its rows."""
_LARGE_FILE = 1_000_000
"""Maximum deleted rows that one task writes."""
_OLD_FILE, _OLD_POSITION = "__stream_file", "__stream_place"
"""Columns with the file and the position of a change's old row. The observed set of file paths is named like the first."""
_TIMES = "__stream_times_of_key"
"""Column with the number of result rows that share a key."""


@dataclass(frozen=True)
class _TableChanges:
    """Difference between a micro-batch's result and the table."""

    changed: DataFrame
    """Cached changes, registered as `_CHANGED`."""
    counts: Mapping[str, int]
    """Change type → number of changes, without zeros."""
    twice: int
    """Number of changes with a key that another row of the result has, too."""
    files: Sequence[str]
    """Paths of the files that contain old rows; empty if rows are deleted by key."""

    @property
    def total(self) -> int:
        """Number of changes."""
        return sum(self.counts.values())

    @property
    def gone(self) -> int:
        """Number of table rows that are updated or deleted."""
        return self.counts.get(AFTER, 0) + self.counts.get(DELETE, 0)


class UpsertSink(Sink):
    """A table with one row per key. Each micro-batch compares its result with the table's rows of the affected
    windows and writes the differences in one commit, so that readers never see half an update."""

    _replaces_rows = True

    def __init__(self, spark: SparkSession, model: StreamModel, upsert: Upsert) -> None:
        super().__init__(spark, model, upsert.key)
        self._upsert = upsert
        self._keys = upsert.key or ()
        self._deletes_by_position = False
        """Whether this micro-batch deletes old rows by file and position (`position_deletes`)."""
        filtered = {each.column.lower() for each in upsert.target_filter}
        self._key_has_filtered = filtered <= {name.lower() for name in self._keys}
        """Whether the key includes the columns of `target_filter`, so that rows of unaffected windows have other keys."""

    def prepare_for_run(self, spark: SparkSession) -> None:
        """See `Sink.prepare_for_run`. Raises if a key has several rows."""
        self._check_keys(spark)
        super().prepare_for_run(spark)

    def record_changes_by_others(self, spark: SparkSession) -> None:
        known = self.table.known
        super().record_changes_by_others(spark)
        if self.table.known != known:
            self._check_keys(spark)

    def _check_keys(self, spark: SparkSession) -> None:
        """Raises if another writer changed the table and a key has several rows, because an update would change all of
        them."""
        if self._upsert.key is None or self.table.newest_change_by_others() is None:
            return
        by = ", ".join(map(quoted, self._keys))
        rows = self._known_rows_sql(self.table_columns(spark))
        group = f"group by {by} " if by else ""
        twice = sql(spark, f"select {by or '1'} from {rows} {group}having count(*) > 1 limit 1")
        if not twice.isEmpty():
            raise StreamError(
                f"Model {self.model.name}: two rows of its table {self.model.target} have the same key "
                f"({self._first_key_text(twice, '')}), so an update would "
                "change both; another writer has added one of them. Delete that row; the next run continues."
            )

    def uncounted_rows(self, summary: Mapping[str, str]) -> int:
        """Returns 0, because the position itself counts the changed rows: a merge also rewrites unchanged rows."""
        return 0

    def put(self, spark: SparkSession, query: str, position: Position, few: bool, cache: BatchCache) -> int:
        """See `Sink.put`. Counts rows inserted, updated and deleted."""
        self.record_changes_by_others(spark)
        if self._upsert.key is None:
            # The query may read the table: from the same snapshot that its result is compared with.
            columns = self._columns or self.table_columns(spark)
            listed = self._columns_in_change_order(spark, columns)
            register_view(spark.sql(f"select {listed} from {self._known_rows_sql(columns)}"), TABLE_BEFORE)
        columns = self.columns(spark, query)
        if self._upsert.key is None:
            return self._replace_all_rows(spark, query, columns, position, few, cache)
        self._deletes_by_position = are_possible(self.table, columns.names)
        replaceable = self._replaceable_condition(spark, cache)
        if replaceable is None:
            return 0
        old = f"select * from {self._known_rows_sql(columns, with_places=True)} where {replaceable}"
        if not self._upsert.is_whole:
            old = self._affected_rows_sql("left semi join", f"({old})")
        new = self.checked_sql(spark, query)
        if self._upsert.key_is_unique:
            compared, twice = self._compared_rows_sql(old, new, columns), "false"
        else:
            elsewhere = self._other_keys_sql(columns, replaceable)
            compared = self._compared_rows_sql(old, self._with_key_counts_sql(new), columns, True, elsewhere)
            twice = f"{_TIMES} > 1"
        if self.changes is None and 0 < self.rows <= _TINY:
            rewritten = self._rewrite_table(sql(spark, compared), twice, columns, position, few)
            if rewritten is not None:
                return rewritten
        found = self._compute_changes(spark, compared, twice, cache)
        if found.twice:
            self._raise_duplicate_key(spark)
        if not found.counts:
            return 0
        if self.changes is not None:
            self.changes.append(spark, _changelog_rows_sql(columns.names), position)
        self._write(found, replaceable, columns.names, _with_row_count(position, found.total), few)
        return found.total

    @property
    def _is_small(self) -> bool:
        return self.rows <= _SMALL

    def _join_hint(self, alias: str) -> str:
        """Returns the hint for a join with the table. Shuffling a small table costs less than the job of a broadcast."""
        return f"/*+ merge({alias}) */ " if self._is_small else ""

    def _compute_changes(
        self, spark: SparkSession, compared: str, twice: str, cache: BatchCache
    ) -> _TableChanges:
        """Computes the changes, caches and registers them as `_CHANGED`. `twice`: SQL condition for a row whose key
        another row has, too."""
        from pyspark.sql import functions as F

        differences = f"select * from (\n{compared}\n) where {CHANGE_TYPE} is not null or {twice}"
        changed = sql(spark, differences).observe(_CHANGED, *_change_counts(twice))
        if self._deletes_by_position:
            path = F.expr(f"collect_set(case when {CHANGE_TYPE} <> '{INSERT}' then {_OLD_FILE} end)")
            changed = changed.observe(_OLD_FILE, path.alias("paths"))
        cache.persist(changed)
        register_view(scan_cached(changed), _CHANGED)
        *counts, same_key = cache.observed_metrics(_CHANGED)
        return _TableChanges(
            changed,
            {kind: count for kind, count in zip(_KINDS, counts, strict=True) if count},
            same_key or 0,
            cache.observed_texts(_OLD_FILE) if self._deletes_by_position else (),
        )

    def _rewrite_table(
        self, compared: DataFrame, twice: str, columns: Columns, position: Position, few: bool
    ) -> int | None:
        """Rewrites the table in one job that also counts the changes. Returns the number of changes; None if a key has two
        rows or Spark doesn't report the number. Without a positive number the files are not committed."""
        spark, observed = compared.sparkSession, Observed(compared, *_change_counts(twice))
        register_view(observed.rows, _COMPARED)
        come = _change_select_list("new", columns.names)
        rows = f"select {come} from {_COMPARED} where {CHANGE_TYPE} is distinct from '{DELETE}'"
        if not self._upsert.is_whole:
            rows += f"\nunion all\n{self._affected_rows_sql('left anti join', self._known_rows_sql(columns))}"
        changed: int | None = None

        def notes() -> Mapping[str, str] | None:
            nonlocal changed
            found = observed.read()
            if found is None or found.pop("twice"):
                return None
            changed = sum(found.values())
            return self._snapshot_properties(_with_row_count(position, changed)) if changed else None

        made = sql(spark, one_file_sql(rows) if few else rows)
        commit.overwrite("table.overwrite", self.model, self.table, made, notes)
        return changed

    def _affected_rows_sql(self, join: str, rows: str) -> str:
        """Returns SQL for the table's rows of affected windows (groups, rankings), or with an anti join of unaffected
        ones."""
        hint = self._join_hint("fired") if self._upsert.target_filter else ""
        return f"select {hint}old.* from {rows} as old\n{join} {_FIRED} as fired on {self._upsert.condition}"

    def _replace_all_rows(
        self,
        spark: SparkSession,
        query: str,
        columns: Columns,
        position: Position,
        few: bool,
        cache: BatchCache,
    ) -> int:
        """Replaces all rows of the table by those of a query, if they differ as multisets."""
        from pyspark.sql import functions as F

        rows = sql(spark, self.checked_sql(spark, query))
        cache.persist(rows)
        register_view(scan_cached(rows), _NEW)
        listed = ", ".join(map(quoted, columns.names))
        counted = [(_NEW, "1"), (self._known_rows_sql(columns), "-1")]
        total = F.expr("sum(abs(__stream_times))").alias("rows")
        differences = sql(spark, summed_changes_sql(listed, counted, "<> 0")).observe(_CHANGED, total)
        cache.persist(differences)
        (changed,) = cache.observed_metrics(_CHANGED)
        if not changed:
            return 0
        if self.changes is not None:
            register_view(scan_cached(differences), _CHANGED)
            self.changes.append(spark, change_rows_sql(_CHANGED, listed), position)
        made = sql(spark, one_file_sql(f"select * from {_NEW}")) if few else scan_cached(rows)
        self._overwrite(made, _with_row_count(position, changed))
        return changed

    def _write_decided_changes(self, spark: SparkSession, position: Position) -> None:
        columns = self.table_columns(spark)
        listed = ", ".join(map(quoted, columns.names))
        if self._upsert.key is None:
            total = spark.table(DECIDED).count()
            counted = [(self._known_rows_sql(columns), "1"), (DECIDED, f"if({ADDS}, 1, -1)")]
            rows = summed_changes_sql(listed, counted, "> 0")
            each = f"select {listed} from ({rows}) lateral view explode(sequence(1L, __stream_times)) as __stream_time"
            self._overwrite(spark.sql(each), _with_row_count(position, total))
            return
        self._deletes_by_position = are_possible(self.table, columns.names)
        with BatchCache() as cache:
            old, new = (f"select {listed} from {DECIDED} where {which}" for which in (f"not {ADDS}", ADDS))
            if self._deletes_by_position:
                known = self._known_rows_sql(columns, with_places=True)
                decided = f"{known} as old left semi join {DECIDED} as decided"
                old = f"select old.* from {decided} on {self._same_key_condition('old', 'decided')}"
            found = self._compute_changes(spark, self._compared_rows_sql(old, new, columns), "false", cache)
            total = spark.table(DECIDED).where(f"{CHANGE_TYPE} <> '{BEFORE}'").count()
            self._write(found, "true", columns.names, _with_row_count(position, total), False)

    def _overwrite(self, rows: DataFrame, position: Position) -> None:
        """Replaces all rows of the table. Fails if another writer has committed since the micro-batch began."""
        commit.overwrite("table.overwrite", self.model, self.table, rows, self._snapshot_properties(position))

    def _columns_in_change_order(self, spark: SparkSession, columns: Columns) -> str:
        """Returns the select list of the table's columns in the column order of the query's change, so that both can be
        united. A column that was added later is the table's last column."""
        if self._upsert.change is None:
            return "*"
        has = {name.lower(): quoted(name) for name in columns.names}
        names = [name.lower() for name in spark.table(self._upsert.change).columns]
        return ", ".join(has[name] for name in names if name in has)

    def _known_rows_sql(self, columns: Columns, with_places: bool = False) -> str:
        """Returns SQL for the table before the micro-batch, by its snapshot. Spark would recompute rows cached from the
        table's name after the commit, and never release them.

        Args:
            with_places: whether to add file and position of each row, if rows are deleted by them.
        """
        snapshot = self.table.known
        if not with_places or not self._deletes_by_position:
            return columns.empty_relation() if snapshot is None else self.table.snapshot_sql(snapshot)
        if snapshot is None:
            nowhere = f"cast(null as string) as {_OLD_FILE}, cast(null as bigint) as {_OLD_POSITION}"
            return f"(select *, {nowhere} from {columns.empty_relation()})"
        return self.table.snapshot_sql(snapshot, f"{FILE} as {_OLD_FILE}, {PLACE} as {_OLD_POSITION}")

    def _with_key_counts_sql(self, new: str) -> str:
        """Adds the number of rows with the same key to the result."""
        by = ", ".join(map(quoted, self._keys))
        return f"select *, count(*) over ({f'partition by {by}' if by else ''}) as {_TIMES} from (\n{new}\n)"

    def _other_keys_sql(self, columns: Columns, replaceable: str) -> str | None:
        """Returns SQL for the keys of table rows that aren't replaced; None if no result row can have one of these keys."""
        if self._key_has_filtered:
            return None
        listed = ", ".join(map(quoted, self._keys))
        return (
            f"select {listed} from (select * from {self._known_rows_sql(columns)} where {replaceable}) as old\n"
            f"left anti join {_FIRED} as fired on {self._upsert.condition} group by {listed}"
        )

    def _raise_duplicate_key(self, spark: SparkSession) -> None:
        """Raises an error that names a key with more than one row."""
        found = self._first_key_text(spark.table(_CHANGED).where(f"{_TIMES} > 1"), "new ")
        raise StreamError(
            f"Model {self.model.name}: two rows of its result have the same key ({found}), so an update would match "
            "both. Put what distinguishes them into the select list, and name it with the rest of the key as the "
            "model's config unique_key, as in ['k', 'name']; or rank by ROW_NUMBER(); or, where a table that it joins "
            "has several rows for a key, join one of them."
        )

    def _first_key_text(self, rows: DataFrame, which: str) -> str:
        """Returns the key of the first row, for a message; `which` is the prefix of the column names."""
        if not self._keys:
            return "of all rows"
        kinds = dict(rows.dtypes)
        # Times are shown as text: Python's datetime ends with the year 9999.
        shown = [
            f"string({quoted(name)})"
            if kinds.get(name, "").startswith(("timestamp", "date"))
            else quoted(name)
            for name in (f"{which}{key}" for key in self._keys)
        ]
        (first,) = rows.selectExpr(*shown).limit(1).collect()
        return ", ".join(f"{name} {value!r}" for name, value in zip(self._keys, first, strict=True))

    def _replaceable_condition(self, spark: SparkSession, cache: BatchCache) -> str | None:
        """Returns the SQL condition for table rows that may be replaced; None if no window (group, ranking) is affected."""
        from pyspark.sql import functions as F

        fired = sql(spark, self._upsert.affected_keys)
        if self._upsert.bound is None:
            register_view(fired, _FIRED)
            return "true"
        bound, of_fired = self._upsert.bound
        fired = fired.observe(_FIRED, F.expr(f"min(unix_micros({of_fired}))").alias("since"))
        cache.persist(fired)
        register_view(scan_cached(fired), _FIRED)
        (since,) = cache.observed_metrics(_FIRED)
        # A literal, so that Iceberg skips files without such rows.
        return None if since is None else f"{quoted(bound)} >= timestamp_micros({since}L)"

    def _same_key_condition(self, left: str, right: str) -> str:
        listed = (f"{left}.{quoted(name)} <=> {right}.{quoted(name)}" for name in self._keys)
        return " and ".join(listed) or "true"

    @property
    def _old_row_condition(self) -> str:
        """SQL condition that joins a table row, ``old``, to its change, ``changed``."""
        same = (f"old.{quoted(name)} <=> changed.{quoted('old ' + name)}" for name in self._keys)
        return " and ".join([f"{CHANGE_TYPE} <> '{INSERT}'", *same])

    def _compared_rows_sql(
        self, old: str, new: str, columns: Columns, counted: bool = False, elsewhere: str | None = None
    ) -> str:
        """Returns SQL for one row per key with the old row, the new row and the change type (NULL for an unchanged row).
        With `counted`, it also has the number of rows with the key in `new` and `elsewhere`."""
        names = columns.names
        whole = " and ".join(
            f"{columns.comparable_sql(name, 'old_')} <=> {columns.comparable_sql(name, 'new_')}"
            for name in names
        )
        before = ", ".join(f"old_.{quoted(name)} as {quoted('old ' + name)}" for name in names)
        after = ", ".join(f"new_.{quoted(name)} as {quoted('new ' + name)}" for name in names)
        column, others = "", ""
        if counted:
            times = f"coalesce(new_.{_TIMES}, 0)"
            if elsewhere is not None:
                times += " + if(__stream_new_there and __stream_there_too, 1, 0)"
                others = f"\nleft join (select *, true as __stream_there_too from (\n{elsewhere}\n)) as other_\non "
                others += self._same_key_condition("other_", "new_")
            column = f",\n  {times} as {_TIMES}"
        if self._deletes_by_position:
            column += f",\n  old_.{_OLD_FILE}, old_.{_OLD_POSITION}"
        return (
            f"select case when not coalesce(__stream_old_there, false) then '{INSERT}'\n"
            f"  when not coalesce(__stream_new_there, false) then '{DELETE}' when not ({whole}) then '{AFTER}' end "
            f"as {CHANGE_TYPE},\n"
            f"  {before},\n  {after}{column}\n"
            f"from (select *, true as __stream_old_there from (\n{old}\n)) as old_\n"
            f"full join (select *, true as __stream_new_there from (\n{new}\n)) as new_ "
            f"on {self._same_key_condition('old_', 'new_')}{others}"
        )

    def _write(
        self, found: _TableChanges, replaceable: str, names: list[str], position: Position, few: bool
    ) -> None:
        spark = found.changed.sparkSession
        rows = f"select {_change_select_list('new', names)} from {_CHANGED} where {CHANGE_TYPE} <> '{DELETE}'"
        if found.counts.keys() == {INSERT}:
            self._append(sql(spark, one_file_sql(rows) if few else rows), position)
        # MERGE would mistake a column with a reserved name for Iceberg's metadata column.
        elif (
            self._is_small
            or has_names_of_iceberg(names)
            or (self._deletes_by_position and self._is_worth_rewriting(found.gone))
        ):
            kept = (
                f"select {self._join_hint('changed') if self._keys else ''}old.*\n"
                f"from {self.model.target} as old left anti join {_CHANGED} as changed\n"
                f"on {self._old_row_condition}"
            )
            all_rows = f"{kept}\nunion all\n{rows}"
            self._overwrite(sql(spark, one_file_sql(all_rows) if self._is_small else all_rows), position)
        elif self._deletes_by_position:
            few = few or are_few(found.total)
            come = (
                sql(spark, one_file_sql(rows) if few else rows) if found.counts.keys() != {DELETE} else None
            )
            self._write_by_position(found, come, position)
        else:
            self._merge_by_key(found.changed, replaceable, names, position)

    def _is_worth_rewriting(self, gone: int) -> bool:
        """Returns whether the table has so many deleted rows, including `gone` new ones, that rewriting it costs no more
        than skipping them in each read. For a large table only the new ones count."""
        rows = self.rows
        before = self.table.summary_count(DELETED) if rows <= _LARGE else 0
        return _WORN * (before + gone) > rows

    def _write_by_position(self, found: _TableChanges, rows: DataFrame | None, position: Position) -> None:
        """Adds rows and deletes the old ones by file and position."""
        spark = found.changed.sparkSession
        where = f"select {_OLD_FILE} as {PATH}, {_OLD_POSITION} as {POSITION} from {{}}"
        gone, files = f"{where.format(_CHANGED)} where {CHANGE_TYPE} <> '{INSERT}'", found.files
        together = "coalesce(1)" if found.gone <= _LARGE_FILE else f"repartition({PATH})"
        with BatchCache() as cache:
            for last in (False, False, True):
                hinted = f"select /*+ {together} */ * from (\n{gone}\n)"
                sorted_ = f"select * from (\n{hinted}\n) sort by {PATH}, {POSITION}"
                notes = self._snapshot_properties(position)
                try:
                    commit.insert_and_delete(
                        "table.change", self.model, self.table, rows, sql(spark, sorted_), files, notes
                    )
                    return
                except commit.DataFilesGone as moved:
                    # A compaction has moved the rows to other files.
                    commit.rebase(self.model, self.table, by_anyone=True)
                    columns = self.table_columns(spark)
                    if last or not are_possible(self.table, columns.names):
                        raise StreamError(
                            f"Model {self.model.name}: its table {self.model.target} was compacted, or its "
                            "partitions were changed, by somebody else while a micro-batch was written. Nothing was "
                            "lost; the next run continues."
                        ) from moved
                now = self._known_rows_sql(columns, with_places=True)
                joined = f"{where.format(f'{now} as old')} left semi join {_CHANGED} as changed"
                found_again = sql(spark, f"{joined}\non {self._old_row_condition}")
                cache.persist(found_again)
                register_view(scan_cached(found_again), _FOUND_AGAIN)
                gone = f"select * from {_FOUND_AGAIN}"
                paths = sql(spark, f"select distinct {PATH} from {_FOUND_AGAIN}").collect()
                files = [path for (path,) in paths]

    def _merge_by_key(
        self, changed: DataFrame, replaceable: str, names: list[str], position: Position
    ) -> None:
        """Writes the changes with Spark's MERGE, which finds old rows by key."""
        from pyspark.sql import functions as F

        spark, target = changed.sparkSession, self.model.target
        matching = [
            f"{target}.{quoted(name)} <=> if({CHANGE_TYPE} = '{INSERT}', {quoted('new ' + name)}, {quoted('old ' + name)})"
            for name in self._keys
        ]
        values = {name: F.col(quoted("new " + name)) for name in names}
        # Uses the DataFrame API: Spark 4.1 can't plan a SQL MERGE whose source is a view of a table.
        recently = replaceable if replaceable == "true" else f"{target}.{replaceable}"
        merge = scan_cached(changed).mergeInto(target, F.expr(" and ".join([*matching, recently])))
        merge = merge.whenMatched(F.expr(f"{CHANGE_TYPE} = '{DELETE}'")).delete()
        merge = merge.whenMatched().update(values)
        # A row that another writer has deleted already isn't inserted.
        merge = merge.whenNotMatched(F.expr(f"{CHANGE_TYPE} <> '{DELETE}'")).insert(values)
        # Spark commits a MERGE itself, so other writers' commits are checked before and after.
        commit.rebase(self.model, self.table, by_anyone=True)
        name = str(uuid.uuid4())
        notes = {FOLLOWED: str(self.table.known), **self._snapshot_properties(position), COMMIT: name}
        with around("table.merge", self.model.name), _with_snapshot_properties(spark, notes):
            merge.merge()
        commit.rebase_on_own_commit(self.model, self.table, name)
        if self.changes is not None and self._followed is None:
            self.changes.append_differences(
                spark, self.table, self.position(), self.table.newest_change_by_others()
            )


def sink_of(spark: SparkSession, model: StreamModel, upsert: Upsert | None) -> Sink:
    """Returns the sink of a model's table. `upsert`: None for a query whose rows never change."""
    return AppendSink(spark, model) if upsert is None else UpsertSink(spark, model, upsert)


def _change_counts(twice: str) -> list[Column]:
    """Returns metrics: the number of changes by type, in the order of `_KINDS`, and the number of changes whose key several
    rows have."""
    from pyspark.sql import functions as F

    counts = [F.expr(f"count_if({CHANGE_TYPE} = '{kind}')").alias(kind) for kind in _KINDS]
    return [*counts, F.expr(f"count_if({twice})").alias("twice")]


def _with_row_count(position: Position, rows: int) -> Position:
    """Returns the position with `rows` added to the number of emitted rows."""
    return replace(position, rows_out=position.rows_out + rows)


def _change_select_list(which: str, names: Sequence[str]) -> str:
    """Returns the select list of the table's columns from a change's ``old`` or ``new`` row.

    >>> _change_select_list("old", ["k", "n"])
    '`old k` as `k`, `old n` as `n`'
    """
    return ", ".join(f"{quoted(f'{which} {name}')} as {quoted(name)}" for name in names)


def _changelog_rows_sql(names: list[str]) -> str:
    """Returns SQL for the changes as changelog rows. An update has two: the row before it and the row after it."""
    old, new = (_change_select_list(which, names) for which in ("old", "new"))
    return (
        f"select {old}, case {CHANGE_TYPE} when '{DELETE}' then '{DELETE}' else '{BEFORE}' end as {CHANGE_TYPE}\n"
        f"from {_CHANGED} where {CHANGE_TYPE} <> '{INSERT}'\n"
        f"union all\nselect {new}, {CHANGE_TYPE} from {_CHANGED} where {CHANGE_TYPE} <> '{DELETE}'"
    )


@contextmanager
def _with_snapshot_properties(spark: SparkSession, properties: Mapping[str, str]) -> Iterator[None]:
    """Sets snapshot properties for commits within the block, since MERGE has no options."""
    settings = {f"spark.sql.iceberg.snapshot-property.{key}": value for key, value in properties.items()}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)
