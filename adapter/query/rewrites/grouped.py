"""Decomposes a SELECT with aggregates into its rows, keys, aggregates, and the expressions over them.

A rewrite puts the rows into one step, computes keys and aggregates in steps above it, and applies the
author's select list, HAVING and ORDER BY to their results.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from ..aggregates.aggregates import PLAIN_WHEN_DISTINCT, TYPED
from ..aggregates.grouping import ambiguous_key_error, grouping, keys_of_grouping, resolve_key
from ..errors import QueryError
from ..sql.clauses import AROUND, output_name, unwrap_call
from ..sql.dialect import (
    arguments,
    canonical,
    function_name,
    is_distinct,
    sql,
    unambiguous_names,
    walk_same_query,
)
from ..sql.names import Names
from ..sql.nodes import every, is_name
from .steps import column, named_item, parse_expression

_SETS = exp.GroupingSets | exp.Rollup | exp.Cube | exp.Tuple
_ORDERS = ("order", "sort", "cluster", "distribute")
_KEPT = ("distinct", "limit", "offset", "fetch", "with_")
_OUTER = ("group", "having", "windows", "qualify", *_ORDERS, *_KEPT)


@dataclass(frozen=True)
class Call:
    """An aggregate as written, with its FILTER and WITHIN GROUP."""

    name: str
    function: str
    text: exp.Expr
    """The call, over columns of the rows."""
    distinct: tuple[str, ...] | None = None
    """Columns of the rows whose distinct values are counted; None for an aggregate that the rewrite leaves as
    it is."""
    filter: str | None = None
    """Column of the rows with the FILTER condition."""


@dataclass(frozen=True)
class GroupKey:
    """A group key."""

    name: str
    node: exp.Expr
    """The key as written, over the relations of FROM."""


class ComputedColumns(Protocol):
    """Columns of the computed keys and aggregates, for use in the author's expressions."""

    def key(self, name: str) -> exp.Expr:
        """Returns the column of a group key."""

    def call(self, call: Call) -> exp.Expr:
        """Returns the value of an aggregate."""


