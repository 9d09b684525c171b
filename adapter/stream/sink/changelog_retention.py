"""Compacts changes older than the config `changelog_retention` to their net effect.

Of the old changes, an insert remains for each row that the table had after them, with the ``_batch_id`` of the row's last
change. The commit is
an Iceberg *replace*: streams skip it, and a stream that hasn't read the old changes yet reads them from their own
snapshots, which the maintenance keeps for it. A new stream reads the net effect, which gives the same table.

A changelog has no times, so the property `_TIMES` records the last ``_batch_id`` with the time now and then.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from ...query.program import BATCH_ID, CHANGE_TYPE
from ...query.sql.maps import orderable_sql
from ...util.quoting import quote as quoted
from ...util.types import type_text
from ..common.model import StreamModel
from ..common.session import are_few, register_view, sql
from ..common.table_rows import one_file_sql
from ..iceberg import commit, maintenance
from ..iceberg.table import DELETE_FILES, RECORDS, IcebergTable
from ..progress.position import COMPACTED, PREFIX
from .change_types import ADDS, CHANGES_ID, DELETE, INSERT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPACTED_UNTIL = f"{PREFIX}changes-compacted-until"
"""Property of a changelog with the last ``_batch_id`` that is compacted."""
_TIMES = f"{PREFIX}changes-times"
"""Property with pairs of a ``_batch_id`` and the time (milliseconds since 1970) at which it was the last one."""
_VIEW = "old_changes"
_MINUTE = 60_000


class OldChanges:
    """Compacts the old changes of a model's changelog."""

    def __init__(self, model: StreamModel, table: IcebergTable) -> None:
        self._model, self._table = model, table
        self._times: list[list[int]] = json.loads(table.property(_TIMES) or "[]")
        self._rows = 0
        """Minimum number of rows before compaction is considered again."""

    def compact(self, spark: SparkSession, live: int) -> int:
        """Compacts old changes if that removes enough rows; the table has `live` rows. Returns the number of commits."""
        retention, table = self._model.changelog_retention, self._table
        if retention is None or table.known is None:
            return 0
        self._record_time(retention)
        rows = table.summary_count(RECORDS)
        if rows < self._rows or not _is_worthwhile(rows, live, rows):
            return 0
        self._rows = rows + max(maintenance.EVERY, rows // 4)
        until = self._last_batch_before(int(time.time() * 1000) - retention // 1000)
        if until is None or until <= int(table.property(COMPACTED_UNTIL) or -1):
            return 0
        commit.rebase(
            self._model, table
        )  # somebody may have deleted rows; rewritten files would have them again
        if table.summary_count(DELETE_FILES):
            return 0
        with commit.files_with_values_up_to(spark, table, BATCH_ID, until) as files:
            old = files.rows.where(f"{BATCH_ID} <= {until}").count()
            if not _is_worthwhile(old, live, rows):
                return 0
            times = [each for each in self._times if each[0] > until]
            commit.replace_files(
                "changelog.retention",
                self._model,
                table,
                files,
                _net_changes(files.rows, until, are_few(rows)),
                {COMPACTED: "true"},
                {COMPACTED_UNTIL: str(until), _TIMES: json.dumps(times)},
            )
            self._times = times
        self._rows = 0
        return 1

    def _record_time(self, retention: int) -> None:
        """Records the last ``_batch_id`` and the time, if the previous record is old enough."""
        now = int(time.time() * 1000)
        if self._times and now - self._times[-1][1] < max(_MINUTE, retention // 10_000):
            return
        number = self._table.last_summary().get(CHANGES_ID)
        if number is not None:
            self._times.append([int(number), now])
            self._table.set_properties({_TIMES: json.dumps(self._times)})

    def _last_batch_before(self, before: int) -> int | None:
        """Returns the ``_batch_id`` that was the last at a time (milliseconds since 1970); None if it is unknown."""
        numbers = [number for number, made in self._times if made <= before]
        for snapshot in self._table.snapshots():
            number = snapshot.summary().get(CHANGES_ID)
            if number is not None and int(snapshot.timestampMillis()) <= before:
                numbers.append(int(number))
                break
        return max(numbers, default=None)


def _is_worthwhile(old: int, live: int, rows: int) -> bool:
    """Returns whether compaction removes enough rows: at least as many as the table has, and a quarter of the changelog."""
    return old - live >= max(maintenance.EVERY, live, rows // 4)


def _net_changes(rows: DataFrame, until: int, few: bool) -> DataFrame:
    """Replaces changes up to a ``_batch_id`` by their net effect."""
    spark = rows.sparkSession
    register_view(rows, _VIEW)
    fields = [each for each in rows.schema.fields if each.name not in (CHANGE_TYPE, BATCH_ID)]
    names = [quoted(each.name) for each in fields]
    same = [orderable_sql(quoted(each.name), type_text(each.dataType)) for each in fields]
    listed = ", ".join([*names, CHANGE_TYPE, BATCH_ID])
    query = (
        f"select __row.*, if(__times > 0, '{INSERT}', '{DELETE}') as {CHANGE_TYPE}, __last as {BATCH_ID} from (\n"
        "  select max_by(__row, struct(__sign, __number)) as __row, sum(__sign) as __times,\n"
        "    coalesce(max(__number) filter (where __sign > 0), max(__number)) as __last\n"
        f"  from (select struct({', '.join(names)}) as __row, struct({', '.join(same)}) as __same,\n"
        f"    if({ADDS}, 1, -1) as __sign, {BATCH_ID} as __number from {_VIEW} where {BATCH_ID} <= {until})\n"
        "  group by __same having sum(__sign) <> 0\n"
        ") lateral view explode(sequence(1L, abs(__times))) as __time\n"
        f"union all select {listed} from {_VIEW} where {BATCH_ID} > {until}"
    )
    return sql(spark, one_file_sql(query) if few else query)
