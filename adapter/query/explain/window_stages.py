"""Displays stages with windows as operators: aggregates per slice, and rows buffered until their windows
close."""

from __future__ import annotations

from collections.abc import Iterator

from ..aggregates.aggregate_stage import WINDOW_END, WINDOW_START
from ..aggregates.model import AggregateStage, GroupStage
from ..aggregates.model import Metric as PlanMetric
from ..plan.operators.window_aggregate import WindowAggregate
from ..plan.stages import RowsStage
from ..sql import intervals
from ..windows.emission import Emission
from ..windows.windows import Window
from . import text
from .node import APPEND, RETRACT, UPSERT, Changelog, KeptMetric, Node, State, make
from .selects import Read
from .state import Columns


def aggregate(operator: WindowAggregate, emission: Emission, columns: Columns, below: Node) -> Read:
    """Returns the operator of a GROUP BY over windows."""
    stage, pieces = operator.stage, operator.window_steps(emission)
    window, of = stage.window, _unit(stage.window)
    kept = f"partial aggregates per {of}{' and key' if stage.keys else ''}"
    slices = pieces.slices
    clears = clears_at(window, emission)
    state = [State(slices, kept, clears, columns(slices))]
    for part, values in pieces.set_parts().values():
        first = window.kind == "cumulate"
        what = (
            f"the first occurrence of a value of {', '.join(values)}"
            if first
            else f"a value of {', '.join(values)}, once"
        )
        within = f"per {'window' if first else of}{' and key' if stage.keys else ''}"
        every = ", of the finest grouping set" if stage.has_finest_set else ""
        state.append(
            State(
                part,
                f"{what} {within}{every}",
                clears,
                columns(part),
            )
        )
    own = pieces.state_columns()
    metrics = tuple(
        KeptMetric(text.tidy(m.sql), _function(m), tuple(own.get(m.identity, ())), _how(m, stage, of))
        for m in stage.metrics
    )
    keys = tuple(text.tidy(key.sql) for key in stage.keys)
    ends = (WINDOW_START, WINDOW_END) if window.merges or window.time_zone else (WINDOW_END,)
    key = (*ends, *keys)
    notes = tuple(bounds(window))
    by = "" if not keys else f" by {', '.join(keys)}"
    if stage.grouping_sets is not None:
        by = f" by {grouping_sets(stage)}"
        key = (*key, "grouping_id()")
    node = make(
        "SessionAggregate" if window.merges else "WindowAggregate",
        f"{window}{by}",
        _mode(emission, key),
        (below,),
        identity=stage.name,
        key=key,
        event_time=_time(emission),
        state=tuple(state),
        metrics=metrics,
        notes=notes,
    )
    written = {key.name: key.sql for key in stage.keys} | {m.name: m.sql for m in stage.metrics}
    return Read(node, written, stage.keys)


def rows(stage: RowsStage, emission: Emission, columns: Columns, below: Node, time: str) -> Read:
    """Returns the operator of rows that are buffered until their windows close."""
    top = stage.top
    part = f"{stage.name}_rows"
    what = "a row of open windows, stored once even if it is in several"
    notes = [f"Why rows are kept: {stage.reason}."]
    if top is not None:
        what = f"a row that is among the first {top.rows} of its slice{_of_each(top.partition)}"
        notes.append("No other row can be in the ranking.")
    if top is not None and top.buckets is not None:
        notes.append(f"Rows are ranked in {top.buckets} buckets first.")
    node = make(
        "WindowBuffer",
        str(stage.window),
        # A window has many rows, and nothing identifies them.
        Changelog(RETRACT if emission.changes else APPEND),
        (below,),
        identity=stage.name,
        event_time=_time(emission),
        state=(State(part, what, clears_at(stage.window, emission), columns(part)),),
        notes=(*notes, *bounds(stage.window)),
    )
    return Read(node, time=time)


def _of_each(partition: tuple[str, ...]) -> str:
    named = [key.replace("`row`.", "").replace("`", "") for key in partition]
    return f" per {', '.join(named)}" if named else ""


def grouping_sets(stage: AggregateStage | GroupStage) -> str:
    """Returns the grouping sets, written out with the author's keys."""
    named = {key.name: text.tidy(key.sql) for key in stage.keys}
    sets = (", ".join(named[name] for name in members) for members in stage.grouping_sets or ())
    return f"GROUPING SETS ({', '.join(f'({each})' for each in sets)})"


def _mode(emission: Emission, key: tuple[str, ...]) -> Changelog:
    return Changelog(UPSERT, key) if emission.changes else Changelog(APPEND)


def _time(emission: Emission) -> str:
    when = "" if not emission.complete else f" + {intervals.format(emission.complete)}"
    return f"window_end, final when the watermark is there{when}" if not emission.late_updates else (
        f"window_end, final when the watermark is there + {intervals.format(emission.last)}"
    )  # fmt: skip


def _unit(window: Window) -> str:
    return "session" if window.kind == "session" else "slice"


def _function(metric: PlanMetric) -> str:
    return f"{metric.function} distinct" if metric.distinct else metric.function


def _how(metric: PlanMetric, stage: AggregateStage, of: str) -> str:
    if not metric.distinct_set:
        return f"partial aggregate per {of}"
    if stage.window.kind == "cumulate":
        return "first occurrences per window"
    return f"occurrences per {of}, counted {'at each step' if stage.window.grows else 'when a window closes'}"


def clears_at(window: Window, emission: Emission) -> str:
    """Returns the phrase for what clears the state of a window.

    >>> tumble = Window("tumble", "ts", 60_000_000, 60_000_000)
    >>> clears_at(tumble, Emission())
    'window end'
    >>> clears_at(tumble, Emission(last=60_000_000))
    'window end + 1 minute (allowed lateness)'
    """
    end = {
        "tumble": "window end",
        "hop": "end of its last window",
        "cumulate": "end of the longest window",
        "session": "session end",
        "dynamic_cumulate": "session end",
    }[window.kind]
    if not emission.last:
        return end
    lateness = " (allowed lateness)" if emission.late_updates else " (complete_result_offset)"
    return f"{end} + {intervals.format(emission.last)}{lateness}"


def bounds(window: Window) -> Iterator[str]:
    """Yields sentences on the bounds of windows.

    >>> for sentence in bounds(Window("cumulate", "ts", 3_600_000_000, 60_000_000, emit="on_change")):
    ...     print(sentence)
    Slices of 1 minute; a window closes every 1 minute.
    A key has results only at steps in which it had new rows.
    """
    if not window.merges:
        yield f"Slices of {intervals.format(window.slice)}; a window closes every {intervals.format(window.step)}."
    else:
        of = f"each {', '.join(window.partition_by)}" if window.partition_by else "all rows together"
        yield f"Sessions of {of}, ended by {intervals.format(window.size)} without rows."
    if window.kind == "dynamic_cumulate":
        yield (
            f"A result at each step of {intervals.format(window.step)}, the last one at the first step at or after the "
            "session's end."
        )
    if window.emit == "on_change":
        yield "A key has results only at steps in which it had new rows."
    if window.time_zone:
        yield f"Windows are cut on the clock of {window.time_zone}; the watermark is an instant."
