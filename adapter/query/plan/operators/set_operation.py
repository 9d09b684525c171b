"""SQL of a set operation. The state counts each row per side; its multiplicity in the result follows from both counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....util.quoting import quote
from ...program import EXPIRES_AT, STEP, StateLookup, StatePart, Step, clock_sql
from ..explanation import ALL_BOUNDED, BOUNDED, FEW_ROWS, Context, Explanation
from ..lineage import Lineage, lineage_by_position
from ..operator import ExpiringOperator, Wiring, rows_never_expire
from ..relation import WEIGHT, Relation
from ..state import generations
from ..state.generations import NO_STEP, SINCE, generations_of_keys, rows_of_keys

_TIMES = {
    "distinct": "if(l + r > 0, 1, 0)",
    "union": "if(l + r > 0, 1, 0)",
    "intersect": "if(l > 0 and r > 0, 1, 0)",
    "intersect all": "least(l, r)",
    "except": "if(l > 0 and r <= 0, 1, 0)",
    "except all": "greatest(l - r, 0)",
}


@dataclass(frozen=True, kw_only=True)
class SetOperation(ExpiringOperator):
    """UNION, INTERSECT and EXCEPT, with and without ALL, and DISTINCT where columns lack a name of their own.
    Keeps the count of each row, per side."""

    operation: str
    """A key of `_TIMES`."""
    has_few_rows: bool = False
    """Whether the set of distinct rows doesn't grow."""

    @property
    def multiplicity_sql(self) -> str:
        """Returns SQL for the multiplicity of a row in the result, over ``l`` and ``r``, its multiplicities per side."""
        return _TIMES[self.operation]

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns rows that expire with the windows of both sides. Only a union may be append-only. With ALL there may be
        more and more equal rows."""
        has_few_rows = self.has_few_rows and not self.operation.endswith(" all")
        return Relation(
            self.operation not in ("distinct", "union") or any(each.changes for each in below),
            ends=self.ends[0] if self.ends else None,
            bounded=has_few_rows or all(each.bounded for each in below),
        )

    def rows_never_expire(self, below: Sequence[bool]) -> bool:
        """Whether its rows never expire: for INTERSECT if the rows of one side don't, for EXCEPT if those of the left side
        don't, and otherwise if those of both sides don't."""
        if self.operation.startswith("intersect"):
            return any(below)
        return below[0] if self.operation.startswith("except") else super().rows_never_expire(below)

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of both sides' rows; columns are identified by position."""
        return lineage_by_position(
            "set", self.multiplicity_sql, *(each.meaning for each in below), like=below[0]
        )

    def generate(self, wiring: Wiring) -> None:
        """Counts each row per side, and emits the changes of its multiplicity in the result."""
        counts = RowCounts(self, wiring.name_in_state(self.name), self.expires_after(wiring.ttl))
        wiring.steps += counts.steps()
        wiring.add_output_step(self, counts.change_sql())
        wiring.add_state_table(counts.state(), self)

    def clearing_phrase(self, context: Context, last: str = "the last change") -> str:
        """Returns what clears its state, as a phrase: nothing, if the set of its rows doesn't grow."""
        found = super().clearing_phrase(context, last)
        are_inputs_bounded = all(each.relation.bounded for each in self.inputs)
        return FEW_ROWS if found in (BOUNDED, ALL_BOUNDED) and not are_inputs_bounded else found

    def explain(self, context: Context) -> Explanation:
        """Returns the operation, and that its state counts rows."""
        state = context.state_tables(
            {}, ("how often a row is there, on either side", self.clearing_phrase(context))
        )
        return self.explanation(context, self.label, state=state)


_FOUND = "__found"
"""Column that says whether the state has the changed row."""


