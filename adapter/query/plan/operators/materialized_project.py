"""SQL that stores the output of a non-deterministic projection, so that it can be retracted unchanged.

Flink's lookup join does the same (*upsert-materialize*). If an input row that is stored arrives again, its stored output
is emitted again; that of a row that was retracted or expired is computed again, with another `SINCE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ....util.quoting import quote
from ...program import EXPIRES_AT, STEP, Lookup, StatePart, Step, clock_sql
from ..explanation import WINDOW_END, Context, Explanation
from ..operator import ExpiringOperator, QueryOperator, Wiring, with_inputs
from ..query_summary import ROW_BY_ROW, Summary, tables_read_by
from ..relation import GIVEN_BY, WEIGHT, Relation
from ..relations.passed import passed_relation
from ..state import generations
from ..state.buffered_rows import ROW, TIMES, packed_change, summed_rows
from ..state.generations import GENERATION, NO_STEP, SINCE, not_reached_condition, rows_of_keys


@dataclass(frozen=True, kw_only=True)
class MaterializedProject(QueryOperator, ExpiringOperator):
    """A projection of an updating table that may return another result when it is computed again: a static
    table may have changed, and rand() differs. Keeps the output of each input row, to retract it unchanged."""

    shown_as = ROW_BY_ROW
    depends_on_watermark = False

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns what passes through from its input. The output of a row is stored, so it is repeatable."""
        (rows,) = below
        return replace(passed_relation(self.query, rows), repeatable=rows.repeatable)

    @property
    def lookup_query(self) -> exp.Select:
        return self.query

    def generate(self, wiring: Wiring) -> None:
        """Computes the projection of rows that aren't stored, and retracts stored output unchanged."""
        outputs = StoredOutputs(self, wiring.name_in_state(self.name), self.expires_after(wiring.ttl))
        wiring.steps += outputs.steps(wiring.lookups(self, [outputs.rows_to_compute]))
        wiring.add_output_step(self, outputs.change_sql())
        wiring.add_state_table(outputs.state(), self)

    def explain(self, context: Context) -> Explanation:
        """Returns the same as for a `Project`, with the rows that are stored."""
        name, text = Summary(self.inputs[0].expressions).describe(self.query)
        rows = "a row that is there, and what it gave, to be retracted as it was"
        clears = WINDOW_END if self.ends else self.ttl_phrase(context, "the row's last change")
        state = context.state_tables({}, (rows, clears or "when the row goes"))
        return self.explanation(
            context, text or "its rows", name, state=state, reads=tables_read_by(self.query)
        )


_GIVEN, _IS_NEW = "__given", "__is_new"


