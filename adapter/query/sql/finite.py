"""Finds expressions with finitely many values for any input: state that is keyed by them is bounded.

>>> from .dialect import parse
>>> below = "(select a, a < 2 as b, *, case when d then a end as c from t)"
>>> select = parse(f"select case when a > 1 then 'x' else upper('y') end, a is null, a % 7, hour(a), a, b, c from {below}")
>>> [is_finite(item, select) for item in select.expressions]
[True, True, True, True, False, True, False]
"""

from __future__ import annotations

from sqlglot import exp

from .clauses import branches, output_name, relations
from .dialect import function_name

_PARTS = {
    "hour", "minute", "second", "dayofweek", "weekday", "dayofmonth", "day", "dayofyear", "month", "quarter",
    "weekofyear", "sign", "signum", "grouping_id", "grouping",
}  # fmt: skip
"""Functions with few values."""
_PASSED_ON = {
    "upper", "lower", "trim", "ltrim", "rtrim", "concat", "concat_ws", "coalesce", "nvl", "ifnull", "if", "nullif",
    "length", "reverse", "initcap", "abs", "greatest", "least", "replace", "substring", "substr", "lpad", "rpad",
}  # fmt: skip
"""Deterministic functions whose value depends only on the listed arguments."""


def is_finite(node: exp.Expr, select: exp.Select) -> bool:
    """Whether an expression over a SELECT's input has finitely many values. (The operands of a modulo are assumed to
    be integers.)

    Args:
        select: its FROM resolves columns that are computed below.
    """
    if isinstance(node, exp.Paren | exp.Alias | exp.Cast | exp.Neg):
        return is_finite(node.this, select)
    if isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Predicate | exp.Not | exp.Connector):
        return True
    if isinstance(node, exp.Column):
        return _is_finite_column(node, select)
    if isinstance(node, exp.Mod):
        return is_finite(node.expression, select)
    if isinstance(node, exp.Case | exp.If):
        taken, default = branches(node)
        values = [*(each.args["true"] for each in taken), default]
        return all(is_finite(each, select) for each in values if each is not None)
    if isinstance(node, exp.Func) and not isinstance(node, exp.AggFunc):
        name = function_name(node).lower()
        if name in _PARTS:
            return True
        return name in _PASSED_ON and all(is_finite(each, select) for each in node.iter_expressions())
    return False


def _is_finite_column(column: exp.Column, select: exp.Select) -> bool:
    """Whether a subquery computes a column, from finitely many values."""
    found = [each for each in relations(select) if column.table.lower() in ("", each.alias_or_name.lower())]
    if len(found) != 1 or not isinstance(found[0], exp.Subquery) or not isinstance(found[0].this, exp.Select):
        return False
    below = found[0].this
    items = [item for item in below.expressions if output_name(item).lower() == column.name.lower()]
    return len(items) == 1 and is_finite(items[0].unalias(), below)
