"""A GROUP BY over a window function, made into an `AggregateStage`.

What can't be kept as partial aggregates is not refused here: `NotMergeable` says why, and the planner
keeps the rows of open windows instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from . import marks
from .aggregates import DISTINCT, MERGEABLE, PLAIN_WHEN_DISTINCT
from .dialect import arguments, canonical, from_clause, function_name, sql
from .errors import QueryError
from .grouping import grouping
from .locality import Source, window_column
from .names import Names
from .plan import DistinctSet, Key, Metric
from .ties import break_ties
from .windows import Window, micros, quote

EVENT_TIME, EXPIRES_AT = "event_time", "expires_at"
WINDOW_START, WINDOW_END, WINDOW_TIME, SLICE_END = "window_start", "window_end", "window_time", "slice_end"
GROUPING_ID = "grouping_id"
RESERVED = (
    EVENT_TIME,
    EXPIRES_AT,
    WINDOW_START,
    WINDOW_END,
    WINDOW_TIME,
    SLICE_END,
    GROUPING_ID,
    "part",
    "sign",
)
HIDDEN = {name: f"__{name}" for name in (EVENT_TIME, EXPIRES_AT, WINDOW_START, SLICE_END)}
"""Columns of a slice on their way up to the stage, under names no user writes."""


class NotMergeable(Exception):
    """Why a SELECT can't be kept as partial aggregates."""


def timestamp(micros: str) -> str:
    """SQL for an instant from its microseconds."""
    return f"timestamp_micros({micros})"


def slice_columns(window: Window, hidden: bool = True) -> list[str]:
    """The select items that give a row of ``input`` its slice."""
    ts = micros(window.time_col)
    end = window.slice_end(ts)
    names = HIDDEN if hidden else {name: name for name in HIDDEN}
    items = [
        f"input.{quote(window.time_col)} as {names[EVENT_TIME]}",
        f"{timestamp(window.last_end(f'({end})'))} as {names[EXPIRES_AT]}",
        f"{timestamp(end)} as {names[SLICE_END]}",
    ]
    if window.grows:
        items.append(f"{timestamp(window.start(ts))} as {names[WINDOW_START]}")
    return items


def sliced_input(select: exp.Select, window: Window) -> str:
    """The rows under a window function with their slices, and such window columns as a row has
    before its windows close."""
    ts = micros(window.time_col)
    items = ["input.*", *slice_columns(window)]
    if window.kind != "hop":
        items.append(f"{timestamp(window.start(ts))} as {WINDOW_START}")
    if window.kind == "tumble":
        items.append(f"{timestamp(window.slice_end(ts))} as {WINDOW_END}")
        items.append(f"{timestamp(window.slice_end(ts) + ' - 1')} as {WINDOW_TIME}")
    return f"select {', '.join(items)} from ({sql(marks.input_of(select))}) as input"


def known_before_closing(window: Window) -> frozenset[str]:
    """The window columns that a single row has (a row is in many windows of a hop, say)."""
    if window.kind == "tumble":
        return frozenset({WINDOW_START, WINDOW_END, WINDOW_TIME})
    return frozenset({WINDOW_START}) if window.grows else frozenset()


