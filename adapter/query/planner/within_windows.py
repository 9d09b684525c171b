"""Finds the queries that stay within windows, and makes the windows below them.

A query is of one of four kinds, or it leaves its windows: it can't be computed from the windows that have just closed, and
neither can a query around it.

static     no stream in it: read again in each micro-batch
rows       a stream, row by row
windowed   rows with their windows, which may be open
result     rows of closed windows, from a window operator

Where rows with their windows are grouped, ranked or joined, a window operator takes their place in the tree, and a result
is over it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from ...util.quoting import time_name_text
from ..aggregates.aggregate_builder import (
    GROUPING_ID,
    WINDOW_END,
    WINDOW_START,
    WINDOW_TIME,
    AggregateBuilder,
    why_not_before_closing,
)
from ..aggregates.grouping import why_window_column_is_no_key
from ..errors import NotWithinWindows, QueryError
from ..frontend import hints
from ..frontend.streams import Streams
from ..normalize import event_clock, on_change
from ..normalize.rankings import ranks
from ..plan import identity
from ..plan.operator import inputs_first
from ..plan.operators.window_results import WindowResults
from ..plan.window_operator import WindowOperator
from ..rewrites.stream_rewrites import Rewrites
from ..sql.clauses import relations, relations_with_joins, trailing_columns
from ..sql.dialect import function_name, sql
from ..sql.nodes import copied, holds, shape
from ..sql.tie_breaking import break_ties, break_ties_of_extremes
from ..windows.window_columns import Columns, FromRelation
from ..windows.windows import Window
from .locality import output_window_columns, why_not_grouped_by_window, why_not_local
from .row_level import first_combining_node, why_limited, why_not_row_by_row, why_streams_in_expressions
from .window_operators import WindowOperators

STATIC, ROWS, WINDOWED, RESULT = "static", "rows", "windowed", "result"
_COLUMNS = "last_columns"
"""Metadata of a set operation: the result of `trailing_columns` for each side as written."""
_WINDOW_COLUMNS = {name: name for name in (WINDOW_START, WINDOW_END, WINDOW_TIME)}


@dataclass(frozen=True)
class Within:
    """A relation or query that stays within windows."""

    kind: str
    """`STATIC`, `ROWS`, `WINDOWED` or `RESULT`, as described at the top of this module."""
    tree: exp.Expr
    """The query without brackets around it, with window operators in the places of what they compute. Callers must not
    change it."""
    window_columns: Columns = field(default_factory=dict)
    unique: identity.Unique = None
    """Origins of its columns that identify a row."""
    ranks: tuple[str, ...] = ()
    """Rankings in it that a filter limits, as written."""
    grouped: tuple[Window, ...] = ()
    """Windows whose buffered rows a GROUP BY in it reads."""


@dataclass(frozen=True)
class _Read:
    """A copy of a SELECT, over its relations within windows."""

    select: exp.Select
    below: tuple[Within, ...]

    @staticmethod
    def over(select: exp.Select, below: Iterable[Within]) -> _Read:
        """Returns the SELECT over relations within windows, which replace its own."""
        below = tuple(below)
        return _Read(copied(select, _trees(relations(select), below)), below)

    @cached_property
    def sources(self) -> list[FromRelation]:
        return [
            FromRelation(
                alias=node.alias_or_name,
                node=node,
                kind=each.kind,
                window_columns=each.window_columns,
                join=join,
                unique=each.unique,
            )
            for (node, join), each in zip(relations_with_joins(self.select), self.below, strict=True)
        ]

    def within(
        self, kind: str, window_columns: Columns | None = None, unique: identity.Unique = None
    ) -> Within:
        """Returns the SELECT as a query of a kind."""
        return Within(kind, self.select, window_columns or {}, unique, *_noted(self.below))


class WithinWindows:
    """The queries of a text that stay within windows. Each is visited once.

    Args:
        tree: the query of the text.
        streams: its streams.
        rewrites: the rewrites that the text requests.
        batch: whether the current time is the machine's, and no watermark closes windows.
        at_once: whether windows feed other windows as their rows arrive.
    """

    def __init__(
        self,
        tree: exp.Query,
        streams: Streams,
        rewrites: Rewrites,
        batch: bool = False,
        at_once: bool = False,
    ) -> None:
        self.rewrites, self._batch = rewrites, batch
        self._operators = WindowOperators(streams, rewrites, at_once)
        self._visited: dict[Hashable, Within | QueryError] = {}
        self._tree = tree

    @cached_property
    def _reads(self) -> Counter[Hashable]:
        """The number of times that each windowing table function is read."""
        return Counter(map(shape, hints.windows_under(self._tree)))

    def plan(
        self, query: exp.Query, streams: Streams, keeps_rows: bool = False
    ) -> WindowResults | QueryError:
        """Returns a query over its windows; or the reason why the query leaves its windows. It isn't changed.

        Args:
            streams: the streams, with what is known of their event times.
            keeps_rows: whether rows of windows are buffered even if they are only read.

        Raises:
            QueryError: the query is rejected, however it is planned.
        """
        found = self.visit(query)
        if isinstance(found, Within) and found.kind == WINDOWED:
            found = self._with_read_windows_buffered(found, keeps_rows)
        if isinstance(found, QueryError):
            return found
        made = copied(found.tree)
        assert isinstance(made, exp.Query)
        read = self._operators.read_by(made)
        reason = self._why_output_leaves(found, read, streams)
        if reason is not None:
            return reason
        if found.kind == RESULT and isinstance(made, exp.Select):
            made.set("order", None)  # rows of a table have no order
        return WindowResults(
            name="windows",
            inputs=read,
            query=made,
            label="windows",
            column_origins=found.window_columns,
            unique=found.unique,
            ranks=found.ranks,
            key_is_unique=not holds(made, exp.Join) and not identity.multiplies_rows(made),
            grouped_rows=found.grouped,
            closed=found.kind == RESULT,
            written=hints.restore_originals(exp.Subquery(this=copied(made))).this,
        )

    def _why_output_leaves(
        self, found: Within, windows: Sequence[WindowOperator], streams: Streams
    ) -> QueryError | None:
        """Returns why the query over the windows can't be computed when they close; None if it can."""
        if found.kind == WINDOWED and (reason := self._why_on_change(found.tree)) is not None:
            return reason
        if windows and (reason := event_clock.output_filter_error(found.tree)) is not None:
            return reason
        return _why_unmeasured(windows, streams)

    def _with_read_windows_buffered(self, found: Within, keeps_rows: bool) -> Within | QueryError:
        """Returns a query that only reads windows, with their rows buffered if their bounds aren't known on arrival, or
        `keeps_rows`."""
        windows = [hints.window_of(select) for select in hints.windows_under(found.tree)]
        kept = [window for window in windows if window is not None and (window.merges or keeps_rows)]
        if not kept:
            return found
        root = exp.Subquery(this=copied(found.tree))
        reason = self._buffer_windows(root, f"{kept[0].kind}() read row by row")
        return self.visit(root.this) if reason is None else reason

    # -- the visit ---------------------------------------------------------------------------------

    def visit(self, node: exp.Expr) -> Within | QueryError:
        """Returns a relation or query within windows, or the reason why it leaves them. The node isn't changed."""
        if isinstance(node, exp.Subquery):
            return self.visit(node.this)
        if not isinstance(node, exp.Select | exp.SetOperation):
            return self._visit_relation(node)
        key = ranks.query_key(node)
        if key not in self._visited:
            self._visited[key] = (
                self._visit_union(node) if isinstance(node, exp.SetOperation) else self._visit_select(node)
            )
        return self._visited[key]

    @staticmethod
    def _visit_relation(node: exp.Expr) -> Within | QueryError:
        """Visits what is no query: a table, or a function in FROM."""
        if isinstance(node, exp.Table):
            if hints.placeholder_of(node) is not None:
                # The result of a planned operator: operators above the windows join it with them.
                return QueryError("What an operator gives is no part of windows.")
            return Within(ROWS if hints.is_stream(node) else STATIC, node)
        if next(hints.windows_under(node), None):
            return QueryError(
                f"A windowing table function can't be in '{hints.excerpt(node)}'; put it into FROM."
            )
        return Within(STATIC, node)

    def _visit_select(self, select: exp.Select) -> Within | QueryError:
        if result := hints.window_result_of(select):
            return Within(RESULT, select, dict(result.window_columns), result.unique)
        if window := hints.window_of(select):
            return self._visit_window(select, window)
        below = self._visit_each(relations(select))
        if isinstance(below, QueryError):
            return below
        if (reason := why_streams_in_expressions(select)) is not None:
            return reason
        kinds = [each.kind for each in below]
        if {*kinds} <= {STATIC}:
            return Within(STATIC, select)
        read = _Read.over(select, below)
        if RESULT in kinds or WINDOWED in kinds:
            return self._visit_windows(read, ranks.greatest_ranks_in_outer_select(select))
        if kinds.count(ROWS) > 1:
            otherwise = NotWithinWindows(
                "A join of two streams is below a windowing table function; join window results on window_start and "
                "window_end, or read one of the two as a table."
            )
            return why_not_row_by_row(read.select, read.sources) or otherwise
        return _row_by_row(read, ROWS)

    def _visit_window(self, select: exp.Select, window: Window) -> Within | QueryError:
        """Visits a windowing table function."""
        rows = hints.window_input(select)
        below = self.visit(rows)
        if isinstance(below, QueryError):
            return below
        if below.kind == WINDOWED:
            return QueryError(
                f"{window} is over rows that already have windows; aggregate, rank or join them first."
            )
        return Within(
            WINDOWED, copied(select, _trees([rows], [below])), _WINDOW_COLUMNS, None, *_noted([below])
        )

    def _visit_each(self, nodes: Sequence[exp.Expr]) -> list[Within] | QueryError:
        """Visits relations; returns the reason of the first one that leaves its windows."""
        return _unless_one_leaves(map(self.visit, nodes))

    def _visit_windows(self, read: _Read, asked: Mapping[str, int]) -> Within | QueryError:
        """Visits a SELECT over windows. `asked` is the result of `ranks.greatest_ranks_in_outer_select`."""
        rows = [source for source in read.sources if source.kind == ROWS]
        if rows:
            return NotWithinWindows(
                f"'{rows[0].alias}' is a stream without windows, joined with windows; give it a windowing table function "
                "too, or read it as a table."
            )
        ranks.check_rankings(read.select)
        # Their text before tie-breakers are added.
        ranked = [sql(rank) for name, rank in ranks.rankings(read.select).items() if name in asked]
        windowed = [source for source in read.sources if source.kind == WINDOWED]
        is_one = len(windowed) == 1 and all(source.kind != RESULT for source in read.sources)
        found = (
            self._over_window(read, windowed[0], asked) if is_one else self._closed(read, "a join of windows")
        )
        if isinstance(found, QueryError):
            return found
        return replace(found, ranks=tuple(dict.fromkeys([*found.ranks, *ranked])))

    def _over_window(
        self, read: _Read, windowed: FromRelation, asked: Mapping[str, int]
    ) -> Within | QueryError:
        """Visits a SELECT over one relation with windows. `asked`: see `_visit_windows`."""
        select, sources = read.select, read.sources
        reason = _why_closed(select)
        if reason is None:
            return _row_by_row(read, WINDOWED, output_window_columns(select, sources))
        if not select.args.get("group"):
            is_first_of_all = self._is_only_read_here(windowed.node)
            return self._closed(
                read, reason, ranks.top_of_slice(select, sources, asked) if is_first_of_all else None
            )
        made = self._aggregate(read, windowed)
        if not isinstance(made, str):
            return made
        self.rewrites.record_stored_rows(select, made)
        grouped = tuple(filter(None, map(hints.window_of, hints.windows_under(windowed.node))))
        found = self._closed(read, made)
        return found if isinstance(found, QueryError) else replace(found, grouped=(*found.grouped, *grouped))

    def _closed(self, read: _Read, reason: str, top: ranks.Top | None = None) -> Within | QueryError:
        """Returns a SELECT over rows of closed windows: those that aren't results yet are buffered.

        Args:
            reason: why they are buffered.
            top: the ranking whose first rows are; None for all rows.
        """
        select = read.select
        for source in read.sources:
            if source.kind == WINDOWED and (left := self._buffer_windows(source.node, reason, top)):
                return left
        left = why_window_column_is_no_key(select) if select.args.get("group") else None
        if (left := left or self._why_other_windows(select)) is not None:
            return left
        below = self._visit_buffered(relations(select), read.below)
        if isinstance(below, QueryError):
            return below
        read = _Read.over(select, below)
        select, sources = read.select, read.sources
        outputs = output_window_columns(select, sources)
        if (left := why_not_local(select, sources, outputs)) is not None:
            return left
        break_ties(select)
        break_ties_of_extremes(select)
        unique = identity.unique_origins(select, sources, outputs)
        if unique is not None and WINDOW_END in unique:
            # Where the clock of a time zone is put forward, several windows may end at once.
            if any(each.spec.window.time_zone for each in self._operators.read_by(select)):
                unique |= {WINDOW_START}
        return read.within(RESULT, outputs, unique)

    def _visit_buffered(
        self, nodes: Sequence[exp.Expr], below: Sequence[Within]
    ) -> list[Within] | QueryError:
        """Visits relations again whose windows were buffered."""
        return _unless_one_leaves(
            self.visit(node) if each.kind == WINDOWED else each
            for node, each in zip(nodes, below, strict=True)
        )

    def _visit_union(self, node: exp.SetOperation) -> Within | QueryError:
        below = self._visit_each([node.this, node.expression])
        if isinstance(below, QueryError):
            return below
        kinds = {each.kind for each in below}
        if kinds == {STATIC}:
            return Within(STATIC, node)
        if (reason := why_limited(node)) is not None:
            return reason
        made = copied(node, _trees([node.this, node.expression], below))
        # Results take the place of queries, whose columns they don't list.
        made.meta.setdefault(_COLUMNS, [trailing_columns(side) for side in (node.this, node.expression)])
        plain = isinstance(node, exp.Union) and not node.args.get("distinct")
        if kinds == {ROWS} or (kinds == {ROWS, STATIC} and plain):
            if not plain or STATIC in kinds:
                return NotWithinWindows(
                    f"{node.key.upper()} over a stream must be UNION ALL of streams; found '{hints.excerpt(node)}'."
                )
            return Within(ROWS, made, {}, None, *_noted(below))
        if kinds == {WINDOWED} and plain:
            return Within(WINDOWED, made, _common_window_columns(made, below), None, *_noted(below))
        if not kinds <= {WINDOWED, RESULT}:
            return NotWithinWindows(
                f"{node.key.upper()} puts window results together with something else; both sides must be over windows."
            )
        for side, each in zip((made.this, made.expression), below, strict=True):
            if each.kind == WINDOWED:
                reason = self._buffer_windows(side, f"{node.key.upper()} over windows")
                if reason is not None:
                    return reason
        sides = [made.this, made.expression]
        below = self._visit_buffered(sides, below)
        if isinstance(below, QueryError):
            return below
        made = copied(made, _trees(sides, below))
        columns = _common_window_columns(made, below)
        if not plain and WINDOW_END not in columns.values():
            return QueryError(
                f"{node.key.upper()} compares rows of different windows; put window_end into both sides."
            )
        return Within(RESULT, made, columns, None, *_noted(below))

    # -- window operators -----------------------------------------------------------------------------

    def _aggregate(self, read: _Read, windowed: FromRelation) -> Within | QueryError | str:
        """Puts partial aggregates in the place of a GROUP BY over windows. Returns their results; the reason why rows have
        to be stored, if they can't be computed from partial aggregates; or the reason why the query leaves its windows."""
        select, sources = read.select, read.sources
        over, *others = hints.windows_under(windowed.node)
        window = hints.window_of(over)
        assert window is not None
        if others:
            return "a UNION of windows"
        reason = self._why_passed_rows_need_windows(windowed.node, window)
        if reason is not None:
            return reason
        # The rows may be results of other windows, emitted when these close.
        left = event_clock.output_filter_error(select) if self._operators.read_by(select) else None
        if left is not None:
            return left
        if (reason := why_not_before_closing(select, window, sources, ())) is not None:
            return reason
        if (left := why_not_grouped_by_window(select, sources, window)) is not None:
            return left
        builder = AggregateBuilder(select, sources, window)
        if builder.why_rows_are_stored is not None:
            return builder.why_rows_are_stored
        outputs = output_window_columns(select, sources)
        time = self._window_column_as_time(over, window)
        left = why_not_local(select, sources, outputs) or self._why_late_results(over, window, time)
        if left is not None:
            return left
        name = self._operators.aggregate(select, builder, window, time).name
        outputs |= {column: f"{name}.{key}" for column, key in builder.key_columns.items()}
        unique = {WINDOW_END, *(f"{name}.{key.name}" for key in builder.keys)}
        if builder.grouping_sets is not None:
            unique.add(f"{name}.{GROUPING_ID}")
        if window.merges or window.time_zone:
            # Windows whose ends a clock skips all end when it is put forward.
            unique.add(WINDOW_START)
        result = hints.WindowResult(name, tuple(outputs.items()), frozenset(unique))
        return Within(RESULT, hints.select_window_result(result), outputs, result.unique, *_noted(read.below))

    def _why_passed_rows_need_windows(self, node: exp.Expr, window: Window) -> str | None:
        """Returns the first result of `why_not_before_closing` for the queries between a windowing table function and the
        GROUP BY that reads it."""
        node = node.unnest()
        if not isinstance(node, exp.Select) or hints.window_of(node):
            return None
        below = self._visit_each(relations(node))
        assert not isinstance(below, QueryError)
        sources = _Read(node, tuple(below)).sources
        lower = next(source.node for source in sources if source.kind == WINDOWED)
        return why_not_before_closing(
            node, window, sources, node.expressions
        ) or self._why_passed_rows_need_windows(lower, window)

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
        windows, if one of them can't be buffered. Changes the tree."""
        if (left := self._why_on_change(node)) is not None:
            return left
        for select in list(hints.windows_under(node)):
            window = hints.window_of(select)
            assert window is not None
            rows = hints.window_input(select)
            time = self._window_column_as_time(select, window)
            left = event_clock.output_filter_error(rows) if self._operators.read_by(rows) else None
            if (left := left or self._why_late_results(select, window, time)) is not None:
                return left
            name = self._operators.buffer(select, window, reason, top, time).name
            result = hints.WindowResult(name, tuple(_WINDOW_COLUMNS.items()), None)
            select.replace(hints.select_window_result(result))
        return None

    @staticmethod
    def _why_on_change(node: exp.Expr) -> QueryError | None:
        """Returns the error about a window with emit='on_change' that is read row by row, as its rows don't say at which
        steps a key changed; None if there is none."""
        for over in hints.windows_under(node):
            window = hints.window_of(over)
            if window is not None and on_change.is_on_change(over):
                return QueryError(on_change.ungrouped_message(window))
        return None

    def _why_other_windows(self, select: exp.Select) -> QueryError | None:
        """Returns the error about joined windows with other bounds, which match never or only partly, as in Flink; None if
        all have the same."""
        found: dict[tuple[object, ...], Window] = {}
        nodes = relations(select)
        for each in (each for node in nodes if len(nodes) > 1 for each in self._operators.read_by(node)):
            window = each.spec.window
            cut = (window.kind, window.size, window.step, window.offset, window.time_zone)
            found.setdefault(cut, window)
        if len(found) <= 1:
            return None
        return QueryError(
            f"The join combines rows of {' and '.join(map(str, found.values()))}, whose windows differ; use the "
            "same windowing table function with the same lengths, offset and time zone on both sides."
        )

    def _below(self, select: exp.Select) -> Within:
        """Returns the input of a windowing table function that stays within windows."""
        found = self.visit(hints.window_input(select))
        assert isinstance(found, Within)
        return found

    def _window_column_as_time(self, select: exp.Select, window: Window) -> str | None:
        """Returns the window column of lower windows that an upper window uses as its time; None if it is none."""
        found = self._below(select).window_columns.get(window.time_col.lower())
        return found if found in _WINDOW_COLUMNS else None

    def _why_late_results(self, select: exp.Select, window: Window, time: str | None) -> QueryError | None:
        """Returns the error about an upper window that may close before the results of the lower ones arrive; None if it
        can't. `time`: the result of `_window_column_as_time`."""
        if self._below(select).kind != RESULT or self._batch or self._comes_in_time(select, window, time):
            return None
        return QueryError(
            f"{window} is over the results of other windows, which come when those end. By "
            f"{time_name_text(window.time_col)}, a window may close before its rows come; use the window_time or "
            "window_end of the other windows as its time."
        )

    def _comes_in_time(self, select: exp.Select, window: Window, time: str | None) -> bool:
        """Whether results of lower windows arrive before the upper windows close, given the column used as
        time."""
        if time in (WINDOW_END, WINDOW_TIME):
            return True
        if time != WINDOW_START or window.merges:
            return False
        below = self._operators.read_by(hints.window_input(select))
        return all(_contains_whole(window, each.spec.window) for each in below)


