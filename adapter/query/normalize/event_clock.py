"""`current_timestamp()` in a predicate on event time is the watermark, so that a replay gives the same rows.

Without windows, rows leave again as the watermark advances (`operators.temporal_filter`). In a query with windows, a row
is filtered when it arrives, by the watermark before its micro-batch, like late rows. Predicates that can't be decided
then are rejected. Everywhere else, as in a select list, the clock is processing time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from sqlglot import exp

from ...util.quoting import is_path, quote_time, split_path, time_name_text
from ..errors import EVENT_TIME_IN_YAML, QueryError
from ..frontend import hints
from ..frontend.streams import RelationInfo
from ..program import clock_sql
from ..sql import intervals
from ..sql.clauses import (
    conjuncts,
    filters,
    first_aggregate,
    name_at_same_place,
    output_name,
    output_names,
    relations,
)
from ..sql.dialect import canonical, function_name, parse, sql, walk_same_query
from ..sql.nodes import copied, every
from ..windows.expansion import WINDOW_COLUMNS

_CLOCKS = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime)
NAMES = frozenset({"now", "current_timestamp", "current_date", "curdate", "current_time", "localtimestamp"})
# Words that Spark converts to the current date or time in a cast. A time zone may follow.
_WORDS = frozenset({"now", "today", "yesterday", "tomorrow"})
_IS_EVENT_TIME = "event time"


@cache
def watermark() -> exp.Expr:
    """Returns the watermark before the micro-batch; without one the earliest time, so that every row passes. Callers must
    not change it."""
    (made,) = parse(
        f"select coalesce({clock_sql('now_before')}, timestamp_micros(-62135596800000000))"
    ).selects
    return made


@dataclass(frozen=True)
class ColumnOrigin:
    """The stream columns that a column is computed from, and the ones that it equals."""

    base: frozenset[tuple[str, str]] = frozenset()
    """Stream columns that the column is computed from, as pairs of relation and column."""
    same: frozenset[object] = frozenset()
    """Stream columns, or expressions over them, that the column equals in each row: one for each branch of a UNION ALL.
    Empty if unknown."""


_NOTHING = ColumnOrigin()


def lower_bound(node: exp.Expr) -> tuple[exp.Column, exp.Expr, int, bool] | None:
    """Parses ``ts > current_timestamp() - interval '1' day``: returns column, clock, length in microseconds, and
    whether rows of exactly that age are included. None for any other condition."""
    node = node.unnest()
    if not isinstance(node, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return None
    time, since = node.this.unnest(), node.expression.unnest()
    greater = isinstance(node, exp.GT | exp.GTE)
    if not isinstance(time, exp.Column):
        time, since, greater = since, time, not greater
    if not greater or not isinstance(time, exp.Column) or not isinstance(since, exp.Sub):
        return None
    clock = since.this.unnest()
    is_now = isinstance(clock, exp.CurrentTimestamp) or _unknown_function_name(clock) in (
        "now",
        "current_timestamp",
    )
    length = _summed_intervals(since.expression, _checked_micros) if is_now else None
    return None if length is None else (time, clock, length, isinstance(node, exp.GTE | exp.LTE))


def interval_micros(node: exp.Expr) -> int | None:
    """Returns the microseconds of an INTERVAL, or of a sum of them. None if it isn't one, or has no fixed length."""
    return _summed_intervals(node, lambda each: intervals.fixed_micros(_interval_text(each)))


def _summed_intervals(node: exp.Expr, micros: Callable[[exp.Interval], int | None]) -> int | None:
    """Returns the sum of the microseconds of the INTERVALs that an expression adds; None if it adds anything else.

    Args:
        micros: returns the length of one.
    """
    node = node.unnest()
    if isinstance(node, exp.Add):
        one, other = _summed_intervals(node.this, micros), _summed_intervals(node.expression, micros)
        return None if one is None or other is None else one + other
    return micros(node) if isinstance(node, exp.Interval) else None


def _checked_micros(node: exp.Interval) -> int:
    """Returns the microseconds of an INTERVAL. Raises `QueryError` if it has no fixed length."""
    return intervals.parse(_interval_text(node), f"'{sql(node)}':")


def _interval_text(node: exp.Interval) -> str:
    unit = node.args.get("unit")
    return f"{node.this.name} {unit.name}" if unit is not None and node.this is not None else sql(node)


def is_watermark(node: exp.Expr) -> bool:
    """Whether a clock in a marked tree is the watermark."""
    return bool(node.meta_get(_IS_EVENT_TIME))


