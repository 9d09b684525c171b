"""Breaks ties of OVER, so that stream and batch return the same rows. ROW_NUMBER is ordered by all output columns in order;
LAG, ROWS frames and the like by all values that the SELECT reads.

>>> from .dialect import parse, sql
>>> tree = parse("select a, b, row_number() over (partition by a order by b) as rn from t")
>>> break_ties(tree)
>>> sql(tree)
'SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, STRUCT(a, b)) AS rn FROM t'
>>> tree = parse("select a, lag(c) over (order by b) as p from t")
>>> break_ties(tree)
>>> sql(tree)
'SELECT a, LAG(c) OVER (ORDER BY b, a, c) AS p FROM t'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp

from ...util import nested_types
from ...util.quoting import quote
from .clauses import first_aggregate, over_clauses, unwrap_call
from .dialect import DIALECT, arguments, canonical, function_name, unambiguous_names
from .functions import is_random, makes_rows
from .maps import has_map, orderable_sql
from .nodes import copied, every, holds

_BROKEN, _FIELDS, _TERMS, _BREAKS = "ties_broken", "fields_of_ties", "terms_of_ties", "breaks_ties"
_DECIDED, _ORDERED = "ties_decided", "ordered_value"
_EXTREMES = (exp.ArgMax, exp.ArgMin)
_RANKS_OF_EQUALS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
"""Functions that give tied rows the same value, for any frame."""
_UNORDERED = re.compile(r"\b(variant|interval)\b(?!:| (year|month|day|hour|minute|second))", re.IGNORECASE)
"""Types other than MAP whose values have no order."""


def break_ties(select: exp.Select) -> None:
    """Adds tie-breaking values to the ORDER BY of each OVER that depends on the order of tied rows. Changes the tree."""
    if select.meta_get(_BROKEN):
        return
    tied = [each for each in _own_windows(select) if depends_on_ties(each)]
    if not tied:
        return
    row = tie_breaking_values(select) if breaks_ties_by_all_values(select) else []
    number = row or list(filter(None, [tie_breaker(select)]))
    for each in tied:
        listed = {canonical(by.this) for by in each.args["order"].expressions}
        for value in number if isinstance(each.this, exp.RowNumber) else row:
            mark_without_ties(select)
            if canonical(value) not in listed:
                add_tie_breaker(each.args["order"], _struct([value]) if value.is_star else copied(value))


def mark_without_ties(select: exp.Select) -> None:
    """Marks a SELECT in whose OVER clauses ties are broken, or have no effect. `break_ties` leaves it as it is."""
    select.meta[_BROKEN] = True


def add_tie_breaker(order: exp.Expr, value: exp.Expr) -> None:
    """Adds a value that breaks ties to an ORDER BY. Changes the tree."""
    made = exp.Ordered(this=value, nulls_first=True)
    made.meta[_BREAKS] = True
    order.append("expressions", made)


def breaks_ties(ordered: exp.Expr) -> bool:
    """Whether an entry of an ORDER BY was added to break ties."""
    return bool(ordered.meta_get(_BREAKS))


def depends_on_ties(window: exp.Window) -> bool:
    """Whether the value of an OVER depends on the order of tied rows, and a longer ORDER BY fixes it without changing the
    frame."""
    order = window.args.get("order")
    if order is None or isinstance(window.this, exp.RowNumber):
        return order is not None
    may_be_longer = has_rows_frame(window) or not depends_on_frame_ties(window)
    return distinguishes_tied_rows(window) and may_be_longer and not is_ordered_by_all_columns(window)


def is_ordered_by_all_columns(window: exp.Window) -> bool:
    """Whether an OVER orders its rows by all columns of the relation: `break_ties` added them, or the author wrote
    STRUCT(*)."""
    order, select = window.args.get("order"), window.parent_select
    by = order.expressions if order is not None else []
    if any(map(breaks_ties, by)):
        return True
    is_one = select is not None and not select.args.get("joins") and not select.args.get("laterals")
    calls = (each.this for each in by if is_one and function_name(each.this) == "struct")
    return any(map(_is_plain_star, (each for call in calls for each in call.expressions)))


def _is_plain_star(node: exp.Expr) -> bool:
    """Whether a node is ``*`` or ``t.*``, without EXCEPT or the like."""
    star = node.this if isinstance(node, exp.Column) else node
    return isinstance(star, exp.Star) and not any(star.args.values())


def distinguishes_tied_rows(window: exp.Window) -> bool:
    """Whether the function of an OVER distinguishes tied rows, such as LAG, or a sum over a ROWS frame."""
    function = window.this
    if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
    return (
        has_rows_frame(window)
        or isinstance(function, exp.Lag | exp.Lead | exp.FirstValue | exp.NthValue)
        or function_name(function) == "ntile"
    )


def has_rows_frame(window: exp.Window) -> bool:
    """Whether an OVER has a ROWS frame that has an effect."""
    spec = window.args.get("spec")
    is_rows = spec is not None and str(spec.args.get("kind")).upper() == "ROWS"
    return is_rows and not isinstance(window.this, _RANKS_OF_EQUALS)


def depends_on_frame_ties(window: exp.Window) -> bool:
    """Whether a function returns a row of its frame other than the partition's first one, so that ties at the frame's
    edges matter."""
    node, spec = window.this, window.args.get("spec")
    if isinstance(node, exp.RespectNulls):
        node = node.this
    if isinstance(node, exp.FirstValue):
        # A frame with an offset has one ORDER BY.
        start, end = (str((spec and spec.args.get(each)) or "").upper() for each in ("start", "end"))
        return spec is not None and (start != "UNBOUNDED" or end not in ("UNBOUNDED", "CURRENT ROW", ""))
    return isinstance(node, exp.NthValue) or (
        isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.FirstValue | exp.NthValue)
    )


def break_ties_of_extremes(query: exp.Expr) -> None:
    """Makes each MIN_BY (MAX_BY) return the least (greatest) value of tied rows, as its incremental state does.
    Changes the tree.

    >>> from .dialect import parse, sql
    >>> tree = parse("select max_by(v, x) filter (where y) as m from t")
    >>> break_ties_of_extremes(tree)
    >>> sql(tree)
    'SELECT MAX_BY(v, CASE WHEN NOT x IS NULL THEN STRUCT(x, v) END) FILTER(WHERE y) AS m FROM t'
    """
    for call in extremes_with_ties(query):
        by = call.expression.copy()
        value = exp.maybe_parse(call.meta_get(_ORDERED) or call.this.copy(), dialect=DIALECT)
        both = exp.Anonymous(this="STRUCT", expressions=[by, value])
        there = by.copy().is_(exp.null()).not_()
        call.set("expression", exp.Case(ifs=[exp.If(this=there, true=both)]))
        call.meta[_DECIDED] = True


def extremes_with_ties(query: exp.Expr) -> list[exp.Expr]:
    """The MIN_BY and MAX_BY calls of a query that may return the value of any tied row."""
    found = (each for each in every(query, *_EXTREMES) if not each.args.get("count"))
    return [
        each
        for each in found
        if not is_deterministic_extreme(each) and not isinstance(each.this, exp.Distinct)
    ]


def is_deterministic_extreme(node: exp.Expr) -> bool:
    """Whether a MIN_BY or MAX_BY is deterministic."""
    return bool(node.meta_get(_DECIDED))


def note_map_order(call: exp.Expr, kind: str) -> None:
    """Notes how to order the values of a MIN_BY or MAX_BY if their type has no order (a MAP)."""
    if has_map(kind):
        call.meta[_ORDERED] = orderable_sql(call.this.sql(DIALECT), kind)


def tie_breaker(select: exp.Select) -> exp.Expr | None:
    """Returns the value that breaks ties of a SELECT's only OVER, a ROW_NUMBER: a struct of the select list without ranks.
    None if that is empty."""
    items = tie_breaking_items(select)
    return _struct(items) if items else None


def _struct(items: Sequence[exp.Expr]) -> exp.Expr:
    return exp.Anonymous(this="STRUCT", expressions=[copied(each) for each in items])


def tie_breaking_items(select: exp.Select) -> list[exp.Expr]:
    """Returns the values that break ties as a list: the select items without OVER. `tie_breaker` has them as one struct."""
    if (fields := noted_tie_breakers(select)) is not None:
        return [exp.maybe_parse(text, dialect=DIALECT) for text in fields]
    return [copied(item.unalias()) for item in items_without_over(select)]


def breaks_ties_by_all_values(select: exp.Select) -> bool:
    """Whether ties are broken by all values that a SELECT reads: rows that are equal in its select list may differ in
    another OVER."""
    windows = list(_own_windows(select))
    only = len(windows) == 1 and isinstance(windows[0].this, exp.RowNumber)
    return not only and any(map(depends_on_ties, windows))


def tie_breaking_values(select: exp.Select) -> list[exp.Expr]:
    """Returns the values that order tied rows of a SELECT with OVER: of its select list, of OVER clauses, and of its groups.
    Rows that are equal in all of them may change places. Empty if such values aren't known: the select list has a
    subquery, or a name that may be a column or another item.

    >>> from .dialect import parse, sql
    >>> over = "sum(c) filter (where d) over (partition by e order by f + 1)"
    >>> tree = parse(f"select upper(a) as a, b, g * lag(a) over (order by b) as p, {over} as q, rand() as r from t")
    >>> [sql(each) for each in tie_breaking_values(tree)]
    ['UPPER(a)', 'b', 'a', 'c', 'd', 'e', 'f + 1', 'g']
    >>> tree = parse("select upper(k) as k, n - lag(sum(v)) over (order by max(n)) as d from t group by upper(k), n")
    >>> [sql(each) for each in tie_breaking_values(tree)]
    ['UPPER(k)', 'SUM(v)', 'MAX(n)', 'n']
    >>> tie_breaking_values(parse("select a as x, x + b as y, lag(c) over (order by d) as p from t"))
    []
    """
    noted: list[str] | None = select.meta.get(_TERMS)
    if noted is not None:
        return [exp.maybe_parse(text, dialect=DIALECT) for text in noted]
    items = [item.unalias() for item in select.expressions]
    if any(holds(item, exp.Query) for item in items) or _has_unclear_name(select):
        return []
    plain_star = next((item for item in items if isinstance(item, exp.Star) and _is_plain_star(item)), None)
    if plain_star is not None:
        return [copied(plain_star)]
    parts = [part for window in _own_windows(select) for part in _values_read_by(window)]
    found: dict[str, exp.Expr] = {}
    same = unambiguous_names(select)
    for each in [*items, *parts, *_keys_or_columns(select)]:
        if each.is_star or (_is_value_of_one_row(each) and holds(each, exp.Column, exp.AggFunc)):
            found.setdefault(canonical(each, same), copied(each))
    return list(found.values())


def _has_unclear_name(select: exp.Select) -> bool:
    """Whether a name in the select list may be a column or the alias of another item. A name in OVER is a column, and so
    is one in the item that has it as its alias."""
    aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    used, columns = set[str](), set[str]()
    for item in select.expressions:
        own = {item.alias_or_name.lower()}
        for column in every(item, exp.Column):
            if not column.table:
                name = column.name.lower()
                is_column = name in own or column.find_ancestor(exp.Window, exp.Select) is not select
                (columns if is_column else used).add(name)
    return bool((used & aliases) - columns)


def _keys_or_columns(select: exp.Select) -> list[exp.Expr]:
    """Returns what determines items with OVER besides their OVER: the keys of a grouped SELECT, otherwise columns."""
    aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    if group := select.args.get("group"):
        keys = (
            key for key in group.expressions if not isinstance(key, exp.Cube | exp.Rollup | exp.GroupingSets)
        )
        return [key for key in keys if not isinstance(key, exp.Column) or key.name.lower() not in aliases]
    if first_aggregate(select) is not None:
        return []
    others = (item for item in select.expressions if not item.is_star and not _is_value_of_one_row(item))
    columns = (each for item in others for each in every(item, exp.Column))
    return [each for each in columns if each.find_ancestor(exp.Window, exp.Select) is select]


def _is_value_of_one_row(node: exp.Expr) -> bool:
    """Whether an expression is a value of a single row, or of a group, that is the same each time."""
    return not any(
        isinstance(each, exp.Window | exp.Query) or makes_rows(each) for each in every(node, exp.Expr)
    ) and not any(map(is_random, every(node, exp.Func)))


def _own_windows(select: exp.Select) -> Iterator[exp.Window]:
    """Yields the OVER clauses of a SELECT, but not those of its subqueries: first those of its items, in order."""
    own = [each for each in every(select, exp.Window) if each.parent_select is select]
    found = {id(each): each for each in [*over_clauses(select), *own]} if own else {}
    return iter(found.values())


def _values_read_by(window: exp.Window) -> list[exp.Expr]:
    """Returns what an OVER reads: its function's arguments and filter, its partition and its order."""
    call, order = unwrap_call(window.this), window.args.get("order")
    read = [each for each in arguments(call.function) if not each.is_star]
    conditions = [] if call.condition is None else [call.condition]
    by = [each.this for each in order.expressions] if order else []
    return [*read, *conditions, *call.order, *(window.args.get("partition_by") or ()), *by]


