"""Reads the clauses of a SELECT: its relations, conjuncts, aggregates and output columns.

>>> from .dialect import parse, sql
>>> select = parse("select count(*) from a left semi join b on a.k = b.k where (x and (y and (z or w)))")
>>> [sql(each) for each in relations(select)]
['a', 'b']
>>> [join is not None and is_semi_or_anti(join) for _, join in relations_with_joins(select)]
[False, True]
>>> [sql(each) for each in conjuncts(select.args["where"].this)]
['x', 'y', 'z OR w']
>>> sql(first_aggregate(select))
'COUNT(*)'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from .dialect import canonical, from_clause, relation_names, unambiguous_names, walk_same_query
from .nodes import copied, every


def relations_with_joins(select: exp.Select) -> list[tuple[exp.Expr, exp.Join | None]]:
    """Returns the relations of FROM and JOIN, each with its join. The join of the first one is None."""
    source = from_clause(select)
    joins: list[exp.Join] = select.args.get("joins") or []
    return [*([(source.this, None)] if source else []), *((join.this, join) for join in joins)]


def table_names(tree: exp.Expr) -> frozenset[str]:
    """Returns the names of the tables and views in a tree."""
    return frozenset(table.name for table in every(tree, exp.Table))


def relations(select: exp.Select) -> list[exp.Expr]:
    return [node for node, _ in relations_with_joins(select)]


def without_queries(node: exp.Expr) -> exp.Expr:
    """Returns a copy of a node with ``…`` in the place of each query below it.

    >>> from .dialect import parse, sql
    >>> sql(without_queries(parse("select k from (select * from t) as a where v > (select max(v) from t)")))
    'SELECT k FROM (…) AS a WHERE v > (…)'
    """
    queries = [each for each in every(node, exp.Query) if not isinstance(each, exp.Subquery)]
    return copied(node, {id(each): exp.Var(this="…") for each in queries if each is not node})


def output_name(item: exp.Expr) -> str:
    """Returns the name that a select item gives its column, "" if Spark names it by its text: sqlglot calls
    ``cast(count(*) as int)`` ``*``, and ``a[0]`` ``0``.

    >>> from .dialect import parse
    >>> items = "k as a, s.b, cast(s.k as int), (cast(count(*) as int)), cast(cast(k as int) as string), a[0], date'1-1-1'"
    >>> [output_name(each) for each in parse(f"select {items} from t").expressions]
    ['a', 'b', 'k', '', '', '', '']
    """
    node = item.unnest()
    if isinstance(node, exp.Cast):
        return output_name(node.this) if isinstance(node.this.unnest(), exp.Column | exp.Dot) else ""
    return "" if isinstance(node, exp.Bracket) else item.output_name


def output_names(query: exp.Expr) -> list[str]:
    """Returns the names of a query's columns in order: "" for a column without a name, "*" for a star. Empty for a
    table.

    >>> from .dialect import parse
    >>> output_names(parse("select k, v + 1, t.*, stack(1, x, y) as (a, b) from t union select * from u"))
    ['k', '', '*', 'a', 'b']
    """
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        return output_names(query.this)
    names: list[str] = []
    for item in query.expressions if isinstance(query, exp.Select) else ():
        names += (
            [each.name for each in item.aliases] if isinstance(item, exp.Aliases) else [output_name(item)]
        )
    return names


def name_at_same_place(name: str, names: Sequence[str], others: Sequence[str]) -> str | None:
    """Returns which of the other names stands at the place of a name. None if a star hides places, or their numbers differ.

    >>> name_at_same_place("B", ["a", "b"], ["x", "y"]), name_at_same_place("b", ["a", "b"], ["*"])
    ('y', None)
    """
    lower = [*map(str.lower, names)]
    if name.lower() not in lower or "*" in (*names, *others) or len(others) != len(names):
        return None
    return others[lower.index(name.lower())]


def is_semi_or_anti(join: exp.Join) -> bool:
    """Whether a join only tests for a match (SEMI, ANTI), so its result has only rows of the left side."""
    return (join.kind or "").upper() in ("SEMI", "ANTI")


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Returns the conjuncts of a condition, without brackets around them."""
    if condition is None:
        return []
    condition = condition.unnest()
    if not isinstance(condition, exp.And):
        return [condition]
    return [each for side in condition.flatten() for each in conjuncts(side)]


