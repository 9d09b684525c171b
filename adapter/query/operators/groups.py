"""SQL of a GROUP BY whose result is a change: of each touched key the old row goes and the new one comes."""

from __future__ import annotations

from ..continuous.groups import Groups
from ..continuous.lives import NO_STEP, matching, same
from ..plan import DistinctSet, GroupStage
from ..program import STEP, StatePart, Step, now
from ..windows import quote
from .conditions import INEXACT
from .relation import WEIGHT


class GroupChanges(Groups):
    """The pieces of a `GroupAggregate`: as `Groups`, but finished before the state is written, and with the rows of
    before.

    Args:
        stage: the stage, called as its state; its rows read the views of the micro-batch.
        ttl: microseconds after which an idle key expires; None: never.
        name: the relation of the change.
        replayed: whether that has all groups of the state, as if they came in this step.
    """

    def __init__(self, stage: GroupStage, ttl: int | None, name: str, replayed: bool = False) -> None:
        super().__init__(stage, ttl, fused=True)
        self.name, self.replayed = name, replayed
        self._of_batch_too = False
        self.keeps_given = any(metric.function in INEXACT for metric in stage.metrics)
        """Whether the state has the row that each key gave last, to be retracted as it was."""
        self.given, self.given_part = quote(f"{stage.name}_given"), f"{stage.name}_given"
        self.after = f"{stage.name}_after"

    def steps(self) -> list[Step]:
        """Up to the change of the result."""
        found = [Step(self.rows, self.rows_text(), persist=True), *self.ingest()]
        assert found[-1].name == self.name and found[-2].name == self.changed
        for members in self.stage.distinct_sets if self.signed else ():
            found.insert(-2, Step(self._new(members), self._counts(members), persist=True))
        if self.replayed:
            self._of_batch_too = True
            rows = self._finished(self.lives.alive(self.known_and_new()))
            self._of_batch_too = False
            everything = Step(self.after, rows, persist=True)
            return [
                *found[:-1],
                everything,
                Step(self.name, f"select *, 1L as {WEIGHT} from {self.after}", persist=True),
            ]
        columns = ", ".join(self._columns())
        known = f"select {columns} from (\n{matching(self.part, self.keys, self.changed)}\n)"
        both = f"{known}\nunion all\nselect {columns} from {self.changed}"
        before = self._finished(self.lives.going_on(known), self.changed)
        self._of_batch_too = True
        after = self._finished(self.lives.latest(both), self.changed)
        self._of_batch_too = False
        if self.keeps_given:
            before = self._last_given()
        found[-1] = Step(self.after, after, persist=True, initial=self._first())
        change = (
            f"select __row.*, sum(__times) as {WEIGHT} from (\n"
            f"select struct(*) as __row, 1L as __times from {self.after}\n"
            f"union all\nselect struct(*) as __row, -1L as __times from (\n{before}\n)\n"
            f") group by __row having sum(__times) <> 0"
        )
        found.append(
            Step(self.name, change, persist=True, initial=f"select *, 1L as {WEIGHT} from {self.after}")
        )
        return found

    def _last_given(self) -> str:
        """The row that each touched key gave last."""
        by = f" group by {', '.join(self.keys)}" if self.keys else ""
        last = f"max_by({self.given}, coalesce({STEP}, -1L)) as {self.given}"
        given = self.lives.going_on(matching(self.given_part, self.keys, self.changed))
        rows = f"select {last} from (\n{given}\n){by}"
        return f"select {self.given}.* from (\n{rows}\n) where {self.given} is not null"

    def _given(self) -> StatePart:
        """The rows that touched keys give, or NULL where they give none any more."""
        own = [*self.keys, *self.lives.since]
        keys = [f"touched.{key}" for key in own]
        on = same("touched", "own", self.keys) if self.keys else "true"
        of = self.after if self.replayed else self.changed
        touched = f"select distinct {', '.join(own) or 'true as anything'} from {of}"
        append = (
            f"select {', '.join([f'{now(STEP)} as {STEP}', *keys, f'own.{self.given}'])} from (\n{touched}\n) as touched\n"
            f"left join (select {', '.join([*self.keys, f'struct(*) as {self.given}'])} from {self.after}) as own on {on}"
        )
        by = f" group by {', '.join(own)}" if own else ""
        last = f"max_by({self.given}, coalesce({STEP}, -1L)) as {self.given}"
        living = self.lives.of_living(self.given_part)
        folded = f"select {', '.join([*own, last])} from (\n{living}\n){by}"
        fold = f"select {', '.join([NO_STEP, *own, self.given])} from (\n{folded}\n) where {self.given} is not null"
        return StatePart(self.given_part, append, fold, closes=None, forgets=self.lives.ttl or None)

    def _first(self) -> str:
        if not self.signed or not self.stage.distinct_sets:
            return self._finished(f"select * from {self.changed}")
        self._of_batch_too, self._only_batch = True, True
        made = self._finished(f"select * from {self.changed}", self.changed)
        self._of_batch_too, self._only_batch = False, False
        return made

    _only_batch = False

    def parts(self) -> list[StatePart]:
        """The kinds of state rows."""
        found = super().parts()
        if self.keeps_given:
            found.append(self._given())
        if not self.signed:
            return found
        listed = []
        for part in found:
            members = next((m for m in self.stage.distinct_sets if self._part(m) == part.name), None)
            append = part.append if members is None else f"select * from {self._new(members)}"
            listed.append(
                StatePart(part.name, append, part.fold, closes=None, merges=part.merges, forgets=part.forgets)
            )
        return listed

    def _of_values(self, members: DistinctSet, touched: str | None) -> str:
        if not self._of_batch_too:
            return super()._of_values(members, touched)
        numbers = self._numbers(members)
        identity = [*self.lives.since, *self.keys, *self._values(members)]
        columns = ", ".join([*identity, *numbers])
        new = f"select {columns} from {self._new(members)}"
        if self._only_batch:
            return self._metrics_of(members, new)
        return self._metrics_of(
            members,
            f"select {columns} from (\n{matching(self._part(members), self.keys, touched)}\n)\nunion all\n{new}",
        )
