"""Recomputes a range of windows: SQL for their rows, and which rows of a table they replace.

A range is extended to whole windows first (`touched_windows`). Then each window operator and stream is filtered to the
input that these windows need. A filter may be wider than needed: results of other windows, which may be incomplete, are
excluded by their ends.

The bounds of sessions depend on their rows. They are searched in a part of the input, which is widened until no session
reaches its edge; each search is a query that `TimesRunner` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from ...util.quoting import quote, quote_time, time_name_text
from ..aggregates.aggregate_builder import EVENT_TIME, SESSION_START, WINDOW_END, WINDOW_START, WINDOW_TIME
from ..errors import QueryError
from ..frontend import hints
from ..frontend.streams import Stream
from ..normalize import model_text
from ..normalize.names import ctes, own_names
from ..plan.operators.window_results import WindowResults
from ..plan.state.window_steps import WindowSpec
from ..plan.window_operator import WindowOperator
from ..planner import plan_query
from ..program import EXPIRES_AT
from ..sql.dialect import parse
from ..sql.intervals import DAY
from ..sql.nodes import every
from ..windows import ranges
from ..windows.ranges import TimeRange, WindowRange
from ..windows.windows import Window
from . import whole_query

_NO_WINDOWS = (
    "Only whole windows are recomputed, and this query has rows without a window; put a windowing macro around its stream, "
    "or, in batch, use incremental_strategy 'merge' or 'append'."
)

TimesRunner = Callable[[str], tuple[int | None, ...]]
"""Runs a query that returns one row of numbers."""


@dataclass(frozen=True)
class Overwrite:
    """A query that recomputes windows, and which rows its rows replace."""

    sql: str
    """Query for the windows' rows."""
    column: str
    """The table's column that identifies a row's window."""
    condition: str
    """Predicate for the rows of the table to replace."""
    ends: WindowRange


@dataclass(frozen=True)
class StreamExtent:
    """A stream, with queries that find the time from which on it has all rows."""

    name: str
    first_time: str
    """Query for its earliest time, in microseconds."""
    lost: str
    """Query for the number of snapshots that may have deleted rows. It fails unless the stream is an Iceberg table."""
    windows: tuple[Window, ...]

    def end_of_windows_at(self, instant: int) -> int:
        """Returns the first time from which on windows have no rows from before an instant."""
        ends = (
            ranges.touched_windows(window, TimeRange(instant, instant + 1)).until for window in self.windows
        )
        return max((end for end in ends if end is not None), default=instant)


