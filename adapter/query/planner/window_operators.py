"""Makes the window operators of a text, each once for equal rows, keys and aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from ...util.quoting import quote
from ..aggregates.aggregate_builder import AggregateBuilder, slice_columns
from ..aggregates.model import WindowAggregateSpec
from ..frontend import hints
from ..frontend.source_text import SourceText, text_to_compare
from ..frontend.streams import Streams
from ..normalize import event_clock
from ..normalize.rankings.ranks import Top
from ..plan.operators.window_aggregate import WindowAggregate
from ..plan.operators.window_buffer import WindowBuffer
from ..plan.state.window_steps import WindowBufferSpec, WindowSpec
from ..plan.window_operator import WindowOperator
from ..rewrites.stream_rewrites import Rewrites
from ..sql.clauses import table_names
from ..sql.dialect import canonical, sql
from ..sql.names import digest
from ..sql.nodes import copied, every
from ..windows import expansion
from ..windows.windows import Window

_Made = TypeVar("_Made", WindowAggregate, WindowBuffer)


class WindowOperators:
    """The window operators of a text.

    Args:
        streams: the streams of the text.
        rewrites: the rewrites that the text requests.
        at_once: whether the operators feed other windows as their rows arrive.
    """

    def __init__(self, streams: Streams, rewrites: Rewrites, at_once: bool) -> None:
        self._streams, self._rewrites, self._at_once = streams, rewrites, at_once
        self._by_name: dict[str, WindowOperator] = {}
        self._by_text: dict[str, WindowOperator] = {}
        """All that an operator computes, as text → the operator."""

    def read_by(self, query: exp.Expr) -> tuple[WindowOperator, ...]:
        """Returns the operators whose results a query reads, in the order in which they were made."""
        tables = table_names(query)
        return tuple(operator for name, operator in self._by_name.items() if name in tables)

    def aggregate(
        self, select: exp.Select, builder: AggregateBuilder, window: Window, time: str | None
    ) -> WindowAggregate:
        """Returns the operator of a GROUP BY over a windowing table function.

        Args:
            select: the GROUP BY.
            builder: its keys and aggregates.
            window: the window.
            time: see `WindowedRows.time_carries`.
        """
        text = canonical(select)
        if isinstance(there := self._by_text.get(text), WindowAggregate):
            return there
        below = self.read_by(select)
        keys = sorted((each.name, each.identity) for each in builder.keys)
        sets = builder.grouping_sets and [sorted(members) for members in builder.grouping_sets]
        identity = self._identity(select, builder.source, window, below, "groups", keys, sets)
        name = self._new_name(identity, text)
        enumerated = self._rewrites.enumerated_keys(select, name, builder)
        self._rewrites.record_split_distinct(select, name, builder)
        rows = builder.rows_query()
        spec = WindowAggregateSpec(
            name=name,
            identity=identity,
            window=window,
            reads=tuple(each.name for each in below),
            streams=_streams_under(select),
            filters_on_arrival=event_clock.filters_on_arrival(select),
            rows=sql(rows),
            read=rows,
            source=builder.source,
            keys=tuple(builder.keys),
            grouping_sets=builder.grouping_sets,
            metrics=tuple(builder.metrics.values()),
            distinct_sets=builder.distinct_sets,
            output=builder.output(f"{name}_windows"),
            session_keys=builder.session_keys,
            time_carries=time,
            enumerated=enumerated,
            written=builder.text.written,
        )
        return self._add(WindowAggregate, spec, below, text)

    def buffer(
        self, select: exp.Select, window: Window, reason: str, top: Top | None, time: str | None
    ) -> WindowBuffer:
        """Returns the operator that stores the rows of a windowing table function.

        Args:
            select: the windowing table function.
            window: its window.
            reason: why its rows are stored.
            top: the ranking whose first rows are stored; None if all are.
            time: see `WindowedRows.time_carries`.
        """
        key = f"{canonical(select)} {top}"
        if isinstance(there := self._by_text.get(key), WindowBuffer):
            return there
        read = hints.window_input(select)
        below, text = self.read_by(read), SourceText(read)
        rows = expansion.with_null_window_columns(sql(read), "below")
        items = ", ".join(f"{item} as {quote(name)}" for name, item in slice_columns(window).items())
        plain = text.rows_text(None)
        identity = self._identity(select, plain, window, below, "rows")
        name = self._new_name(identity, key)
        if top is not None and not window.merges and self._rewrites.topn_buckets is not None:
            top = replace(top, buckets=self._rewrites.topn_buckets)
            self._rewrites.record_split_ranking(name)
        spec = WindowBufferSpec(
            name=name,
            identity=identity,
            window=window,
            reads=tuple(each.name for each in below),
            streams=_streams_under(select),
            filters_on_arrival=event_clock.filters_on_arrival(read),
            rows=f"select {items}, struct(input.* {expansion.LEAVING_OUT}) as `row` from {rows} as input",
            read=copied(read),
            source=canonical(text.written),
            plain=plain,
            reason=reason,
            top=None if window.merges else top,
            time_carries=time,
            written=text.written,
        )
        return self._add(WindowBuffer, spec, below, key)

    def _add(
        self, kind: Callable[..., _Made], spec: WindowSpec, below: tuple[WindowOperator, ...], text: str
    ) -> _Made:
        """Returns a new operator.

        Args:
            kind: makes it.
            below: the operators whose results it reads.
            text: all that it computes.
        """
        made = kind(
            name=spec.name,
            label=str(spec.window),
            inputs=below,
            spec=spec,
            streams=self._relations(spec.streams),
            at_once=self._at_once,
        )
        self._by_name[spec.name] = self._by_text[text] = made
        return made

    def _identity(
        self, node: exp.Expr, source: str, window: Window, below: Sequence[WindowOperator], *more: object
    ) -> str:
        """Returns `WindowedRows.identity` of the operator in the place of a node.

        Args:
            source: text of its input rows.
            below: the operators whose results it reads.
            more: its kind and its keys.
        """
        streams = [self._streams.relation(view) for view in _streams_under(node)]
        identities = {each.name: each.spec.identity for each in below}
        return digest(self._at_once, window.hint(), streams, text_to_compare(source, identities), *more)

    def _new_name(self, identity: str, computes: str) -> str:
        """Returns a name made of an operator's identity. Two of one identity are distinguished by all that they compute."""
        name = f"window_{identity}"
        return name if name not in self._by_name else f"window_{digest(identity, computes)}"

    def _relations(self, views: Sequence[str]) -> tuple[str, ...]:
        """Returns the relations of streams, in the order of the text."""
        return tuple(each.relation for each in self._streams.streams.values() if each.view in views)


def _streams_under(node: exp.Expr) -> tuple[str, ...]:
    """Returns the views of the streams that a node reads."""
    names = (table.name for table in every(node, exp.Table) if hints.is_stream(table))
    return tuple(dict.fromkeys(names))
