"""Numbers of the SELECTs of a text. Copies and rewritten forms of a SELECT keep its number.

>>> from ..sql.dialect import parse
>>> tree = parse("select a from (select a from t)")
>>> number_selects(tree)
>>> [select_number(each) for each in every(tree, exp.Select)]
[0, 1]
"""

from __future__ import annotations

from sqlglot import exp

from ..sql.nodes import every

_NUMBER = "number_in_text"


def number_selects(tree: exp.Expr) -> None:
    """Numbers the SELECTs of a text. Changes the tree."""
    for place, select in enumerate(every(tree, exp.Select)):
        select.meta[_NUMBER] = place


def select_number(select: exp.Select) -> int | None:
    """Returns the number of a SELECT; None if it isn't part of the author's text."""
    number: int | None = select.meta_get(_NUMBER)
    return number


def copy_number(below: exp.Select, select: exp.Select) -> None:
    """Gives a generated query, which holds relations of a SELECT of the author's text, the number of that SELECT."""
    below.meta[_NUMBER] = select_number(select)