class StageBuilder:
    """Takes one SELECT apart: keys, metrics, distinct sets, and the SQL below and above them."""

    def __init__(self, select: exp.Select, sources: Sequence[Source], window: Window) -> None:
        self.select, self.sources, self.window = select, sources, window
        self.names = Names(RESERVED)
        self.row_columns: dict[tuple[str, str], tuple[str, str]] = {}
        self.keys: list[Key] = []
        self.metrics: dict[str, Metric] = {}
        self.sets: dict[str, tuple[str, tuple[str, ...], list[str | None]]] = {}
        # A name that stands there unqualified is unambiguous, so `page` and `c.page` are one column.
        self.unqualified = {column.name.lower() for column in select.find_all(exp.Column) if not column.table}
        self._take_group()
        items = [self._output(item) for item in select.expressions]
        having = select.args.get("having")
        self.having = self._rewrite(having.this) if having else None
        self.items = items

    # -- what it found -----------------------------------------------------------------------------

    @property
    def distinct_sets(self) -> tuple[DistinctSet, ...]:
        """The distinct sets in the order they were met."""
        return tuple(
            DistinctSet(name, columns, tuple(filters)) for name, columns, filters in self.sets.values()
        )

    def output(self, relation: str) -> str:
        """The user's select list and HAVING over the finished windows."""
        query = exp.Select(expressions=self.items)
        if self.select.args.get("distinct"):
            query.set("distinct", exp.Distinct())
        query = query.from_(exp.to_table(relation))
        if self.having is not None:
            query = query.where(self.having)
        break_ties(query)
        return sql(query)

    def rows(self) -> str:
        """SQL of the rows that go into the stage."""
        query = _with_slices(self.select.copy(), self.window)
        for clause in ("group", "having", "order", "distinct", "hint", "limit"):
            query.set(clause, None)
        visible = [HIDDEN[EVENT_TIME], HIDDEN[EXPIRES_AT], HIDDEN[SLICE_END]]
        if self.window.grows:
            visible.append(HIDDEN[WINDOW_START])
        items = [f"{name} as {name[2:]}" for name in visible]
        items += [f"{text} as `{name}`" for text, name in self.row_columns.values()]
        query.set("expressions", [])
        return sql(query.select(*items, dialect="spark"))

    # -- GROUP BY ----------------------------------------------------------------------------------

    def _take_group(self) -> None:
        found = grouping(self.select)
        windows = [window_column(key, self.sources) for key in found.keys]
        for needed in (WINDOW_START, WINDOW_END):
            if needed not in windows:
                raise QueryError(
                    f"GROUP BY over {self.window.kind}() needs window_start and window_end among its keys; "
                    f"{needed} is not there."
                )
        names: dict[int, str] = {}
        for index, key in enumerate(found.keys):
            if windows[index] is None:
                self._refuse_nested(key)
                names[index] = self._row_column(key, role="key")
                self.keys.append(Key(names[index], sql(key)))
        self.grouping_sets: tuple[tuple[str, ...], ...] | None = None
        if found.sets is not None:
            for index, window in enumerate(windows):
                if window and not all(index in members for members in found.sets):
                    raise QueryError(
                        f"{window} stands inside GROUPING SETS, ROLLUP or CUBE; put it before them: "
                        "GROUP BY window_start, window_end, GROUPING SETS (…)."
                    )
            self.grouping_sets = tuple(
                tuple(names[i] for i in members if i in names) for members in found.sets
            )
            if len(set(map(frozenset, self.grouping_sets))) < len(self.grouping_sets):
                raise NotMergeable("a grouping set stands there twice")
        self.key_of = {self._canonical(key): names[i] for i, key in enumerate(found.keys) if i in names}
        self.order = [names.get(i) for i in range(len(found.keys))]

    def _refuse_nested(self, key: exp.Expr) -> None:
        if key.find(exp.AggFunc):
            raise QueryError(
                f"GROUP BY '{sql(key)}' holds an aggregate; group by columns and expressions over rows."
            )

    # -- select list -------------------------------------------------------------------------------

    def _output(self, item: exp.Expr) -> exp.Expr:
        if item.is_star:
            raise NotMergeable("'*' in the select list of a GROUP BY")
        rewritten = self._rewrite(item.unalias())
        return exp.alias_(rewritten, item.output_name or sql(item), quoted=True)

    def _rewrite(self, node: exp.Expr, aliases: bool = True) -> exp.Expr:
        """The expression over finished windows: keys, metrics and window columns by name."""
        if (name := self.key_of.get(self._canonical(node))) is not None:
            return exp.column(name, quoted=True)
        if kind := window_column(node, self.sources):
            return exp.column(kind)
        if isinstance(node, exp.Column):
            for item in self.select.expressions if aliases else ():
                if isinstance(item, exp.Alias) and not node.table and item.alias.lower() == node.name.lower():
                    return exp.paren(self._rewrite(item.this, aliases=False))
            raise NotMergeable(f"'{sql(node)}' is neither grouped nor aggregated")
        if isinstance(node, exp.Query):
            raise NotMergeable("a subquery in the select list")
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._grouping(node)
        unknown = isinstance(node, exp.Anonymous) and function_name(node) in MERGEABLE
        if unknown or isinstance(node, exp.Filter | exp.AggFunc):
            return exp.column(self._metric(node), quoted=True)
        copy = node.copy()
        if isinstance(node, exp.Window):  # sum(count(*)) over (…): the outer call is no aggregate
            call = copy.this.this if isinstance(copy.this, exp.IgnoreNulls | exp.RespectNulls) else copy.this
            for child in list(call.iter_expressions()):
                child.replace(self._rewrite(child, aliases))
            for name in ("partition_by", "order", "spec"):
                value = copy.args.get(name)
                for child in value if isinstance(value, list) else [value] if value else []:
                    child.replace(self._rewrite(child, aliases))
            return copy
        for child in list(copy.iter_expressions()):
            child.replace(self._rewrite(child, aliases))
        return copy

    def _grouping(self, node: exp.Expr) -> exp.Expr:
        if self.grouping_sets is None:
            raise QueryError(f"'{sql(node)}' needs GROUPING SETS, ROLLUP or CUBE in the GROUP BY.")
        of_sets = [key.name for key in self.keys]
        asked = arguments(node)
        is_id = function_name(node) == "grouping_id"
        names = (
            self.order if is_id and not asked else [self.key_of.get(self._canonical(item)) for item in asked]
        )
        if asked and None in names:
            raise QueryError(f"'{sql(node)}' names something that is not a group key.")
        bits = []
        for place, name in enumerate(reversed(names)):
            if name is not None:
                shift = len(of_sets) - 1 - of_sets.index(name)
                bits.append(f"shiftleft(shiftright({GROUPING_ID}, {shift}) & 1, {place})")
        text = " + ".join(bits) or "0"
        return exp.maybe_parse(f"cast({text} as {'bigint' if is_id else 'tinyint'})", dialect="spark")

    # -- aggregates --------------------------------------------------------------------------------

    def _metric(self, node: exp.Expr) -> str:
        call, condition = (node.this, node.expression.this) if isinstance(node, exp.Filter) else (node, None)
        name = function_name(call)
        distinct = isinstance(call.this, exp.Distinct) and name not in PLAIN_WHEN_DISTINCT
        if name not in (DISTINCT if distinct else MERGEABLE):
            raise NotMergeable(
                f"{name}({'DISTINCT …' if distinct else '…'}) is not kept as partial aggregates"
            )
        asked = arguments(call)
        if len(asked) > (2 if name.endswith("_by") else 1) and name != "count":
            raise NotMergeable(f"'{sql(call)}' has more arguments than are kept as partial aggregates")
        if distinct and (any(arg.find(exp.Star) for arg in asked) or (len(asked) > 1 and name != "count")):
            raise NotMergeable(f"'{sql(call)}' is not kept as a distinct set")
        key = self._canonical(node)
        if key in self.metrics:
            return self.metrics[key].name
        star = [isinstance(arg, exp.Star) for arg in asked]
        if any(arg.find(exp.AggFunc, exp.Window) for arg in asked):
            raise QueryError(
                f"'{sql(node)}' is an aggregate of an aggregate; compute the inner one in a subquery."
            )
        columns = tuple(
            "*" if is_star else self._row_column(arg) for is_star, arg in zip(star, asked, strict=True)
        )
        where = self._row_column(condition) if condition is not None else None
        set_name = self._distinct_set(columns, where) if distinct else None
        metric = Metric(self.names.new(self._canonical(node)), name, columns, where, set_name, sql(node))
        self.metrics[key] = metric
        return metric.name

    def _distinct_set(self, columns: tuple[str, ...], where: str | None) -> str:
        key = ", ".join(columns)
        if key not in self.sets:
            self.sets[key] = (self.names.new("distinct_" + "_".join(columns)), columns, [])
        name, _, filters = self.sets[key]
        if where not in filters:
            filters.append(where)
        return name

    # -- rows --------------------------------------------------------------------------------------

    def _row_column(self, node: exp.Expr, role: str = "argument") -> str:
        """The column of the rows below that holds an expression. A key has one of its own: grouping
        sets blank it out, and a distinct value may stand beside it."""
        known = known_before_closing(self.window)
        for column in node.find_all(exp.Column):
            kind = window_column(column, self.sources)
            if kind and kind not in known:
                raise NotMergeable(f"'{sql(node)}' uses {kind} below the aggregate")
        if node.find(exp.Query):
            raise NotMergeable(f"'{sql(node)}' holds a subquery")
        key = (role, self._canonical(node))
        if key not in self.row_columns:
            name = node.name if isinstance(node, exp.Column) else self._canonical(node)
            self.row_columns[key] = (sql(node), self.names.new(name))
        return self.row_columns[key][1]

    def _canonical(self, node: exp.Expr) -> str:
        return canonical(node, self.unqualified)


