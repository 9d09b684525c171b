"""Resolves ORDER BY: ordinals and ALL are select items; a name is a select alias first, then a column."""

from __future__ import annotations

from sqlglot import exp

from ....util.text import counted
from ...errors import QueryError
from ...sql.clauses import aggregates_in, is_over, output_name, unwrap_call
from ...sql.dialect import canonical, sql, walk_same_query
from ...sql.functions import is_random
from ...sql.nodes import every, quoted_column, star_without, with_metadata_of
from ..names.stars import columns_of_star

CUTS = ("limit", "offset", "fetch")
"""Clauses that cut off rows."""
_ITEM = "item_of_select_list"
_HOLDERS = (exp.Ordered, exp.Window, exp.AggFunc)
"""Nodes whose text separates an expression in them from others, so that it needs no brackets."""


def expand_order(order: exp.Expr, select: exp.Select) -> exp.Expr:
    """Returns an ORDER BY with select items instead of ordinals and ALL.

    >>> from ...sql.dialect import parse, sql
    >>> tree = parse("select -v as v, t.* from (select a, b from u) as t order by 1 desc, 3")
    >>> sql(expand_order(tree.args["order"], tree)).strip()
    'ORDER BY -v DESC, `t`.`b`'

    Raises:
        QueryError: there is no such item, or the columns of a '*' are unknown.
    """
    (first, *_) = order.expressions
    made: list[exp.Expr] = []
    if isinstance(first.this, exp.Var) and first.name.upper() == "ALL":
        if any(item.is_star for item in select.expressions):
            raise QueryError("ORDER BY ALL … LIMIT over a stream with '*'; name the columns to order by.")
        return exp.Order(expressions=[_ordered_by(first, item) for item in select.expressions])
    for each in order.expressions:
        is_place = isinstance(each.this, exp.Literal) and each.this.is_int
        made.append(_ordered_by(each, _item_at(select, int(each.this.name))) if is_place else each.copy())
    return exp.Order(expressions=made)


def order_by_columns(order: exp.Expr, select: exp.Select) -> list[exp.Expr]:
    """Returns the expressions of an ORDER BY (from `expand_order`) with aliases replaced by their items."""
    by_name = items_by_name(select)
    found = []
    for each in order.expressions:
        copy = each.copy()
        if _is_marked_item(copy.this):
            _refuse_random(copy.this)
        else:
            copy.set("this", expand_aliases(copy.this, by_name))
        found.append(copy)
    return found


def put_order_above(select: exp.Select, order: exp.Expr, alias: str) -> tuple[exp.Select, exp.Expr]:
    """Returns a SELECT over this one with its columns, and the ORDER BY (from `expand_order`) over these columns. Other
    values of the ORDER BY become hidden columns of the inner SELECT. Changes the tree.

    >>> from ...sql.dialect import parse, sql
    >>> tree = parse("select k, lag(v) over (order by ts) as p from t order by p + 1, w")
    >>> outer, order = put_order_above(tree, tree.args["order"], "below")
    >>> sql(outer.find(exp.Subquery).this.expressions[2]), sql(order).strip()
    ('w AS `__sorted_by_0`', 'ORDER BY p + 1, `__sorted_by_0`')
    """
    by_name = items_by_name(select)
    by_text = {
        canonical(item.unalias()): output_name(item) for item in select.expressions if output_name(item)
    }
    names = {output_name(item).lower() for item in select.expressions} - {""}
    visible = list(select.expressions)
    hidden: list[str] = []
    copy = order.copy()
    for each in copy.expressions:
        columns = list(every(each.this, exp.Column))
        is_by_names = all(not column.table and column.name.lower() in names for column in columns)
        if is_by_names and not _is_marked_item(each.this) and next(aggregates_in(each.this), None) is None:
            continue
        name = by_text.get(canonical(each.this))
        if name is None:
            name = f"__sorted_by_{len(hidden)}"
            value = each.this if _is_marked_item(each.this) else expand_aliases(each.this, by_name)
            select.append("expressions", exp.alias_(value.copy(), name, quoted=True))
            hidden.append(name)
        each.set("this", quoted_column(name))
    items: list[exp.Expr] = [with_metadata_of(quoted_column(output_name(item)), item) for item in visible]
    if any(item.is_star or not output_name(item) for item in visible):
        items = [star_without(hidden)]
    return exp.Select(expressions=items).from_(select.subquery(alias, copy=False), copy=False), copy