class GroupedSelect:
    """One SELECT with aggregates.

    Args:
        select: the SELECT; it isn't changed.
        takes_apart: functions over DISTINCT that the rewrite decomposes.

    Raises:
        QueryError: an expression can't be moved above the steps.
    """

    def __init__(self, select: exp.Select, names: Names, takes_apart: Collection[str]) -> None:
        self.select, self.names, self._takes_apart = select, names, takes_apart
        self._columns: dict[tuple[str, str], tuple[exp.Expr, str]] = {}
        self._used: set[str] = set()
        self._calls: dict[str, Call] = {}
        self._unqualified = unambiguous_names(select)
        self._outputs = {
            item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)
        }
        found = grouping(select) if select.args.get("group") else None
        self.keys = [
            GroupKey(self._add_row_column(node, "key"), node) for node in (found.keys if found else ())
        ]
        self._key_of = {self.canonical(key.node): key.name for key in self.keys}
        self._check_names()
        self.sets: list[tuple[str, ...]] | None = None
        if found and found.sets is not None:
            self.sets = [tuple(self.keys[place].name for place in members) for members in found.sets]
        # The set of a row is known from the keys that not all sets have.
        in_all = [key.name for key in self.keys if all(key.name in members for members in self.sets or [])]
        self.flags = {
            key.name: names.new(f"grouping_{key.name}") for key in self.keys if key.name not in in_all
        }
        self._finished: ComputedColumns = _PlaceholderColumns()
        self.query_over_results(self._finished)  # collects all aggregates

    def _check_names(self) -> None:
        """Raises if a name in GROUP BY may be a column or a value of other keys: Spark prefers the column if it exists."""
        group = self.select.args.get("group")
        found = every(group, exp.Column) if group is not None else ()
        names = [name for name in found if isinstance(name.parent, exp.Group | exp.Paren | _SETS)]
        for name in names:
            made = resolve_key(name, self.select)
            others = {self.canonical(other) for other in names if other.name.lower() != name.name.lower()}
            columns = {self.canonical(column) for column in every(made, exp.Column)}
            if made is not name and columns and columns <= others:
                raise ambiguous_key_error(name.name, made)

    @property
    def distinct(self) -> list[Call]:
        """Returns the aggregates that the rewrite decomposes."""
        return [call for call in self._calls.values() if call.distinct is not None]

    @property
    def other_calls(self) -> list[Call]:
        """Returns all other aggregates."""
        return [call for call in self._calls.values() if call.distinct is None]

    @property
    def distinct_sets(self) -> list[tuple[str, ...]]:
        """Returns the sets of columns whose distinct values are counted."""
        return list(dict.fromkeys(call.distinct for call in self.distinct if call.distinct is not None))

    def canonical(self, node: exp.Expr) -> str:
        """Returns a text for comparing two expressions of this SELECT."""
        return canonical(node, self._unqualified)

    # -- the steps ---------------------------------------------------------------------------------

    def rows(self, *more: exp.Expr) -> exp.Select:
        """Returns the SELECT of the rows, with the columns that keys and aggregates need, and additional
        items."""
        rows = self.select.copy()
        for clause in _OUTER:
            rows.set(clause, None)
        items = [named_item(node.copy(), name) for node, name in self._columns.values()]
        rows.set("expressions", [*items, *more] or [exp.Literal.number(1)])
        return rows

    def group_by(self, *more: exp.Expr) -> exp.Group | None:
        """Returns the author's GROUP BY over the rows, with additional keys."""
        group = self.select.args.get("group")
        if group is None:
            return exp.Group(expressions=list(more)) if more else None
        suffixed = group.args.get("rollup") or group.args.get("cube")  # GROUP BY a, b WITH ROLLUP
        if self.sets is not None and more and suffixed:
            return exp.Group(expressions=[grouping_sets(self.sets), *more])
        made = group.copy()
        if made.args.get("all"):
            made.set("all", None)
            made.set("expressions", [column(key.name) for key in self.keys])
        for item in list(made.expressions):
            self._name_keys(item)
        made.set("expressions", [*made.expressions, *more])
        return made

    def _name_keys(self, node: exp.Expr) -> None:
        if isinstance(node, _SETS):
            for child in list(node.expressions):
                self._name_keys(child)
            return
        inner = node.this if isinstance(node, exp.Paren) else node
        inner.replace(column(self._key_of[self.canonical(resolve_key(inner, self.select))]))

    def key_columns(self) -> list[exp.Expr]:
        """Returns the select items of the keys."""
        return [column(key.name) for key in self.keys]

    def flag_items(self) -> list[exp.Expr]:
        """Returns the select items that distinguish the grouping sets, for the step that groups by the keys."""
        return [
            named_item(parse_expression(f"grouping({sql(column(key))})"), flag)
            for key, flag in self.flags.items()
        ]

    # -- the outer SELECT --------------------------------------------------------------------------

    def query_over_results(self, finished: ComputedColumns, having: str = "where") -> exp.Select:
        """Returns the author's select list, HAVING and ORDER BY over computed keys and aggregates.

        Args:
            having: clause that filters groups there.
        """
        self._finished = finished
        made = exp.Select(expressions=list(map(self._rewrite_item, self.select.expressions)))
        for clause in _KEPT:
            if value := self.select.args.get(clause):
                made.set(clause, value.copy())
        if value := self.select.args.get("having"):
            test = self._rewrite_over_results(value.this)
            made.set(having, exp.Where(this=test) if having == "where" else exp.Having(this=test))
        for clause in _ORDERS:
            if value := self.select.args.get(clause):
                made.set(clause, self._rewrite_children(value, ordering=True))
        if windows := self.select.args.get("windows"):
            made.set("windows", [self._rewrite_window(window, ordering=False) for window in windows])
        return made

    def _rewrite_item(self, item: exp.Expr) -> exp.Expr:
        if item.is_star:
            raise QueryError("'*' in the select list of a GROUP BY can't be moved; name its columns.")
        name = output_name(item) or sql(item)
        return exp.alias_(self._rewrite_over_results(item.unalias()), column(name).this)

    def _rewrite_over_results(self, node: exp.Expr, aliases: bool = True, ordering: bool = False) -> exp.Expr:
        if is_name(node):
            return node.copy()
        hidden = None
        if isinstance(node, exp.Column) and not node.table:
            hidden = self._outputs.get(node.name.lower())
        if ordering and hidden is not None:
            return node.copy()  # ORDER BY resolves names in the select list first
        if (name := self._key_of.get(self.canonical(node))) is not None:
            return self._finished.key(name)  # in HAVING, too, a column precedes an alias
        if isinstance(node, exp.Column):
            if hidden is None or not aliases:
                raise QueryError(f"'{sql(node)}' is neither grouped nor aggregated; put it into GROUP BY.")
            return exp.paren(self._rewrite_over_results(hidden, aliases=False))
        if isinstance(node, exp.Query | exp.Exists):
            raise QueryError(
                f"'{sql(node)}' is a subquery over groups, which can't be moved; join it in a SELECT around the GROUP BY."
            )
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._rewrite_grouping(node)
        if _is_aggregate(node):
            return self._finished.call(self._add_call(node))
        if isinstance(node, exp.Window):
            return self._rewrite_window(node, ordering)
        return self._rewrite_children(node, aliases, ordering)

    def _rewrite_children(self, node: exp.Expr, aliases: bool = True, ordering: bool = False) -> exp.Expr:
        copy = node.copy()
        exp.replace_children(copy, self._rewrite_over_results, aliases, ordering)
        return copy

    def _rewrite_window(self, node: exp.Expr, ordering: bool) -> exp.Expr:
        """Rewrites ``sum(count(*)) over (…)``: the outer call is no aggregate of the GROUP BY."""
        copy = node.copy()
        call = unwrap_call(copy.this)
        values = call.function.iter_expressions() if isinstance(call.function, exp.Func) else ()
        inner = [*values, *([] if call.condition is None else [call.condition]), *call.order]
        order = copy.args.get("order")
        for child in (*inner, *(copy.args.get("partition_by") or ()), *([order] if order else [])):
            child.replace(self._rewrite_over_results(child, ordering=ordering))
        return copy

    def _rewrite_grouping(self, node: exp.Expr) -> exp.Expr:
        asked = keys_of_grouping(
            node, self.sets is not None, lambda item: self._key_of.get(self.canonical(item))
        )
        is_id = isinstance(node, exp.GroupingId)
        listed = [key.name for key in self.keys] if is_id and not asked else asked
        bits: list[exp.Expr] = []
        for shift, name in enumerate(reversed(listed)):
            if name in self.flags:
                flag = sql(self._finished.key(self.flags[name]))
                bits.append(parse_expression(f"shiftleft({flag}, {shift})" if shift else flag))
        total = bits[0] if bits else exp.Literal.number(0)
        for bit in bits[1:]:
            total = exp.Add(this=total, expression=bit)
        return exp.cast(total, "bigint" if is_id else "tinyint")

    # -- aggregates --------------------------------------------------------------------------------

    def _add_call(self, node: exp.Expr) -> Call:
        key = self.canonical(node)
        if key not in self._calls:
            self._check_call(node)
            call, condition = node, None
            if isinstance(node, exp.Filter):
                call, condition = node.this, node.expression.this
            function = function_name(call)
            distinct = is_distinct(call) and function not in PLAIN_WHEN_DISTINCT
            name = self.names.new(key)
            if distinct and function in self._takes_apart:
                self._calls[key] = self._split_call(name, function, call, condition)
            else:
                self._calls[key] = Call(name, function, self._rewrite_over_rows(node))
        return self._calls[key]

    def _check_call(self, node: exp.Expr) -> None:
        for inner in walk_same_query(node):
            if inner is not node and (_is_aggregate(inner) or isinstance(inner, exp.Window)):
                if isinstance(inner.parent, AROUND) and inner.parent.this is inner:
                    continue
                raise QueryError(
                    f"'{sql(node)}' is an aggregate of an aggregate; compute the inner one in a subquery."
                )
        if node.find(exp.Query):
            raise QueryError(f"'{sql(node)}' contains a subquery; join it in a subquery in FROM.")
        for star in every(node, exp.Star):
            if not isinstance(star.parent, exp.Count):
                raise QueryError(f"'{sql(node)}' contains a '*'; name its columns.")

    def _split_call(self, name: str, function: str, call: exp.Expr, condition: exp.Expr | None) -> Call:
        asked = arguments(call)
        if function in TYPED:
            # Spark deduplicates numbers, not texts: '1' and '1.0' are one value.
            asked = [exp.Anonymous(this="POSITIVE", expressions=[each.copy()]) for each in asked]
        # A separate column per distinct set: it is NULL in rows of the other sets.
        role = "distinct " + ", ".join(map(self.canonical, asked))
        values = tuple(self._add_row_column(argument, role) for argument in asked)
        where = self._add_row_column(condition, "filter") if condition is not None else None
        return Call(name, function, call, values, where)

    def _rewrite_over_rows(self, node: exp.Expr) -> exp.Expr:
        copy = node.copy()
        for found in list(every(copy, exp.Column)):
            found.replace(column(self._add_row_column(found, "plain")))
        return copy

    def _add_row_column(self, node: exp.Expr, role: str) -> str:
        """Returns the column of the rows that holds an expression. Keys and distinct values don't share
        columns with others, since grouping sets replace them by NULL."""
        known = (role, self.canonical(node))
        if known not in self._columns:
            own = node.name if isinstance(node, exp.Column) and node.name.isidentifier() else ""
            name = own if own and own.lower() not in self._used else self.names.new(self.canonical(node))
            self._used.add(name.lower())
            self._columns[known] = (node, name)
        return self._columns[known][1]