def watermark_conditions(select: exp.Select) -> list[exp.Expr]:
    """The conjuncts of a SELECT's WHERE, in a marked tree, that filter rows by the watermark."""
    return [
        test
        for test in filters(select)
        if any(is_watermark(node) or hints.is_replacement(node) for node in walk_same_query(test))
    ]


def compared_column(test: exp.Expr) -> exp.Column:
    """Returns the event time column that one of the `watermark_conditions` compares."""
    return next(
        each for side in (test.this, test.expression) if isinstance(each := side.unnest(), exp.Column)
    )


def written_condition(test: exp.Expr) -> str:
    """Returns a condition as its author wrote it."""
    return sql(hints.restore_originals(exp.Paren(this=test.copy())).this)


def mark_watermarks(tree: exp.Query, known: Mapping[str, RelationInfo]) -> None:
    """Marks the clocks of a tree that are the watermark.

    Args:
        tree: a query whose streams are marked.

    Raises:
        QueryError: a predicate compares event time with a clock in a form that can't filter rows.
    """
    if not any(map(is_clock, every(tree, exp.Func, exp.Column))):
        return
    _ClockMarker(tree, known).mark_clocks()


class _ClockMarker:
    """Finds the clocks that `mark_watermarks` marks, from the origins of the columns that they are compared with."""

    def __init__(self, tree: exp.Query, known: Mapping[str, RelationInfo]) -> None:
        self.tree = tree
        self.windowed = next(hints.windows_under(tree), None) is not None
        self.known = {relation.lower(): what for relation, what in known.items()}
        self.undeclared: set[str] = set()
        """Streams without a declared event time."""
        self.times: set[object] = set()
        base: set[tuple[str, str]] = set()
        for select in hints.windows_under(tree):
            window = hints.window_of(select)
            assert window is not None
            path = split_path(window.time)
            found = self._origin(hints.window_input(select), path[0])
            base |= found.base
            if len(path) == 1:
                self.times |= found.same
        for table in every(tree, exp.Table):
            if hints.is_stream(table):
                relation = hints.relation_name(table).lower()
                time = self.known.get(relation, RelationInfo()).event_time
                if time is not None:
                    column = split_path(quote_time(time))[0].lower()
                    base.add((relation, column))
                    if not is_path(time):
                        self.times.add((relation, column))
                elif not any(relation == other for other, _ in base):
                    self.undeclared.add(relation)
        self.base = frozenset(base)

    def mark_clocks(self) -> None:
        """Marks the clocks that are the watermark. Changes the tree.

        Raises:
            QueryError: a predicate compares event time with a clock in a form that can't filter rows.
        """
        for select in list(every(self.tree, exp.Select)):
            bounds = [test for test in filters(select) if self._mark_lower_bound(test, select)]
            if len(bounds) > 1 and not self.windowed:
                raise QueryError(
                    f"'{sql(bounds[0])}' and '{sql(bounds[1])}' both bound event time from below; keep the narrower one."
                )
            for node in self._predicates(select):
                clock = next((each for each in walk_same_query(node) if is_clock(each)), None)
                if clock is not None and node not in bounds:
                    self._check_clock(node, clock, self._stream_columns_under(node, select))

    def _mark_lower_bound(self, test: exp.Expr, select: exp.Select) -> bool:
        """Marks the clock of a condition such as ``ts > now() - interval 1 day`` as event time, if rows can be
        filtered by the watermark instead. Returns whether they can."""
        found = lower_bound(test)
        if found is None:
            return False
        column, clock, _, _ = found
        lineage = self._column_origin(column, select)
        if not lineage.same or not lineage.same <= self.times:
            return False
        if not self.windowed and len(_stream_relations(select)) != 1:
            return False
        clock.meta[_IS_EVENT_TIME] = True
        return True

    def _predicates(self, select: exp.Select) -> Iterator[exp.Expr]:
        """Yields the conditions of a SELECT, and the comparisons in its other clauses."""
        yield from filters(select)
        clauses = [clause.this for name in ("having", "qualify") if (clause := select.args.get(name))]
        clauses += [on for join in select.args.get("joins") or () if (on := join.args.get("on"))]
        for clause in clauses:
            yield from conjuncts(clause)
        for item in select.expressions:
            for node in walk_same_query(item):
                if isinstance(node, exp.Predicate):
                    yield node

    def _stream_columns_under(self, node: exp.Expr, select: exp.Select) -> frozenset[tuple[str, str]]:
        """Stream columns that a condition is computed from, including those behind select aliases."""
        columns = [each for each in walk_same_query(node) if isinstance(each, exp.Column)]
        names = {column.name.lower() for column in columns if not column.table}
        for item in select.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() in names:
                columns += [each for each in walk_same_query(item.this) if isinstance(each, exp.Column)]
        return frozenset().union(
            *(self._column_origin(each, select).base for each in columns if not is_clock(each))
        )

    def _check_clock(self, node: exp.Expr, clock: exp.Expr, base: frozenset[tuple[str, str]]) -> None:
        """Raises if a condition compares a clock with an event time, or with a column that may be one."""
        if not base & self.base:
            relation = next((relation for relation, _ in base if relation in self.undeclared), None)
            if relation is None:
                return
            raise QueryError(
                f"'{sql(node)}' compares a column of {relation} with the clock. A stream can do that for its event time, "
                f"and nothing says which column of {relation} that is; give it {EVENT_TIME_IN_YAML}."
            )
        relation, time = sorted(base & self.base, key=lambda each: each[1])[0]
        told = self.known.get(relation, RelationInfo()).event_time
        if told is not None and is_path(told) and split_path(told)[0].lower() == time:
            raise QueryError(
                f"'{sql(node)}' compares event time with {sql(clock)}: {column_advice(relation, told)}."
            )
        raise QueryError(
            f"'{sql(node)}' compares event time with {sql(clock)}. In a streaming model that clock is the watermark, so "
            "that a replay gives the same rows, and rows can only be filtered by how far they are behind it: write "
            f"{time} > current_timestamp() - INTERVAL '1' DAY in a WHERE over the stream itself, with its event time "
            "as it is."
        )

    # -- lineage -----------------------------------------------------------------------------------

    def _column_origin(self, column: exp.Column, select: exp.Select) -> ColumnOrigin:
        sources = relations(select)
        first, *fields = [part.name for part in column.parts]
        owners = [each for each in sources if each.alias_or_name.lower() == first.lower()]
        if fields and owners:
            sources, (first, *fields) = owners, fields
        elif fields and any(each.alias_or_name.lower() == column.table.lower() for each in sources):
            sources = [each for each in sources if each.alias_or_name.lower() == column.table.lower()]
            first, fields = column.name, []
        found = self._origin_in_any(sources, first)
        # A field isn't the column.
        return ColumnOrigin(found.base) if fields else found

    def _origin_in_any(self, sources: Sequence[exp.Expr], name: str) -> ColumnOrigin:
        found = [lineage for each in sources if (lineage := self._origin(each, name)).base]
        if len(found) == 1:
            return found[0]
        return ColumnOrigin(frozenset().union(*(each.base for each in found)))

    def _origin(self, node: exp.Expr, name: str) -> ColumnOrigin:
        """Returns the origin of a column of a relation or query."""
        if isinstance(node, exp.Subquery):
            if node.alias_column_names:
                return ColumnOrigin(frozenset(self._all_columns(node.this)))
            return self._origin(node.this, name)
        if isinstance(node, exp.Table):
            one = (hints.relation_name(node).lower(), name.lower())
            return ColumnOrigin(frozenset({one}), frozenset({one})) if hints.is_stream(node) else _NOTHING
        if isinstance(node, exp.SetOperation):
            return self._origin_in_branches(node, name)
        return self._origin_in_select(node, name) if isinstance(node, exp.Select) else _NOTHING

    def _origin_in_branches(self, node: exp.SetOperation, name: str) -> ColumnOrigin:
        left, right = node.left, node.right
        other = name_at_same_place(name, output_names(left), output_names(right))
        one, two = self._origin(left, name), self._origin(right, name if other is None else other)
        plain = isinstance(node, exp.Union) and not node.args.get("distinct")
        # Without windows, a bound over branches would have to keep each branch's rows.
        same = one.same | two.same if one.same and two.same and plain and self.windowed else frozenset()
        return ColumnOrigin(one.base | two.base, same)

    def _origin_in_select(self, select: exp.Select, name: str) -> ColumnOrigin:
        if window := hints.window_of(select):
            below = hints.window_input(select)
            if name.lower() in WINDOW_COLUMNS:
                return ColumnOrigin(self._origin(below, window.time_col).base)
            return self._origin(below, name)
        for item in select.expressions:
            if item.is_star or output_name(item).lower() != name.lower():
                continue
            made = item.unalias()
            if isinstance(made, exp.Column):
                return self._origin_above(select, self._column_origin(made, select))
            columns = [each for each in every(made, exp.Column) if each.find_ancestor(exp.Select) is select]
            base = frozenset().union(*(self._column_origin(each, select).base for each in columns))
            same = frozenset({(canonical(made), base)}) if base else frozenset()
            return self._origin_above(select, ColumnOrigin(base, same))
        stars = [item for item in select.expressions if item.is_star]
        tables = {item.table.lower() for item in stars if isinstance(item, exp.Column)}
        of_all = any(isinstance(item, exp.Star) for item in stars)
        sources = [each for each in relations(select) if of_all or each.alias_or_name.lower() in tables]
        return self._origin_above(select, self._origin_in_any(sources, name))

    def _origin_above(self, select: exp.Select, lineage: ColumnOrigin) -> ColumnOrigin:
        """Returns the origin of a column above a SELECT. It keeps `same` only if the SELECT works row by row."""
        clauses = ("group", "distinct", "having", "limit", "offset", "qualify")
        stays = not any(select.args.get(clause) for clause in clauses)
        stays = stays and first_aggregate(select) is None and select.find(exp.Window) is None
        if not self.windowed:
            # A bound or a join of streams below keeps state, so the rows above aren't the stream's.
            stays = (
                stays and len(_stream_relations(select)) == 1 and not any(map(lower_bound, filters(select)))
            )
        return lineage if stays else ColumnOrigin(lineage.base)

    def _all_columns(self, query: exp.Expr) -> Iterator[tuple[str, str]]:
        yield from self.base
        for table in every(query, exp.Table):
            if hints.is_stream(table):
                yield hints.relation_name(table).lower(), ""


