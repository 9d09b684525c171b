"""Edits of any query: those that change nothing of what it means, and those that do.

>>> sql(reworded(parse("select a.k, b.v from (select k, v from t) as a join u as b on a.k = b.k"))["other aliases"])
'SELECT a_other.k, b_other.v FROM (SELECT k, v FROM t) AS a_other JOIN u AS b_other ON a_other.k = b_other.k'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from dbt.adapters.spark_streaming.query.sql.clauses import relations_with_joins
from dbt.adapters.spark_streaming.query.sql.dialect import from_clause, parse, sql, with_clause

__all__ = ["changed", "parse", "reworded", "sql"]


def reworded(tree: exp.Query) -> dict[str, exp.Query]:
    """The same query, written otherwise."""
    edits: dict[str, Callable[[exp.Query], bool]] = {
        "other aliases": _other_aliases,
        "aliases where there were none": _more_aliases,
        "streams in WITH": _streams_in_with,
        "another order of columns below": _other_order,
        "sides of joins swapped": _swapped,
    }
    found = {}
    for name, edit in edits.items():
        made = tree.copy()
        if edit(made):
            found[name] = made
    return found


def _ours(tree: exp.Expr) -> list[exp.Expr]:
    """The nodes that the author wrote: not what macros print."""

    def is_printed(node: exp.Expr) -> bool:
        return isinstance(node, exp.Select) and node.args.get("hint") is not None

    found: list[exp.Expr] = []
    for node in tree.walk(prune=is_printed):
        found.append(node)
    return [each for each in found if not is_printed(each)]


def _selects(tree: exp.Expr) -> list[exp.Select]:
    return [each for each in _ours(tree) if isinstance(each, exp.Select)]


def _other_aliases(tree: exp.Query) -> bool:
    nodes = _ours(tree)
    names = {
        each.alias.lower()
        for each in nodes
        if isinstance(each, exp.Table | exp.Subquery)
        and each.alias
        and not each.args["alias"].args.get("columns")
    }
    for node in nodes:
        if isinstance(node, exp.TableAlias) and node.name.lower() in names:
            if not isinstance(node.parent, exp.CTE):
                node.set("this", exp.to_identifier(f"{node.name}_other"))
        elif isinstance(node, exp.Column) and node.table.lower() in names:
            node.set("table", exp.to_identifier(f"{node.table}_other"))
    return bool(names)


def _more_aliases(tree: exp.Query) -> bool:
    number = 0
    for select in _selects(tree):
        for node, _ in relations_with_joins(select):
            if isinstance(node, exp.Subquery) and not node.alias:
                number += 1
                node.set("alias", exp.TableAlias(this=exp.to_identifier(f"more_{number}")))
    return number > 0


def _streams_in_with(tree: exp.Query) -> bool:
    if with_clause(tree) is not None:
        return False
    found = [
        each
        for each in tree.find_all(exp.Subquery)
        if isinstance(each.this, exp.Select)
        and each.this.args.get("hint") is not None
        and each.find_ancestor(exp.Subquery) is not None
        and not any(
            isinstance(above, exp.Select) and above.args.get("hint") is not None for above in _above(each)
        )
    ]
    for number, node in enumerate(found):
        name = f"stream_{number}"
        alias = node.alias or f"as_{number}"
        body = exp.select("*").from_(
            exp.Subquery(this=node.this.copy(), alias=exp.TableAlias(this=exp.to_identifier("handed")))
        )
        tree.with_(name, body, copy=False)
        node.replace(
            exp.Table(this=exp.to_identifier(name), alias=exp.TableAlias(this=exp.to_identifier(alias)))
        )
    return bool(found)


def _above(node: exp.Expr) -> Iterator[exp.Expr]:
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def _other_order(tree: exp.Query) -> bool:
    found = False
    for select in _selects(tree):
        place, around = select.parent, select.parent_select
        plain = (
            isinstance(place, exp.Subquery)
            and isinstance(place.parent, exp.From | exp.Join)
            and isinstance(around, exp.Select)
            and place.find_ancestor(exp.SetOperation, exp.Select) is around
            and not around.is_star
            and not any(
                isinstance(star.parent, exp.Column | exp.Select | exp.Struct)
                for star in around.find_all(exp.Star)
            )
        )
        ordinals = any(
            isinstance(each, exp.Literal)
            for clause in ("group", "order")
            if select.args.get(clause)
            for each in select.args[clause].expressions
        )
        if plain and len(select.expressions) > 1 and not select.is_star and not ordinals:
            select.set("expressions", list(reversed(select.expressions)))
            found = True
    return found


def _swapped(tree: exp.Query) -> bool:
    found = False
    for select in _selects(tree):
        joins, source = select.args.get("joins") or [], from_clause(select)
        if len(joins) != 1 or source is None or select.is_star:
            continue
        (join,) = joins
        if join.side or (join.kind or "").upper() not in ("", "INNER") or join.args.get("using"):
            continue
        left, right = source.this.copy(), join.this.copy()
        source.this.replace(right)
        join.this.replace(left)
        found = True
    return found


def changed(tree: exp.Query) -> Iterator[tuple[str, exp.Query]]:
    """Queries that mean something else, each in one place."""
    nodes = _ours(tree)
    for number, node in enumerate(nodes):
        for what, change in _CHANGES.items():
            made = tree.copy()
            other = _ours(made)[number]
            if change(other):
                yield f"{what} at {number}: {sql(node)[:60]}", made


def _number(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Literal) or not node.is_int or isinstance(node.parent, exp.Interval):
        return False
    node.set("this", str(int(node.this) + 1))
    return True


def _comparison(node: exp.Expr) -> bool:
    if not isinstance(node, exp.GT | exp.LT | exp.EQ):
        return False
    kind = exp.LT if isinstance(node, exp.GT) else exp.GT
    node.replace(kind(this=node.this.copy(), expression=node.expression.copy()))
    return True


def _column(node: exp.Expr) -> bool:
    """Another column that its SELECT names of the same relation."""
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return False
    select = node.find_ancestor(exp.Select)
    others = [
        each.name
        for each in (select.find_all(exp.Column) if select is not None else ())
        if each.table == node.table and each.name != node.name and not isinstance(each.this, exp.Star)
    ]
    if not others:
        return False
    if isinstance(node.parent, exp.Select):
        node.replace(exp.alias_(exp.column(others[0], table=node.table or None), node.name))
    else:
        node.set("this", exp.to_identifier(others[0]))
    return True


def _aggregate(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Sum | exp.Max | exp.Count) or isinstance(node.this, exp.Star | exp.Distinct):
        return False
    kind = exp.Min if isinstance(node, exp.Max) else exp.Max
    node.replace(kind(this=node.this.copy()))
    return True


def _condition(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Where | exp.Having):
        return False
    node.pop()
    return True


def _side(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Join) or not (node.side or (node.kind or "").upper() in ("", "INNER")):
        return False
    node.set("side", "" if node.side else "LEFT")
    node.set("kind", "")
    return True


def _names(node: exp.Expr) -> bool:
    """Two columns of a select list are each called as the other."""
    if not isinstance(node, exp.Select):
        return False
    items = [
        each for each in node.expressions if isinstance(each, exp.Alias | exp.Column) and not each.is_star
    ]
    if len(items) < 2:
        return False
    one, other = items[:2]
    names = one.alias_or_name, other.alias_or_name
    for item, name in ((one, names[1]), (other, names[0])):
        item.replace(exp.alias_(item.unalias().copy(), name))
    return names[0] != names[1]


_CHANGES: dict[str, Callable[[exp.Expr], bool]] = {
    "another number": _number,
    "another comparison": _comparison,
    "another column": _column,
    "another aggregate": _aggregate,
    "no condition": _condition,
    "another join": _side,
    "names that change places": _names,
}
