"""SQL of OVER in order of event time: rows wait for the watermark, and are kept while frames of later ones reach back to
them.

Under a TTL a partition that had no row for so long begins anew: its rows from before the gap are of another *generation*.
Their event times alone say so, so it is the same however the input is cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....util.quoting import quote
from ...program import STEP, Rows, StatePart, Step, now
from ...sql.intervals import HOUR
from ..base import OVER_LIFE, OverAggregate, Source, in_order, over
from ..relation import WEIGHT
from ..time_bounds import expires
from .buffered_rows import ROW
from .key_generations import NO_STEP, lasts, later, of_keys
from .ranked_rows import DUE

_TIME, _BEFORE = "__time", "__before"
_SLACK = 3 * HOUR
"""Spark counts days on the session's clock, which is put forward and back."""


class OrderedRows:
    """The pieces of an `OverAggregate`.

    Args:
        operator: the operator.
        ttl: microseconds of event time after which an idle partition begins anew; None: never.
    """

    def __init__(self, operator: OverAggregate, ttl: int | None) -> None:
        self.operator, self.ttl, self.part = operator, ttl, operator.name
        (self.below,) = operator.inputs
        self.row = quote(f"{self.part}_row")
        self.keys = [f"__key_{n}" for n in range(len(operator.keys))]
        self.runs = [each.column for each in operator.running]
        self.due, self.touched = f"{self.part}_due", f"{self.part}_touched"

    def rows(self) -> Rows | None:
        """Its input, of which late rows are dropped; None: rows come in order, and none is."""
        if not self.operator.waits:
            return None
        time = f"own.{quote(self.operator.time)}"
        return Rows(
            f"{self.part}_rows",
            f"select struct(own.*) as {ROW}, {time} as event_time, {_due_at(f'cast({time} as timestamp)')} as expires_at\n"
            f"from {self.below.name} as own",
            tuple(each.view for each in in_order(self.below) if isinstance(each, Source)),
        )

    def steps(self) -> list[Step]:
        """What is put out in the micro-batch, of which partitions, and what the frames of these rows give."""
        came, kept = self._came(), self._stored()
        if self.operator.waits:
            waited = f"{came}\nunion all\nselect * from (\n{kept}\n) where not {_passed('watermark_before')}"
            due, of_batch = (f"select * from (\n{rows}\n) where {_passed()}" for rows in (waited, came))
            kept = f"select * from (\n{kept}\n) where {_passed('watermark_before')}"
        else:
            due = of_batch = came
        reached = of_keys(f"(\n{self._keyed(kept)}\n)", self.keys, self.touched)
        put_out = f"select *, 1L as {WEIGHT} from {self.due}"
        touched = f"select distinct {', '.join(self.keys) or 'true as anything'} from {self.due}"
        return [
            Step(self.due, self._keyed(due), persist=True, initial=self._keyed(of_batch)),
            Step(self.touched, touched, persist=True),
            Step(
                self.operator.name,
                self._computed(f"{put_out}\nunion all\nselect *, 0L as {WEIGHT} from (\n{reached}\n)"),
                persist=True,
                initial=self._computed(put_out),
            ),
        ]

    def state(self) -> StatePart:
        """The part of the state: rows that wait, and those that frames reach back to."""
        ends = [micros for _, micros in self.operator.until]
        lengths = [each for each in (self.ttl, self.operator.reach.micros, *ends) if each]
        return StatePart(
            self.part,
            f"select {now(STEP)} as {STEP}, {self._items()} from (\n{self._came()}\n)",
            self._fold(),
            closes=DUE if self.operator.waits else None,
            forgets=min(lengths, default=None),
        )

    # -- rows --------------------------------------------------------------------------------------

    def _came(self) -> str:
        source = (
            f"{self.part}_rows"
            if self.operator.waits
            else f"(select struct(*) as {ROW} from {self.below.name})"
        )
        rows = f"select {ROW}, {self._time} as {_TIME} from {source}"
        if not self.runs:
            return rows
        own = [f"{each.value} as {each.column}" for each in self.operator.running]
        return f"select {', '.join([ROW, _TIME, *own])}\nfrom {self._as_rows(rows)}"

    def _stored(self) -> str:
        runs = [f"{self._stored_run(name)} as {name}" for name in self.runs]
        kept = f"select {', '.join([f'{self.row} as {ROW}', *runs])} from state where part = '{self.part}'"
        return f"select {', '.join([ROW, f'{self._time} as {_TIME}', *self.runs])} from (\n{kept}\n)"

    def _stored_run(self, name: str) -> str:
        return quote(f"{self.part}{name}")

    def _as_rows(self, rows: str, runs: Sequence[str] = ()) -> str:
        """For FROM: rows as the query has them, each with itself, its time and its running values beside its columns."""
        own = ", ".join([f"{ROW}.*", ROW, _TIME, *runs])
        return f"(\nselect {own} from (\n{rows}\n)\n) as {quote(self.operator.alias)}"

    def _keyed(self, rows: str) -> str:
        keys = [f"{key} as {name}" for key, name in zip(self.operator.keys, self.keys, strict=True)]
        return f"select {', '.join([ROW, _TIME, *self.runs, *keys])}\nfrom {self._as_rows(rows, self.runs)}"

    def _items(self) -> str:
        runs = [f"{name} as {self._stored_run(name)}" for name in self.runs]
        return ", ".join([f"{ROW} as {self.row}", *runs]) + (
            f", {_due_at(_TIME)} as {DUE}" if self.operator.waits else ""
        )

    @property
    def _time(self) -> str:
        return f"cast({ROW}.{quote(self.operator.time)} as timestamp)"

    def _within(self, order: str = "") -> str:
        """An OVER clause of the partitions."""
        by = f"partition by {', '.join(self.keys)}" if self.keys else ""
        return f"over ({' '.join(filter(None, (by, order)))})"

    def _computed(self, rows: str) -> str:
        """The query over rows of whole frames, less those that are only in them."""
        life = ""
        if self.ttl is not None:
            life = f", {OVER_LIFE}"
            gap = f"unix_micros({_TIME}) - unix_micros({_BEFORE}) >= {self.ttl}"
            before = f"lag({_TIME}) {self._within(f'order by {_TIME}')} as {_BEFORE}"
            so_far = self._within(f"order by {_TIME}")  # rows of one time are of one generation
            rows = f"select *, sum(if({gap}, 1, 0)) {so_far} as {OVER_LIFE}\nfrom (\nselect *, {before} from (\n{rows}\n)\n)"
        runs = "".join(f", {name}" for name in self.runs)
        text = over(self.operator.sql, [f"select {ROW}.*, {WEIGHT}{runs}{life} from (\n{rows}\n)"])
        return f"select * except ({WEIGHT}) from (\n{text}\n) where {WEIGHT} = 1"

    def _fold(self) -> str:
        reach = self.operator.reach
        still = [f"__place <= {reach.rows}"] if reach.rows else []
        still += [lasts(later(_TIME, reach.micros + _SLACK + 1))] if reach.micros else []
        still += ["true"] if reach.everything else []
        needed = f"({' or '.join(still) or 'false'})"
        if self.ttl is not None:
            needed += f" and {lasts(later('__newest', self.ttl))}"
        if self.operator.until:
            needed += f" and {lasts(expires(self.operator.until, ROW))}"
        rows = self._keyed(self._stored())
        before = f"select * from (\n{rows}\n) where {_passed()}" if self.operator.waits else rows
        # Rows of one time have one place: which of them frames take isn't decided here.
        placed = (
            f"select *, rank() {self._within(f'order by {_TIME} desc')} as __place, "
            f"max({_TIME}) {self._within()} as __newest from (\n{before}\n)"
        )
        kept = (
            self._totals(before) if self.runs else f"select {ROW}, {_TIME} from (\n{placed}\n) where {needed}"
        )
        if self.operator.waits:
            listed = ", ".join([ROW, _TIME, *self.runs])
            kept += f"\nunion all\nselect {listed} from (\n{rows}\n) where not {_passed()}"
        return f"select {NO_STEP}, {self._items()} from (\n{kept}\n)"

    def _totals(self, rows: str) -> str:
        """The last row of each partition, with what all of its rows come to, put together in order."""
        so_far = self._within(f"order by {_TIME}")
        runs = [f"{each.merged(so_far)} as {each.column}" for each in self.operator.running]
        place = f"row_number() {self._within(f'order by {_TIME} desc')} as __place"
        placed = f"select {', '.join([ROW, _TIME, *runs, place])} from (\n{rows}\n)"
        return f"select {', '.join([ROW, _TIME, *self.runs])} from (\n{placed}\n) where __place = 1"


def _due_at(time: str) -> str:
    """From when on no row that isn't late can come at a time, or before it."""
    return later(time, 1)


def _passed(watermark: str = "watermark_after") -> str:
    return f"not {lasts(_due_at(_TIME), watermark)}"