def filters(select: exp.Expr) -> list[exp.Expr]:
    """Returns the conjuncts of a SELECT's WHERE."""
    where = select.args.get("where")
    return [] if where is None else conjuncts(where.this)


def is_star_over(item: exp.Expr, alias: str) -> bool:
    """Whether a select item is a star over the columns of the relation with an alias. A query with a star isn't one."""
    of_one = isinstance(item, exp.Column) and item.is_star and item.table.lower() == alias.lower()
    return of_one or isinstance(item, exp.Star)


def set_filters(select: exp.Expr, tests: Sequence[exp.Expr]) -> None:
    """Sets the conjuncts of a SELECT's WHERE, as copies. Changes the tree."""
    select.set("where", exp.Where(this=exp.and_(*tests)) if tests else None)


def first_aggregate(select: exp.Select) -> exp.Expr | None:
    """Returns an aggregate in the select list that isn't under OVER. None if there is none."""
    return next((node for item in select.expressions for node in aggregates_in(item)), None)


def aggregates_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yields the aggregates in an expression that aren't under OVER, without those in subqueries."""
    return (each for each in walk_same_query(node) if isinstance(each, exp.AggFunc) and not is_over(each))


AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
"""Nodes that may be around a call of an aggregate, besides OVER."""


@dataclass(frozen=True)
class WrappedCall:
    """A call of an aggregate, and what is around it."""

    function: exp.Expr
    condition: exp.Expr | None = None
    """The condition of its FILTER."""
    order: tuple[exp.Expr, ...] = ()
    """The values of its WITHIN GROUP (ORDER BY …)."""


def unwrap_call(node: exp.Expr) -> WrappedCall:
    """Returns a call without WITHIN GROUP, IGNORE NULLS and FILTER, and what these have.

    >>> from .dialect import parse, sql
    >>> text = "select listagg(v) within group (order by v) filter (where w) from t"
    >>> call = unwrap_call(parse(text).expressions[0])
    >>> sql(call.function), sql(call.condition), [sql(each) for each in call.order]
    ('LISTAGG(v)', 'w', ['v'])
    """
    condition: exp.Expr | None = None
    order: tuple[exp.Expr, ...] = ()
    while isinstance(node, AROUND):
        if isinstance(node, exp.Filter):
            condition = node.expression.this
        elif isinstance(node, exp.WithinGroup):
            order = tuple(each.this for each in node.expression.expressions)
        node = node.this
    return WrappedCall(node, condition, order)


def over_clauses(select: exp.Select) -> list[exp.Window]:
    """Returns the OVER clauses of the select list, without those in subqueries."""
    return [
        node for item in select.expressions for node in walk_same_query(item) if isinstance(node, exp.Window)
    ]


def is_over(node: exp.Expr) -> bool:
    """Whether a call is the function of an OVER."""
    over = node.parent
    while isinstance(over, AROUND) and over.this is node:
        node, over = over, over.parent
    return isinstance(over, exp.Window) and over.this is node


def branches(case: exp.Case | exp.If) -> tuple[list[exp.If], exp.Expr | None]:
    """Returns the branches of a CASE or IF, each with condition and value, and the ELSE value."""
    if isinstance(case, exp.If):
        return [case], case.args.get("false")
    return case.args["ifs"], case.args.get("default")


def columns_left_out(star: exp.Expr) -> set[str]:
    """Columns, in lower case, that a star doesn't select unchanged: those in its EXCEPT, REPLACE and RENAME."""
    changed = (each for arg in ("except_", "replace", "rename") for each in star.args.get(arg) or ())
    return {part.name.lower() for each in changed for part in every(each, exp.Identifier)}


def passes_columns(star: exp.Expr) -> bool:
    """Whether a star selects columns unchanged and excludes others by plain names: no fields, no qualified names.

    >>> from .dialect import parse
    >>> texts = ("* except (a)", "* except (a, b.c)", "* replace (1 as a)")
    >>> [passes_columns(parse(f"select {text} from t").expressions[0]) for text in texts]
    [True, False, False]
    """
    if {name for name, value in star.args.items() if value} - {"except_"}:
        return False
    listed = star.args.get("except_") or ()
    return all(
        not isinstance(each, exp.Dot) and len(list(every(each, exp.Identifier))) == 1 for each in listed
    )


