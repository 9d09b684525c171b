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
from ..frontend.streams import RelationInfo, is_printed_by_macro
from ..normalize import as_of_joins, batch_slices, brackets, conditions, on_change
from ..normalize.batch_slices import compute_from_slices
from ..normalize.names import own_names
from ..normalize.rankings import limits, qualify, ranks
from ..sql.dialect import parse, sql
from ..sql.functions import QueryRunner
from ..sql.nodes import copied, every
from ..sql.tie_breaking import break_ties, break_ties_of_extremes
from . import untimed_rows

SliceWriter: TypeAlias = Callable[[str, QueryRunner | None], str | None]
"""Returns a query over windows, computed from slices; None if it leaves its windows, or aggregates none of them. Its
arguments are the query's text, and what runs a query in a session."""


def in_plain_sql(text: str, ask: QueryRunner | None = None) -> None:
    """Writes no query from slices."""


def plain_batch_text(
    text: str,
    ask: QueryRunner | None,
    known: Mapping[str, RelationInfo],
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
        compute_from_slices(rewritten, _slice_writer(from_slices, ask))
        return text if rewritten == tree else sql(rewritten)
    own_names.mark_names(tree)
    with own_names.unmark_errors():
        marked = [replace(each, time=own_names.marked_column(each.time)) for each in dropped]
        asked = own_names.query_runner_of_marked_tree(ask, taken)
        rewritten = _rewrite_for_batch(tree, asked, own_names.with_marked_columns(known), marked)
        compute_from_slices(rewritten, _slice_writer(from_slices, asked))
    return text if rewritten == tree else own_names.separate_names(sql(rewritten), taken)


def _slice_writer(from_slices: SliceWriter, ask: QueryRunner | None) -> batch_slices.SliceWriter:
    return lambda query, relations: from_slices(query, batch_slices.with_relations_known(ask, relations))


def _rewrite_for_batch(
    tree: exp.Query,
    ask: QueryRunner | None,
    known: Mapping[str, RelationInfo],
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


def _has_literal_rows(tree: exp.Query) -> bool:
    """Whether a windowing table function reads literal rows, as in dbt's unit tests, so that there is no table to mark."""
    return any(hints.window_input(over).find(exp.Table) is None for over in hints.windows_under(tree))


def _limits_same_rows(query: exp.Query) -> bool:
    """Whether a LIMIT applies to the same rows as in a stream. Spark can't order by correlated subqueries."""
    reads = hints.reads_stream(query) or next(hints.windows_under(query), None) is not None
    return reads and not any(item.find(exp.Query) for item in query.expressions)