def items_without_over(select: exp.Select) -> list[exp.Expr]:
    """Returns the select items without OVER."""
    return [item for item in select.expressions if not holds(item, exp.Window)]


def noted_tie_breakers(select: exp.Select) -> list[str] | None:
    """Returns SQL of the tie-breaking values if some select items can't be ordered. None otherwise, or if types are
    unknown."""
    found: list[str] | None = select.meta.get(_FIELDS)
    return found


def note_item_types(select: exp.Select, row: str) -> None:
    """Notes the tie-breaking values that replace MAPs, which have no order.

    Args:
        select: a SELECT with ROW_NUMBER. It is changed.
        row: type of its select list without ranks, a struct as `typeof` prints it.
    """
    if has_map(row) and (texts := _orderable_items(select, items_without_over(select), row)) is not None:
        select.meta[_FIELDS] = texts


def note_term_types(select: exp.Select, row: str | None) -> None:
    """Notes values that break ties in place of `tie_breaking_values` if a type of these has no order. The list is empty if
    there are no such values.

    Args:
        select: a SELECT with OVER. It is changed.
        row: type of its terms, a struct as `typeof` prints it; None if unknown.
    """
    kinds = [kind for _, kind in nested_types.struct_fields(row or "") or ()]
    if any(map(_UNORDERED.search, kinds)):
        select.meta[_TERMS] = []
    elif any(map(has_map, kinds)):
        select.meta[_TERMS] = _orderable_items(select, tie_breaking_values(select), row or "") or []


def _orderable_items(select: exp.Select, items: Sequence[exp.Expr], row: str) -> list[str] | None:
    """Returns SQL of each column of select items in a form that has an order; None if the relation of a column is unknown.

    Args:
        select: the SELECT whose relations they read.
        row: type of the items, a struct as `typeof` prints it.
    """
    fields = nested_types.struct_fields(row) or []
    stars = [item for item in items if item.is_star]
    of_several = any(not isinstance(star, exp.Column) for star in stars) and bool(select.args.get("joins"))
    if len(stars) > 1 or of_several:
        return None
    texts: list[str] = []
    for item in items:
        many = len(fields) - len(items) + 1 if item.is_star else 1
        names = fields[len(texts) : len(texts) + many]
        table = f"{quote(item.table)}." if isinstance(item, exp.Column) and item.table else ""
        texts += (
            [f"{table}{quote(name)}" for name, _ in names] if item.is_star else [item.unalias().sql(DIALECT)]
        )
    if len(texts) != len(fields):
        return None
    return [orderable_sql(text, kind) for text, (_, kind) in zip(texts, fields, strict=True)]
