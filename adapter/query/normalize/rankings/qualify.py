"""Rewrites QUALIFY as WHERE over a subquery.

>>> from ...sql.dialect import parse, sql
>>> print(sql(rewrite_qualify(parse("select k from t qualify row_number() over (partition by k order by v) = 1"))))
SELECT k FROM (SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS _w FROM t) AS _t WHERE _w = 1
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.helper import find_new_name

from ...sql.clauses import AROUND, output_name
from ...sql.dialect import canonical, reading_select
from ...sql.nodes import every, replace_each, star_without
from . import orders

_RELATION, _HIDDEN = "_t", "_w"
_COMPUTED = (exp.Window, exp.AggFunc, *AROUND)
"""Nodes with a value for each row: OVER, and aggregates with their FILTER or WITHIN GROUP."""


def rewrite_qualify(tree: exp.Query) -> exp.Query:
    """Rewrites QUALIFY as WHERE over a subquery, and moves LIMIT above it. Changes the tree."""
    return replace_each(replace_each(tree, exp.Select, _move_limit_above), exp.Select, _filter_over_subquery)


def _filter_over_subquery(select: exp.Select) -> exp.Query | None:
    """Returns a SELECT with QUALIFY as a filter over a subquery. Values that only the filter reads are hidden columns of the
    subquery. None without QUALIFY.

    >>> from ...sql.dialect import parse, sql
    >>> tree = parse("select c.k, a + b as v from t as c qualify rank() over (order by v * 2, c.v) < 3 and c.v > w")
    >>> print(sql(_filter_over_subquery(tree)))
    SELECT k, v FROM (SELECT c.k, a + b AS v, RANK() OVER (ORDER BY (a + b) * 2, c.v) AS _w, c.v AS _w_2, w FROM t AS c) \
AS _t WHERE _w < 3 AND _w_2 > w
    """
    if not select.args.get("qualify"):
        return None
    below, is_star = select.copy(), select.is_star
    _name_items(below)
    visible = list(below.expressions)
    qualify, distinct = below.args["qualify"], below.args.get("distinct")
    parts = _parts_over_rows(qualify, below)
    # DISTINCT applies after the filter, and without the filter's columns.
    for clause in ("qualify", "distinct"):
        below.set(clause, None)
    named = [item for item in visible if not item.is_star]
    items = orders.items_by_name(below)
    columns = {canonical(item.unalias()): exp.column(item.alias_or_name, quoted=True) for item in named}
    names = set(map(str.lower, below.named_selects))
    for node, is_in_subquery in parts:
        if isinstance(node, exp.Column) and not node.table:
            if not is_star and node.name.lower() not in names:
                names.add(node.name.lower())
                below.append("expressions", node.copy())
            continue
        text = canonical(node)
        if text not in columns:
            columns[text] = exp.column(find_new_name(names, _HIDDEN))
            names.add(columns[text].name)
            below.append("expressions", exp.alias_(orders.expand_aliases(node, items), columns[text].name))
        column = columns[text].copy()
        if is_in_subquery:
            column.set("table", exp.to_identifier(_RELATION))
        node.replace(column)
    hidden = [item.alias_or_name for item in below.expressions[len(visible) :]]
    star: exp.Expr = star_without(hidden, quoted=False)
    made = exp.Select(expressions=[star] if is_star else [*map(_column_above, visible)])
    made = made.from_(below.subquery(_RELATION, copy=False), copy=False)
    made.set("where", exp.Where(this=qualify.this))
    made.set("distinct", distinct)
    return made


def _parts_over_rows(qualify: exp.Expr, select: exp.Select) -> list[tuple[exp.Expr, bool]]:
    """Returns the parts of a QUALIFY that have a value for each row of its SELECT: OVER, aggregates, and columns of the
    SELECT's relations. The flag says whether a part is in a subquery."""
    found: list[tuple[exp.Expr, bool]] = []
    for node in every(qualify, *_COMPUTED, exp.Column):
        if node.find_ancestor(exp.Select) is not select:
            if isinstance(node, exp.Column) and reading_select(node) is select:
                found.append((node, True))
        elif node.find_ancestor(*_COMPUTED, exp.Select) is select:
            found.append((node, False))
    return found


def _name_items(select: exp.Select) -> None:
    """Names the unnamed items of a SELECT. Changes the tree."""
    taken = set(select.named_selects)
    for item in list(select.expressions):
        if not item.is_star and not (output_name(item) and item.alias_or_name):
            name = find_new_name(taken, "_c")
            taken.add(name)
            item.replace(exp.alias_(item.copy(), name))


def _column_above(item: exp.Expr) -> exp.Column:
    """Returns the column of an item, quoted as there."""
    name = item.args.get("alias") or item.this
    return exp.column(item.alias_or_name, quoted=isinstance(name, exp.Identifier) and name.args.get("quoted"))


def _move_limit_above(select: exp.Select) -> exp.Select | None:
    """Moves a LIMIT next to QUALIFY to a SELECT above, because QUALIFY is applied first.

    >>> from ...sql.dialect import parse, sql
    >>> tree = parse("select k from t qualify row_number() over (order by v) = 1 order by w limit 3")
    >>> print(sql(_move_limit_above(tree)))
    SELECT `k` FROM (SELECT k, w AS `__sorted_by_0` FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY v) = 1) AS qualified \
ORDER BY `__sorted_by_0` LIMIT 3
    """
    if not select.args.get("qualify") or not any(select.args.get(clause) for clause in orders.CUTS):
        return None
    below = select.copy()
    order = below.args.get("order")
    cuts = {clause: below.args.get(clause) for clause in orders.CUTS}
    for clause in ("order", *cuts):
        below.set(clause, None)
    written = exp.Order(expressions=[]) if order is None else orders.expand_order(order, below)
    made, above = orders.put_order_above(below, written, "qualified")
    for clause, value in cuts.items():
        made.set(clause, value)
    made.set("order", None if order is None else above)
    return made
