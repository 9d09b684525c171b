"""Columns that go up beside those a query names: the event time of a row, and whether it takes one away.

>>> from ..dialect import parse, sql
>>> from .. import marks
>>> tree = parse("select a from (select a, b from t) as x where b > 0")
>>> marks.mark_streams(tree.copy())
>>> for table in tree.find_all(exp.Table): marks.mark(table)
>>> carry(tree, {"t": {"__row_time": "ts"}})
>>> sql(tree)
'SELECT a, __row_time FROM (SELECT a, b, __row_time FROM (SELECT *, ts AS __row_time FROM t) AS t) AS x WHERE b > 0'
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from .. import marks
from ..dialect import DIALECT, from_clause

ROW_TIME, SIGN = "__row_time", "__sign"


def carry(node: exp.Expr, columns: Mapping[str, Mapping[str, str]]) -> None:
    """Adds columns to every SELECT between a node and its streams. Changes the tree.

    Args:
        node: a row-level query, or something of a FROM.
        columns: of each stream's view, the expressions by name; each stream has the same names.
    """
    _carry(node, columns)


def _carry(node: exp.Expr, columns: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The same; the names that come out of it."""
    if isinstance(node, exp.Subquery):
        return _carry(node.this, columns)
    if isinstance(node, exp.SetOperation):
        _carry(node.expression, columns)
        return _carry(node.this, columns)
    if isinstance(node, exp.Table):
        made = columns.get(node.name) if marks.is_stream(node) else None
        if not made:
            return []
        items = ", ".join(["*", *(f"{text} as {name}" for name, text in made.items())])
        below: exp.Expr = exp.maybe_parse(f"select {items} from {node.name}", dialect=DIALECT)
        for inner in below.find_all(exp.Table):
            marks.mark(inner)
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
        node.replace(exp.Subquery(this=below, alias=alias.copy()))
        return list(made)
    if not isinstance(node, exp.Select):
        return []
    if result := marks.result_of(node):
        # What a stage hands on may have them; then it leaves them out of `*` itself.
        names = [name for name in result.hidden if any(name in made for made in columns.values())]
        if names:
            node.set("expressions", [exp.Star()])
        return names
    found: list[str] = []
    source = from_clause(node)
    for item in [source.this if source else None, *(join.this for join in node.args.get("joins") or ())]:
        found += _carry(item, columns) if item is not None else []
    names = list(dict.fromkeys(found))
    if names and not any(item.is_star for item in node.expressions):
        for name in names:
            node.append("expressions", exp.column(name))
    return names
