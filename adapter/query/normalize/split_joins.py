"""Moves the join of a SELECT that groups or ranks to a query below."""

from __future__ import annotations

from sqlglot import exp

from ..sql.dialect import canonical
from ..sql.nodes import every, quoted_column, star_without


def split(select: exp.Select) -> None:
    """Moves FROM, joins and WHERE of a SELECT to a query below. Changes the tree.

    >>> from ..sql.dialect import parse, sql
    >>> tree = parse("select e.k, d.* except (k) from e join d on d.k = e.k")
    >>> split(tree) or sql(tree)
    'SELECT * EXCEPT (`__0`), `__0` AS `k` FROM (SELECT d.* EXCEPT (k), e.k AS `__0` FROM e JOIN d ON d.k = e.k) AS joined'
    """
    below = exp.Select()
    for clause in ("from_", "from", "joins", "laterals", "where"):
        if value := select.args.get(clause):
            select.set(clause, None)
            below.set(clause, value)
    stars = [item for item in select.expressions if item.is_star]
    in_stars = {id(column) for item in stars for column in every(item, exp.Column)}
    for item in stars:
        below.append("expressions", item.copy())
    names: dict[str, str] = {}
    taken: set[str] = set()
    for column in list(every(select, exp.Column)):
        if isinstance(column.this, exp.Star) or id(column) in in_stars:
            continue  # names in EXCEPT aren't values
        key = canonical(column)
        if key not in names:
            if not column.table and _is_alias(column, select):
                continue
            name = column.name if not stars and column.name.lower() not in taken else f"__{len(names)}"
            taken.add(name.lower())
            names[key] = name
            below.append("expressions", exp.alias_(column.copy(), name, quoted=True))
        item = column.parent if isinstance(column.parent, exp.Select) else None
        made = quoted_column(names[key])
        column.replace(exp.alias_(made, column.name, quoted=True) if item is select else made)
    if not below.expressions:
        below.append("expressions", exp.alias_(exp.true(), "anything"))
    if stars:
        rest = [item for item in select.expressions if not item.is_star]
        select.set("expressions", [star_without(names.values()), *rest])
    select.from_(below.subquery("joined", copy=False), copy=False)


def _is_alias(column: exp.Column, select: exp.Select) -> bool:
    """Whether an unqualified name in GROUP BY, HAVING or ORDER BY is a select alias."""
    inside = column.find_ancestor(exp.Group, exp.Order, exp.Having)
    return inside is not None and any(
        isinstance(item, exp.Alias) and item.alias.lower() == column.name.lower()
        for item in select.expressions
    )
