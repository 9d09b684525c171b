"""Ties of ROW_NUMBER broken by all output columns in order, so that stream and batch number alike.

>>> from .dialect import parse, sql
>>> tree = parse("select a, b, row_number() over (partition by a order by b) as rn from t")
>>> break_ties(tree)
>>> sql(tree)
'SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, STRUCT(a, b)) AS rn FROM t'
"""

from __future__ import annotations

from sqlglot import exp

_BROKEN = "ties_broken"


def break_ties(select: exp.Select) -> None:
    """Adds the select list to the ORDER BY of each ROW_NUMBER in it. Changes the tree it is given."""
    items = [item for item in select.expressions if not item.find(exp.Window)]
    if not items or select.meta.get(_BROKEN):
        return
    select.meta[_BROKEN] = True
    for window in select.find_all(exp.Window):
        order = window.args.get("order")
        if isinstance(window.this, exp.RowNumber) and order and window.parent_select is select:
            row = exp.Anonymous(this="STRUCT", expressions=[item.unalias().copy() for item in items])
            order.append("expressions", exp.Ordered(this=row, nulls_first=True))
