"""Reads a model's text: parses it, takes its settings out, normalizes it, and finds its streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from sqlglot import exp

from ..diagnostics import flinks_words, left_over_commas
from ..errors import QueryError
from ..frontend import hints, mini_batch, select_numbers
from ..frontend.streams import RelationInfo, Stream, Streams
from ..frontend.written_clauses import written_clauses
from ..normalize import event_clock
from ..normalize.rules import NormalizedQuery, normalize
from ..plan import untimed_rows
from ..plan.dataflow import Dataflow
from ..plan.lookup_keys import LookupTable
from ..plan.plan import Plan
from ..program import MiniBatch
from ..rewrites.stream_rewrites import Rewrites, check_enumerated_texts
from ..sql.dialect import parse, sql
from ..sql.functions import QueryRunner
from ..sql.nodes import copied
from . import lookups
from .within_windows import WithinWindows


@dataclass(frozen=True)
class ReadText:
    """A model's text: the normalized query, and what it says of how it is planned."""

    query: NormalizedQuery
    clauses: Callable[[], list[tuple[str, str]]]
    """Returns the clauses that the author wrote."""
    hint: MiniBatch | None
    lookup_tables: tuple[LookupTable, ...]
    streams: Streams
    rewrites: Rewrites
    """The rewrites that it requests."""
    within: WithinWindows
    """Its queries that stay within windows."""

    @property
    def tree(self) -> exp.Query:
        return self.query.tree

    def plan(
        self,
        streams: tuple[Stream, ...],
        flow: Dataflow,
        ranks: tuple[str, ...],
        dropped: tuple[untimed_rows.DroppedRows, ...] = (),
    ) -> Plan:
        """Returns the plan of the text.

        Args:
            streams: the streams, with the columns to read.
            flow: the operators.
            ranks: the rankings that filters limit, as written.
            dropped: the places where rows without an event time are dropped.
        """
        views = {table.view for table in self.lookup_tables}
        return Plan(
            streams=streams,
            dataflow=flow,
            static=tuple(relation for relation in self.streams.static if relation not in views),
            ranks=ranks,
            rewrites=self.rewrites.effects(flow.names),
            lookups=self.lookup_tables,
            mini_batch=self.hint,
            unknown_functions=self.query.unknown_functions,
            unclear_columns=self.query.unclear_columns,
            clauses=self.clauses,
            dropped=dropped,
        )

    def check_names(self) -> None:
        """Raises unless all columns have names. Required if columns aren't computed as they are written.

        Raises:
            QueryError: a column has no name.
        """
        if self.query.nameless is not None:
            raise QueryError(f"'{self.query.nameless}' has no name; give it one: AS …")

    def check_stars(self) -> None:
        """Raises unless generated columns can be added to a query's rows.

        Raises:
            QueryError: a call with '*' would include them.
        """
        if self.query.star is not None:
            raise QueryError(
                f"'{sql(self.query.star)}' would include generated columns: name its columns instead of the '*'."
            )


def parse_text(text: str) -> exp.Query:
    """Returns the tree of a model's text, whose SELECTs are numbered.

    Raises:
        QueryError: it doesn't parse; with what to write instead of Flink's SQL.
    """
    try:
        tree = parse(text)
    except QueryError:
        flinks_words.check_flinks_words(text, None)
        raise
    left_over_commas.check_commas(text)
    select_numbers.number_selects(tree)
    hints.freeze_printed_columns(tree)
    return tree


def read_text(
    text: str,
    tree: exp.Query,
    known: Mapping[str, RelationInfo],
    ask: QueryRunner | None,
    watermark: bool = True,
) -> ReadText:
    """Takes the settings out of a text, normalizes it, and gives its streams and lookup tables the names of their views.
    Changes the tree. `watermark`: whether the current time is the watermark, and not the machine's."""
    # Several rules ask which relation has a column.
    ask = None if ask is None else cache(ask)
    flinks_words.check_flinks_words(text, tree)
    as_parsed = copied(tree)
    hint = mini_batch.take_hint(tree, text)
    rewrites = Rewrites(tree, text)
    query = normalize(tree, ask)
    if ask is not None:
        check_enumerated_texts(query.tree, ask)
    lookup_tables = lookups.replace_by_views(
        query.tree, [relation for relation, what in known.items() if what.lookup]
    )
    if watermark:
        event_clock.mark_watermarks(query.tree, known)
    streams = Streams(query.tree, known)
    if next(hints.windows_under(query.tree), None) is not None:
        event_clock.replace_clocks(query.tree)
    return ReadText(
        query=query,
        # Computed only if it is stored.
        clauses=cache(lambda: written_clauses(as_parsed)),
        hint=hint,
        lookup_tables=lookup_tables,
        streams=streams,
        rewrites=rewrites,
        within=WithinWindows(query.tree, streams, rewrites, batch=not watermark),
    )
