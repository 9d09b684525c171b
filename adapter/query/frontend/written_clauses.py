"""Lists a query's clauses as its author wrote them, to describe an edit.

>>> from ..sql.dialect import parse
>>> query = parse("select k, count(*) as n from (select * from a join b on a.k = b.k where a.v > 1 and b.u > 2) group by k")
>>> for kind, text in written_clauses(query): print(f"{kind}: {text}")
SELECT: k
SELECT: COUNT(*) AS n
GROUP BY: k
SELECT: *
FROM: a
JOIN: JOIN b
ON: a.k = b.k
WHERE: a.v > 1
WHERE: b.u > 2
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from ..sql.clauses import conjuncts, relations_with_joins, without_queries
from ..sql.dialect import DIALECT, sql
from ..sql.names import remove_marks
from ..sql.nodes import children, every
from . import hints

_LISTED = {"group": "GROUP BY", "order": "ORDER BY"}
_CONDITIONS = {"where": "WHERE", "having": "HAVING", "qualify": "QUALIFY"}


def written_clauses(tree: exp.Query) -> list[tuple[str, str]]:
    """Returns the clauses of all SELECTs of a query, outermost first, each as its keyword and text. Subqueries are
    left out of a text; their clauses are listed separately. Changes the tree."""
    found: list[tuple[str, str]] = []
    inputs = [_take_input(window) for window in list(_outermost_windows(tree))]
    for query in every(hints.with_macro_calls(tree), exp.Query):
        if isinstance(query, exp.SetOperation):
            kind = type(query).__name__.upper()
            found.append(("SET", kind if query.args.get("distinct") is not False else f"{kind} ALL"))
        elif isinstance(query, exp.Select):
            found += [(kind, remove_marks(text)) for kind, text in _select_clauses(query)]
        if limit := query.args.get("limit"):
            found.append(("LIMIT", sql(limit.expression or limit.args["count"])))
    for rows in inputs:
        found += written_clauses(rows)
    return found


def _take_input(window: exp.Select) -> exp.Query:
    """Removes the query under a windowing TVF, which isn't part of the macro's call, from the tree and returns it."""
    rows = hints.window_input(window)
    rows.replace(exp.Select(expressions=[exp.Star()]))
    return rows


def _outermost_windows(tree: exp.Query) -> Iterator[exp.Select]:
    """The windowing TVFs that aren't in another one's input."""
    todo: list[exp.Expr] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, exp.Select) and hints.window_of(node) is not None:
            yield node
        else:
            todo += children(node)


def _select_clauses(select: exp.Select) -> Iterator[tuple[str, str]]:
    if select.args.get("distinct"):
        yield "SELECT", "DISTINCT"
    for item in select.expressions:
        yield "SELECT", _text_without_queries(item)
    for node, join in relations_with_joins(select):
        if join is not None:
            yield from _join_clauses(join)
        elif not isinstance(node, exp.Subquery):
            yield "FROM", _text_without_queries(node)
    for lateral in select.args.get("laterals") or ():
        yield "LATERAL VIEW", _text_without_queries(lateral).removeprefix("LATERAL VIEW ")
    for name, kind in _CONDITIONS.items():
        if (clause := select.args.get(name)) is not None:
            for each in conjuncts(clause.this):
                yield kind, _text_without_queries(each)
    for name, kind in _LISTED.items():
        if (clause := select.args.get(name)) is not None:
            yield kind, _text_without_queries(clause).removeprefix(kind).strip()


def _join_clauses(join: exp.Join) -> Iterator[tuple[str, str]]:
    alone = without_queries(join)
    alone.set("on", None)
    text = alone.sql(dialect=DIALECT, copy=False).strip()
    yield "JOIN", f"JOIN {text.removeprefix(',').strip()}" if text.startswith(",") else text
    for each in conjuncts(join.args.get("on")):
        yield "ON", _text_without_queries(each)


def _text_without_queries(node: exp.Expr) -> str:
    """Returns a node's text with each subquery replaced by ``…``."""
    return without_queries(node).sql(dialect=DIALECT, copy=False).strip()
