"""Plans queries that stay within windows: the windows, which have state, and the query over their results.

The tree is visited bottom up, and each query is of one of five kinds:

static     no stream in it: read again in each micro-batch
rows       a stream, row by row
windowed   rows with their windows, which may be open
result     rows of closed windows, from a window operator
leaving    neither: it can't be computed from the windows that have just closed, and neither can a query around it

Where rows with their windows are grouped, ranked or joined, a window operator takes their place in the tree, and a result
is over it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from ...util.quoting import quote, shown_time
from ..aggregates.aggregate_builder import (
    GROUPING_ID,
    WINDOW_END,
    WINDOW_START,
    WINDOW_TIME,
    AggregateBuilder,
    slice_columns,
    why_not_before_closing,
)
from ..aggregates.grouping import why_window_column_is_no_key
from ..aggregates.model import WindowAggregateSpec
from ..errors import NotWithinWindows, QueryError
from ..frontend import hints
from ..frontend.source_text import SourceText, compared_text
from ..frontend.streams import Stream, Streams
from ..normalize import event_clock, on_change
from ..normalize.rankings import ranks
from ..plan import identity
from ..plan.operators.window_aggregate import WindowAggregate
from ..plan.operators.window_buffer import WindowBuffer
from ..plan.operators.window_results import WindowResults
from ..plan.state.window_steps import WindowBufferSpec
from ..plan.window_operator import WindowOperator
from ..sql.clauses import joined, last_columns, relations
from ..sql.dialect import canonical, function_name, sql
from ..sql.names import digest
from ..sql.nodes import copied, every, shape
from ..sql.tie_breaking import break_ties, decide_extremes
from ..windows import expansion
from ..windows.window_columns import Columns, FromRelation
from ..windows.windows import Window
from .leaving_queries import LeavingQueries
from .locality import output_columns, why_not_grouped_by_window, why_not_local
from .row_level import combines_rows, why_limited, why_not_row_by_row, why_streams_in_expressions

STATIC, ROWS, WINDOWED, RESULT, LEAVING = "static", "rows", "windowed", "result", "leaving"
_COLUMNS = "last_columns"
"""Metadata of a set operation: the result of `last_columns` for each side."""
_WINDOW_COLUMNS = {name: name for name in (WINDOW_START, WINDOW_END, WINDOW_TIME)}


@dataclass(frozen=True)
class WindowedInfo:
    """Properties of a query or relation of a tree that stays within windows."""

    kind: str
    """`STATIC`, `ROWS`, `WINDOWED`, `RESULT` or `LEAVING`, as described at the top of this module."""
    window_columns: Columns = field(default_factory=dict)
    unique: identity.Unique = None
    """Origins of its columns that identify a row."""
    reason: QueryError | None = None
    """Why it leaves its windows."""


def _leaves(reason: QueryError) -> WindowedInfo:
    return WindowedInfo(LEAVING, reason=reason)


class WindowPlanner:
    """Plans one query that stays within windows."""

    def __init__(
        self,
        query: exp.Query,
        streams: Streams,
        leaving: LeavingQueries,
        planned: Mapping[str, str],
        batch: bool = False,
        keeps_rows: bool = False,
        at_once: bool = False,
    ) -> None:
        """Prepares planning.

        Args:
            query: the query. It isn't changed.
            streams: streams of the whole tree.
            leaving: queries of the text that leave their windows, and the rewrites that it requests.
            planned: `names` of the window operators that precede it in the tree.
            batch: see `plan_windows`.
            keeps_rows: whether rows of windows are buffered even if they are only read.
            at_once: whether they feed other windows as they arrive.
        """
        self.keeps_rows, self.at_once = keeps_rows, at_once
        self.streams_read: tuple[Stream, ...] = ()
        self.tree = tree = copied(query)
        self.rewrites, self.batch = leaving.rewrites.branch(), batch
        self.streams, self.leaving = streams, leaving
        self._originals = list(zip(every(tree, exp.Query), every(query, exp.Query), strict=True))
        """Each query of the tree, and the same in the unchanged one."""
        event_clock.replace_clocks(tree)
        self.specs: dict[str, WindowAggregateSpec | WindowBufferSpec] = {}
        self.names = dict(planned)
        """Name of each window operator in the tree → all that it computes, as text."""
        self.ranks: dict[str, None] = {}
        self.grouped: list[Window | None] = []
        self._visited: dict[int, tuple[exp.Expr, WindowedInfo]] = {}
        self._left: exp.Expr | None = None
        """The innermost query that leaves its windows; None if none does."""
        self._reads = Counter(map(shape, hints.windows_under(tree)))
        """Number of times each windowing table function is read."""

    def plan(self) -> WindowResults | QueryError:
        """Returns the query over the windows, and sets `streams_read`; or the reason why the query leaves its windows.

        Raises:
            QueryError: the query is rejected, however it is planned.
        """
        root = exp.Subquery(this=self.tree)
        info = self._visit(root)
        if info.kind == WINDOWED:
            if (reason := self._buffer_read_windows(root)) is not None:
                return reason
            info = self._visit(root)
        if info.reason is not None:
            self._note_left_query(info.reason)
            return info.reason
        query = root.this
        kept_whole = not self.specs or any(isinstance(spec, WindowBufferSpec) for spec in self.specs.values())
        self.streams_read = self.streams.read(kept_whole)
        if (reason := self._why_output_leaves(query, info.kind)) is not None:
            return reason
        if info.kind == RESULT and isinstance(query, exp.Select):
            query.set("order", None)  # rows of a table have no order
        written = hints.restore_originals(exp.Subquery(this=copied(query))).this
        output = self.rewrites.output(query)
        read = self._windows_read(output)
        return WindowResults(
            name="windows",
            inputs=tuple(each for each in self._operators() if each.name in read),
            query=output,
            label="windows",
            carried=info.window_columns,
            unique=info.unique,
            ranks=tuple(self.ranks),
            certain=query.find(exp.Join) is None and not identity.multiplies_rows(query),
            grouped_rows=tuple(filter(None, self.grouped)),
            closed=info.kind == RESULT,
            written=written,
        )

    def _operators(self) -> tuple[WindowOperator, ...]:
        """Returns an operator for each spec, over those whose results it reads."""
        found: dict[str, WindowOperator] = {}
        for spec in self.specs.values():
            made: Any = WindowAggregate if isinstance(spec, WindowAggregateSpec) else WindowBuffer
            found[spec.name] = made(
                name=spec.name,
                label=str(spec.window),
                inputs=tuple(found[name] for name in spec.reads),
                spec=spec,
                streams=tuple(each.relation for each in self.streams_read if each.view in spec.streams),
                at_once=self.at_once,
            )
        return tuple(found.values())

    def _why_output_leaves(self, query: exp.Query, kind: str) -> QueryError | None:
        """Returns why the query over the windows can't be computed when they close; None if it can."""
        if kind == WINDOWED and (reason := self._why_on_change(query)) is not None:
            return reason
        if self.specs and (reason := event_clock.why_output_filtered(query)) is not None:
            return reason
        return self._why_unmeasured()

    def _why_unmeasured(self) -> QueryError | None:
        """Returns the error about the first window over a union of streams, one of which has no watermark; None if there
        is none."""
        unmeasured = {
            stream.view: stream.relation for stream in self.streams_read if stream.event_time is None
        }
        for spec in self.specs.values():
            found = [unmeasured[view] for view in spec.streams if view in unmeasured]
            if found and len(spec.streams) > 1:
                return QueryError(
                    f"{spec.window} reads several streams, and its time {shown_time(spec.window.time_col)} is no "
                    f"column of {', '.join(found)}, so the progress of each is unknown. Name the streams' own time "
                    "columns in the branches of the UNION ALL, the same column wherever a stream is read."
                )
        return None

    # -- the visit ---------------------------------------------------------------------------------

    def _note_left_query(self, reason: QueryError) -> None:
        """Notes the innermost query that leaves its windows, so that no query around it is planned within windows."""
        for copy, original in self._originals:
            if copy is self._left:
                self.leaving.add(original, reason)

    def _visit(self, node: exp.Expr) -> WindowedInfo:
        """Returns the properties of a relation. Rows with windows may be buffered later, which changes their
        kind; others are visited once."""
        seen, info = self._visited.get(id(node), (None, None))
        if seen is node and info is not None:
            return info
        info = self._inspect(node)
        if info.kind == LEAVING and self._left is None:
            self._left = node
        if info.kind != WINDOWED:
            self._visited[id(node)] = node, info
        return info

    def _inspect(self, node: exp.Expr) -> WindowedInfo:
        if isinstance(node, exp.Subquery):
            return self._visit(node.this)
        if isinstance(node, exp.Table):
            if hints.placeholder_of(node) is not None:
                # The result of a planned operator: operators above the windows join it with them.
                return _leaves(QueryError("What an operator gives is no part of windows."))
            return WindowedInfo(ROWS if hints.is_stream(node) else STATIC)
        if isinstance(node, exp.SetOperation):
            return self._visit_union(node)
        if isinstance(node, exp.Select):
            return self._visit_select(node)
        if next(hints.windows_under(node), None):
            return _leaves(
                QueryError(
                    f"A windowing table function can't be in '{hints.quoted(node)}'; put it into FROM."
                )
            )
        return WindowedInfo(STATIC)

    def _visit_select(self, select: exp.Select) -> WindowedInfo:
        if result := hints.result_of(select):
            return WindowedInfo(RESULT, dict(result.window_columns), result.unique)
        if window := hints.window_of(select):
            below = self._visit(hints.input_of(select))
            if below.kind == WINDOWED:
                return _leaves(
                    QueryError(
                        f"{window} is over rows that already have windows; aggregate, rank or join them first."
                    )
                )
            return below if below.kind == LEAVING else WindowedInfo(WINDOWED, _WINDOW_COLUMNS)
        sources = self._sources(select)
        if isinstance(sources, WindowedInfo):
            return sources
        if (reason := why_streams_in_expressions(select)) is not None:
            return _leaves(reason)
        kinds = [source.kind for source in sources]
        if RESULT in kinds or WINDOWED in kinds:
            return self._visit_windows(select, sources)
        if ROWS not in kinds:
            return WindowedInfo(STATIC)
        if kinds.count(ROWS) > 1:
            reason = NotWithinWindows(
                "A join of two streams is below a windowing table function; join window results on window_start and "
                "window_end, or read one of the two as a table."
            )
        return self._row_by_row(select, sources, WindowedInfo(ROWS), reason)

    @staticmethod
    def _row_by_row(
        select: exp.Select,
        sources: Sequence[FromRelation],
        info: WindowedInfo,
        otherwise: QueryError | None = None,
    ) -> WindowedInfo:
        """Returns `info` for a SELECT that works row by row, whose ORDER BY is removed; `otherwise` is another reason why
        it may not."""
        if (reason := why_not_row_by_row(select, sources) or otherwise) is not None:
            return _leaves(reason)
        select.set("order", None)
        return info

    def _visit_windows(self, select: exp.Select, sources: list[FromRelation]) -> WindowedInfo:
        kinds = [source.kind for source in sources]
        if ROWS in kinds:
            row = next(source.alias for source in sources if source.kind == ROWS)
            return _leaves(
                NotWithinWindows(
                    f"'{row}' is a stream without windows, joined with windows; give it a windowing table function too, or "
                    "read it as a table."
                )
            )
        self._record_rankings(select)
        top = None
        if kinds.count(WINDOWED) == 1 and RESULT not in kinds:
            windowed = next(source for source in sources if source.kind == WINDOWED)
            reason = self._row_level_reason(select)
            if reason is None:
                info = WindowedInfo(WINDOWED, output_columns(select, sources))
                return self._row_by_row(select, sources, info)
            if select.args.get("group"):
                made = self._aggregate(select, sources, windowed)
                if isinstance(made, WindowedInfo):
                    return made
                reason = made
                self.rewrites.rows_are_kept(select, reason)
                self.grouped += map(hints.window_of, hints.windows_under(windowed.node))
            elif self._is_only_read_here(windowed.node):
                top = ranks.top(select, sources)
        else:
            reason = "a join of windows"
        for source in sources:
            if source.kind == WINDOWED and (left := self._buffer_windows(source.node, reason, top)):
                return _leaves(left)
        left = why_window_column_is_no_key(select) if select.args.get("group") else None
        if (left := left or self._why_other_windows(select)) is not None:
            return _leaves(left)
        read = self._sources(select)
        if isinstance(read, WindowedInfo):
            return read
        outputs = output_columns(select, read)
        if (left := why_not_local(select, read, outputs)) is not None:
            return _leaves(left)
        break_ties(select)
        decide_extremes(select)
        unique = identity.unique_of_select(select, read, outputs)
        if unique is not None and WINDOW_END in unique and self._is_zoned():
            unique |= {WINDOW_START}
        return WindowedInfo(RESULT, outputs, unique)

    def _is_zoned(self) -> bool:
        """Whether windows are aligned to a time zone: where its clock is put forward, several may end at
        once."""
        return any(spec.window.time_zone for spec in self.specs.values())

    def _visit_union(self, node: exp.SetOperation) -> WindowedInfo:
        # Read before results take the place of queries.
        node.meta.setdefault(_COLUMNS, [last_columns(side) for side in (node.this, node.expression)])
        sides = self._sides(node)
        kinds = {side.kind for side in sides}
        if LEAVING in kinds:
            return sides[-1]
        if kinds == {STATIC}:
            return WindowedInfo(STATIC)
        if (reason := why_limited(node)) is not None:
            return _leaves(reason)
        plain = isinstance(node, exp.Union) and not node.args.get("distinct")
        if kinds == {ROWS} or (kinds == {ROWS, STATIC} and plain):
            if not plain or STATIC in kinds:
                return _leaves(
                    NotWithinWindows(
                        f"{node.key.upper()} over a stream must be UNION ALL of streams; found '{hints.quoted(node)}'."
                    )
                )
            return WindowedInfo(ROWS)
        if kinds == {WINDOWED} and plain:
            return WindowedInfo(WINDOWED, _common_window_columns(node, sides))
        if not kinds <= {WINDOWED, RESULT}:
            return _leaves(
                NotWithinWindows(
                    f"{node.key.upper()} puts window results together with something else; both sides must be over windows."
                )
            )
        for side, info in zip((node.this, node.expression), sides, strict=True):
            if info.kind == WINDOWED:
                reason = self._buffer_windows(side, f"{node.key.upper()} over windows")
                if reason is not None:
                    return _leaves(reason)
        sides = self._sides(node)
        columns = _common_window_columns(node, sides)
        if not plain and WINDOW_END not in columns.values():
            return _leaves(
                QueryError(
                    f"{node.key.upper()} compares rows of different windows; put window_end into both sides."
                )
            )
        return WindowedInfo(RESULT, columns)

    def _sides(self, node: exp.SetOperation) -> list[WindowedInfo]:
        """Returns the properties of both sides of a set operation, up to the first one that leaves its windows."""
        left = self._visit(node.this)
        return [left] if left.kind == LEAVING else [left, self._visit(node.expression)]

    def _sources(self, select: exp.Select) -> list[FromRelation] | WindowedInfo:
        """Returns the relations of a SELECT, or the properties of the first one that leaves its windows."""
        found = []
        for node, join in joined(select):
            info = self._visit(node)
            if info.kind == LEAVING:
                return info
            found.append(
                FromRelation(
                    alias=node.alias_or_name,
                    node=node,
                    kind=info.kind,
                    window_columns=info.window_columns,
                    join=join,
                    unique=info.unique,
                )
            )
        return found

    # -- window operators -----------------------------------------------------------------------------

    @staticmethod
    def _row_level_reason(select: exp.Select) -> str | None:
        """Returns why a SELECT over rows with windows needs them closed; None if it works row by row."""
        found = combines_rows(select)
        if found is None:
            return None
        if isinstance(found, exp.Window | exp.AggFunc):
            return f"{function_name(found.this if isinstance(found, exp.Window) else found)}() over rows"
        return {"group": "GROUP BY", "distinct": "SELECT DISTINCT"}.get(found.key, found.key.upper())

    @staticmethod
    def _why_on_change(node: exp.Expr) -> QueryError | None:
        """Returns the error about a window with emit='on_change' that is read row by row, as its rows don't say at which
        steps a key changed; None if there is none."""
        for over in hints.windows_under(node):
            window = hints.window_of(over)
            if window is not None and on_change.is_on_change(over):
                return QueryError(on_change.refusal(window))
        return None

    def _aggregate(
        self, select: exp.Select, sources: Sequence[FromRelation], windowed: FromRelation
    ) -> WindowedInfo | str:
        """Puts partial aggregates in the place of a GROUP BY over windows, and returns the properties of their results; or
        the reason why rows have to be stored."""
        over = next(hints.windows_under(windowed.node))
        window = hints.window_of(over)
        assert window is not None
        if len(list(hints.windows_under(windowed.node))) > 1:
            return "a UNION of windows"
        if (reason := self._why_passed_rows_need_windows(windowed.node, window)) is not None:
            return reason
        reads = self._windows_read(select)
        # The rows may be results of other windows, emitted when these close.
        if reads and (left := event_clock.why_output_filtered(select)) is not None:
            return _leaves(left)
        if (reason := why_not_before_closing(select, window, sources, ())) is not None:
            return reason
        if (left := why_not_grouped_by_window(select, sources, window)) is not None:
            return _leaves(left)
        builder = AggregateBuilder(select, sources, window)
        if builder.why_rows_are_stored is not None:
            return builder.why_rows_are_stored
        outputs = output_columns(select, sources)
        time = self._window_column_as_time(over, window)
        left = why_not_local(select, sources, outputs) or self._why_late_results(over, window, time)
        if left is not None:
            return _leaves(left)
        key = canonical(select)
        spec = self.specs.get(key)
        if spec is None:
            keys = sorted((each.name, each.identity) for each in builder.keys)
            sets = builder.grouping_sets and [sorted(members) for members in builder.grouping_sets]
            identified = self._identity(select, builder.source, window, reads, "groups", keys, sets)
            name = self._new_name(identified, key)
            enumerated = self.rewrites.enumerated_keys(select, name, builder)
            self.rewrites.split(select, name, builder)
            spec = WindowAggregateSpec(
                name=name,
                identity=identified,
                window=window,
                reads=reads,
                streams=self._streams_under(select),
                filters_on_arrival=event_clock.filters_on_arrival(select),
                rows=builder.rows(),
                source=builder.source,
                keys=tuple(builder.keys),
                grouping_sets=builder.grouping_sets,
                metrics=tuple(builder.metrics.values()),
                distinct_sets=builder.distinct_sets,
                output=builder.output(f"{name}_windows"),
                session_keys=builder.session_keys,
                time_carries=time,
                enumerated=enumerated,
                written=builder.text.written,
            )
            self.specs[key] = spec
        outputs |= {column: f"{spec.name}.{key}" for column, key in builder.key_columns.items()}
        unique = {WINDOW_END, *(f"{spec.name}.{key.name}" for key in builder.keys)}
        if builder.grouping_sets is not None:
            unique.add(f"{spec.name}.{GROUPING_ID}")
        if window.merges or window.time_zone:
            # Windows whose ends a clock skips all end when it is put forward.
            unique.add(WINDOW_START)
        result = hints.WindowResult(spec.name, tuple(outputs.items()), frozenset(unique))
        select.replace(hints.window_result(result))
        return WindowedInfo(RESULT, outputs, result.unique)

    def _why_passed_rows_need_windows(self, node: exp.Expr, window: Window) -> str | None:
        """Returns the first result of `why_not_before_closing` for the queries between a windowing table function and the
        GROUP BY that reads it."""
        node = node.unnest()
        if not isinstance(node, exp.Select) or hints.window_of(node):
            return None
        sources = self._sources(node)
        assert not isinstance(sources, WindowedInfo)
        below = next(source.node for source in sources if source.kind == WINDOWED)
        return why_not_before_closing(
            node, window, sources, node.expressions
        ) or self._why_passed_rows_need_windows(below, window)

    def _record_rankings(self, select: exp.Select) -> None:
        """Checks rankings, and records those that filters limit."""
        ranks.check(select)
        for name, rank in ranks.ranks(select).items():
            if name in ranks.bounds_in_outer_select(select):
                # Text as first seen, before tie-breakers are added.
                self.ranks.setdefault(rank.meta.setdefault("text", sql(rank)))

    def _why_other_windows(self, select: exp.Select) -> QueryError | None:
        """Returns the error about joined windows with other bounds, which match never or only partly, as in Flink; None if
        all have the same."""
        found: dict[tuple[object, ...], Window] = {}
        nodes = relations(select)
        for name in (each for node in nodes if len(nodes) > 1 for each in self._windows_read(node)):
            window = self._windows[name]
            cut = (window.kind, window.size, window.step, window.offset, window.time_zone)
            found.setdefault(cut, window)
        if len(found) <= 1:
            return None
        return QueryError(
            f"The join combines rows of {' and '.join(map(str, found.values()))}, whose windows differ; use the "
            "same windowing table function with the same lengths, offset and time zone on both sides."
        )

    def _is_only_read_here(self, node: exp.Expr) -> bool:
        """Whether a relation has the unchanged rows of a windowing table function, and nothing else in the query reads
        them. Rows that several relations read are buffered once, all of them."""
        assert isinstance(node, exp.Subquery)
        below = _unwrapped(node)
        if not hints.window_of(below):
            return False
        return below is node.this or self._reads[shape(below)] == 1

    def _buffer_windows(self, node: exp.Expr, reason: str, top: ranks.Top | None = None) -> QueryError | None:
        """Replaces every windowing table function under a node by its buffered rows; returns why the query leaves its
        windows, if one of them can't be buffered."""
        if (left := self._why_on_change(node)) is not None:
            return left
        for select in list(hints.windows_under(node)):
            window = hints.window_of(select)
            assert window is not None
            read = hints.input_of(select)
            key = f"{canonical(select)} {top}"
            spec = self.specs.get(key)
            self._visit(read)
            reads, time = self._windows_read(read), self._window_column_as_time(select, window)
            left = event_clock.why_output_filtered(read) if reads else None
            if (left := left or self._why_late_results(select, window, time)) is not None:
                return left
            if spec is None:
                below = expansion.without_windows(sql(read), "below")
                items = ", ".join(f"{text} as {quote(name)}" for name, text in slice_columns(window).items())
                text = SourceText(read)
                plain = text.reads(None)
                identified = self._identity(select, plain, window, reads, "rows")
                name = self._new_name(identified, key)
                if top is not None and not window.merges and self.rewrites.topn_buckets is not None:
                    top = replace(top, buckets=self.rewrites.topn_buckets)
                    self.rewrites.split_ranking(name)
                spec = WindowBufferSpec(
                    name=name,
                    identity=identified,
                    window=window,
                    reads=reads,
                    streams=self._streams_under(select),
                    filters_on_arrival=event_clock.filters_on_arrival(read),
                    rows=f"select {items}, struct(input.* {expansion.LEAVING_OUT}) as `row` from {below} as input",
                    source=canonical(text.written),
                    plain=plain,
                    reason=reason,
                    top=None if window.merges else top,
                    time_carries=time,
                    written=text.written,
                )
                self.specs[key] = spec
            result = hints.WindowResult(spec.name, tuple(_WINDOW_COLUMNS.items()), None)
            select.replace(hints.window_result(result))
        return None

    def _window_column_as_time(self, select: exp.Select, window: Window) -> str | None:
        """Returns the window column of lower windows that an upper window uses as its time; None if it is none."""
        found = self._visit(hints.input_of(select)).window_columns.get(window.time_col.lower())
        return found if found in _WINDOW_COLUMNS else None

    def _why_late_results(self, select: exp.Select, window: Window, time: str | None) -> QueryError | None:
        """Returns the error about an upper window that may close before the results of the lower ones arrive; None if it
        can't. `time`: the result of `_window_column_as_time`."""
        below = self._visit(hints.input_of(select))
        if below.kind != RESULT or self.batch or self._comes_in_time(select, window, time):
            return None
        return QueryError(
            f"{window} is over the results of other windows, which come when those end. By "
            f"{shown_time(window.time_col)}, a window may close before its rows come; use the window_time or "
            "window_end of the other windows as its time."
        )

    def _comes_in_time(self, select: exp.Select, window: Window, time: str | None) -> bool:
        """Whether results of lower windows arrive before the upper windows close, given the column used as
        time."""
        if time in (WINDOW_END, WINDOW_TIME):
            return True
        if time != WINDOW_START or window.merges:
            return False
        read = self._windows_read(hints.input_of(select))
        return all(_contains_whole(window, self._windows[name]) for name in read)

    def _buffer_read_windows(self, root: exp.Expr) -> QueryError | None:
        """Buffers the rows of windows that are only read, if their bounds aren't known on arrival; returns why that can't
        be done, if so."""
        found = [hints.window_of(select) for select in hints.windows_under(root)]
        kept = [window for window in found if window is not None and (window.merges or self.keeps_rows)]
        return self._buffer_windows(root, f"{kept[0].kind}() read row by row") if kept else None

    def _identity(
        self, node: exp.Expr, source: str, window: Window, reads: Sequence[str], *more: object
    ) -> str:
        """Returns `WindowedRows.identity` of the window operator in the place of a node.

        Args:
            source: text of its input rows.
            more: its kind and its keys.
        """
        streams = [self.streams.relation(view) for view in self._streams_under(node)]
        below = {spec.name: spec.identity for spec in self.specs.values() if spec.name in reads}
        return digest(self.at_once, window.hint(), streams, compared_text(source, below), *more)

    def _new_name(self, identity: str, computes: str) -> str:
        """Returns a name for a window operator, made of its identity. Two of one identity are distinguished by all that
        they compute."""
        name = f"window_{identity}"
        if self.names.setdefault(name, computes) != computes:
            name = f"window_{digest(identity, computes)}"
            self.names[name] = computes
        return name

    def _windows_read(self, query: exp.Expr) -> tuple[str, ...]:
        """Returns the names of the window operators whose results a query reads."""
        tables = {table.name for table in every(query, exp.Table)}
        return tuple(name for name in self._windows if name in tables)

    @property
    def _windows(self) -> dict[str, Window]:
        """Returns the windows of each window operator, by its name."""
        return {spec.name: spec.window for spec in self.specs.values()}

    def _streams_under(self, node: exp.Expr) -> tuple[str, ...]:
        names = (table.name for table in every(node, exp.Table) if hints.is_stream(table))
        return tuple(dict.fromkeys(names))


