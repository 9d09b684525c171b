"""Writes a model's text for batch, if it doesn't stay within windows: plain SQL with the rows of the stream.

>>> text = "select k, v, row_number() over (partition by k order by v) as place from t qualify place = 1"
>>> print(plain_batch_text(text, None, {}, (), in_plain_sql))
SELECT k, v, place FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, STRUCT(k, v)) AS place FROM t) AS _t \
WHERE place = 1
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from ..aggregates.types import find_ties
from ..errors import QueryError
from ..frontend import hints, select_numbers
from ..frontend.streams import Known, is_printed_by_macro
from ..normalize import above_groups, as_of_joins, brackets, conditions, on_change
from ..normalize.names import own_names
from ..normalize.rankings import limits, qualify, ranks
from ..sql.clauses import first_aggregate, relations
from ..sql.dialect import parse, sql, with_clause
from ..sql.functions import QueryRunner
from ..sql.nodes import copied, every
from ..sql.tie_breaking import break_ties, break_ties_of_extremes
from . import untimed_rows

_NOT_DIVIDED = ("order", "sort", "distribute", "cluster", "qualify", "windows", "laterals")
"""Clauses of a SELECT that may read its rows as well as its groups."""

SliceWriter: TypeAlias = Callable[[str, QueryRunner | None], str | None]
"""Returns a query over windows, computed from slices; None if it leaves its windows, or aggregates none of them. Its
arguments are the query's text, and what runs a query in a session."""


def in_plain_sql(text: str, ask: QueryRunner | None = None) -> None:
    """Writes no query from slices."""


def plain_batch_text(
    text: str,
    ask: QueryRunner | None,
    known: Mapping[str, Known],
    dropped: Collection[untimed_rows.DroppedRows],
    from_slices: SliceWriter,
) -> str:
    """Returns a text with the tie-breakers of the stream, without the rows that the stream drops because of their event
    time, and without QUALIFY, which Spark doesn't support. Queries in it that stay within windows are computed from slices.

    Args:
        text: compiled text of a model.
        ask: runs a query in a session, for the types of columns that break ties; None without a session.
        known: properties of relations that the project declares.
        dropped: places where the stream drops rows without an event time.
        from_slices: writes the queries that stay within windows.

    Raises:
        QueryError: as plain SQL it would return rows that a stream leaves out.
    """
    tree = parse(text)
    select_numbers.number_selects(tree)
    taken = own_names.names_taken_by_author(tree, [name for what in known.values() for name in what.columns])
    if not taken:
        rewritten = _rewrite_for_batch(tree, ask, known, dropped)
        _compute_from_slices(rewritten, lambda query: from_slices(query, ask), {})
        return text if rewritten == tree else sql(rewritten)
    own_names.mark_names(tree)
    with own_names.unmark_errors():
        marked = [replace(each, time=own_names.marked_column(each.time)) for each in dropped]
        asked = own_names.query_runner_of_marked_tree(ask, taken)
        rewritten = _rewrite_for_batch(tree, asked, own_names.with_marked_columns(known), marked)
        _compute_from_slices(rewritten, lambda query: from_slices(query, asked), {})
    return text if rewritten == tree else own_names.separate_names(sql(rewritten), taken)


def _rewrite_for_batch(
    tree: exp.Query,
    ask: QueryRunner | None,
    known: Mapping[str, Known],
    dropped: Collection[untimed_rows.DroppedRows],
) -> exp.Query:
    """Returns a rewritten copy of a tree; see `plain_batch_text`."""
    unbracketed = copied(tree)
    brackets.remove_brackets(unbracketed)
    rewritten = qualify.rewrite_qualify(
        ranks.inline_named_windows(on_change.drop_unchanged_steps(unbracketed))
    )
    if not _has_literal_rows(rewritten):
        hints.mark_streams(rewritten)
    if ask is not None:
        find_ties(rewritten, ask)
    try:
        rewritten = limits.write_limits_as_ranks(copied(rewritten), _limits_same_rows)
    except QueryError:
        pass  # any rows may be the first in batch
    as_of_joins.write_as_joins(rewritten, known)
    for select in every(rewritten, exp.Select):
        if not is_printed_by_macro(select):
            break_ties(select)
    break_ties_of_extremes(rewritten)
    for lateral in filter(hints.reads_stream, list(every(rewritten, exp.Lateral))):
        conditions.order_limits(lateral.this)
    untimed_rows.exclude_dropped_rows(rewritten, dropped)
    return rewritten