class _PlaceholderColumns:
    """Columns for the first rewrite of a SELECT, which only collects its aggregates."""

    def key(self, name: str) -> exp.Expr:
        return column(name)

    def call(self, call: Call) -> exp.Expr:
        return column(call.name)


def grouping_sets(sets: Collection[Collection[str]]) -> exp.GroupingSets:
    """Returns GROUPING SETS over columns of the rows.

    >>> grouping_sets([["a", "b"], ["a"], []]).sql()
    'GROUPING SETS ((a, b), (a), ())'
    """
    return exp.GroupingSets(
        expressions=[exp.Tuple(expressions=[column(name) for name in members]) for members in sets]
    )


def has_distinct(select: exp.Select, functions: Collection[str]) -> bool:
    """Whether a SELECT's own clauses have one of these aggregates over DISTINCT values.

    >>> from ..sql.dialect import parse
    >>> has_distinct(parse("select count(distinct v) from t"), {"count"})
    True
    >>> has_distinct(parse("select count(v) from (select count(distinct v) as v from t)"), {"count"})
    False
    """
    clauses = [*select.expressions, *(select.args.get(name) for name in ("having", "order", "qualify"))]
    return any(
        isinstance(node, exp.AggFunc) and is_distinct(node) and function_name(node) in functions
        for clause in clauses
        if clause
        for node in walk_same_query(clause)
    )


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(unwrap_call(node).function, exp.AggFunc)