def _contains_whole(upper: Window, lower: Window) -> bool:
    """Whether no upper window ends within a lower one."""
    together = (lower.is_one_slice or lower.has_known_start) and lower.time_zone == upper.time_zone
    return (
        together and upper.slice_length % lower.size == 0 and (upper.offset - lower.offset) % lower.size == 0
    )


def _unwrapped(node: exp.Expr) -> exp.Expr:
    """Unwraps plain ``SELECT *`` layers, such as those left by CTEs."""
    while True:
        if _is_plain(node):
            node = node.this
        elif isinstance(node, exp.Select) and _passes_on(node):
            (node,) = relations(node)
        else:
            return node


def _is_plain(node: exp.Expr) -> bool:
    """Whether a relation is a query without PIVOT, UNPIVOT or TABLESAMPLE."""
    return isinstance(node, exp.Subquery) and {name for name, each in node.args.items() if each} <= {
        "this",
        "alias",
    }


def _passes_on(select: exp.Select) -> bool:
    """Whether a SELECT is ``SELECT *`` over one query."""
    (item, *others), clauses = select.expressions, {name for name, each in select.args.items() if each}
    plain = isinstance(item, exp.Star) and not any(item.args.values())
    read = relations(select)
    return (
        not hints.window_of(select)
        and plain
        and not others
        and clauses <= {"kind", "expressions", "from", "from_"}
        and len(read) == 1
        and isinstance(read[0], exp.Subquery)
    )


def _common_window_columns(node: exp.SetOperation, sides: Sequence[WindowedInfo]) -> dict[str, str]:
    """Returns the window columns of a set operation: columns are matched by position, and named as on the
    left. Those that a star hides on both sides are taken to have one position if they have one name."""
    first, second = sides
    left, right = node.meta[_COLUMNS]
    beside = {name: name for name in first.window_columns if name not in {*left, *right}}
    beside |= zip(left, right, strict=False)
    return {
        name: kind
        for name, kind in first.window_columns.items()
        if second.window_columns.get(beside.get(name, "")) == kind
    }