class StoredOutputs:
    """Steps and state of a `MaterializedProject`.

    Args:
        part: name of the state table.
        ttl: microseconds of event time after which an idle row expires. None for never.
    """

    def __init__(self, operator: MaterializedProject, part: str, ttl: int | None) -> None:
        self.operator, self.part, self.ttl = operator, part, ttl
        (self.below,) = operator.inputs
        self.row, self.given, self.times = (
            quote(f"{self.part}_{name}") for name in ("row", "given", "times")
        )
        self.changed, self.known, self.new, self.all = (
            f"{operator.name}_{name}" for name in ("changed", "known", "new", "all")
        )

    @property
    def rows_to_compute(self) -> str:
        """Returns the rows that the projection is computed for in a micro-batch: those that aren't stored."""
        return f"select {ROW}.*, {ROW} as {GIVEN_BY} from {self.new}"

    def steps(self, lookups: tuple[Lookup, ...] = ()) -> list[Step | Lookup]:
        """Returns the steps with the changed rows and their weights, their stored outputs, and the outputs of all.

        Args:
            lookups: external tables that the projection reads.
        """
        inserted = f"select {ROW}, {TIMES} from {self.changed} where {TIMES} > 0"
        not_stored = f"({inserted}) as own\nleft anti join {self.known} as known on own.{ROW} <=> known.{ROW}"
        stored = (
            f"select own.{ROW}, own.{TIMES}, known.{_GIVEN}, known.{GENERATION}, false as {_IS_NEW}\n"
            f"from {self.changed} as own join {self.known} as known on own.{ROW} <=> known.{ROW}"
        )
        return [
            Step(self.changed, summed_rows(packed_change(self.below)), persist=True),
            Step(
                self.known,
                self._stored_output(),
                persist=True,
                initial=f"select {ROW} from {self.changed} where false",
            ),
            Step(self.new, f"select own.* from {not_stored}", persist=True, initial=inserted),
            *lookups,
            Step(
                self.all,
                f"{stored}\nunion all\n{self._computed_outputs()}",
                persist=True,
                initial=self._computed_outputs(),
            ),
        ]

    def _stored_output(self) -> str:
        """Returns the stored outputs of changed rows."""
        rows = rows_of_keys(f"(\n{self._stored_rows()}\n)", [ROW], self.changed)
        return f"select {ROW}, {_GIVEN}, {GENERATION} from (\n{self._merged_changes(rows, 'watermark_before')}\n)"

    def _stored_rows(self) -> str:
        until = "" if self.ttl is None else f", {EXPIRES_AT} as {generations.UNTIL}"
        return (
            f"select {self.row} as {ROW}, {self.given} as {_GIVEN}, {self.times} as {TIMES}, "
            f"{SINCE} as {GENERATION}{until} "
            f"from state where part = '{self.part}'"
        )

    def _merged_changes(self, rows: str, watermark: str) -> str:
        """Merges the stored changes of each row. Only its first insertion has the output."""
        until, alive = "", ""
        if self.ttl is not None:
            until = f", max({generations.UNTIL}) as {generations.UNTIL}"
            alive = f" and {not_reached_condition(f'max({generations.UNTIL})', watermark)}"
        return (
            f"select {ROW}, max_by({_GIVEN}, {_GIVEN} is not null) as {_GIVEN}, sum({TIMES}) as {TIMES}, "
            f"{GENERATION}{until}\nfrom (\n{rows}\n) group by {ROW}, {GENERATION} having sum({TIMES}) > 0{alive}"
        )

    def _computed_outputs(self) -> str:
        """Returns the changed rows that aren't stored, with the outputs that are computed for them."""
        text = with_inputs(self.operator.sql, [self.rows_to_compute])
        computed = (
            f"select {ROW}, collect_list({_GIVEN}) as {_GIVEN} from (\n"
            f"select {GIVEN_BY} as {ROW}, struct(* except ({GIVEN_BY})) as {_GIVEN} from (\n{text}\n)\n) group by {ROW}"
        )
        return (
            f"select own.{ROW}, own.{TIMES}, found.{_GIVEN}, {clock_sql(STEP)} as {GENERATION}, true as {_IS_NEW}\n"
            f"from {self.new} as own left join (\n{computed}\n) as found on own.{ROW} <=> found.{ROW}"
        )

    def change_sql(self) -> str:
        """Returns the change of the result."""
        return (
            f"select __each.*, {TIMES} as {WEIGHT} from (\n"
            f"select __each, {TIMES} from {self.all} lateral view explode({_GIVEN}) each as __each\n)"
        )

    def state(self) -> StatePart:
        items = (
            f"{ROW} as {self.row}, {_GIVEN} as {self.given}, {TIMES} as {self.times}, {GENERATION} as {SINCE}"
        )
        until, expires = "", ""
        if self.ttl is not None:
            ends = self.operator.ends
            busy = f"own.{ROW}.{quote(ends[0])}" if ends else None
            until, expires = (
                f", {generations.expiry_item(self.ttl, busy)}",
                f", {generations.UNTIL} as {EXPIRES_AT}",
            )
        changes = (
            f"select {ROW}, if({_IS_NEW}, {_GIVEN}, null) as {_GIVEN}, {TIMES}, {GENERATION} from {self.all}"
        )
        merged = self._merged_changes(self._stored_rows(), "watermark_after")
        return StatePart(
            self.part,
            f"select {clock_sql(STEP)} as {STEP}, {items}{until} from (\n{changes}\n) as own",
            f"select {NO_STEP}, {items}{expires} from (\n{merged}\n)",
            closes=None,
            forgets=self.ttl or None,
        )
