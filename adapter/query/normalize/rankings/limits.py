"""Rewrites ORDER BY … LIMIT N over a stream as a filter on ROW_NUMBER().

>>> from ...sql.dialect import parse, sql
>>> tree = parse("select a, b as c from t order by c desc limit 3")
>>> sql(rewrite_as_rank(tree))
'SELECT a, c FROM (SELECT a, b AS c, ROW_NUMBER() OVER (ORDER BY b DESC) AS __rank FROM t) AS ranked WHERE __rank <= 3'
>>> sql(rewrite_as_rank(parse("select b + 1 from t order by b limit 3")))
'SELECT * EXCEPT (__rank) FROM (SELECT b + 1, ROW_NUMBER() OVER (ORDER BY b) AS __rank FROM t) AS ranked WHERE __rank <= 3'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ...errors import QueryError
from ...frontend import hints
from ...sql.clauses import first_aggregate, output_name, output_names, set_filters
from ...sql.dialect import canonical, correlated_columns, sql
from ...sql.nodes import every, quoted_column, replace_each, star_without, with_metadata_of
from ..compared_types import split_correlation
from . import orders

RANK = "__rank"
_LIMITED, _WITHIN, _ITEM = "__limited", "__within_", "__item_"
_CORRELATED = {"kind", "expressions", "from_", "from", "joins", "where", "order", "limit", "offset", "hint"}
"""Clauses of a correlated query that can be ranked."""


def write_limits_as_ranks(tree: exp.Query, concerned: Callable[[exp.Query], bool]) -> exp.Query:
    """Rewrites every LIMIT of the concerned queries as a rank. Changes the tree and returns it.

    Raises:
        QueryError: a LIMIT has no order, or isn't a number of rows.
    """

    def cuts(query: exp.Query) -> bool:
        return any(query.args.get(name) for name in orders.CUTS) and concerned(query)

    tree = replace_each(
        tree, exp.SetOperation, lambda each: _select_above_union(each) if cuts(each) else None
    )
    return replace_each(tree, exp.Select, lambda each: _limit_as_rank(each) if cuts(each) else None)


def _limit_as_rank(select: exp.Select) -> exp.Select | None:
    """Returns a SELECT with a rank instead of its LIMIT. Removes a LIMIT without effect, and returns None."""
    if select.find_ancestor(exp.Lateral) is not None:
        return None  # reported as it was written
    if _has_no_effect(select):
        for clause in ("limit", "fetch", "order"):
            select.set(clause, None)
        return None
    if not (asked := correlated_columns(select)):
        return rewrite_as_rank(select.copy())
    within = rank_within_compared_columns(select)
    if within is None:
        raise QueryError(
            f"'{hints.excerpt(select)}' cuts off rows of a correlated subquery, which reads the outer {sql(asked[0])}. "
            "Rank the rows in a separate query, by row_number() over (partition by the column that is compared with it "
            "order by …), filter on the rank, and join that; or put the subquery into FROM, with LEFT JOIN LATERAL (…) AS "
            "l ON true."
        )
    return within


def rank_within_compared_columns(query: exp.Select) -> exp.Select | None:
    """Returns a correlated query with LIMIT as one over rows ranked within the compared columns, which isn't correlated
    below its comparison with the outer row. None if it is correlated by other predicates than equalities of one type, or
    groups.

    >>> from ...sql.dialect import parse, sql
    >>> from ..compared_types import note_type
    >>> tree = parse("select (select o.v from o where o.k = e.k and o.w > 1 order by o.ts desc limit 1) as last from e")
    >>> for column in tree.find_all(exp.Column):
    ...     note_type(column, "bigint")
    >>> print(sql(rank_within_compared_columns(tree.expressions[0].this.this)))
    SELECT MAX(__limited.`v`) FROM (SELECT v, __within_0 FROM (SELECT o.v AS `v`, o.k AS `__within_0`, \
ROW_NUMBER() OVER (PARTITION BY o.k ORDER BY o.ts DESC) AS __rank FROM o WHERE o.w > 1) AS ranked WHERE __rank <= 1) \
AS __limited WHERE __limited.`__within_0` = e.k

    Raises:
        QueryError: the LIMIT has no order, or isn't a number of rows.
    """
    place = query.parent
    while isinstance(place, exp.Subquery | exp.Paren):
        place = place.parent
    is_value = not isinstance(place, exp.In | exp.Exists | exp.Any | exp.All | exp.Lateral)
    if isinstance(place, exp.SetOperation | exp.From | exp.Join) or (is_value and not _is_first_row(query)):
        return None
    if {name for name, value in query.args.items() if value} - _CORRELATED or first_aggregate(
        query
    ) is not None:
        return None
    stars = [item for item in query.expressions if item.is_star]
    if query.find(exp.Window) or (stars and is_value):
        return None
    tests = split_correlation(query, {id(column) for column in correlated_columns(query)})
    if tests is None:
        return None
    own, pairs = tests
    below = query.copy()
    set_filters(below, own)
    hidden = [f"{_WITHIN}{number}" for number in range(len(pairs))]
    listed = list(below.expressions)
    items: list[exp.Expr] = [star_without(hidden)] if stars else []
    names: list[str] = []
    for number, item in enumerate(() if stars else list(listed)):
        name = item.alias_or_name
        names.append(name if name and name.lower() not in map(str.lower, names) else f"{_ITEM}{number}")
        listed[number] = exp.alias_(item.unalias().copy(), names[-1], quoted=True)
        items.append(with_metadata_of(quoted_column(names[-1], _LIMITED), listed[number]))
    keys = [exp.alias_(each.copy(), name, quoted=True) for (each, _), name in zip(pairs, hidden, strict=True)]
    below.set("expressions", [*listed, *keys])
    ranked = rewrite_as_rank(below, [each.copy() for each, _ in pairs])
    if is_value:
        # There is one row per group, but Spark requires an aggregate.
        items = [exp.Max(this=item) for item in items]
    equal = [
        exp.EQ(this=quoted_column(name, _LIMITED), expression=other.copy())
        for (_, other), name in zip(pairs, hidden, strict=True)
    ]
    made = exp.Select(expressions=items).from_(ranked.subquery(_LIMITED, copy=False), copy=False)
    return made.where(*equal, copy=False)


def _is_first_row(query: exp.Select) -> bool:
    limit = query.args.get("limit")
    return limit is not None and _number_of_rows(limit) == 1 and not query.args.get("offset")


def _has_no_effect(select: exp.Select) -> bool:
    """Whether the LIMIT has no effect: it is in an EXISTS, and leaves at least one row."""
    limit = select.args.get("limit") or select.args.get("fetch")
    cut = None if limit is None or select.args.get("offset") else _number_of_rows(limit)
    place = select.parent
    while isinstance(place, exp.Subquery | exp.Paren):
        place = place.parent
    return isinstance(place, exp.Exists) and cut is not None and cut > 0


def rewrite_as_rank(select: exp.Select, within: Sequence[exp.Expr] = ()) -> exp.Select:
    """Rewrites a SELECT with LIMIT as a rank, partitioned by the expressions in `within`. Changes the tree."""
    limit: exp.Expr | None = select.args.get("limit")
    offset: exp.Expr | None = select.args.get("offset")
    order = select.args.get("order")
    count = _number_of_rows(limit) if limit is not None else None
    skipped = 0 if offset is None else _number_of_rows(offset)
    if count is None or skipped is None:
        found = " ".join(sql(clause).strip() for clause in (limit, offset) if clause is not None)
        raise QueryError(f"'{found}' over a stream sets no upper bound; write LIMIT and a number.")
    if order is None:
        raise QueryError(
            f"'{sql(limit or select).strip()}' over a stream without ORDER BY: any rows could be the first; add ORDER BY."
        )
    order = orders.expand_order(order, select)
    for clause in (*orders.CUTS, "order"):
        select.set(clause, None)
    if select.args.get("distinct"):
        select, order = _select_over_distinct(select, order)
    elif any(item.find(exp.Window) for item in select.expressions):
        # OVER isn't allowed in another window's ORDER BY.
        select, order = orders.put_order_above(select, order, "windowed")
    ordered = orders.order_by_columns(order, select)
    names = [output_name(item) for item in select.expressions]
    rank = exp.Window(
        this=exp.RowNumber(), partition_by=[*within] or None, order=exp.Order(expressions=ordered)
    )
    select.append("expressions", exp.alias_(rank, RANK))
    if select.is_star or not all(names):
        # Unnamed items keep Spark's names.
        columns: list[exp.Expr] = [star_without([RANK], quoted=False)]
    else:
        columns = [
            with_metadata_of(exp.column(name, quoted=not name.isidentifier()), item)
            for name, item in zip(names, select.expressions, strict=False)
        ]
    outer = exp.Select(expressions=columns).from_(select.subquery("ranked", copy=False))
    outer = outer.where(exp.column(RANK) <= count + skipped)
    return outer.where(exp.column(RANK) > skipped) if skipped else outer


def _select_above_union(united: exp.SetOperation) -> exp.Select:
    """Moves ORDER BY and LIMIT of a set operation to a SELECT above it."""
    below = united.copy()
    names = output_names(united)
    is_named = all(names) and not any(item.is_star for item in united.selects)
    items: list[exp.Expr] = [*map(quoted_column, names)] if is_named else [exp.Star()]
    made = exp.Select(expressions=items)
    for clause in ("order", *orders.CUTS):
        made.set(clause, below.args.pop(clause, None))
    return made.from_(below.subquery("united", copy=False), copy=False)


def _select_over_distinct(select: exp.Select, order: exp.Expr) -> tuple[exp.Select, exp.Expr]:
    """Returns a SELECT over the one with DISTINCT, so that rows are ranked after deduplication, and the order over
    its columns."""
    by_text = {
        canonical(item.unalias()): output_name(item) for item in select.expressions if not item.is_star
    }
    copy = order.copy()
    for each in copy.expressions:
        if (name := by_text.get(canonical(each.this))) is not None:
            each.set("this", exp.column(name, quoted=True))
        for column in every(each, exp.Column):
            column.set("table", None)
    items = [quoted_column(output_name(item)) for item in select.expressions]
    made = exp.Select(expressions=[exp.Star()] if select.is_star else items)
    return made.from_(select.subquery("different", copy=False)), copy


def _number_of_rows(node: exp.Expr) -> int | None:
    if node.args.get("limit_options"):
        return None  # PERCENT, which Spark doesn't have
    value = node.args.get("expression") or node.args.get("count")
    return int(value.name) if isinstance(value, exp.Literal) and value.is_int else None