def column_names(query: exp.Expr) -> list[str] | None:
    """Returns the names of a query's columns, in lower case and in order. None if a star hides them.

    >>> from .dialect import parse
    >>> column_names(parse("select a, B as c, * from (select d, e, f from t)")), column_names(parse("select * from t"))
    (['a', 'c', 'd', 'e', 'f'], None)
    """
    found, is_whole = _columns_from_end(query)
    return found[::-1] if is_whole else None


def trailing_columns(query: exp.Expr) -> list[str]:
    """Returns the names of a query's columns, in lower case, from the last one to the first that a star hides.

    >>> from .dialect import parse
    >>> trailing_columns(parse("select a, t.*, b, c from t"))
    ['c', 'b']
    >>> trailing_columns(parse("select * except (b) from (select a, b)"))
    ['a']
    """
    return _columns_from_end(query)[0]


def _columns_from_end(query: exp.Expr) -> tuple[list[str], bool]:
    """Returns the result of `trailing_columns`, and whether these are all columns."""
    found: list[str] = []
    for item in reversed(query.selects) if isinstance(query, exp.Query) else ():
        if not item.is_star:
            found.append(item.alias_or_name.lower())
            continue
        select = item.find_ancestor(exp.Select)
        read = [] if select is None or select.args.get("laterals") else relations(select)
        within = read[0].this if len(read) == 1 and isinstance(read[0], exp.Subquery) else None
        star = next(every(item, exp.Star))
        if not isinstance(within, exp.Query) or not passes_columns(star):
            return found, False
        names, is_whole = _columns_from_end(within)
        found += [name for name in names if name not in columns_left_out(star)]
        if not is_whole:
            return found, False
    return found, True


def output_column_of(select: exp.Select, node: exp.Expr) -> str | None:
    """Returns the output column, in lower case, that equals an expression over the SELECT's input. None if there is
    none."""
    same = unambiguous_names(select)
    text = canonical(node, same)
    for item in select.expressions:
        if item.alias_or_name and canonical(item.unalias(), same) == text:
            return str(item.alias_or_name.lower())
    name = node.name.lower()
    if not isinstance(node, exp.Column) or any(
        item.alias_or_name.lower() == name for item in select.expressions
    ):
        return None
    known = relation_names(select)
    if node.table and node.table.lower() not in known:
        return None  # a field of a struct
    of = {node.table.lower()} if node.table else known if len(known) == 1 else set()
    for item in select.expressions:
        if isinstance(item, exp.Star) and name not in columns_left_out(item):
            return name
        if isinstance(item, exp.Column) and item.is_star and item.table.lower() in of:
            if name not in columns_left_out(item.this):
                return name
    return None


def hide_from_stars(select: exp.Select, columns: Sequence[tuple[str, str]], in_calls: bool = False) -> None:
    """Excludes columns, each given with its relation's alias, from the stars of a SELECT. Changes the tree.

    Args:
        in_calls: whether to exclude them from stars in calls, too.

    >>> from .dialect import parse, sql
    >>> text = "select r.*, struct(*) as s, count(*) as n, hash(o.*) as h, array(struct(r.* except (k))) as a from o join r"
    >>> tree = parse(text)
    >>> hide_from_stars(tree, [("r", "u")], in_calls=True)
    >>> print(sql(tree).partition(" FROM")[0])
    SELECT r.* EXCEPT (u), STRUCT(* EXCEPT (u)) AS s, COUNT(*) AS n, HASH(o.*) AS h, ARRAY(STRUCT(r.* EXCEPT (k, u))) AS a
    """
    own = list(select.expressions)
    if in_calls:
        on = (join.args.get("on") for join in select.args.get("joins") or ())
        parts = [*own, select.args.get("where"), *on]
        found = [node for part in parts if part is not None for node in walk_same_query(part)]
        own = [
            node.parent if isinstance(node.parent, exp.Column) else node
            for node in found
            if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count | exp.Mul)
        ]
    for item in own:
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if isinstance(star, exp.Star):
            table = item.table.lower() if isinstance(item, exp.Column) else ""
            hidden = [exp.to_identifier(name) for alias, name in columns if table in ("", alias.lower())]
            if hidden:
                star.set("except_", [*(star.args.get("except_") or ()), *hidden])