def column_advice(relation: str, time: str) -> str:
    """Returns what to write if a stream's event time is a struct field and a column is needed."""
    shown = time_name_text(time)
    return (
        f"the event time {shown} of {relation} is a field of a struct, so read a model that hands it on as a column, as in "
        f"SELECT *, {shown} AS event_time, and has dbt's config event_time: event_time"
    )


def replace_clocks(tree: exp.Expr) -> None:
    """Replaces the marked clocks by the watermark before the micro-batch. Changes the tree."""
    for node in list(filter(is_watermark, every(tree, exp.Func, exp.Column))):
        made = copied(watermark())
        hints.keep_original(made, node)
        node.replace(made)


def filters_on_arrival(tree: exp.Expr) -> bool:
    """Whether a query filters rows when they arrive, by the watermark before the micro-batch (`replace_clocks`)."""
    return next(hints.replacements(tree), None) is not None


def output_filter_error(query: exp.Expr) -> QueryError | None:
    """Returns the error about a query over window operators, which runs when their windows close, that filters by the
    watermark; None if it doesn't."""
    found = next(hints.replacements(query), None)
    if found is None:
        return None
    test = found.find_ancestor(exp.Predicate)
    assert test is not None
    return buffered_rows_filter_error(test)


def buffered_rows_filter_error(test: exp.Expr) -> QueryError:
    """Returns the error about a watermark predicate over buffered rows."""
    return QueryError(
        f"'{written_condition(test)}' would filter rows when their windows close, and the watermark has advanced by then; "
        "put it into a CTE that the windowing macro reads."
    )


def _stream_relations(select: exp.Select) -> list[exp.Expr]:
    return [each for each in relations(select) if hints.reads_stream(each)]


def _unknown_function_name(node: exp.Expr) -> str:
    return function_name(node) if isinstance(node, exp.Anonymous) else ""


def is_clock(node: exp.Expr) -> bool:
    """Whether a node is a clock function."""
    # Some can be written without parentheses and look like columns.
    plain = isinstance(node, exp.Column) and not node.table and node.name.lower() in NAMES
    return (
        isinstance(node, _CLOCKS) or _unknown_function_name(node) in NAMES or plain or is_time_keyword(node)
    )


def is_time_keyword(node: exp.Expr) -> bool:
    """Whether a node casts a word such as 'now' or 'today' to a date or time."""
    is_cast = isinstance(node, exp.Cast) and node.to.this in exp.DataType.TEMPORAL_TYPES
    if node.this is None or not (is_cast or isinstance(node, exp.TsOrDsToDate)):
        return False  # an argument that is missing, or no cast
    made_of = node.this.unnest()
    words = made_of.name.lower().split() if isinstance(made_of, exp.Literal) else []
    return bool(words) and words[0] in _WORDS
