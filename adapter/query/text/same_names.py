"""Columns of one name in a query below others: all but the first are called otherwise.

In ``select *, row_number() over (…) from a join b on a.k = b.k`` both have a `k`, and a query above can call neither. Rows
that are kept are a struct, whose fields have names of their own.

>>> from .dialect import parse, sql
>>> tree = parse("select n from (select *, 1 as n from (select k, v from t) as a join (select K from u) as b on a.k = b.k)")
>>> tell_apart(tree, lambda select: True) or sql(tree.find(exp.Subquery).this.expressions[2])
'`b`.`K` AS `K__2`'
>>> tree = parse("select n from (select *, 1 as n from (select k, v from t) join (select k, v from u) using (k))")
>>> tell_apart(tree, lambda select: True) or [sql(item) for item in tree.find(exp.Subquery).this.expressions]
['`k`', '`side_1`.`v`', '`side_2`.`v` AS `v__2`', '1 AS n']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from ..errors import QueryError
from .clauses import relations
from .functions import QueryRunner
from .stars import columns_of


def tell_apart(
    tree: exp.Query, concerned: Callable[[exp.Select], bool], ask: QueryRunner | None = None
) -> None:
    """Gives each column of a query below others a name of its own. Changes the tree.

    Args:
        tree: in which WITH queries stand where they are read.
        concerned: which of its SELECTs may be changed.
        ask: carries out a query of one row; None: there is nobody who knows what a table has.

    Raises:
        QueryError: such a column would be one of the result.
    """
    known: dict[str, Sequence[object]] = {}

    def asked(query: str) -> Sequence[object]:
        assert ask is not None
        if query not in known:
            known[query] = ask(query)
        return known[query]

    taken = {each.name.lower() for each in tree.find_all(exp.Identifier)}
    results = [*_results(tree)]
    renamed: dict[str, str] = {}
    # From within, for what a query has depends on those below it.
    for select in reversed(list(tree.find_all(exp.Select))):
        if concerned(select) and not any(select is each for each in results):
            _tell_apart(select, taken, renamed, None if ask is None else asked)
    for item in (item for select in results for item in select.expressions) if renamed else ():
        for name in _names_of(item, asked if ask is not None else None):
            if name in renamed:
                raise QueryError(
                    f"The query has two columns called '{renamed[name]}'. Give one of them another name with AS, or leave "
                    "it out: select * except (…)."
                )


def _results(query: exp.Expr) -> Iterator[exp.Select]:
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        yield from _results(query.left)
        yield from _results(query.right)
    elif isinstance(query, exp.Select):
        yield query


def _names_of(item: exp.Expr, ask: QueryRunner | None) -> list[str]:
    """The names of the columns that an item of a select list gives, as far as they are known."""
    if not item.is_star:
        return [item.alias_or_name]
    star = item.find(exp.Star)
    columns = columns_of(star, item, ask) if star is not None else None
    return [each.name for each in columns or ()]


def _tell_apart(
    select: exp.Select, taken: set[str], renamed: dict[str, str], ask: QueryRunner | None
) -> None:
    made = select.copy()
    several = len(relations(made)) > 1
    if several:
        _name_relations(made, taken)
    items: list[exp.Expr] = []
    for item in made.expressions:
        star = item.find(exp.Star) if item.is_star else None
        # One relation has no two columns of one name, so it needn't be asked.
        columns = columns_of(star, item, ask if several else None) if star is not None else None
        items += [item] if columns is None else columns
    names = [item.alias_or_name.lower() for item in items]
    twins = [
        place
        for place, (item, name) in enumerate(zip(items, names, strict=True))
        if name not in ("", "*") and not isinstance(item, exp.Aliases) and name in names[:place]
    ]
    for place in twins:
        name = items[place].alias_or_name
        own = _another(name, {*names, *taken}, first=2, between="__")
        items[place] = exp.alias_(items[place].unalias(), own, quoted=True)
        renamed[own] = name
        taken.add(own.lower())
    if twins:
        made.set("expressions", items)
        select.replace(made)


def _name_relations(select: exp.Select, taken: set[str]) -> None:
    for each in relations(select):
        if isinstance(each, exp.Subquery) and not each.alias:
            name = _another("side", taken, first=1, between="_")
            each.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
            taken.add(name)


def _another(name: str, taken: set[str], first: int, between: str) -> str:
    """A name with a number that nothing has yet."""
    number = first
    while f"{name}{between}{number}".lower() in taken:
        number += 1
    return f"{name}{between}{number}"