def _unless_one_leaves(visited: Iterable[Within | QueryError]) -> list[Within] | QueryError:
    """Returns all that are visited; or the reason of the first one that leaves its windows, after which none is."""
    found = []
    for each in visited:
        if isinstance(each, QueryError):
            return each
        found.append(each)
    return found


def _trees(nodes: Sequence[exp.Expr], below: Sequence[Within]) -> dict[int, exp.Expr]:
    """Returns the trees of relations within windows, by the ids of the nodes whose places they take, in brackets or not."""
    return {id(node.unnest()): each.tree for node, each in zip(nodes, below, strict=True)}


def _noted(below: Sequence[Within]) -> tuple[tuple[str, ...], tuple[Window, ...]]:
    """Returns the limited rankings and the grouped windows in relations (`Within.ranks`, `Within.grouped`)."""
    ranked = dict.fromkeys(rank for each in below for rank in each.ranks)
    return tuple(ranked), tuple(window for each in below for window in each.grouped)


def _row_by_row(read: _Read, kind: str, window_columns: Columns | None = None) -> Within | QueryError:
    """Returns a SELECT that works row by row, without its ORDER BY; or the reason why it doesn't."""
    if (reason := why_not_row_by_row(read.select, read.sources)) is not None:
        return reason
    read.select.set("order", None)
    return read.within(kind, window_columns)


