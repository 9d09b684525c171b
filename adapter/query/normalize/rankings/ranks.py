"""Rankings: their order, the filter that bounds them, and the rows that can still be in one.

>>> from ...sql.dialect import parse
>>> tree = parse("select * from (select *, rank() over (order by b) as r from t) where r < 4 and 9 >= r")
>>> greatest_ranks(tree)
{'r': 3}
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ...errors import QueryError
from ...frontend import hints
from ...sql.clauses import filters, is_semi_or_anti
from ...sql.dialect import from_clause, function_name, parse, sql
from ...sql.nodes import every, shape
from ...sql.tie_breaking import tie_breaking_items
from ...windows.window_columns import FromRelation, window_column
from .rank_bounds import bounds_of_condition

RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)
_WRITTEN = "written"


@dataclass(frozen=True)
class Top:
    """The first rows of each group, over the column ``row`` of buffered rows."""

    function: str
    partition: tuple[str, ...]
    order: str
    rows: int
    """Number of rows in a group, or of ranks if rows can share one."""
    buckets: int | None = None
    """Number of buckets in which a group's new rows are ranked first. None without buckets."""


def inline_named_windows_in_text(text: str) -> str:
    """Returns a text with its WINDOW clauses inlined.

    Raises:
        QueryError: a window's name is undefined.
    """
    if not re.search(r"\bwindow\b", text, re.IGNORECASE):
        return text
    try:
        tree = parse(text)
    except QueryError:
        return text  # Spark reports the error
    if not any(select.args.get("windows") for select in every(tree, exp.Select)):
        return text
    return sql(inline_named_windows(tree))


def inline_named_windows(tree: exp.Query) -> exp.Query:
    """Inlines every named window. Changes the tree.

    >>> from ...sql.dialect import parse, sql
    >>> sql(inline_named_windows(parse("select lag(a) over w as b from t window w as (order by c)")))
    'SELECT LAG(a) OVER (ORDER BY c) AS b FROM t'
    """
    for select in every(tree, exp.Select):
        named = {window.name.lower(): window for window in select.args.get("windows") or ()}
        select.set("windows", None)
        for window in list(every(select, exp.Window)):
            if window.args.get("alias") is None or window.find_ancestor(exp.Select) is not select:
                continue
            asked = window.args["alias"].name
            meant = named.get(asked.lower())
            for _ in named:
                if meant is not None and (base := meant.args.get("alias")) is not None:
                    meant = named.get(base.name.lower())
            if meant is None or meant.args.get("alias") is not None:
                raise QueryError(
                    f"The window '{asked}' of '{sql(window)[:80]}' isn't in the query's WINDOW clause."
                )
            for part in ("partition_by", "order", "spec"):
                if value := meant.args.get(part):
                    window.set(
                        part, [each.copy() for each in value] if isinstance(value, list) else value.copy()
                    )
            window.set("alias", None)
    return tree


def rankings(select: exp.Expr) -> dict[str, exp.Window]:
    """Returns the rankings in a select list, by output column (lower case)."""
    return {
        item.alias_or_name.lower(): item.unalias()
        for item in select.expressions
        if isinstance(item.unalias(), exp.Window) and isinstance(item.unalias().this, RANKS)
    }


def note_ranking_texts(tree: exp.Query) -> None:
    """Notes the text of rankings for messages, because their columns may be renamed later."""
    for window in every(tree, exp.Window):
        if isinstance(window.this, RANKS):
            window.meta[_WRITTEN] = sql(window)


def written_ranking(rank: exp.Window) -> str:
    """Returns a ranking's text as its author wrote it."""
    return str(rank.meta_get(_WRITTEN) or sql(rank))


def unbounded_message(rank: exp.Window, name: str, ranked: str) -> str:
    """Message about a ranking without an upper bound."""
    return (
        f"'{written_ranking(rank)}' ranks {ranked}; say how many are asked for: WHERE {name} <= 10 in the query around "
        "it."
    )


def check_rankings(select: exp.Select) -> None:
    """Raises unless a SELECT's rankings have an order, and its filters on ranks an upper bound."""
    for rank in rankings(select).values():
        if not rank.args.get("order"):
            raise QueryError(
                f"'{written_ranking(rank)}' has no ORDER BY, so any row could come first; write "
                f"{function_name(rank.this).upper()}() OVER (PARTITION BY … ORDER BY …)."
            )
    relation = _first_relation(select)
    of_rows = _ranks_in(relation)
    last = greatest_ranks(select)
    for test in filters(select):
        for column in every(test, exp.Column):
            is_rank = len(column.parts) <= 2 and column.name.lower() in of_rows.keys() - last.keys()
            if is_rank and _belongs_to(column.table, relation):
                raise QueryError(
                    f"'{hints.excerpt(test)}' sets no upper bound to the rank {column.name}; add {column.name} <= N."
                )


def greatest_ranks(select: exp.Expr) -> dict[str, int]:
    """Returns the greatest rank that a SELECT's WHERE lets through, for each ranking in its first relation."""
    return _greatest_ranks(select, _first_relation(select))