class RowCounts:
    """Steps and state of a `SetOperation`.

    Args:
        part: name of the state table.
        ttl: microseconds of event time after which a row that is idle on both sides expires. None for never.
    """

    def __init__(self, operator: SetOperation, part: str, ttl: int | None) -> None:
        self.operator, self.part, self.ttl = operator, part, ttl
        self.row, self.left, self.right = (quote(f"{part}_{name}") for name in ("row", "left", "right"))
        self._busy = f"own.{self.row}.{quote(operator.ends[0])}" if operator.ends else None
        # A row isn't idle while it is on a side whose rows never expire.
        sides = zip((self.left, self.right), operator.inputs, strict=False)
        self._holding = [] if operator.ends else [side for side, each in sides if rows_never_expire(each)]
        self.changed, self.generations, self.counted = (
            f"{operator.name}_{name}" for name in ("changed", "generations", "met")
        )

    def steps(self) -> list[Step]:
        """Returns the steps with the changed rows, under a TTL their generations, and their counts per side."""
        found = [Step(self.changed, self._changed_rows(), persist=True)]
        if self.ttl is not None:
            columns = ", ".join([self.row, SINCE, EXPIRES_AT, *self._holding])
            known = rows_of_keys(
                f"(\nselect {columns} from state where part = '{self.part}'\n)", [self.row], self.changed
            )
            if self._holding:
                until = f"if({self._held_condition()}, {generations.FOR_EVER}, {EXPIRES_AT}) as {EXPIRES_AT}"
                known = f"select {self.row}, {SINCE}, {until} from (\n{known}\n)"
            rows = f"select {self.row} from {self.changed}"
            found.append(
                Step(
                    self.generations,
                    generations_of_keys(rows, known, [self.row]),
                    persist=True,
                    initial=f"select own.*, {clock_sql(STEP)} as {SINCE} from (\n{rows}\n) as own",
                )
            )
        known, none = self._stored_counts(), f"select * from {self.changed} where false"
        asks = (StateLookup(self.part, _FOUND),)
        found.append(
            Step(
                self.counted,
                self._counts_before_and_after(known),
                initial=self._counts_before_and_after(none),
                state_lookups=asks,
            )
        )
        return found

    def _changed_rows(self) -> str:
        sides = []
        for number, each in enumerate(self.operator.inputs):
            weight = f"own.{WEIGHT}" if each.relation.changes else "1L"
            hidden = f" except ({WEIGHT})" if each.relation.changes else ""
            counts = [f"{weight if place == number else '0L'} as __side_{place}" for place in range(2)]
            sides.append(f"select own.*{hidden}, {', '.join(counts)} from {each.name} as own")
        united = "\nunion all\n".join(sides)
        return (
            f"select {self.row}, sum(__side_0) as {self.left}, sum(__side_1) as {self.right} from (\n"
            f"select struct(* except (__side_0, __side_1)) as {self.row}, __side_0, __side_1 from (\n{united}\n)\n"
            f") group by {self.row} having sum(__side_0) <> 0 or sum(__side_1) <> 0"
        )

    def _stored_counts(self) -> str:
        """Returns the stored counts of the changed rows, per side."""
        state = f"from state where part = '{self.part}'"
        if self.ttl is None:
            rows = f"select {self.row}, {self.left}, {self.right} {state}"
            summed = f"sum({self.left}) as {self.left}, sum({self.right}) as {self.right}"
            return (
                f"select {self.row}, {summed} from (\n"
                f"{rows_of_keys(f'({rows})', [self.row], self.changed)}\n) group by {self.row}"
            )
        rows = (
            f"select {STEP} as {generations.ADDED_IN}, {SINCE}, {self.row}, {self.left}, {self.right} {state}"
        )
        return generations.rows_with_multiplicity(
            rows_of_keys(f"({rows})", [self.row, SINCE], self.generations),
            [self.row],
            [self.left, self.right],
        )

    def _held_condition(self) -> str:
        """SQL predicate: a stored row is present on the side that never expires."""
        (side,) = self._holding
        return f"sum({side}) over (partition by {self.row}) > 0"

    def _counts_before_and_after(self, known: str) -> str:
        """Returns the counts of the changed rows per side, before and after the micro-batch."""
        row, left, right = self.row, self.left, self.right
        # A count can't be negative: the retracted row has expired.
        after = (
            f"greatest(0L, l + {left}) as l_after, greatest(0L, r + {right}) as r_after"
            if self.ttl is not None
            else f"l + {left} as l_after, r + {right} as r_after"
        )
        return (
            f"select {row}, l as l_before, r as r_before, {after}, {_FOUND} from (\n"
            f"select changed.*, coalesce(known.{left}, 0L) as l, coalesce(known.{right}, 0L) as r, "
            f"known.{left} is not null as {_FOUND}\n"
            f"from {self.changed} as changed left join (\n{known}\n) as known on changed.{row} <=> known.{row}\n)"
        )

    def change_sql(self) -> str:
        """Returns the change of the result."""
        row = self.row
        before = f"(select {row}, l_before as l, r_before as r, -1 as way from {self.counted})"
        after = f"(select {row}, l_after as l, r_after as r, 1 as way from {self.counted})"
        summed = (
            f"select {row}, cast(sum(way * ({self.operator.multiplicity_sql})) as bigint) as {WEIGHT} from (\n"
            f"select * from {before} union all select * from {after}\n) group by {row}"
        )
        weight = f", {WEIGHT}" if self.operator.relation.changes else ""
        return f"select {row}.*{weight} from (\n{summed}\n) where {WEIGHT} <> 0"

    def state(self) -> StatePart:
        counts = f"{self.row}, {self.left}, {self.right}"
        if self.ttl is None:
            append = f"select {clock_sql(STEP)} as {STEP}, own.* from {self.changed} as own"
            fold = (
                f"select {NO_STEP}, {self.row}, sum({self.left}) as {self.left}, sum({self.right}) as {self.right}\n"
                f"from state where part = '{self.part}' group by {self.row} "
                f"having sum({self.left}) <> 0 or sum({self.right}) <> 0"
            )
            return StatePart(self.part, append, fold, closes=None)
        append = (
            f"select {clock_sql(STEP)} as {STEP}, own.*, generations.{SINCE}, "
            f"{generations.expiry_item(self.ttl, self._busy)}\n"
            f"from {self.changed} as own "
            f"join {self.generations} as generations on own.{self.row} <=> generations.{self.row}"
        )
        stored = [counts, *generations.generation_items(True)]
        if self._holding:
            stored.append(f"{self._held_condition()} as {generations.HELD}")
        rows = generations.unexpired_rows(
            f"select {', '.join(stored)} from state where part = '{self.part}'",
            [self.row],
            "watermark_after",
            held=bool(self._holding),
        )
        merged = generations.rows_with_multiplicity(
            rows, [self.row, generations.GENERATION, generations.UNTIL], [self.left, self.right]
        )
        until = f"{generations.GENERATION} as {SINCE}, {generations.UNTIL} as {EXPIRES_AT}"
        fold = f"select {NO_STEP}, {counts}, {until} from (\n{merged}\n)"
        return StatePart(self.part, append, fold, closes=None, forgets=self.ttl or None)
