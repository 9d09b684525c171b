"""A stream in a test: a source, a program, a table, and what comes out."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.iceberg.ownership import ownership_properties
from dbt.adapters.spark_streaming.stream.progress.result import StreamResult
from dbt.adapters.spark_streaming.stream.run.runner import flush, reset, run_stream
from dbt.adapters.spark_streaming.stream.sink import upsert
from dbt.adapters.spark_streaming.stream.storage.savepoints import TABLE

SCHEMA = "stream_tests"
TUMBLE = "window_start timestamp, window_end timestamp, k string, c bigint, s bigint"
CUMULATE = f"{TUMBLE}, d bigint"
EVENTS = "ts timestamp, k string, v bigint, x bigint"

_numbers = itertools.count()


def made_for(target: str) -> str:
    """The clause by which a model's table is known as ours, as its materialization writes it."""
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in ownership_properties(TABLE, target).items())
    return f"tblproperties ({listed})"


class Stream:
    """A model over one Iceberg table of events (`EVENTS`), made for one test.

    Args:
        spark: the session.
        root: the storage root.
        program: what is carried out.
        columns: the columns of the model's table.
        delay: how far the watermark stays behind, in microseconds.
        changelog: whether changes are kept.
    """

    def __init__(
        self,
        spark: Any,
        root: Path,
        program: Program,
        columns: str,
        delay: int = 0,
        changelog: bool = False,
    ) -> None:
        self.spark = spark
        self.program = program
        name = f"m{next(_numbers)}"
        spark.sql(f"create namespace if not exists {SCHEMA}")
        self.events = f"{SCHEMA}.{name}_events"
        target = f"{SCHEMA}.{name}"
        spark.sql(f"create table {self.events} ({EVENTS}) using iceberg")
        spark.sql(f"create table {target} ({columns}) using iceberg {made_for(target)}")
        self.model = StreamModel(
            name=name,
            target=target,
            state=f"{target}__state",
            storage=Storage(str(root), lambda: spark),
            sources=(StreamSource("events", self.events),),
            watermark_delay=delay,
            changelog=changelog,
        )

    def reads(self, source: StreamSource) -> None:
        """Read something else than the table of events."""
        self.model = replace(self.model, sources=(source,))

    def add(self, *rows: tuple[Any, ...]) -> None:
        """Append events: milliseconds (or None), k, v, and x (v if left out)."""
        listed = ", ".join(
            f"({'null' if row[0] is None else row[0]}, {_literal(row[1])}, {row[2]}L, {row[-1]}L)"
            for row in rows
        )
        self.spark.sql(
            f"insert into {self.events} "
            f"select timestamp_millis(t) as ts, k, v, x from values {listed} as new(t, k, v, x)"
        )

    def run(self) -> StreamResult:
        """Take in what is there."""
        return run_stream(self.spark, self.model, self.program)

    def flush(self) -> StreamResult:
        """Close all windows."""
        return flush(self.spark, self.model, self.program)

    def reset(self) -> None:
        """Forget checkpoint and state."""
        reset(self.spark, self.model)

    def rows(self) -> list[tuple[Any, ...]]:
        """The table's rows, sorted, times as milliseconds."""
        return sorted_rows(self.spark.table(self.model.target).collect())

    def part(self, ending: str) -> str:
        """The part of its state that is called so at its end: what comes before says what it is of."""
        names = [part.name for part in self.program.parts]
        (found,) = (name for name in names if name.endswith(f"_{ending}"))
        return found

    def snapshots(self, table: str) -> list[dict[str, str]]:
        """The summaries of a table's snapshots, oldest first."""
        found = self.spark.sql(f"select summary from {table}.snapshots order by committed_at").collect()
        return [dict(row.summary) for row in found]

    def forget_checkpoint(self) -> None:
        """As someone would who cleans up by hand."""
        shutil.rmtree(self.model.checkpoint)


_NEVER: dict[str, Any] = {"_SMALL": 0, "_TINY": 0, "_WORN": 0}
_WAYS: dict[str, dict[str, Any]] = {
    "by place": _NEVER,
    "merge": {**_NEVER, "are_possible": lambda *_: False},
    "anew": {"_TINY": 0},
    "at once": {},
}
POINTS = {
    "by place": "table.change",
    "merge": "table.merge",
    "anew": "table.overwrite",
    "at once": "table.overwrite",
}
"""What the commits of `written` ones are called as fail points."""


def written(way: str, patch: Callable[[Any, str, Any], object]) -> None:
    """Have tables whose rows change be written in one way, however small they are: old rows go by their place in the table,
    or by a MERGE (as where tables have partitions), or all rows are written anew, also by the job that compares them."""
    for name, value in _WAYS[way].items():
        patch(upsert, name, value)


def replayed(spark: Any, model: StreamModel, until: int = 1_000_000) -> list[tuple[Any, ...]]:
    """What the changelog makes of nothing, up to a ``_batch_id``: rows, each there once or not."""
    found: dict[tuple[Any, ...], int] = {}
    for change in spark.table(model.changes).where(f"_batch_id <= {until}").orderBy("_batch_id").collect():
        row, kind = tuple(change)[:-2], change["_change_type"]
        found[row] = found.get(row, 0) + (1 if kind in ("insert", "update_after") else -1)
    assert set(found.values()) <= {0, 1}
    return [row for row, times in found.items() if times]


def sorted_rows(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows as sorted tuples, times as milliseconds."""
    return sorted((tuple(map(_plain, row)) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    # Spark gives times without a zone, in that of this process.
    return round(value.astimezone(timezone.utc).timestamp() * 1000) if isinstance(value, datetime) else value


def _literal(text: str | None) -> str:
    return "null" if text is None else f"'{text}'"
