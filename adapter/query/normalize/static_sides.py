"""Nests a SELECT that joins streams and tables: each level joins either streams only, or one relation with tables.
So the static columns of a level are a function of the rows below it.

>>> from ..sql.dialect import parse, sql
>>> select = parse("select l.k, r.v, d.name from l left join r on l.k = r.k join d on d.k = r.k where l.v > 0 and d.n")
>>> nest_joins(select, [True, True, False])
True
>>> print(sql(select))
SELECT joined.`k` AS k, joined.`v` AS v, d.name FROM (SELECT l.k AS `k`, r.v AS `v`, r.k AS `__c_2` \
FROM l LEFT JOIN r ON l.k = r.k WHERE l.v > 0) AS joined JOIN d ON d.k = joined.`__c_2` WHERE d.n
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp
from sqlglot.helper import find_new_name

from ..frontend import hints
from ..sql.clauses import filters, is_semi_or_anti, relations_with_joins, set_filters
from ..sql.dialect import canonical, qualifier_of, reading_select, relation_names_around
from ..sql.nodes import every, quoted_column, star_without, with_metadata_of
from .names.qualified import select_around

_JOINED, _COLUMN = "joined", "__c_"


def nest_joins(select: exp.Select, streaming: Sequence[bool], whole: bool = False) -> bool:
    """Moves the first relations that can be joined on their own into a subquery. Changes the tree.

    Args:
        select: row by row: no groups, no OVER, no DISTINCT.
        streaming: for each relation in FROM and JOIN, whether it changes with a stream.
        whole: move all relations.

    Returns:
        Whether it did. Impossible with unqualified columns, or columns merged by USING or NATURAL.
    """
    count = len(streaming) if whole else _number_to_nest(select, streaming)
    return count is not None and nest_first_relations(select, count)


def nest_first_relations(select: exp.Select, count: int, around: Collection[str] = ()) -> bool:
    """Moves the first relations of FROM into a subquery. Changes the tree.

    Args:
        around: names of outer queries' relations, in lower case, whose columns the SELECT reads.

    Returns:
        Whether it did. Impossible with unqualified columns, or columns merged by USING or NATURAL.
    """
    sides = relations_with_joins(select)
    joins: list[exp.Join] = select.args.get("joins") or []
    merges = any(join.args.get("using") or join.args.get("method") for join in joins)
    if merges or not _are_qualified(select, around):
        return False
    aliases = {node.alias_or_name.lower() for node, _ in sides[:count]}
    everything = _expand_star(select, count)
    stars = [item for item in select.expressions if item.is_star]
    of_first = [star for star in stars if isinstance(star, exp.Column) and star.table.lower() in aliases]
    if any(not isinstance(star, exp.Column) for star in stars) or len(of_first) > 1:
        return False
    taken = {node.this.lower() for node in every(select, exp.Identifier)}
    alias = find_new_name(taken, _JOINED)
    below = exp.Select()
    from_key = "from_" if "from_" in select.args else "from"
    below.set(from_key, select.args[from_key].copy())
    for join in joins[: count - 1]:
        below.append("joins", join.copy())
    rest = joins[count - 1 :]
    if all(map(_extends_left_rows, rest)):
        _push_conditions(select, below, aliases)
    for star in of_first:
        below.append("expressions", exp.Star() if everything else star.copy())
    names: dict[str, str] = {}
    for item in [*select.expressions, *rest, *_other_clauses(select)]:
        for column in list(every(item, exp.Column)):
            if (
                column in stars
                or column.find_ancestor(exp.Star)
                or not _is_column_of(column, aliases, select)
            ):
                continue
            key = canonical(column)
            if key not in names:
                # Keeps the column's name unless another one has it.
                used = {name.lower() for name in names.values()}
                keeps = not of_first and column.name.lower() not in used
                hidden = f"{_COLUMN}{len(names)}"
                names[key] = column.name if keeps else find_new_name(taken | used, hidden)
                below.append("expressions", exp.alias_(column.copy(), names[key], quoted=True))
            made = with_metadata_of(quoted_column(names[key], alias), column)
            column.replace(exp.alias_(made, column.this.copy()) if column.parent is select else made)
    for star in of_first:
        star.set("table", exp.to_identifier(alias))
        # The author's EXCEPT is applied below.
        star.set("this", star_without(names.values()))
    if not below.expressions:
        below.append("expressions", exp.alias_(exp.true(), f"{_COLUMN}0", quoted=True))
    select.args[from_key].set("this", below.subquery(alias, copy=False))
    select.set("joins", rest)
    return True


def unqualified_correlation(select: exp.Select) -> exp.Column | None:
    """Returns an unqualified column in a subquery that may be correlated: it isn't compared with an outer column.
    None if there is none.

    >>> from ..sql.dialect import parse
    >>> asks = "exists (select 1 from r where r.k = v and x > 1)"
    >>> found = unqualified_correlation(parse(f"select l.k from l join d on d.k = l.k where {asks}"))
    >>> str(found)
    'v'
    """
    around = {node.alias_or_name.lower() for node, _ in relations_with_joins(select)}
    # A joined relation is analyzed separately.
    on = (join.args.get("on") for join in select.args.get("joins") or ())
    parts = [part for part in (*select.expressions, select.args.get("where"), *on) if part is not None]
    for test in (each for part in parts for each in every(part, exp.Predicate)):
        inside = test.find_ancestor(exp.Query)
        if inside is None or select_around(inside) is None or test.find(exp.Query) is not None:
            continue
        columns = list(every(test, exp.Column))
        of_around = any(qualifier_of(each) in around for each in columns)
        plain = [each for each in columns if not each.table]
        if plain and not of_around and len({each.sql() for each in columns}) > 1:
            return plain[-1]
    return None


def _expand_star(select: exp.Select, count: int) -> bool:
    """Replaces ``*`` by qualified stars, the first for all relations that are moved. Returns whether there was one.
    Changes the tree."""
    sides = relations_with_joins(select)
    plain = [item for item in select.expressions if item == exp.Star()]
    if len(plain) != 1 or select.args.get("laterals"):
        return False
    others = (node for node, join in sides[count:] if join is not None and not is_semi_or_anti(join))
    names = [node.alias_or_name for node in (sides[0][0], *others)]
    if not all(names):
        return False
    plain[0].replace([exp.Column(this=exp.Star(), table=exp.to_identifier(name)) for name in names])
    return True


def _number_to_nest(select: exp.Select, streaming: Sequence[bool]) -> int | None:
    """Returns the number of relations, from the first, to join on their own. None if all stay together."""
    sides = relations_with_joins(select)
    if all(streaming) or len(sides) < 2:
        return None
    first = streaming.index(True) if True in streaming else len(sides)
    if not streaming[-1]:
        count = len(sides) - 1 if sum(streaming) > 1 else len(sides)
    else:
        count = max(first, len(sides) - 1 - streaming[::-1].index(False)) + 1
    return count if count > 1 else None


def nest_subquery_join(query: exp.Query) -> bool:
    """Moves the join of a subquery in an expression into a query in FROM, if it joins a stream. Changes the tree.

    Returns:
        Whether it did. Only for a SELECT that neither groups, ranks nor limits rows.
    """
    if not isinstance(query, exp.Select) or query.find(exp.Window) is not None:
        return False
    sides = relations_with_joins(query)
    if any((on := join.args.get("on")) and on.find(exp.Query) for join in query.args.get("joins") or ()):
        return False
    clauses = ("group", "having", "distinct", "order", "limit", "offset", "laterals", "with_", "with")
    if len(sides) < 2 or any(query.args.get(each) for each in clauses):
        return False
    reads_stream = any(hints.reads_stream(node) for node, _ in sides)
    return reads_stream and nest_first_relations(query, len(sides), around=relation_names_around(query))


def _are_qualified(select: exp.Select, around: Collection[str]) -> bool:
    """Whether each column outside subqueries is qualified. Columns of `around` aren't allowed in joins, which move
    below."""
    laterals = select.args.get("laterals") or ()
    made = {name.lower() for lateral in laterals for name in lateral.alias_column_names}
    whose = {node.alias_or_name.lower() for node, _ in relations_with_joins(select)}
    whose |= {each.alias.lower() for each in laterals} | made
    joins = [(join, whose) for join in select.args.get("joins") or ()]
    parts = [(part, whose | {*around}) for part in (*select.expressions, *_other_clauses(select))]
    return all(
        column.parts[0].name.lower() in (made if len(column.parts) == 1 else known)
        for part, known in (*joins, *parts)
        for column in every(part, exp.Column)
        if column.find_ancestor(exp.Query, exp.Star) is select
    )


def _is_column_of(column: exp.Column, aliases: set[str], select: exp.Select) -> bool:
    """Whether a column refers to one of these relations, not to one of the same alias in an inner query."""
    return qualifier_of(column) in aliases and reading_select(column) is select


def _push_conditions(select: exp.Select, below: exp.Select, aliases: set[str]) -> None:
    """Moves the conjuncts of WHERE that read only the moved relations into the subquery. Requires that each row of the later
    joins has a row of the moved relations. Changes the tree."""
    stay = []
    for test in filters(select):
        columns = list(every(test, exp.Column))
        asks_below = columns and all(_is_column_of(each, aliases, select) for each in columns)
        if asks_below and not test.find(exp.Query):
            below.where(test.copy(), copy=False)
        else:
            stay.append(test)
    set_filters(select, stay)


def _extends_left_rows(join: exp.Join) -> bool:
    """Whether each row of a join has a row of its left side."""
    return (join.side or "").upper() in ("", "LEFT") or is_semi_or_anti(join)


def _other_clauses(select: exp.Select) -> list[exp.Expr]:
    where = select.args.get("where")
    return [*([where] if where is not None else []), *(select.args.get("laterals") or ())]