def _with_slices(select: exp.Select, window: Window) -> exp.Select:
    """The SELECT over sliced rows: window columns that a row doesn't have yet are taken out on the
    way, the hidden ones handed up."""
    source = from_clause(select)
    assert source is not None
    for node in [source.this, *(join.this for join in select.args.get("joins") or ())]:
        if not isinstance(node, exp.Subquery):
            continue
        inner = node.this
        while isinstance(inner, exp.Subquery):
            inner = inner.this
        if marks.window_of(inner):
            inner.replace(exp.maybe_parse(sliced_input(inner, window), dialect="spark"))
            break
        if isinstance(inner, exp.Select) and next(marks.windows_under(inner), None):
            _hand_up(_with_slices(inner, window), window)
            break
    return select


def _hand_up(select: exp.Select, window: Window) -> None:
    known = known_before_closing(window)
    kept = [
        item
        for item in select.expressions
        if not (
            item.output_name.lower() in (WINDOW_START, WINDOW_END, WINDOW_TIME)
            and item.output_name.lower() not in known
        )
    ]
    if not any(isinstance(item, exp.Star) for item in kept):
        stars = [item for item in kept if item.is_star]
        names = [HIDDEN[EVENT_TIME], HIDDEN[EXPIRES_AT], HIDDEN[SLICE_END]]
        if window.grows:
            names.append(HIDDEN[WINDOW_START])
        if not stars:
            kept += [exp.column(name) for name in names]
        else:
            raise NotMergeable("'alias.*' between the window function and the aggregate")
    select.set("expressions", kept)


