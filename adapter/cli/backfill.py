"""``dbt-stream backfill``: recomputes closed windows of a model from its sources."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from ..project import batch
from ..query.batch.window_range import WindowOverwriter
from ..query.errors import QueryError
from ..query.windows import ranges
from ..query.windows.ranges import TimeRange, WindowRange
from ..stream.common.errors import StreamError
from ..stream.lifecycle import backfill
from ..stream.sources.upstream import readers
from ..util.text import counted
from .planned import check_column_types, plan_next_run_with_query
from .project import DbtProject, owned_model

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def backfill_model(project: DbtProject, name: str, start: datetime, end: datetime) -> str:
    """Recomputes the closed windows of a time range and returns a sentence with the result."""
    span = batch.require_nonempty_range(TimeRange(ranges.instant_of(start), ranges.instant_of(end)))
    (session, model, program), query = plan_next_run_with_query(project, name)
    check_column_types(session, model, model.columns or {})
    recomputed: list[WindowRange] = []

    def windows_to_recompute(session: SparkSession, closed: int) -> backfill.Windows:
        def query_row(query: str) -> tuple[int | None, ...]:
            row = session.sql(query).first()
            assert row is not None
            return tuple(row)

        try:
            overwriting = WindowOverwriter(query.sql, query_row, batch=False)
            ends = closed_part_of(overwriting.touched_windows(span), closed)
            ends = require_all_closed(overwriting.extend_over_sessions(ends, model.target), closed)
            batch.check_history(overwriting, ends, model.target, query_row)
            plan = overwriting.overwrite(ends)
        except QueryError as problem:
            raise StreamError(f"Model {name}: {problem}") from problem
        recomputed.append(ends)
        divided = overwriting.divided_files_query(model.target, ends)
        return backfill.Windows(plan.sql, plan.condition, divided, _range_notes(ends))

    # Without columns, a backfill doesn't change those of the table.
    rows = backfill.backfill(session, replace(model, columns=None), program, windows_to_recompute)
    notes = _range_notes(recomputed[0])
    return f"{name}: {counted(rows, 'row')} in the windows that end after {notes['after']} and until {notes['until']} (UTC)."


def stopped_readers_sentence(project: DbtProject, name: str) -> str | None:
    """Returns a sentence on the streams that read a model's table, which stop when rows of it change; None if there are
    none. Doesn't start Spark."""
    model, _ = owned_model(project, name)
    if not (names := readers(model.storage, model.target)):
        return None
    return (
        f"Streams over the table of {name}: {', '.join(names)}. A stream over a table reads only rows that are added, and a "
        "backfill changes rows: the next run of each stops, until all are rebuilt with `dbt run --full-refresh --select "
        f"{name}+`."
    )


def closed_part_of(ends: WindowRange, closed: int) -> WindowRange:
    """Returns the part of a range of window ends that have closed.

    Args:
        closed: windows that end until this time, in microseconds since 1970, have closed.

    Raises:
        QueryError: no window of the range has closed.
    """
    assert ends.after is not None and ends.until is not None
    if closed <= ends.after:
        raise QueryError(
            f"No window of the range has closed: those that end until {ranges.instant_text(closed)} have, and later ones "
            "are the stream's to emit."
        )
    return WindowRange(ends.after, min(ends.until, closed))


def require_all_closed(ends: WindowRange, closed: int) -> WindowRange:
    """Returns the range of window ends unchanged if all of them have closed.

    Raises:
        QueryError: a recomputed session ends after `closed`.
    """
    assert ends.after is not None and ends.until is not None
    if ends.until > closed:
        raise QueryError(
            f"With the rows that came since, a session of this range ends at {ranges.instant_text(ends.until)}, and the "
            f"stream has closed windows only until {ranges.instant_text(closed)}. Recompute it once it has closed, or "
            "choose a range that ends before it begins."
        )
    return ends


def _range_notes(ends: WindowRange) -> dict[str, str]:
    assert ends.after is not None and ends.until is not None
    return {"after": ranges.instant_text(ends.after), "until": ranges.instant_text(ends.until)}
