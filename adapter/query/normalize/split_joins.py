"""Moves the join of a SELECT that groups or ranks to a query below."""

from __future__ import annotations

from sqlglot import exp

from ..aggregates.grouping import resolve_key
from ..sql.dialect import canonical, reading_select
from ..sql.nodes import every, quoted_column, star_without

_JOINED = "joined"


def move_join_below(select: exp.Select) -> None:
    """Moves FROM, joins and WHERE of a SELECT to a query below. Changes the tree.

    >>> from ..sql.dialect import parse, sql
    >>> tree = parse("select e.k, d.* except (k) from e join d on d.k = e.k")
    >>> move_join_below(tree) or sql(tree)
    'SELECT * EXCEPT (`__0`), `__0` AS `k` FROM (SELECT d.* EXCEPT (k), e.k AS `__0` FROM e JOIN d ON d.k = e.k) AS joined'
    """
    # In a subquery, a column of this SELECT's relations is qualified; all others are the subquery's own.
    asked = {id(each) for each in every(select, exp.Column) if reading_select(each) is select}
    aliases = _aliases_read(select)
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
        is_own = column.find_ancestor(exp.Select) is select
        # Names in EXCEPT aren't values.
        if isinstance(column.this, exp.Star) or id(column) in in_stars or not (is_own or id(column) in asked):
            continue
        key = canonical(column)
        if key not in names:
            if id(column) in aliases:
                continue
            name = column.name if not stars and column.name.lower() not in taken else f"__{len(names)}"
            taken.add(name.lower())
            names[key] = name
            below.append("expressions", exp.alias_(column.copy(), name, quoted=True))
        made = quoted_column(names[key], None if is_own else _JOINED)
        column.replace(exp.alias_(made, column.name, quoted=True) if column.parent is select else made)
    if not below.expressions:
        below.append("expressions", exp.alias_(exp.true(), "anything"))
    if stars:
        rest = [item for item in select.expressions if not item.is_star]
        select.set("expressions", [star_without(names.values()), *rest])
    select.from_(below.subquery(_JOINED, copy=False), copy=False)


def _aliases_read(select: exp.Select) -> set[int]:
    """Returns the identities of the unqualified names in GROUP BY, HAVING and ORDER BY that are select aliases."""
    aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    clauses = [
        clause for name in ("group", "having", "order") if (clause := select.args.get(name)) is not None
    ]
    names = (each for clause in clauses for each in every(clause, exp.Column) if not each.table)
    return {
        id(each)
        for each in names
        if each.name.lower() in aliases
        and (each.find_ancestor(exp.Group, exp.Select) is select or resolve_key(each, select) is not each)
    }
