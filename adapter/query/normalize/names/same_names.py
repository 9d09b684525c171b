"""Columns of one name in a query below others: all but the first are called otherwise.

In ``select *, row_number() over (…) from a join b on a.k = b.k`` both have a `k`, and a query above can call neither. Rows
that are kept are a struct, whose fields have names of their own.

>>> from ...sql.dialect import parse, sql
>>> tree = parse("select n from (select *, 1 as n from (select k, v from t) as a join (select K from u) as b on a.k = b.k)")
>>> tell_apart(tree, tree.find_all(exp.Select)), sql(tree.find(exp.Subquery).this.expressions[2])
({'K__2': 'K'}, '`b`.`K` AS `K__2`')
>>> tree = parse("select n from (select *, 1 as n from (select k, v from t) join (select k, v from u) using (k))")
>>> bool(tell_apart(tree, tree.find_all(exp.Select))), [sql(item) for item in tree.find(exp.Subquery).this.expressions]
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
from .stars import columns_of


def tell_apart(
    tree: exp.Query, selects: Iterable[exp.Select], ask: QueryRunner | None = None
) -> Collection[str]:
    """Gives each column of a query below others a name of its own. Changes the tree.

    Args:
        tree: in which WITH queries stand where they are read.
        selects: those of its SELECTs that may be changed, each before what stands below it.
        ask: carries out a query of one row; None: there is nobody who knows what a table has.

    Returns:
        The names that it gave.

    Raises:
        QueryError: such a column would be one of the result.
    """
    names = {each.name.lower() for each in every(tree, exp.Identifier)}
    results = [*result_names.results(tree)]
    renamed: dict[str, str] = {}
    # From within, for what a query has depends on those below it.
    for select in reversed(list(selects)):
        if not any(select is each for each in results):
            _tell_apart(select, names, renamed, ask)
    for select in results if renamed else ():
        below = {each.name for each in every(select, exp.Identifier) if each.name in renamed}
        for item in select.expressions:
            given = _names_of(item, ask)
            if twins := below if given is None else below.intersection(given):
                raise QueryError(
                    f"The query has two columns called '{renamed[min(twins)]}'. Name the columns where their relations are "
                    "joined, in place of the '*', and give one of the two another name with AS."
                )
    return renamed


def _names_of(item: exp.Expr, ask: QueryRunner | None) -> list[str] | None:
    """The names of the columns that an item of a select list gives; None: they aren't known."""
    if not item.is_star:
        return [item.alias_or_name]
    columns = columns_of(item, ask)
    return None if columns is None else [each.name for each in columns]


def _tell_apart(
    select: exp.Select, names: set[str], renamed: dict[str, str], ask: QueryRunner | None
) -> None:
    several = len(relations(select)) > 1
    unnamed = [each for each in relations(select) if isinstance(each, exp.Subquery) and not each.alias]
    named = unnamed if several else []
    for each in named:
        name_relation(each, names)
    asks = ask if several or select.args.get("laterals") or _may_hide_one(select) else None
    items: list[exp.Expr] = []
    for item in select.expressions:
        columns = columns_of(item, asks) if item.is_star else None
        items += [item] if columns is None else columns
    called = [_called(item) for item in items]
    twins = [place for place, name in enumerate(called) if name is not None and name in called[:place]]
    if not twins:
        for each in named:
            each.set("alias", None)
        return
    for place in twins:
        name = items[place].alias_or_name
        own = _another(name or "column", {*names, *filter(None, called)}, first=2, between="__")
        renamed[own] = name or sql(items[place])
        items[place] = exp.alias_(items[place].unalias(), own, quoted=True)
        names.add(own.lower())
    select.set("expressions", items)


def _called(item: exp.Expr) -> str | None:
    """What tells an item's column from others', in lower case; None: there isn't one column."""
    if item.is_star or isinstance(item, exp.Aliases):
        return None
    # Spark calls what has no name by its text.
    return (item.alias_or_name or sql(item)).lower()


def _may_hide_one(select: exp.Select) -> bool:
    """Whether an item beside a star may have the name of a column behind it. Where the query above calls it by that name
    there is one."""
    items = {item.alias_or_name.lower() for item in select.expressions if not item.is_star} - {""}
    return any(item.is_star for item in select.expressions) and not items <= _called_above(select)


def _called_above(select: exp.Select) -> set[str]:
    """The columns of a SELECT in FROM, in lower case, that the query around it calls by their names."""
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
    """Gives a relation without a name one of its own, and adds it to those that are taken."""
    name = _another("side", names, first=1, between="_")
    relation.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    names.add(name)


def _another(name: str, taken: Collection[str], first: int, between: str) -> str:
    """A name with a number that nothing has yet."""
    number = first
    while f"{name}{between}{number}".lower() in taken:
        number += 1
    return f"{name}{between}{number}"