class WindowOverwriter:
    """Recomputes ranges of a model's windows.

    Args:
        ask: runs a query that returns one row.
        batch: whether the model is a batch model, not a stream.

    Raises:
        QueryError: it can't be planned, or its rows can't be assigned to windows.
    """

    def __init__(self, text: str, ask: TimesRunner, batch: bool = True) -> None:
        if not _windows_in(text):
            raise QueryError(_NO_WINDOWS)
        self.plan = plan_query.plan_windows(text, batch, ask)
        self._ask = lambda query: ask(own_names.separate_names(query, self.plan.taken))
        results = self.plan.dataflow.windows
        assert results is not None
        self._results = results
        self.windows = tuple(dict.fromkeys([spec.window for spec in results.specs] or _windows_in(text)))
        """The windowing TVFs of the text."""
        self._column, self._shift = _end_column(results)
        self._check_times()

    # -- which windows ---------------------------------------------------------------------------------

    def touched_windows(self, span: TimeRange) -> WindowRange:
        """Returns the whole windows that rows in a time range belong to."""
        if not self._results.specs:
            return reduce(WindowRange.hull, (ranges.touched_windows(window, span) for window in self.windows))
        found: dict[str, WindowRange] = {}
        for spec in self._results.specs:
            times = [_times_of_results(spec, each, found[each.name]) for each in self._specs_read_by(spec)]
            found[spec.name] = self._touched_windows(spec, reduce(TimeRange.hull, times) if times else span)
        return reduce(WindowRange.hull, found.values())

    def extend_over_sessions(self, ends: WindowRange, table: str) -> WindowRange:
        """Extends a range until no session that differs from the table crosses its edges: only a part of it would be
        replaced."""
        merging = [spec.window for spec in self._results.specs if spec.window.merges]
        while merging and ends != WindowRange():
            first, last = self._sessions_across(ends, table, max(merging, key=_max_unread_distance))
            if first is None or last is None:
                break
            # The range excludes its lower bound.
            ends = ends.hull(WindowRange(first - 1, last))
        return ends

    def _sessions_across(self, ends: WindowRange, table: str, window: Window) -> tuple[int | None, ...]:
        """Returns first and last time of the sessions that cross an edge of the range and differ from the table.
        Sessions are compared by their bounds and keys, not by their results."""
        start = next(
            (each for each, kind in self._results.column_origins.items() if kind == WINDOW_START), None
        )
        keys = [quote(each) for each, kind in self._results.column_origins.items() if _is_key(kind)]
        same = "".join(f" and n.{key} <=> o.{key}" for key in keys)
        end = f"unix_micros({quote(self._column)}) + {self._shift}"
        bounds = f"{f'unix_micros({quote(start)})' if start else end} as first_micros, {end} as last_micros"

        def sessions_in(low: int | None, high: int | None) -> tuple[int | None, ...]:
            searched = WindowRange(low, high)
            rows = f"select {', '.join([*keys, bounds])} from"
            since = self._condition_on_time(quote(self._column), WindowRange(low, None))
            new = f"({rows} (\n{self._results.sql}\n) where {since})"
            old = f"({rows} {table} where {self._condition_on_time(quote(self._column), searched)})"
            exactly = f"n.first_micros = o.first_micros and n.last_micros = o.last_micros{same}"
            query = (
                "select min(least(n.first_micros, o.first_micros)), max(greatest(n.last_micros, o.last_micros))\n"
                f"from (select * from {new} as n left anti join {old} as o on {exactly}) as n\n"
                f"join (select * from {old} as o left anti join {new} as n on {exactly}) as o\n"
                f"on o.last_micros >= n.first_micros and o.last_micros <= n.last_micros{same}\n"
                f"where {_edge_condition(ends)}"
            )
            return self._ask(self._batch_query(self._input_ranges(self._range_by_operator(searched)), query))

        return _bounds_of_sessions(window, ends.after, ends.until, sessions_in)

    def last_windows(self, newest: int, lookback: int) -> TimeRange:
        """Returns the time range that begins `lookback` windows before the newest one."""
        return TimeRange(min(_start_of_earlier_window(window, newest, lookback) for window in self.windows))

    def check_batch(self, batch: TimeRange, size: str) -> WindowRange:
        """Returns the windows in one of dbt's microbatches.

        Raises:
            QueryError: a window would be in two of them.
        """
        for window in self.windows:
            edges = [at for at in (batch.since, batch.until) if at is not None]
            if not window.merges and not all(ranges.is_window_bound(window, at) for at in edges):
                raise QueryError(
                    f"batch_size '{size}' is not a multiple of {window}: a window would extend over two batches. Choose a "
                    "larger batch_size or another window, or write incremental_strategy='window_overwrite'."
                )
        return WindowRange(batch.since, batch.until)

    # -- what computes them ----------------------------------------------------------------------------

    def overwrite(self, ends: WindowRange) -> Overwrite:
        """Returns the query for windows with these ends, and the predicate for the rows it replaces."""
        condition = self._condition_on_time(quote(self._column), ends)
        output = f"select * from (\n{self._results.sql}\n)\nwhere {self._range_condition(ends)}"
        if not self._results.specs:
            span = reduce(TimeRange.hull, (ranges.needed_times(window, ends) for window in self.windows))
            streams = tuple(_filter_stream(stream, span) for stream in self.plan.streams)
            text = whole_query.windows_batch_sql(replace(self.plan, streams=streams), (), output)
        else:
            text = self._batch_query(self._input_ranges(self._range_by_operator(ends)), output)
        return Overwrite(text, self._column, condition, ends)

    def first_time_query(self) -> str | None:
        """Query for the earliest time of all streams, in microseconds; None if a stream's time is computed."""
        if any(stream.event_time is None for stream in self.plan.streams):
            return None
        each = [
            f"select min(cast({quote_time(stream.event_time or '')} as timestamp)) as first_time from {stream.relation}"
            for stream in self.plan.streams
        ]
        listed = "\nunion all\n".join(each)
        return f"select unix_micros(min(first_time)) from (\n{listed}\n)"

    def needed_since(self, oldest: int) -> dict[StreamExtent, int]:
        """Maps each stream with a plain event time to the time from which windows that end at an instant need its rows."""
        ends = WindowRange(oldest - 1, oldest)
        inputs = self._input_ranges(self._range_by_operator(ends))
        found = {}
        for stream in self.plan.streams:
            specs = [spec for spec in self._results.specs if stream.view in spec.streams]
            windows = tuple(spec.window for spec in specs) or self.windows
            spans = [inputs[spec.name] for spec in specs] or [
                ranges.needed_times(each, ends) for each in windows
            ]
            since = reduce(TimeRange.hull, spans).since
            if stream.event_time is None or since is None:
                continue
            snapshots = f"{stream.relation}.snapshots"
            first = (
                f"select unix_micros(min(cast({quote_time(stream.event_time)} as timestamp))) as first_time"
            )
            lost = (
                "select count_if(parent_id is not null and (operation not in ('append', 'replace') or parent_id not in "
                f"(select snapshot_id from {snapshots}))) + greatest(count_if(parent_id is null) - 1, 0) from {snapshots}"
            )
            name = stream.relation.replace("`", "")
            found[StreamExtent(name, f"{first} from {stream.relation}", lost, windows)] = since
        return found

    def newest_end_query(self, table: str) -> str:
        """Query for the newest window end in a table."""
        return f"select unix_micros(max({quote(self._column)})) + {self._shift} from {table}"

    def oldest_end_query(self, table: str, ends: WindowRange) -> str:
        """Query for the oldest window end in a table, within a range."""
        where = self._condition_on_time(quote(self._column), ends)
        return f"select unix_micros(min({quote(self._column)})) + {self._shift} from {table} where {where}"

    def divided_files_query(self, table: str, ends: WindowRange) -> str | None:
        """Query for the number of an Iceberg table's files that have rows both of these windows and of others. None if the
        statistics of files don't say it (``window_time``)."""
        if self._shift:
            return None
        column = f"readable_metrics.{quote(self._column)}"
        lowest, highest = f"{column}.lower_bound", f"{column}.upper_bound"
        inside = f"{column}.null_value_count = 0 and {ends.condition(lowest)} and {ends.condition(highest)}"
        return (
            f"select count(*) from {table}.files\n"
            f"where not (coalesce({inside}, false) or coalesce({ends.exclusion_condition(lowest, highest)}, false))"
        )

    def _condition_on_time(self, column: str, ends: WindowRange) -> str:
        if not self._shift:
            return ends.condition(column)
        # window_time is one microsecond less.
        return TimeRange(ends.after, ends.until).condition(column)

    def _range_condition(self, ends: WindowRange) -> str:
        """SQL predicate for the query's rows in the range. It fails for a row without a window."""
        column = quote(self._column)
        condition = self._condition_on_time(column, ends)
        if not any(join.side for join in every(self._results.query, exp.Join)):
            return condition
        advice = f"write coalesce(a.{self._column}, b.{self._column}) as {self._column}"
        message = f"An outer join leaves {self._column} NULL, so a row is of no window; {advice}."
        return f"if({column} is null, raise_error('{message}'), {condition})"

    # -- inputs of window operators ---------------------------------------------------------------------

    def _specs_read_by(self, spec: WindowSpec) -> list[WindowSpec]:
        """Returns the window operators whose results another one reads."""
        return [each for each in self._results.specs if each.name in spec.reads]

    def _range_by_operator(self, ends: WindowRange) -> dict[str, WindowRange]:
        """Returns the range for each window operator that the result reads."""
        return {each.name: ends for each in self._results.inputs}

    def _input_ranges(self, wanted: Mapping[str, WindowRange]) -> dict[str, TimeRange]:
        """Returns name of a window operator → time range of its input that windows need.

        Args:
            wanted: ends of the windows of each operator that the result reads.
        """
        ends, inputs = dict(wanted), dict[str, TimeRange]()
        for spec in reversed(self._results.specs):
            if spec.name in ends:
                inputs[spec.name] = self._needed_range(spec, ends[spec.name])
                for below in self._specs_read_by(spec):
                    read = _ends_in_range(spec, below, inputs[spec.name])
                    ends[below.name] = read.hull(ends.get(below.name, read))
        return inputs

    def _needed_range(self, spec: WindowSpec, ends: WindowRange) -> TimeRange:
        if not spec.window.merges:
            return ranges.needed_times(spec.window, ends)
        # A row at the very end of a session is in it.
        until = None if ends.until is None else ends.until + 1 + _max_clock_shift(spec.window)
        if ends.after is None:
            return TimeRange(None, until)
        start, end = _session_bounds(spec.window)
        of_ends = f"{end} > {ranges.instant_literal(ends.after)}"
        query = f"select unix_micros(min({start})) from {spec.name}_rows where {of_ends}"
        for reach in _search_distances(spec.window):
            searched = TimeRange(ends.after - reach, until)
            (since,) = self._query_rows(spec, searched, query)
            if since is None or since - _max_unread_distance(spec.window) >= ends.after - reach:
                break
        return TimeRange(ends.after if since is None else min(since, ends.after), until)

    def _touched_windows(self, spec: WindowSpec, span: TimeRange) -> WindowRange:
        if not spec.window.merges:
            return ranges.touched_windows(spec.window, span)
        if span.since is None and span.until is None:
            return WindowRange()
        start, end = _session_bounds(spec.window)
        query = (
            f"select unix_micros(min({start})), unix_micros(max({end})) from {spec.name}_rows\n"
            f"where {span.condition(EVENT_TIME)}"
        )
        first, last = _bounds_of_sessions(
            spec.window,
            span.since,
            span.until,
            lambda low, high: self._query_rows(spec, TimeRange(low, high), query),
        )
        found = WindowRange(span.since, span.until)
        return found if first is None or last is None else found.hull(WindowRange(first, last))

    def _query_rows(self, spec: WindowSpec, searched: TimeRange, query: str) -> tuple[int | None, ...]:
        """Runs a query over a window operator's input rows in a time range."""
        read = {each.name: _ends_in_range(spec, each, searched) for each in self._specs_read_by(spec)}
        return self._ask(self._batch_query({spec.name: searched, **self._input_ranges(read)}, query))

    def _batch_query(self, inputs: Mapping[str, TimeRange], output: str) -> str:
        """Returns the plan's batch query with its window operators and streams filtered to these time ranges."""
        specs = [spec for spec in self._results.specs if spec.name in inputs]
        streams = []
        for stream in self.plan.streams:
            spans = [inputs[spec.name] for spec in specs if stream.view in spec.streams]
            streams.append(_filter_stream(stream, reduce(TimeRange.hull, spans)) if spans else stream)
        cut = [
            _filter_windows(each, inputs[each.name]) for each in self._results.windows if each.name in inputs
        ]
        return whole_query.windows_batch_sql(replace(self.plan, streams=tuple(streams)), cut, output)

    def _check_times(self) -> None:
        for spec in self._results.specs:
            if spec.reads and spec.time_carries is None:
                raise QueryError(
                    f"{spec.window} reads windows, but its time {time_name_text(spec.window.time_col)} is none of their "
                    "window_start, window_end and window_time, so a range of it can't be recomputed; use one of them."
                )


