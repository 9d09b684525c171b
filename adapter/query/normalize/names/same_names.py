"""Renames duplicate columns of a subquery, except the first.

In ``select *, row_number() over (…) from a join b on a.k = b.k`` both relations have a `k`, and a query above can
refer to neither. Buffered rows are structs, whose fields need distinct names.

>>> from ...sql.dialect import parse, sql
>>> tree = parse("select n from (select *, 1 as n from (select k, v from t) as a join (select K from u) as b on a.k = b.k)")
>>> rename_duplicates(tree, tree.find_all(exp.Select)), sql(tree.find(exp.Subquery).this.expressions[2])
({'K__2': 'K'}, '`b`.`K` AS `K__2`')
>>> tree = parse("select n from (select *, 1 as n from (select k, v from t) join (select k, v from u) using (k))")
>>> renamed = rename_duplicates(tree, tree.find_all(exp.Select))
>>> bool(renamed), [sql(item) for item in tree.find(exp.Subquery).this.expressions]
(True, ['`side_1`.`k`', '`side_1`.`v`', '`side_2`.`v` AS `v__2`', '1 AS n'])
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlglot import exp

from ...errors import QueryError
from ...sql.clauses import relations
from ...sql.dialect import sql, walk_same_query
from ...sql.functions import QueryRunner
from ...sql.nodes import every
from . import result_names
from .stars import columns_of_star


def rename_duplicates(
    tree: exp.Query, selects: Iterable[exp.Select], ask: QueryRunner | None = None
) -> Collection[str]:
    """Renames duplicate columns of subqueries. Changes the tree.

    Args:
        tree: a query with inlined CTEs.
        selects: SELECTs that may be changed, each before those below it.

    Returns:
        The new names.

    Raises:
        QueryError: a renamed column would be part of the result.
    """
    names = {each.name.lower() for each in every(tree, exp.Identifier)}
    results = [*result_names.result_selects(tree)]
    renamed: dict[str, str] = {}
    # Innermost first: a query's columns depend on those below it.
    for select in reversed(list(selects)):
        if not any(select is each for each in results):
            _rename_in_select(select, names, renamed, ask)
    for select in results if renamed else ():
        below = {each.name for each in every(select, exp.Identifier) if each.name in renamed}
        for item in select.expressions:
            columns = columns_of_star(item, ask) if item.is_star else [item]
            given = None if columns is None else {each.alias_or_name for each in columns}
            if twins := below if given is None else below & given:
                raise QueryError(
                    f"The query has two columns called '{renamed[min(twins)]}'. Name the columns where their relations are "
                    "joined, in place of the '*', and give one of the two another name with AS."
                )
    return renamed


def _rename_in_select(
    select: exp.Select, names: set[str], renamed: dict[str, str], ask: QueryRunner | None
) -> None:
    several = len(relations(select)) > 1
    unnamed = [each for each in relations(select) if isinstance(each, exp.Subquery) and not each.alias]
    named = unnamed if several else []
    for each in named:
        name_relation(each, names)
    asks = ask if several or select.args.get("laterals") or _may_duplicate_star_column(select) else None
    items: list[exp.Expr] = []
    for item in select.expressions:
        columns = columns_of_star(item, asks) if item.is_star else None
        items += [item] if columns is None else columns
    called = [_column_name(item) for item in items]
    twins = [place for place, name in enumerate(called) if name is not None and name in called[:place]]
    if not twins:
        for each in named:
            each.set("alias", None)
        return
    for place in twins:
        name = items[place].alias_or_name
        own = _numbered_name(name or "column", {*names, *filter(None, called)}, first=2, between="__")
        renamed[own] = name or sql(items[place])
        items[place] = exp.alias_(items[place].unalias(), own, quoted=True)
        names.add(own.lower())
    select.set("expressions", items)


def _column_name(item: exp.Expr) -> str | None:
    """Returns the lower-case name of an item's column. None if it isn't a single column."""
    if item.is_star or isinstance(item, exp.Aliases):
        return None
    # Spark names a nameless column by its text.
    return (item.alias_or_name or sql(item)).lower()


def _may_duplicate_star_column(select: exp.Select) -> bool:
    """Whether an item next to a star may have the same name as one of the star's columns. Not if the query above uses
    the name: then it is unique."""
    items = {item.alias_or_name.lower() for item in select.expressions if not item.is_star} - {""}
    return any(item.is_star for item in select.expressions) and not items <= _names_used_above(select)


def _names_used_above(select: exp.Select) -> set[str]:
    """Names of a subquery's columns, in lower case, that the query around it refers to."""
    around, relation = select.find_ancestor(exp.Select), select.parent
    if around is None or not isinstance(relation, exp.Subquery):
        return set()
    alone, alias = len(relations(around)) == 1, relation.alias.lower()
    clauses = [
        *around.expressions,
        *(around.args.get(each) for each in ("where", "group", "having", "order")),
    ]
    clauses += [join.args.get("on") for join in around.args.get("joins") or ()]
    return {
        column.name.lower()
        for clause in clauses
        if clause is not None
        for column in walk_same_query(clause)
        if isinstance(column, exp.Column) and (column.table.lower() == alias if column.table else alone)
    }


def name_relation(relation: exp.Subquery | exp.Lateral, names: set[str]) -> None:
    """Gives a relation a generated alias, and adds it to the taken names."""
    name = _numbered_name("side", names, first=1, between="_")
    relation.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    names.add(name)


def _numbered_name(name: str, taken: Collection[str], first: int, between: str) -> str:
    """Returns a numbered name that isn't taken."""
    number = first
    while f"{name}{between}{number}".lower() in taken:
        number += 1
    return f"{name}{between}{number}"