def _compute_from_slices(
    query: exp.Expr, from_slices: Callable[[str], str | None], named: Mapping[str, exp.CTE | None]
) -> None:
    """Replaces the outermost queries in FROM and in WITH that stay within windows by queries that compute their windows from
    slices, if each row is in many of them. Changes the tree.

    Args:
        query: a query; anything else stays as it is.
        from_slices: see `SliceWriter`.
        named: the CTEs that the query may read, as written, by name in lower case; None for one that can't be repeated.
    """
    if not isinstance(query, exp.Query) or next(hints.windows_under(query), None) is None:
        return
    within = with_clause(query)
    for cte in within.expressions if within else ():
        name, written = cte.alias.lower(), copied(cte)
        _compute_below_from_slices(cte, from_slices, named)
        # Others of `named` may read the CTE that this one hides.
        named = dict.fromkeys([*named, name]) if name in named else {**named, name: written}
    if isinstance(query, exp.Subquery):
        _compute_from_slices(query.this, from_slices, named)
    elif isinstance(query, exp.SetOperation):
        for side in (query.this, query.expression):
            _compute_from_slices(side, from_slices, named)
    elif isinstance(query, exp.Select) and not _compute_groups_from_slices(query, from_slices, named):
        for relation in relations(query):
            if isinstance(relation, exp.Subquery):
                _compute_below_from_slices(relation, from_slices, named)


def _compute_groups_from_slices(
    query: exp.Select, from_slices: Callable[[str], str | None], named: Mapping[str, exp.CTE | None]
) -> bool:
    """Computes the groups of a SELECT that leaves its windows, such as by LAG over their results, from slices in a query
    below it. Changes the tree.

    Returns:
        Whether it did: the SELECT groups rows of windows, and can be divided.
    """
    has_groups = query.args.get("group") is not None or first_aggregate(query) is not None
    reads_windows = any(hints.window_of(each.unnest()) is not None for each in relations(query))
    if not (has_groups and reads_windows and _has_highly_overlapping_windows(query)):
        return False
    if any(query.args.get(clause) for clause in _NOT_DIVIDED):
        return False
    written = copied(query)
    around = {clause: written.args.get(clause) for clause in ("with_", "limit", "offset")}
    for clause in around:
        written.set(clause, None)
    try:
        above = above_groups.select_over_groups(written)
    except QueryError:
        return False  # it can't be divided
    (groups,) = relations(above)
    whole = _with_ctes_read(groups.this, named)
    text = None if whole is None else from_slices(sql(whole))
    if text is None:
        return False
    groups.set("this", exp.Var(this=text))
    query.args.clear()
    for name, value in {**above.args, **around}.items():
        query.set(name, value)
    return True


def _compute_below_from_slices(
    node: exp.Subquery | exp.CTE,
    from_slices: Callable[[str], str | None],
    named: Mapping[str, exp.CTE | None],
) -> None:
    """Computes a query in FROM or in WITH from slices, or else the queries in it; see `_compute_from_slices`."""
    query = node.this
    if next(hints.windows_under(query), None) is not None:
        whole = _with_ctes_read(query, named)
        if whole is not None and _has_highly_overlapping_windows(whole):
            if (text := from_slices(sql(whole))) is not None:
                node.set("this", exp.Var(this=text))
                return
    _compute_from_slices(query, from_slices, named)


def _has_highly_overlapping_windows(query: exp.Query) -> bool:
    """Whether each row is in so many windows that slices are faster than plain SQL."""
    found = map(hints.window_of, hints.windows_under(query))
    return any(window is not None and window.is_highly_overlapping for window in found)


def _with_ctes_read(query: exp.Query, named: Mapping[str, exp.CTE | None]) -> exp.Query | None:
    """Returns a query with a WITH that defines the CTEs it reads; None if one of them can't be repeated, is hidden by one of
    the query's own, or hides a table that is read.

    Args:
        named: see `_compute_from_slices`.
    """
    read: dict[str, exp.CTE] = {}
    needed = _names_read(query) & named.keys()
    names = list(named)
    for place in reversed(range(len(names))):
        if names[place] not in needed:
            continue
        cte = named[names[place]]
        if cte is None or not conditions.is_repeatable(cte):
            return None
        below = _names_read(cte) & named.keys()
        if not below <= {*names[:place]}:
            return None
        read[names[place]] = cte
        needed |= below
    if not read:
        return query
    whole = copied(query)
    within = with_clause(whole) or exp.With(expressions=[])
    if not read.keys().isdisjoint(cte.alias.lower() for cte in within.expressions):
        return None
    within.set("expressions", [*map(copied, reversed(read.values())), *within.expressions])
    whole.set("with_", within)
    return whole


def _names_read(node: exp.Expr) -> set[str]:
    """Returns the names without a schema of the tables and CTEs under a node, in lower case."""
    return {table.name.lower() for table in every(node, exp.Table) if not table.db}


def _has_literal_rows(tree: exp.Query) -> bool:
    """Whether a windowing table function reads literal rows, as in dbt's unit tests, so that there is no table to mark."""
    return any(hints.window_input(over).find(exp.Table) is None for over in hints.windows_under(tree))


def _limits_same_rows(query: exp.Query) -> bool:
    """Whether a LIMIT applies to the same rows as in a stream. Spark can't order by correlated subqueries."""
    reads = hints.reads_stream(query) or next(hints.windows_under(query), None) is not None
    return reads and not any(item.find(exp.Query) for item in query.expressions)