# -- plans ------------------------------------------------------------------------------------------------


def _windows_in(text: str) -> list[Window]:
    """Returns the windowing TVFs of a text."""
    tree = exp.Subquery(this=ctes.inline_ctes(parse(text)))
    found = [hints.window_of(select) for select in hints.windows_under(tree)]
    return [window for window in found if window is not None]


def reads_windows(text: str) -> bool:
    """Whether a text has a windowing TVF."""
    return model_text.reads_streams(text) and bool(_windows_in(text))


def _end_column(results: WindowResults) -> tuple[str, int]:
    """Returns the column that identifies a row's window, and the microseconds to add to it for the window's end."""
    carried = {kind: column for column, kind in reversed(list(results.column_origins.items()))}
    # A column of that name is preferred: in an outer join, others may be NULL.
    for kind, shift in ((WINDOW_END, 0), (WINDOW_TIME, 1)):
        if kind in carried:
            return (kind if results.column_origins.get(kind) == kind else carried[kind]), shift
    raise QueryError(
        "Recomputed windows need to find the rows they replace: put window_end into the select list."
    )


def _filter_stream(stream: Stream, span: TimeRange) -> Stream:
    """Filters a stream to a time range."""
    if stream.event_time is None or span == TimeRange():
        return stream
    condition = span.condition(quote_time(stream.event_time))
    return replace(stream, relation=f"(select * from {stream.relation} where {condition})")


