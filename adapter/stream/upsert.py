"""The model's table where rows change: what a step's results differ in is merged into it once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ..query.program import CHANGE_TYPE, Upsert
from .changes import REPLACED_PROPERTY
from .errors import StreamError
from .failpoints import around
from .model import StreamModel
from .position import Position
from .rows import Kept
from .session import show
from .sink import Sink
from .writing import Columns, literal, one_file, quoted, writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_INSERT, _BEFORE, _AFTER, _DELETE = "insert", "update_before", "update_after", "delete"
_SMALL = 100_000
"""A table of so many rows is written anew: a MERGE takes longer to be planned than that."""
_FIRED, _CHANGED, _NEW = "fired_windows", "changed_rows", "new_rows"


class UpsertSink(Sink):
    """A table with one row per key. Every step compares its results with the rows of the same windows, and
    writes what differs in one commit, so no reader sees an old row gone and the new one not there yet."""

    def __init__(self, spark: SparkSession, model: StreamModel, upsert: Upsert) -> None:
        super().__init__(spark, model, upsert.key)
        self._upsert = upsert
        self._keys = upsert.key or ()

    def begin(self, spark: SparkSession) -> None:
        """See `Sink.begin`. The table says that its rows are replaced: who streams it needs the feed."""
        super().begin(spark)
        if self.table.property(REPLACED_PROPERTY) is None:
            name, value = literal(REPLACED_PROPERTY), literal("true")
            with around("table.property", self.model.name):
                spark.sql(f"alter table {self.model.target} set tblproperties ({name} = {value})")

    def own_rows(self, summary: Mapping[str, str]) -> int:
        """See `Sink.own_rows`. A merge also writes rows again that stay what they are, so the position counts
        those that changed."""
        return 0

    def put(self, spark: SparkSession, query: str, position: Position, few: bool) -> int:
        """See `Sink.put`: rows inserted, updated and deleted."""
        self.table.refresh()  # others may have written since the last step
        kept = Kept()
        try:
            return self._merge(spark, query, position, few, kept)
        finally:
            kept.release()

    def _merge(self, spark: SparkSession, query: str, position: Position, few: bool, kept: Kept) -> int:
        from pyspark.sql import functions as F

        columns = self.columns(spark, query)
        if self._upsert.key is None:
            return self._replace(spark, query, columns, position, few, kept)
        recent = self._recent(spark, kept)
        if recent is None:
            return 0
        old = (
            f"select old.* from (select * from {self._as_it_is(columns)} where {recent}) as old\n"
            f"left semi join {_FIRED} as fired on {self._upsert.scope}"
        )
        kinds = (_INSERT, _AFTER, _DELETE)
        counting = [F.expr(f"count_if({CHANGE_TYPE} = '{kind}')").alias(kind) for kind in kinds]
        differences = self._differences(old, columns.select(spark, query), columns.names)
        changed = spark.sql(differences).observe(_CHANGED, *counting)
        kept.keep(changed)
        show(changed, _CHANGED)
        counts = {kind: count for kind, count in zip(kinds, kept.observed(_CHANGED), strict=True) if count}
        if not counts:
            return 0
        if not self._upsert.certain:
            self._check_unique(spark)
        if self._changes is not None:
            self._changes.append(spark, _with_retractions(columns.names), position)
        total = sum(counts.values())
        self._write(changed, recent, columns.names, _counting(position, total), few, set(counts))
        self.table.refresh()
        return total

    def _replace(
        self, spark: SparkSession, query: str, columns: Columns, position: Position, few: bool, kept: Kept
    ) -> int:
        """Put the rows of a query in the place of all, if they differ; some may be there more than once."""
        from pyspark.sql import functions as F

        rows = spark.sql(columns.select(spark, query))
        kept.keep(rows)
        show(rows, _NEW)
        listed = ", ".join(map(quoted, columns.names))
        differences = spark.sql(
            f"select {listed}, sum(__sign) as __times from (\n"
            f"  select *, 1 as __sign from {_NEW}\n  union all\n  select *, -1 as __sign from {self._as_it_is(columns)}\n"
            f") group by {listed} having sum(__sign) <> 0"
        ).observe(_CHANGED, F.expr("sum(abs(__times))").alias("rows"))
        kept.keep(differences)
        (changed,) = kept.observed(_CHANGED)
        if not changed:
            return 0
        if self._changes is not None:
            show(differences, _CHANGED)
            kinds = f"if(__times > 0, '{_INSERT}', '{_DELETE}') as {CHANGE_TYPE}"
            each = f"select {listed}, {kinds} from {_CHANGED} lateral view explode(sequence(1L, abs(__times))) as __time"
            self._changes.append(spark, each, position)
        made = spark.sql(one_file(f"select * from {_NEW}")) if few else rows
        self._overwrite(made, _counting(position, changed))
        self.table.refresh()
        return changed

    def _overwrite(self, rows: DataFrame, position: Position) -> None:
        """Put rows in the place of all. If someone else has written since the step began, it fails, as a MERGE does."""
        from pyspark.sql import functions as F

        made = writer(rows, self.model.target, position).option("isolation-level", "serializable")
        if (snapshot := self.table.snapshot_id) is not None:
            made = made.option("validate-from-snapshot-id", str(snapshot))
        with around("table.overwrite", self.model.name):
            made.overwrite(F.lit(True))

    def _as_it_is(self, columns: Columns) -> str:
        """The table before the step, by its snapshot: what is kept of rows of the table itself, Spark would compute
        anew after the commit, and keep for ever under a plan that nobody can give back."""
        snapshot = self.table.snapshot_id
        return columns.none() if snapshot is None else f"{self.model.target} version as of {snapshot}"

    def _check_unique(self, spark: SparkSession) -> None:
        """Passes changes of which each is of another row."""
        columns = ", ".join(quoted(f"new {name}") for name in self._keys)
        kinds = dict(spark.table(_CHANGED).dtypes)
        # Times as text: Python's end with the year 9999.
        shown = ", ".join(
            f"string({quoted(name)})"
            if kinds.get(name, "").startswith(("timestamp", "date"))
            else quoted(name)
            for name in (f"new {key}" for key in self._keys)
        )
        twice = spark.sql(
            f"select {shown} from {_CHANGED} where {CHANGE_TYPE} <> '{_DELETE}' group by {columns} "
            "having count(*) > 1 limit 1"
        ).collect()
        if twice:
            found = ", ".join(f"{name} {value!r}" for name, value in zip(self._keys, twice[0], strict=True))
            raise StreamError(
                f"Model {self.model.name}: two rows of its result have the same key ({found}), so a change couldn't "
                "tell which it is of. Put what tells them apart into the select list, or rank by ROW_NUMBER()."
            )

    def _recent(self, spark: SparkSession, kept: Kept) -> str | None:
        """What rows of the table may be among the old ones; None: no result is new."""
        from pyspark.sql import functions as F

        fired = spark.sql(self._upsert.fired)
        if self._upsert.bound is None:
            found = kept.keep(fired)
            show(fired, _FIRED)
            return "true" if found else None
        bound, of_fired = self._upsert.bound
        fired = fired.observe(_FIRED, F.expr(f"min(unix_micros({of_fired}))").alias("since"))
        kept.keep(fired)
        show(fired, _FIRED)
        (since,) = kept.observed(_FIRED)
        # As a literal, so that Iceberg reads only files that may hold such rows.
        return None if since is None else f"{quoted(bound)} >= timestamp_micros({since}L)"

    def _differences(self, old: str, new: str, names: list[str]) -> str:
        """One row per key whose row is new, gone, or another than it was, with both."""
        same = " and ".join(f"old_.{quoted(name)} <=> new_.{quoted(name)}" for name in self._keys) or "true"
        whole = " and ".join(f"old_.{quoted(name)} <=> new_.{quoted(name)}" for name in names)
        before = ", ".join(f"old_.{quoted(name)} as {quoted('old ' + name)}" for name in names)
        after = ", ".join(f"new_.{quoted(name)} as {quoted('new ' + name)}" for name in names)
        return (
            f"select case when not coalesce(__old_there, false) then '{_INSERT}'\n"
            f"  when not coalesce(__new_there, false) then '{_DELETE}' else '{_AFTER}' end as {CHANGE_TYPE},\n"
            f"  {before},\n  {after}\n"
            f"from (select *, true as __old_there from (\n{old}\n)) as old_\n"
            f"full join (select *, true as __new_there from (\n{new}\n)) as new_ on {same}\n"
            f"where not (coalesce(__old_there, false) and coalesce(__new_there, false) and {whole})"
        )

    def _write(
        self,
        changed: DataFrame,
        recent: str,
        names: list[str],
        position: Position,
        few: bool,
        kinds: set[str],
    ) -> None:
        from pyspark.sql import functions as F

        spark, target = changed.sparkSession, self.model.target
        columns = ", ".join(f"{quoted('new ' + name)} as {quoted(name)}" for name in names)
        rows = f"select {columns} from {_CHANGED} where {CHANGE_TYPE} <> '{_DELETE}'"
        if kinds == {_INSERT}:
            with around("table.append", self.model.name):
                writer(spark.sql(one_file(rows) if few else rows), target, position).append()
            return
        if self.table.count("total-records") <= _SMALL:
            same = " and ".join(
                f"old.{quoted(name)} <=> changed.{quoted('old ' + name)}" for name in self._keys
            )
            kept = (
                f"select old.* from {target} as old left anti join {_CHANGED} as changed\n"
                f"on {CHANGE_TYPE} <> '{_INSERT}'{f' and {same}' if same else ''}"
            )
            self._overwrite(spark.sql(one_file(f"{kept}\nunion all\n{rows}")), position)
            return
        matching = [
            f"{target}.{quoted(name)} <=> if({CHANGE_TYPE} = '{_INSERT}', {quoted('new ' + name)}, {quoted('old ' + name)})"
            for name in self._keys
        ]
        values = {name: F.col(quoted("new " + name)) for name in names}
        # Not by SQL: Spark 4.1 finds no plan for a MERGE whose source is a view of a table.
        recently = recent if recent == "true" else f"{target}.{recent}"
        merge = changed.mergeInto(target, F.expr(" and ".join([*matching, recently])))
        merge = merge.whenMatched(F.expr(f"{CHANGE_TYPE} = '{_DELETE}'")).delete()
        merge = merge.whenMatched().update(values)
        merge = merge.whenNotMatched().insert(values)
        with around("table.merge", self.model.name), _carrying(spark, position):
            merge.merge()


def _counting(position: Position, rows: int) -> Position:
    """The position with so many more rows put out."""
    return replace(position, rows_out=position.rows_out + rows)


def _with_retractions(names: list[str]) -> str:
    """The changes one after the other: what an update takes away, and what it puts there."""
    old = ", ".join(f"{quoted('old ' + name)} as {quoted(name)}" for name in names)
    new = ", ".join(f"{quoted('new ' + name)} as {quoted(name)}" for name in names)
    return (
        f"select {old}, case {CHANGE_TYPE} when '{_DELETE}' then '{_DELETE}' else '{_BEFORE}' end as {CHANGE_TYPE}\n"
        f"from {_CHANGED} where {CHANGE_TYPE} <> '{_INSERT}'\n"
        f"union all\nselect {new}, {CHANGE_TYPE} from {_CHANGED} where {CHANGE_TYPE} <> '{_DELETE}'"
    )


@contextmanager
def _carrying(spark: SparkSession, position: Position) -> Iterator[None]:
    """Commits inside carry `position`: MERGE has no options of its own."""
    settings = {
        f"spark.sql.iceberg.snapshot-property.{key}": value for key, value in position.properties().items()
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)