def greatest_ranks_in_outer_select(ranking: exp.Select) -> dict[str, int]:
    """Returns the greatest rank that the SELECT around a SELECT lets through, for each ranking of the inner one."""
    relation = _relation_with_query(ranking)
    return {} if relation is None else _greatest_ranks(relation.find_ancestor(exp.Select), relation)


def query_key(query: exp.Query) -> tuple[Hashable, ...]:
    """Returns what a query's rows depend on: its text, and which rows of its rankings the SELECT around it lets through, as
    others needn't be kept."""
    admitted = greatest_ranks_in_outer_select(query) if isinstance(query, exp.Select) else {}
    return (shape(query), *sorted(admitted.items()))


def filtered_ranking(ranking: exp.Query, conditions: Sequence[exp.Expr]) -> exp.Select:
    """Returns the rows of a ranking that meet conditions."""
    return exp.select("*").from_(exp.Subquery(this=ranking)).where(*conditions)


def _greatest_ranks(select: exp.Expr | None, relation: exp.Expr | None) -> dict[str, int]:
    names, found = _ranks_in(relation), dict[str, int]()
    for test in filters(select) if select is not None else ():
        for (table, name), places in bounds_of_condition(test).items():
            if name in names and places.last is not None and _belongs_to(table, relation):
                found[name] = min(places.last, found.get(name, places.last))
    return found


def _belongs_to(qualifier: str, relation: exp.Expr | None) -> bool:
    """Whether a column belongs to this relation, as far as its qualifier says."""
    if relation is None:
        return False
    if qualifier:
        return qualifier.lower() == relation.alias_or_name.lower()
    # Unqualified, it would be ambiguous, unless a semi join hides its relation.
    join = relation.parent
    return not (isinstance(join, exp.Join) and is_semi_or_anti(join))


def _first_relation(select: exp.Expr) -> exp.Expr | None:
    source = from_clause(select) if isinstance(select, exp.Select) else None
    return source.this if source else None


def _relation_with_query(select: exp.Select) -> exp.Expr | None:
    """Returns the relation in FROM or JOIN that consists of this SELECT. None if there is none."""
    node: exp.Expr = select
    while isinstance(node.parent, exp.Subquery):
        node = node.parent
    return node if isinstance(node.parent, exp.From | exp.Join) else None


def _ranks_in(relation: exp.Expr | None) -> dict[str, exp.Window]:
    query = None if relation is None else relation.unnest()
    return rankings(query) if isinstance(query, exp.Select) else {}


def top_of_slice(select: exp.Select, sources: Sequence[FromRelation], last: Mapping[str, int]) -> Top | None:
    """Returns the rows that a ranking directly over a windowing TVF needs. None for all.

    A row that isn't among the first of its slice isn't among the first of a window with that slice.

    Args:
        sources: the relations of the SELECT.
        last: the result of `greatest_ranks_in_outer_select`.
    """
    if len(sources) != 1:
        return None
    others = [select.args.get(clause) for clause in ("where", "group", "distinct", "laterals", "having")]
    if len(list(every(select, exp.Window))) != 1 or not last or any(others):
        return None
    ((name, rows),) = last.items()
    rank = rankings(select)[name]
    try:
        partition = [_expression_over_row(key, sources) for key in rank.args.get("partition_by") or ()]
        order = []
        for ordered in rank.args["order"].expressions:
            if (node := _expression_over_row(ordered.this, sources)) is not None:
                copy = ordered.copy()
                copy.set("this", node)
                order.append(sql(copy))
        if isinstance(rank.this, exp.RowNumber):
            # Ties are broken by the select list (`tie_breaking`).
            row = exp.column("row", quoted=True)
            items = [
                row if each.is_star else _expression_over_row(each, sources)
                for each in tie_breaking_items(select)
            ]
            order.append(f"struct({', '.join(map(sql, filter(None, items)))})")
    except _WindowColumn:
        return None
    return Top(function_name(rank.this), tuple(map(sql, filter(None, partition))), ", ".join(order), rows)


class _WindowColumn(Exception):
    """Raised for an expression that a row has no value for before its windows close."""


def _expression_over_row(node: exp.Expr, sources: Sequence[FromRelation]) -> exp.Expr | None:
    """Returns an expression over a buffered row. None for a window column, which is equal for all rows of a window."""
    if window_column(node, sources):
        return None
    copy = node.copy()
    for column in list(every(copy, exp.Column)):
        if window_column(column, sources):
            raise _WindowColumn
        field = _field_of_row(column, sources)
        if column is copy:
            copy = field
        else:
            column.replace(field)
    return copy


def _field_of_row(column: exp.Column, sources: Sequence[FromRelation]) -> exp.Expr:
    """Returns a column as a field of the struct ``row``, which holds a buffered row. In ``meta.at`` sqlglot takes a struct
    column for the name of a relation."""
    names = [part.name for part in column.parts]
    if len(names) > 1 and any(names[0].lower() == source.alias.lower() for source in sources):
        names.pop(0)
    found: exp.Expr = exp.column(names[0], table="row", quoted=True)
    for name in names[1:]:
        found = exp.Dot(this=found, expression=exp.to_identifier(name, quoted=True))
    return found
