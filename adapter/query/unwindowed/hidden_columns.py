"""Columns that go up beside those a query names: the event time of a row, and whether it takes one away.

>>> from ..dialect import parse, sql
>>> from .. import hints
>>> tree = parse("select a from (select a, b from t) as x where b > 0")
>>> hints.mark_streams(tree.copy())
>>> for table in tree.find_all(exp.Table): hints.mark(table)
>>> carry(tree, {"t": {"__row_time": "ts"}})
>>> sql(tree)
'SELECT a, __row_time FROM (SELECT a, b, __row_time FROM (SELECT *, ts AS __row_time FROM t) AS t) AS x WHERE b > 0'
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from .. import hints
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
        made = columns.get(node.name) if hints.is_stream(node) else None
        if not made:
            return []
        items = ", ".join(["*", *(f"{text} as {name}" for name, text in made.items())])
        below: exp.Expr = exp.maybe_parse(f"select {items} from {node.name}", dialect=DIALECT)
        for inner in below.find_all(exp.Table):
            hints.mark(inner)
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
        node.replace(exp.Subquery(this=below, alias=alias.copy()))
        return list(made)
    if not isinstance(node, exp.Select):
        return []
    if result := hints.result_of(node):
        # What a stage hands on may have them; then it leaves them out of `*` itself.
        names = [name for name in result.hidden if any(name in made for made in columns.values())]
        if names:
            node.set("expressions", [exp.Star()])
        return names
    handed: dict[str, list[str]] = {}
    source = from_clause(node)
    for item in [source.this if source else None, *(join.this for join in node.args.get("joins") or ())]:
        if item is not None and (names := _carry(item, columns)):
            handed[item.alias_or_name.lower()] = names
    names = list(dict.fromkeys(name for each in handed.values() for name in each))
    if names and not _is_plain_star(node):
        for item in node.expressions:
            leave_out(item, handed)
        for name in names:
            node.append("expressions", exp.column(name))
    return names


def _is_plain_star(select: exp.Select) -> bool:
    """Whether a SELECT hands on what is under it as it is: then the hidden columns are the last of it, too."""
    items = select.expressions
    several = select.args.get("joins") or select.args.get("laterals")
    return len(items) == 1 and isinstance(items[0], exp.Star) and not several


def leave_out(item: exp.Expr, handed: Mapping[str, list[str]]) -> None:
    """Takes hidden columns out of a star: they come last, so that the branches of a UNION ALL fit.

    Args:
        item: of a select list.
        handed: the hidden columns of each source, by its alias in lower case.
    """
    star = item.this if isinstance(item, exp.Column) else item
    if not isinstance(star, exp.Star):
        return
    names: list[exp.Expr]
    if isinstance(item, exp.Column):
        names = [exp.to_identifier(name) for name in handed.get(item.table.lower(), [])]
    else:
        names = [exp.column(name, table=alias or None) for alias, each in handed.items() for name in each]
    star.set("except_", [*(star.args.get("except_") or ()), *names] or None)
