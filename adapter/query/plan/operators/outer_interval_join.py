"""SQL of outer, semi and anti interval joins: a pair is emitted when its second row arrives, and an unmatched row once,
when it can't match any more (Flink's interval join). Results never change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ....util.quoting import quote
from ...normalize import conditions
from ...program import EXPIRES_AT, StateNames, StatePart
from ...sql.clauses import is_semi_or_anti
from ...sql.dialect import sql
from ..explanation import Context, Explanation
from ..join_sides import states_of_sides
from ..operator import QueryOperator, Until, Wiring, with_inputs
from ..query_summary import Summary
from ..relation import Relation
from ..relations.joined import JoinedRelations, preserved_sides
from ..state.buffered_rows import ROW, repeated_rows
from ..state.generations import not_reached_condition
from ..time_bounds import TimeBounds, buffered_join_side, storage_end_sql


@dataclass(frozen=True, kw_only=True)
class OuterIntervalJoin(QueryOperator):
    """An outer, semi or anti join of append-only inputs that time conditions bound. Pairs are emitted when the
    second row arrives; a row without a match is emitted once, when it can't find one any more. Keeps the rows
    that may still match, and those that decide whether a row has a match."""

    shown_as = ("IntervalJoin",)

    bounds: TimeBounds
    """Bounds of the times of matching rows, from ON: WHERE also applies to rows without a match."""

    @cached_property
    def pairs_sql(self) -> str | None:
        """SQL of the inner join; None for a semi or anti join."""
        return None if self._is_anti else sql(conditions.as_inner_join(self.query))

    @cached_property
    def unmatched_rows_sql(self) -> tuple[str | None, ...]:
        """Per input, SQL over both inputs for its rows without a match; None if they aren't part of the result."""
        return self._queries_of_preserved_sides("ANTI")

    @cached_property
    def matched_rows_sql(self) -> tuple[str | None, ...]:
        """Per input, SQL over both inputs for its rows with a match; None as in `unmatched_rows_sql`."""
        return self._queries_of_preserved_sides("SEMI")

    @cached_property
    def until(self) -> tuple[Until, ...]:
        """Per input, the watermark until which a row is stored."""
        return tuple((self.bounds.until_for_outer_join(preserved_sides(self.query)) or {}).values())

    @cached_property
    def matchable_until(self) -> tuple[Until, ...]:
        """Per input, the watermark until which a row may find matches."""
        return tuple(self._matchable_until.values())

    @cached_property
    def _matchable_until(self) -> dict[str, Until]:
        return self.bounds.until_for_inner_join() or {}

    @property
    def _is_anti(self) -> bool:
        return any(map(is_semi_or_anti, self.query.args["joins"]))

    def _queries_of_preserved_sides(self, kind: str) -> tuple[str | None, ...]:
        """Returns per preserved input the query for its rows with (SEMI) or without (ANTI) a match; None for others. In a
        semi or anti join all are None, as its own text selects its rows."""
        preserved = () if self._is_anti else preserved_sides(self.query)
        return tuple(
            sql(conditions.side_as_semi_join(self.query, number, kind)) if alias in preserved else None
            for number, alias in enumerate(self._matchable_until)
        )

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns rows that are only inserted. A row without a match is emitted when it expires, so only the column by which
        it expires has a known delay: the join conditions bound its other times for matched rows only."""
        joined, preserved = JoinedRelations(self.query, below), preserved_sides(self.query)
        delays = {
            (alias, column): delay
            for (alias, column), delay in self.bounds.delays(self._matchable_until).items()
            if alias not in preserved or [column] == [name for name, _ in self._matchable_until[alias]]
        }
        # Rows without a match may be distinguished by NULLs only.
        keys = () if conditions.has_outer_join(self.query) else joined.keys
        return Relation(delays=joined.delays(delays), keys=keys)

    def generate(self, wiring: Wiring) -> None:
        """Stores the rows of each side, and emits pairs and unmatched rows."""
        joined = MatchedAndUnmatched(self, wiring.names)
        wiring.add_output_step(self, *joined.change_sql())
        for part, rows in zip(joined.state(), joined.stored, strict=True):
            wiring.add_state_table(part, rows)

    def explain(self, context: Context) -> Explanation:
        """Returns its joins, and until when the rows of each side are stored."""
        state = states_of_sides(
            self, self.query, context, need="that may still match", until=self.until, clears=lambda _: ""
        )
        notes = ("A row that meets none comes once, when it can meet none any more.",)
        return self.explanation(
            context, Summary().describe(self.query)[1], *self.shown_as, state=state, notes=notes
        )


class MatchedAndUnmatched:
    """Steps and state of an `OuterIntervalJoin`."""

    def __init__(self, operator: OuterIntervalJoin, names: StateNames) -> None:
        self.operator = operator
        self.stored = [
            buffered_join_side(each, names, until)
            for each, until in zip(operator.inputs, operator.until, strict=True)
        ]

    def change_sql(self) -> tuple[str, str]:
        """Returns the emitted rows of a micro-batch, and the same for an empty state."""
        new = [_unpacked_rows(each.change_sql()) for each in self.stored]
        old = [_unpacked_rows(each.all_rows_before()) for each in self.stored]
        every = [f"{before}\nunion all\n{now}" for before, now in zip(old, new, strict=True)]
        due = [self._due_rows(n) for n in range(2)]
        pairs: list[str] = []
        of_batch: list[str] = []
        if self.operator.pairs_sql is not None:
            one, other = (self._still_matchable(n) for n in range(2))
            pairs = [
                with_inputs(self.operator.pairs_sql, inputs)
                for inputs in ([new[0], f"{other}\nunion all\n{new[1]}"], [one, new[1]])
            ]
            of_batch = [with_inputs(self.operator.pairs_sql, new)]
        unmatched = self._unmatched_rows([f"{before}\nunion all\n{now}" for before, now in due], every)
        first = [*of_batch, self._unmatched_rows([now for _, now in due], new)]
        return _union_all([*pairs, unmatched]), _union_all(first)

    def state(self) -> list[StatePart]:
        """Returns the state tables of both sides. Rows of a preserved side may be emitted when they expire."""
        emits = [each is not None for each in self.operator.unmatched_rows_sql]
        if self.operator.pairs_sql is None:
            emits = [True, False]
        return [
            replace(each.state(), closes=EXPIRES_AT) if waits else each.state()
            for each, waits in zip(self.stored, emits, strict=True)
        ]

    def _still_matchable(self, number: int) -> str:
        """Returns the stored rows of an input that late rows may match: those that weren't emitted as unmatched."""
        rows, matched = self.stored[number].all_rows_before(), self.operator.matched_rows_sql[number]
        if matched is None:
            return _unpacked_rows(rows)
        waits = not_reached_condition(
            storage_end_sql(self.operator.matchable_until[number], ROW), "watermark_before"
        )
        waiting, passed = (f"select * from (\n{rows}\n) where {which}" for which in (waits, f"not {waits}"))
        inputs = [_unpacked_rows(each.all_rows_before()) for each in self.stored]
        inputs[number] = _unpacked_rows(passed)
        return _union_all([_unpacked_rows(waiting), with_inputs(matched, inputs)])

    def _due_rows(self, number: int) -> tuple[str, str]:
        """Returns the rows of an input that can't match after this micro-batch: the stored ones, and the new ones."""
        stored, until = self.stored[number], storage_end_sql(self.operator.matchable_until[number], ROW)
        passed = f"not {not_reached_condition(until)}"
        # A row without a time never matches.
        timeless = " and ".join(
            f"{ROW}.{quote(column)} is null" for column, _ in self.operator.matchable_until[number]
        )
        new = f"select * from (\n{stored.change_sql()}\n) where {passed} or {timeless}"
        waited = not_reached_condition(until, "watermark_before")
        before = f"select * from (\n{stored.all_rows_before()}\n) where {passed} and {waited}"
        return _unpacked_rows(before), _unpacked_rows(new)

    def _unmatched_rows(self, due: list[str], every: list[str]) -> str:
        """Returns the query over the rows that are due and unmatched.

        Args:
            due: for each input, the rows that can't match any more.
            every: for each input, all rows.
        """
        if self.operator.pairs_sql is None:
            return with_inputs(self.operator.sql, [due[0], every[1]])
        inputs = []
        for number, text in enumerate(self.operator.unmatched_rows_sql):
            if text is None:
                inputs.append(
                    f"select * from (\n{_unpacked_rows(self.stored[number].change_sql())}\n) where false"
                )
            else:
                inputs.append(with_inputs(text, due[:1] + every[1:] if number == 0 else every[:1] + due[1:]))
        return with_inputs(self.operator.sql, inputs)


def _unpacked_rows(packed: str) -> str:
    return repeated_rows(packed, False)


def _union_all(texts: list[str]) -> str:
    return "\nunion all\n".join(f"select * from (\n{text}\n)" for text in texts)