def _filter_windows(windows: WindowOperator, span: TimeRange) -> WindowOperator:
    """Filters the rows of windows to a time range."""
    if span == TimeRange():
        return windows
    rows = f"select * from (\n{windows.spec.rows}\n)\nwhere {span.condition(EVENT_TIME)}"
    return replace(windows, spec=replace(windows.spec, rows=rows))


# -- windows over windows -----------------------------------------------------------------------------------


def _times_of_results(spec: WindowSpec, lower: WindowSpec, ends: WindowRange) -> TimeRange:
    """Returns the event times that results of a lower window operator, with these window ends, have in an upper operator."""
    if spec.time_carries == WINDOW_END:
        return TimeRange(_add_micros(ends.after, 1), _add_micros(ends.until, 1))
    if spec.time_carries == WINDOW_START and not lower.window.merges:
        return TimeRange(
            _add_micros(ends.after, -lower.window.size - _max_clock_shift(lower.window)), ends.until
        )
    # A range of sessions also has their starts (`WindowOverwriter._touched_windows`).
    return TimeRange(ends.after, ends.until)


def _ends_in_range(spec: WindowSpec, lower: WindowSpec, span: TimeRange) -> WindowRange:
    """Returns the window ends of the lower operator's results whose event time in the upper operator is in a range."""
    if spec.time_carries == WINDOW_START:
        longest = lower.window.size + _max_clock_shift(lower.window)
        return WindowRange(span.since, None if lower.window.merges else _add_micros(span.until, longest))
    shift = -1 if spec.time_carries == WINDOW_END else 0
    return WindowRange(_add_micros(span.since, shift), _add_micros(span.until, shift))