def check_path(select: exp.Select, window: Window, sources: Sequence[Source]) -> None:
    """Passes the rows' SELECTs between a window function and the aggregate.

    Raises:
        NotMergeable: one uses a window column that a row doesn't have before its windows close.
    """
    known = known_before_closing(window)
    for node in _row_level_expressions(select):
        for column in node.find_all(exp.Column):
            kind = window_column(column, sources)
            plain = node is column or (isinstance(node, exp.Alias) and node.this is column)
            if kind and kind not in known and not (plain and node.output_name.lower() == kind):
                raise NotMergeable(f"'{sql(node)}' uses {kind} below the aggregate")


def _row_level_expressions(select: exp.Select) -> list[exp.Expr]:
    parts = list(select.expressions)
    for clause in ("where", "joins", "laterals"):
        value = select.args.get(clause)
        for node in value if isinstance(value, list) else [value] if value else []:
            condition = node.args.get("on") if isinstance(node, exp.Join) else node
            if condition is not None:
                parts.append(condition)
    return parts


def check_rows_of_stage(select: exp.Select, window: Window, sources: Sequence[Source]) -> None:
    """The same for WHERE and joins of the aggregating SELECT itself."""
    bare = select.copy()
    bare.set("expressions", [])
    check_path(bare, window, sources)
