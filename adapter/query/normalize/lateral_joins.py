"""Rewrites LATERAL queries over streams as joins: correlated predicates become the join's condition.

>>> from ..sql.dialect import parse, sql
>>> from .compared_types import note_type
>>> def joined_in(text):
...     tree = parse(text)
...     for column in tree.find_all(exp.Column):
...         note_type(column, "bigint")
...     return rewrite_as_join(tree, lambda lateral: True), sql(tree)
>>> changed, text = joined_in("select s.k, l.v from s, lateral (select o.v from o where o.k = s.k and o.w > 1) as l")
>>> print(text)
SELECT s.k, l.v FROM s JOIN (SELECT o.v, o.k AS `__lateral_0` FROM o WHERE o.w > 1) AS l ON l.`__lateral_0` = s.k
>>> changed, text = joined_in('''select * from s left join lateral (
...     select * from o where o.k = s.k order by o.v desc limit 3) as l on true''')
>>> print(text)
SELECT * EXCEPT (`__lateral_0`) FROM s LEFT JOIN (SELECT * EXCEPT (`__within_0`), __limited.`__within_0` AS `__lateral_0` \
FROM (SELECT * EXCEPT (__rank) FROM (SELECT *, o.k AS `__within_0`, \
ROW_NUMBER() OVER (PARTITION BY o.k ORDER BY o.v DESC) AS __rank FROM o) AS ranked WHERE __rank <= 3) AS __limited) AS l \
ON l.`__lateral_0` = s.k
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..sql.clauses import conjuncts, filters, first_aggregate, set_filters
from ..sql.dialect import canonical, correlated_columns, qualifier_of, sql
from ..sql.nodes import every, with_metadata_of
from .compared_types import equated_sides
from .correlated_aggregates import AGGREGATES
from .names.same_names import name_relation
from .rankings import limits, orders

_COLUMN = "__lateral_"
_CLAUSES = {"kind", "expressions", "from_", "from", "joins", "where", "hint", "distinct", "group", "having"}


def rewrite_as_join(tree: exp.Query, is_changing: Callable[[exp.Expr], bool]) -> bool:
    """Rewrites the first possible LATERAL query as a join: rows of relations, their first rows, groups or aggregates.
    Changes the tree.

    Args:
        tree: a query with qualified columns and noted types of compared expressions.
        is_changing: whether a node reads a stream.

    Returns:
        Whether one was rewritten. Run it again after noting the types of comparisons with the new columns.
    """
    for select in reversed(list(every(tree, exp.Select))):
        for join in select.args.get("joins") or ():
            if (
                isinstance(join.this, exp.Lateral)
                and is_changing(join.this)
                and hints.versions_as_of(join.this) is None
                and _try_rewrite(join, select, tree)
            ):
                return True
    return False


def _try_rewrite(join: exp.Join, select: exp.Select, tree: exp.Query) -> bool:
    """Rewrites one LATERAL join if possible. Returns whether it did. Changes the tree."""
    if not _is_rewritable(join, select) or not _rewrite_limit_as_ranking(join.this):
        return False
    query = join.this.this.unnest()
    outer = {id(column) for column in correlated_columns(query)}
    tests = _correlated_predicates(query, outer)
    if tests is None:
        return False
    _check_order(join, select, tests, outer)
    is_one_row = bool(tests) and first_aggregate(query) is not None and not query.args.get("group")
    if is_one_row and not _can_become_groups(query, join, select, tree):
        return False
    alias = join.this.args.get("alias")
    if alias is not None and alias.columns:
        named = zip(query.expressions, alias.columns, strict=False)
        query.set("expressions", [exp.alias_(item.unalias(), name.copy()) for item, name in named])
        alias.set("columns", None)
    if is_one_row:
        _keep_rows_without_group(query, join, select)
        query.set("group", exp.Group(expressions=[]))
    names = {each.name.lower() for each in every(tree, exp.Identifier)}
    _replace_lateral_by_join(join, select, tests, outer, names)
    return True


def _is_rewritable(join: exp.Join, select: exp.Select) -> bool:
    """Whether a join, and the SELECT it is in, allow the rewrite."""
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    if join.args.get("using") or join.args.get("method") or side not in ("", "LEFT"):
        return False
    # A '*' in a call would include the columns for the join's condition.
    is_item = all(_is_select_item(star) or isinstance(star.parent, exp.Count) for star in _stars(select))
    return kind in ("", "INNER", "CROSS", "OUTER") and is_item


def _stars(select: exp.Select) -> list[exp.Star]:
    stars = [star for item in select.expressions for star in every(item, exp.Star)]
    return [star for star in stars if star.find_ancestor(exp.Select) is select]


def _is_select_item(star: exp.Star) -> bool:
    holder = star.parent if isinstance(star.parent, exp.Column) else star
    return isinstance(holder, exp.Expr) and isinstance(holder.parent, exp.Select)


def _rewrite_limit_as_ranking(lateral: exp.Lateral) -> bool:
    """Rewrites the LIMIT of a LATERAL query as a ranking within the compared columns. Returns whether that was
    possible or there is none. Changes the tree."""
    query = lateral.this.unnest() if isinstance(lateral.this, exp.Subquery) else None
    columns = lateral.args["alias"].columns if lateral.args.get("alias") else []
    if not isinstance(query, exp.Select) or (
        columns and (query.is_star or len(columns) != len(query.expressions))
    ):
        return False
    if not any(query.args.get(clause) for clause in orders.CUTS):
        return True
    made = limits.rank_within_compared_columns(query)
    if made is not None:
        query.replace(made)
    return made is not None


def _correlated_predicates(query: exp.Select, outer: set[int]) -> list[exp.Expr] | None:
    """Correlated predicates of a LATERAL query. None if it is correlated elsewhere, or if other clauses depend on
    which of them hold.

    Args:
        query: the query.
        outer: identities of its columns that belong to outer relations, as in the functions below.
    """
    if {name for name, value in query.args.items() if value} - _CLAUSES:
        return None
    if any(node.find(exp.Window) for node in query.expressions):
        return None
    found = {id(test): sum(id(each) in outer for each in every(test, exp.Column)) for test in filters(query)}
    tests = [test for test in filters(query) if found[id(test)]]
    if sum(found.values()) < len(outer) or any(test.find(exp.Query) for test in tests):
        return None
    group = query.args.get("group")
    if query.args.get("having") and group is None:
        return None
    if group is not None and {name for name, value in group.args.items() if value} - {"expressions"}:
        return None
    of_groups = group is not None or query.args.get("distinct") or first_aggregate(query) is not None
    return None if of_groups and not all(equated_sides(test, outer) for test in tests) else tests


def _check_order(join: exp.Join, select: exp.Select, tests: list[exp.Expr], outer: set[int]) -> None:
    """Raises unless correlated predicates refer to earlier relations.

    Raises:
        QueryError: one refers to a later relation, which Spark doesn't allow.
    """
    later = {each.this.alias_or_name.lower() for each in _joins_behind(join, select)}
    for test in tests:
        for column in every(test, exp.Column):
            if id(column) in outer and qualifier_of(column) in later:
                raise QueryError(
                    f"'{hints.excerpt(join.this)}' reads {sql(column)} of a relation that follows it in FROM; put that "
                    "relation before it."
                )


def _can_become_groups(query: exp.Select, join: exp.Join, select: exp.Select, tree: exp.Query) -> bool:
    """Whether a query that aggregates all of its rows to one can become a GROUP BY, in which a group may be missing."""
    items = [item.unalias() for item in query.expressions]
    if query.args.get("distinct") or not all(type(item) in AGGREGATES for item in items):
        return False
    if any(test != exp.true() for test in conjuncts(join.args.get("on"))):
        return False
    if not any(isinstance(item, exp.Count) for item in items):
        return True
    # A missing group's count is 0. That is only written where the count is referenced, so references have to be
    # qualified and the alias unique.
    alias = join.this.alias.lower()
    others = [each for each in every(tree, exp.TableAlias) if each.name.lower() == alias]
    tables = [each for each in every(tree, exp.Table) if each.name.lower() == alias]
    is_named = bool(alias) and all(item.alias_or_name for item in query.expressions)
    return (
        is_named
        and len(others) + len(tables) == 1
        and not any(map(_is_select_item, _stars(select)))
        and not any(each.args.get("using") or each.args.get("method") for each in select.args["joins"])
        and not any((each.side or "").upper() in ("RIGHT", "FULL") for each in _joins_behind(join, select))
    )


def _joins_behind(join: exp.Join, select: exp.Select) -> list[exp.Join]:
    joins: list[exp.Join] = select.args["joins"]
    return joins[next(number for number, each in enumerate(joins) if each is join) + 1 :]


def _keep_rows_without_group(query: exp.Select, join: exp.Join, select: exp.Select) -> None:
    """Makes a join keep rows without a group, with counts of 0. Changes the tree."""
    join.set("side", "LEFT")
    items = (item for item in query.expressions if isinstance(item.unalias(), exp.Count))
    counts = {item.alias_or_name.lower() for item in items}
    alias = join.this.alias.lower()
    for column in list(every(select, exp.Column)):
        if qualifier_of(column) == alias and len(column.parts) == 2 and column.name.lower() in counts:
            value = exp.Coalesce(this=column.copy(), expressions=[exp.Literal.number(0)])
            is_item = isinstance(column.parent, exp.Select)
            column.replace(exp.alias_(value, column.this.copy()) if is_item else value)


def _own_parts(test: exp.Expr, outer: set[int]) -> list[exp.Expr]:
    """Returns the parts of a condition that are over the query's own rows: a side of an equality, or else columns."""
    columns: list[exp.Expr] = [column for column in every(test, exp.Column) if id(column) not in outer]
    for side in (test.this, test.expression) if isinstance(test, exp.EQ) else ():
        if columns and columns == [*every(side, exp.Column)]:
            return [side]
    return columns


