"""Breaks ties of OVER, so that stream and batch give the same rows: those of ROW_NUMBER by all output columns in order,
those of LAG, ROWS frames and the like by all values that the SELECT reads.

>>> from .dialect import parse, sql
>>> tree = parse("select a, b, row_number() over (partition by a order by b) as rn from t")
>>> break_ties(tree)
>>> sql(tree)
'SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, STRUCT(a, b)) AS rn FROM t'
>>> tree = parse("select a, lag(c) over (order by b) as p from t")
>>> break_ties(tree)
>>> sql(tree)
'SELECT a, LAG(c) OVER (ORDER BY b, STRUCT(a, c, b)) AS p FROM t'
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from sqlglot import exp

from ...util import nested_types
from ...util.quoting import quote
from .dialect import DIALECT, arguments, canonical, function_name, unqualified
from .functions import is_random, makes_rows
from .maps import has_map, orderable
from .nodes import copied, every, holds, is_name

_BROKEN, _FIELDS, _TERMS, _BREAKS = "ties_broken", "fields_of_ties", "terms_of_ties", "breaks_ties"
_DECIDED, _ORDERED = "ties_decided", "ordered_value"
_EXTREMES = (exp.ArgMax, exp.ArgMin)
_RANKS_OF_EQUALS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
"""Functions that give tied rows the same value, for any frame."""
_UNORDERED = re.compile(r"\b(variant|interval)\b(?!:| (year|month|day|hour|minute|second))", re.IGNORECASE)
"""Types other than MAP whose values have no order."""


def break_ties(select: exp.Select) -> None:
    """Adds what breaks ties to the ORDER BY of each OVER whose value depends on the order of tied rows. Changes the tree."""
    if select.meta_get(_BROKEN):
        return
    tied = [each for each in _windows(select) if depends_on_ties(each)]
    row = tie_breaker(select) if tied else None
    if row is None:
        return
    select.meta[_BROKEN] = True
    for each in tied:
        add_tie_breaker(each.args["order"], copied(row))


def add_tie_breaker(order: exp.Expr, value: exp.Expr) -> None:
    """Adds a value that breaks ties to an ORDER BY. Changes the tree."""
    made = exp.Ordered(this=value, nulls_first=True)
    made.meta[_BREAKS] = True
    order.append("expressions", made)


def breaks_ties(ordered: exp.Expr) -> bool:
    """Whether an entry of an ORDER BY was added to break ties."""
    return bool(ordered.meta_get(_BREAKS))


def depends_on_ties(window: exp.Window) -> bool:
    """Whether the value of an OVER depends on the order of rows that its ORDER BY leaves equal, and a longer ORDER BY
    decides it, because that doesn't change the frame."""
    order = window.args.get("order")
    if order is None or isinstance(window.this, exp.RowNumber):
        return order is not None
    may_be_longer = has_rows_frame(window) or not depends_on_frame_ties(window)
    return sees_rows(window) and may_be_longer and not orders_all(window)


def orders_all(window: exp.Window) -> bool:
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


def sees_rows(window: exp.Window) -> bool:
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
        return spec is not None and str(spec.args.get("start")).upper() != "UNBOUNDED"
    return isinstance(node, exp.NthValue) or (
        isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.FirstValue | exp.NthValue)
    )


def decide_extremes(query: exp.Expr) -> None:
    """Makes each MIN_BY (MAX_BY) return the least (greatest) value of tied rows, as its incremental state does.
    Changes the tree.

    >>> from .dialect import parse, sql
    >>> tree = parse("select max_by(v, x) filter (where y) as m from t")
    >>> decide_extremes(tree)
    >>> sql(tree)
    'SELECT MAX_BY(v, CASE WHEN NOT x IS NULL THEN STRUCT(x, v) END) FILTER(WHERE y) AS m FROM t'
    """
    for call in undecided_extremes(query):
        by = call.expression.copy()
        value = exp.maybe_parse(call.meta_get(_ORDERED) or call.this.copy(), dialect=DIALECT)
        both = exp.Anonymous(this="STRUCT", expressions=[by, value])
        there = by.copy().is_(exp.null()).not_()
        call.set("expression", exp.Case(ifs=[exp.If(this=there, true=both)]))
        call.meta[_DECIDED] = True


def undecided_extremes(query: exp.Expr) -> list[exp.Expr]:
    """The MIN_BY and MAX_BY calls of a query that may return the value of any tied row."""
    found = (each for each in every(query, *_EXTREMES) if not each.args.get("count"))
    return [each for each in found if not is_decided(each) and not isinstance(each.this, exp.Distinct)]


def is_decided(node: exp.Expr) -> bool:
    """Whether a MIN_BY or MAX_BY is deterministic."""
    return bool(node.meta_get(_DECIDED))


def note_order(call: exp.Expr, kind: str) -> None:
    """Notes how to order the values of a MIN_BY or MAX_BY if their type has no order (a MAP)."""
    if has_map(kind):
        call.meta[_ORDERED] = orderable(call.this.sql(DIALECT), kind)


def tie_breaker(select: exp.Select) -> exp.Expr | None:
    """Returns the value that breaks ties, a struct: of the select list without ranks, if its only OVER is a ROW_NUMBER, and
    otherwise of `terms`. None if that is empty."""
    items = terms(select) if reads_terms(select) else values(select)
    return exp.Anonymous(this="STRUCT", expressions=items) if items else None


def values(select: exp.Select) -> list[exp.Expr]:
    """Returns the values of the select list that break ties, one by one."""
    if (fields := fields_of(select)) is not None:
        return [exp.maybe_parse(text, dialect=DIALECT) for text in fields]
    return [copied(item.unalias()) for item in listed(select)]