def _ordered_by(ordered: exp.Expr, item: exp.Expr) -> exp.Expr:
    """Returns a copy of an order by an item, which is marked, so names in it aren't read as aliases."""
    copy, value = ordered.copy(), item.unalias().copy()
    value.meta[_ITEM] = True
    copy.set("this", value)
    return copy


def _is_marked_item(node: exp.Expr) -> bool:
    return bool(node.meta.get(_ITEM))


def expand_aliases(node: exp.Expr, by_name: dict[str, exp.Expr]) -> exp.Expr:
    """Returns a copy of an expression with items in place of their aliases (`items_by_name`). Within an
    aggregate, the alias of an aggregate isn't replaced: there it is the name of a column.

    >>> from ...sql.dialect import parse, sql
    >>> tree = parse("select sum(v) as v from t order by sum(v) + v")
    >>> sql(expand_aliases(tree.args["order"].expressions[0].this, items_by_name(tree)))
    'SUM(v) + (SUM(v))'

    Raises:
        QueryError: an item isn't deterministic, so its copy would have another value.
    """
    made = exp.paren(node.copy())
    for column in list(every(made, exp.Column)):
        item = None if column.table else by_name.get(column.name.lower())
        if item is not None and not (_is_in_aggregate(column) and _is_aggregated(item)):
            _refuse_random(item)
            is_whole = column.parent is made or isinstance(column.parent, _HOLDERS)
            is_bare = is_whole or isinstance(item, exp.Column)
            column.replace(item.copy() if is_bare else exp.paren(item.copy()))
    return made.this


def _is_aggregated(item: exp.Expr) -> bool:
    """Returns whether an item is computed by an aggregate or an OVER."""
    return any(isinstance(node, exp.AggFunc | exp.Window) for node in walk_same_query(item))


def _is_in_aggregate(column: exp.Column) -> bool:
    """Returns whether a column is in a call of an aggregate that isn't the function of an OVER."""
    node = column.parent
    while node is not None and (is_over(node) or not isinstance(unwrap_call(node).function, exp.AggFunc)):
        node = node.parent
    return node is not None


def _refuse_random(item: exp.Expr) -> None:
    """Raises `QueryError` if rows would be ordered by another value of an item than they have."""
    if any(map(is_random, every(item, exp.Func))):
        raise QueryError(
            f"Rows are ordered by the item '{sql(item)}', which is non-deterministic; compute it in a "
            "subquery in FROM."
        )


def items_by_name(select: exp.Select) -> dict[str, exp.Expr]:
    """Maps names to their select items. With several relations also items that are plain columns, whose unqualified
    name would be ambiguous."""
    items = (item for item in select.expressions if not item.is_star)
    several = bool(select.args.get("joins"))
    return {
        output_name(item).lower(): item.unalias()
        for item in items
        if isinstance(item, exp.Alias) or (several and isinstance(item, exp.Column))
    }


def _item_at(select: exp.Select, place: int) -> exp.Expr:
    """Returns the item of an ordinal, counted from 1."""
    items: list[exp.Expr] = []
    for item in select.expressions:
        columns = columns_of_star(item, None) if item.is_star else [item]
        if columns is None:
            raise QueryError(
                f"ORDER BY {place} … LIMIT over a stream with '*', whose number of columns isn't known; name "
                "the column to order by."
            )
        items += columns
    if not 0 < place <= len(items):
        raise QueryError(f"ORDER BY {place} … LIMIT: the query has {counted(len(items), 'column')}.")
    return items[place - 1]
