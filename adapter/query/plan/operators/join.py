"""`Join`: an inner join of changing inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from ..explanation import ALL_BOUNDED, AS_ITS_INPUT, WINDOW_END, Context, Explanation
from ..join_sides import states_of_sides
from ..lineage import Lineage
from ..operator import (
    ExpiringOperator,
    Operator,
    QueryOperator,
    Until,
    Wiring,
    rows_never_expire,
    ttl_of_stored_rows,
    with_inputs,
)
from ..query_lineage import lineage_over
from ..query_summary import Summary
from ..relation import Relation, weight_column
from ..relations.joined import JoinedRelations
from ..state.buffered_rows import ROW, TIMES, BufferedRows, Partitions
from ..time_bounds import TimeBounds, buffered_join_side


@dataclass(frozen=True, kw_only=True)
class Join(QueryOperator, ExpiringOperator):
    """An inner join of inputs that change: joins the changes of each input with all rows of the others.
    Keeps the rows that may still match: of an interval join until the watermark has passed the bounds of its
    time conditions."""

    shown_as = ("IntervalJoin", "RegularJoin")

    bounds: TimeBounds | None = None
    """Bounds of the times of matching rows; None if there are none."""

    @cached_property
    def until(self) -> tuple[Until, ...]:
        return tuple(self._until.values())

    @cached_property
    def _until(self) -> dict[str, Until]:
        return (self.bounds and self.bounds.until_for_inner_join()) or {}

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns pairs of rows: a pair is emitted when the last of its rows arrives, and expires with their window."""
        joined = JoinedRelations(self.query, below)
        return Relation(
            any(each.changes for each in below),
            delays=joined.delays(self.bounds.delays(self._until) if self.bounds else {}),
            keys=joined.keys,
            bounded=all(each.bounded for each in below),
            ends=joined.window_end_column if self.ends else None,
        )

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of its query, or of its text if that isn't understood."""
        return lineage_over("Join", self.tree, below)

    def generate(self, wiring: Wiring) -> None:
        """Stores each input's rows, and joins each input's changes with all rows of the others."""
        none = (None,) * len(self.inputs)
        sides = zip(self.inputs, self.ends or none, self.until or none, strict=True)
        stored = [self._buffered_side(wiring, each, end, last) for each, end, last in sides]
        terms = []
        for place, each in enumerate(stored):
            inputs = []
            for other, rows in enumerate(stored):
                text = rows.change_sql()
                if other > place:
                    text = rows.all_rows_before()
                elif other < place:
                    text = f"{rows.all_rows_before()}\nunion all\n{text}"
                inputs.append(self._unpacked_rows(text, other))
            terms.append(f"select * from (\n{with_inputs(self.sql, inputs)}\n)")
            wiring.add_state_table(each.state(), each)
        of_batch = with_inputs(
            self.sql, [self._unpacked_rows(each.change_sql(), n) for n, each in enumerate(stored)]
        )
        wiring.add_output_step(self, "\nunion all\n".join(terms), of_batch)

    def explain(self, context: Context) -> Explanation:
        """Returns its joins, and what clears the rows of each side."""

        def clears(each: Operator) -> str:
            if self.ends:
                return WINDOW_END
            # Under a TTL each row expires on its own.
            if rows_never_expire(each):
                return AS_ITS_INPUT
            return context.ttl_after("its last change" if each.relation.changes else "it came") or ALL_BOUNDED

        state = states_of_sides(
            self, self.query, context, need="that may still match", until=self.until, clears=clears
        )
        name = "IntervalJoin" if self.until else "RegularJoin"
        return self.explanation(context, Summary().describe(self.query)[1], name, state=state)

    def _unpacked_rows(self, rows: str, number: int) -> str:
        """Returns an input's rows with their columns; with their weights if they may be retracted."""
        weight = f", {TIMES} as {weight_column(number)}" if self.relation.changes else ""
        return f"select {ROW}.*{weight} from (\n{rows}\n)"

    @staticmethod
    def _buffered_side(wiring: Wiring, each: Operator, end: str | None, until: Until | None) -> BufferedRows:
        """Returns the buffered rows of one side. Under a TTL each row expires on its own; equal rows expire
        together if rows may be retracted."""
        if until is not None:
            return buffered_join_side(each, wiring.names, until)
        ttl = ttl_of_stored_rows(each, wiring.ttl) if end is None else 0
        if ttl is None or not each.relation.changes:
            return BufferedRows(each, wiring.names, ttl, ends=end)
        of_window = [] if end is None else ["until", end]
        each_row = Partitions("_".join(["rows", each.name, *of_window]), 1, ttl)
        stored = BufferedRows(each, wiring.names, ttl, each_row, (exp.column(ROW),), ends=end)
        if stored.part not in wiring.parts:
            keys = f"select distinct {ROW} as {each_row.names[0]} from (\n{stored.change_sql()}\n)"
            wiring.steps += each_row.steps(keys, [stored])
        return stored