def reads_terms(select: exp.Select) -> bool:
    """Whether ties are broken by all values that a SELECT reads: rows that are equal in its select list may differ in
    another OVER."""
    windows = list(_windows(select))
    only = len(windows) == 1 and isinstance(windows[0].this, exp.RowNumber)
    return not only and any(map(depends_on_ties, windows))


def terms(select: exp.Select) -> list[exp.Expr]:
    """Returns the values that determine a row of a SELECT with OVER: those of its select list, then those in OVER clauses.
    An expression that is no value of a single row is replaced by its columns and aggregates.

    >>> from .dialect import parse, sql
    >>> over = "sum(c) filter (where d) over (partition by e order by f + 1)"
    >>> tree = parse(f"select a as x, x + b as y, 2 * lag(a) over (order by b) as p, {over} as q, rand() as r from t")
    >>> [sql(each) for each in terms(tree)]
    ['a', 'b', 'c', 'd', 'e', 'f + 1']
    """
    noted: list[str] | None = select.meta.get(_TERMS)
    if noted is not None:
        return [exp.maybe_parse(text, dialect=DIALECT) for text in noted]
    aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    items = [term for item in select.expressions for term in _terms_of(item.unalias(), aliases)]
    parts = [term for window in _windows(select) for part in _parts_of(window) for term in _terms_of(part)]
    found: dict[str, exp.Expr] = {}
    same = unqualified(select)
    for each in [*items, *parts]:
        found.setdefault(canonical(each, same), copied(each))
    # A plain star has all columns.
    star = next(
        (each for each in found.values() if isinstance(each, exp.Star) and _is_plain_star(each)), None
    )
    return list(found.values()) if star is None else [star]


def _terms_of(node: exp.Expr, aliases: Collection[str] = ()) -> list[exp.Expr]:
    """Returns the expression itself if it is a value of a row, and otherwise its columns and aggregates.

    Args:
        aliases: names in lower case that, without a table, may be those of other select items.
    """

    def may_be_item(each: exp.Expr) -> bool:
        return isinstance(each, exp.Column) and not each.table and each.name.lower() in aliases

    def is_no_value(each: exp.Expr) -> bool:
        return isinstance(each, exp.Window | exp.Query) or makes_rows(each) or _is_random(each)

    def inputs(each: exp.Expr) -> Iterator[exp.Expr]:
        if isinstance(each, exp.Window):
            for part in _parts_of(each):
                yield from _terms_of(part)
        elif isinstance(each, exp.Column) or (
            isinstance(each, exp.AggFunc) and not any(map(is_no_value, every(each, exp.Expr)))
        ):
            yield from () if may_be_item(each) else (each,)
        elif not isinstance(each, exp.Query) and not is_name(each):
            for child in each.iter_expressions():
                yield from inputs(child)

    is_value = isinstance(node, exp.Column) or not any(
        is_no_value(each) or may_be_item(each) for each in every(node, exp.Expr)
    )
    if is_value:
        return [node] if holds(node, exp.Column, exp.Star, exp.AggFunc) else []
    return list(inputs(node))


def _is_random(node: exp.Expr) -> bool:
    return isinstance(node, exp.Func) and is_random(node)


def _windows(select: exp.Select) -> Iterator[exp.Window]:
    """Yields the OVER clauses of a SELECT, but not those of its subqueries."""
    return (each for each in every(select, exp.Window) if each.parent_select is select)


def _parts_of(window: exp.Window) -> list[exp.Expr]:
    """Returns what an OVER reads: its function's arguments and filter, its partition and its order."""
    function, found = window.this, list[exp.Expr]()
    while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        if isinstance(function, exp.Filter):
            found.append(function.expression.this)
        function = function.this
    order = window.args.get("order")
    by = [each.this for each in order.expressions] if order else []
    return [*arguments(function), *found, *(window.args.get("partition_by") or ()), *by]


def listed(select: exp.Select) -> list[exp.Expr]:
    """Returns the select items without OVER."""
    return [item for item in select.expressions if not holds(item, exp.Window)]


def fields_of(select: exp.Select) -> list[str] | None:
    """Returns SQL of the tie-breaking values if some select items can't be ordered. None otherwise, or if types are
    unknown."""
    found: list[str] | None = select.meta.get(_FIELDS)
    return found


def note_types(select: exp.Select, row: str) -> None:
    """Notes the tie-breaking values that replace MAPs, which have no order.

    Args:
        select: a SELECT with ROW_NUMBER. It is changed.
        row: type of its select list without ranks, a struct as `typeof` prints it.
    """
    if has_map(row) and (texts := _orderable_items(select, listed(select), row)) is not None:
        select.meta[_FIELDS] = texts


def note_term_types(select: exp.Select, row: str | None) -> None:
    """Notes the values that break ties in place of `terms`, where these have no order: none if there is no such value.

    Args:
        select: a SELECT with OVER. It is changed.
        row: type of its terms, a struct as `typeof` prints it; None if unknown.
    """
    if row is not None and (has_map(row) or _UNORDERED.search(row)):
        texts = None if _UNORDERED.search(row) else _orderable_items(select, terms(select), row)
        select.meta[_TERMS] = texts or []


def _orderable_items(select: exp.Select, items: Sequence[exp.Expr], row: str) -> list[str] | None:
    """Returns SQL of each column of select items in a form that has an order; None if the relation of a column is unknown.

    Args:
        select: the SELECT whose relations they read.
        row: type of the items, a struct as `typeof` prints it.
    """
    fields = nested_types.fields_of(row) or []
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
    return [orderable(text, kind) for text, (_, kind) in zip(texts, fields, strict=True)]