def _why_closed(select: exp.Select) -> str | None:
    """Returns why a SELECT over rows with windows needs them closed; None if it works row by row."""
    found = first_combining_node(select)
    if found is None:
        return None
    if isinstance(found, exp.Window | exp.AggFunc):
        return f"{function_name(found.this if isinstance(found, exp.Window) else found)}() over rows"
    return {"group": "GROUP BY", "distinct": "SELECT DISTINCT"}.get(found.key, found.key.upper())


def _why_unmeasured(windows: Sequence[WindowOperator], streams: Streams) -> QueryError | None:
    """Returns the error about the first window over a union of streams if one of these has no watermark; None if there
    is none."""
    below = [each.spec for top in windows for each in inputs_first(top) if isinstance(each, WindowOperator)]
    over_several = [spec for spec in below if len(spec.streams) > 1]
    if not over_several:
        return None
    unmeasured = {each.view: each.relation for each in streams.read(True) if each.event_time is None}
    for spec in over_several:
        found = [unmeasured[view] for view in spec.streams if view in unmeasured]
        if found:
            return QueryError(
                f"{spec.window} reads several streams, and its time {time_name_text(spec.window.time_col)} is no "
                f"column of {', '.join(found)}, so the progress of each is unknown. Name the streams' own time "
                "columns in the branches of the UNION ALL, the same column wherever a stream is read."
            )
    return None


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


def _common_window_columns(node: exp.SetOperation, sides: Sequence[Within]) -> dict[str, str]:
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