def _add_micros(instant: int | None, more: int) -> int | None:
    return None if instant is None else instant + more


# -- sessions -----------------------------------------------------------------------------------------------


def _session_bounds(window: Window) -> tuple[str, str]:
    """SQL for start and end of a row's session."""
    return (
        window.instant(f"unix_micros({SESSION_START})"),
        window.latest_instant(f"unix_micros({EXPIRES_AT})"),
    )


def _max_clock_shift(window: Window) -> int:
    """Returns the maximum microseconds between a zone's local times and instants."""
    return DAY if window.time_zone else 0


def _max_unread_distance(window: Window) -> int:
    """Returns the maximum microseconds between the first row of a session that was read and the unread one before it."""
    return window.size + _max_clock_shift(window)


def _search_distances(window: Window) -> Iterable[int]:
    """Yields distances to search beyond a range, each longer than the last."""
    reach = 4 * max(window.size, window.step, _max_clock_shift(window))
    while True:
        yield reach
        reach *= 4


def _bounds_of_sessions(
    window: Window,
    low: int | None,
    high: int | None,
    search: Callable[[int | None, int | None], tuple[int | None, ...]],
) -> tuple[int | None, ...]:
    """Returns the first and the last time of sessions, which `search` finds in the input between two instants: `low` and
    `high`, which are moved apart until no session reaches them."""
    for reach in _search_distances(window):
        since, until = _add_micros(low, -reach), _add_micros(high, reach)
        first, last = found = search(since, until)
        if first is None or last is None:
            break
        before = since is None or first - _max_unread_distance(window) >= since
        if before and (until is None or last + _max_clock_shift(window) < until):
            break
    return found


def _is_key(origin: str) -> bool:
    """Whether the origin of a column is a key of sessions, not a bound or a result."""
    return "." in origin and not origin.startswith("rank.")


def _edge_condition(ends: WindowRange) -> str:
    """SQL predicate: a recomputed session (n) and the table's version (o) end on different sides of an edge."""
    edges = [edge for edge in (ends.after, ends.until) if edge is not None]
    return " or ".join(f"o.last_micros <= {edge} and n.last_micros > {edge}" for edge in edges)


def _start_of_earlier_window(window: Window, newest: int, lookback: int) -> int:
    """Returns the start of the window that ends at an instant, `lookback` windows earlier."""
    start = newest - (window.size + (window.step if window.merges and window.grows else 0))
    if window.has_known_start:
        # The longest window may have begun less than its size ago.
        since = ranges.needed_times(window, WindowRange(newest - 1, newest)).since
        assert since is not None
        start = since
    return start - lookback * window.unit
