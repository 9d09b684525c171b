"""Rewrites QUALIFY as WHERE over a subquery.

>>> from ...sql.dialect import parse, sql
>>> print(sql(without_qualify(parse("select k from t qualify row_number() over (partition by k order by v) = 1"))))
SELECT k FROM (SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS _w FROM t) AS _t WHERE _w = 1
"""

from __future__ import annotations

from sqlglot import exp, transforms

from ...sql.dialect import canonical
from ...sql.nodes import every, replace_each, star_without
from . import orders


def without_qualify(tree: exp.Query) -> exp.Query:
    """Rewrites QUALIFY as WHERE over a subquery, and moves LIMIT above it. Changes the tree."""
    return replace_each(replace_each(tree, exp.Select, _with_limit_above), exp.Select, _over_subquery)


def _over_subquery(select: exp.Select) -> exp.Query | None:
    if not select.args.get("qualify"):
        return None
    had = set(select.named_selects)
    _replace_by_items(select)
    # DISTINCT applies after the filter, and without the filter's columns.
    distinct = select.args.get("distinct")
    select.set("distinct", None)
    made = transforms.eliminate_qualify(select.copy())
    assert isinstance(made, exp.Select)
    made.set("distinct", distinct)
    inner = made.find(exp.Subquery)
    assert inner is not None
    if select.is_star:
        # The filter's columns aren't part of the star.
        helpers = (name for name in inner.this.named_selects if name not in had)
        made.set("expressions", [star_without(helpers, quoted=False)])
    return made


def _with_limit_above(select: exp.Select) -> exp.Select | None:
    """Moves a LIMIT next to QUALIFY to a SELECT above, because QUALIFY is applied first.

    >>> from ...sql.dialect import parse, sql
    >>> tree = parse("select k from t qualify row_number() over (order by v) = 1 order by w limit 3")
    >>> print(sql(_with_limit_above(tree)))
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
    made, above = orders.put_above(below, written, "qualified")
    for clause, value in cuts.items():
        made.set(clause, value)
    made.set("order", None if order is None else above)
    return made


def _replace_by_items(select: exp.Select) -> None:
    """Replaces rankings in QUALIFY by the select items that are equal. Changes the tree."""
    qualify = select.args["qualify"]
    listed = {
        canonical(item.this): item.alias
        for item in select.expressions
        if isinstance(item, exp.Alias) and isinstance(item.this, exp.Window)
    }
    for window in list(every(qualify, exp.Window)):
        if (name := listed.get(canonical(window))) is not None:
            window.replace(exp.column(name, quoted=True))