def _replace_lateral_by_join(
    join: exp.Join, select: exp.Select, tests: list[exp.Expr], outer: set[int], names: set[str]
) -> None:
    query = join.this.this.unnest()
    around = {id(test) for test in tests}
    rest = [test for test in filters(query) if id(test) not in around]
    relation = exp.Subquery(this=query, alias=join.this.args.get("alias"))
    if not relation.alias:
        name_relation(relation, names)
    group = query.args.get("group")
    free = (name for number in range(1000) if (name := f"{_COLUMN}{number}") not in names)
    hidden: dict[str, str] = {}
    on = [test for test in conjuncts(join.args.get("on")) if test != exp.true()]
    for test in tests:
        for own in _own_parts(test, outer):
            text = canonical(own)
            if text not in hidden:
                hidden[text] = next(free)
                query.append("expressions", exp.alias_(own.copy(), hidden[text], quoted=True))
                if group is not None:
                    group.append("expressions", own.copy())
            key = exp.to_identifier(hidden[text], quoted=True)
            own.replace(with_metadata_of(exp.column(key, table=relation.args["alias"].this.copy()), own))
        on.append(test)
    set_filters(query, rest)
    join.set("this", relation)
    if on:
        join.set("kind", None)
        join.set("on", exp.and_(*on))
    for star in _stars(select) if hidden else ():
        is_of = not isinstance(star.parent, exp.Column) or star.parent.table.lower() == relation.alias.lower()
        if is_of and not isinstance(star.parent, exp.Count):
            left_out = [exp.to_identifier(name, quoted=True) for name in hidden.values()]
            star.set("except_", [*(star.args.get("except_") or ()), *left_out])
