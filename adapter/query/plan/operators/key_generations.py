"""SQL for the state of keys: which rows came in a step, and how long a key is kept without new ones.

With a time to live a key that was idle for so long is forgotten, and its next row begins a new generation.
All rows of a generation carry ``since``, the step it began with; those of an earlier one count no more. So
nothing has to be deleted in time: folding takes out what is forgotten when it comes by.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...program import EXPIRES_AT, STEP, Step, now

SINCE, TIME = "since", "row_time"
NO_STEP = f"cast(null as bigint) as {STEP}"
"""What folded rows have: they came in no step that may be put out again."""


def lasts(until: str, watermark: str = "watermark_after") -> str:
    """Whether what lasts until a time still counts at a watermark; it does while either isn't known yet."""
    return f"coalesce({until} > {now(watermark)}, true)"


ALIVE = lasts(EXPIRES_AT)
"""Whether a row of state still counts after the step."""


def expiry(time: str, after: int | None) -> str:
    """A select item: until when a row counts, so many microseconds after a time."""
    return f"{later(time, after)} as {EXPIRES_AT}"


def later(time: str, micros: int | None) -> str:
    """So many microseconds after a time; NULL where no TIMESTAMP is that late."""
    return f"timestamp_micros(try_add(unix_micros({time}), {micros}))"


def comes_due(column: str, relation: str) -> str:
    """Whether the time in a column is passed in this step, and wasn't before it or the row there."""
    return (
        f"{column} <= {now('watermark_after')} and ({relation}.{STEP} = {now(STEP)} "
        f"or {now('watermark_before')} is null or {column} > {now('watermark_before')})"
    )


def touched_in_step(name: str, part: str, columns: Sequence[str], added: str) -> Step:
    """The step with the values that columns have in the rows of the step, some perhaps more than once.

    Args:
        name: of the step.
        part: of the state.
        columns: of the part.
        added: the step with the rows that the micro-batch adds to it.
    """
    listed = ", ".join(columns) or "true as anything"
    noted = f"select distinct {listed} from state\nwhere part = '{part}' and {STEP} = {now(STEP)}"
    return Step(name, noted, persist=True, fresh=f"select {listed} from {added}")


def matching(part: str, keys: Sequence[str], others: str | None) -> str:
    """The rows of a part, of the keys that another relation has; of all."""
    rows = f"select state.* from state\nwhere part = '{part}'"
    return rows if others is None else of_keys(f"({rows})", keys, others)


def of_keys(rows: str, keys: Sequence[str], others: str, in_memory: bool = False) -> str:
    """Rows whose keys another relation has. `in_memory`: all are in memory, so that to shuffle them costs less than to
    send the other relation around by a job of its own."""
    hint = "/*+ merge(others) */ " if in_memory and keys else ""
    return f"select {hint}own.* from {rows} as own\nleft semi join {others} as others on {same('own', 'others', keys)}"


def same(one: str, other: str, keys: Sequence[str]) -> str:
    """A condition for equal keys, NULL being one."""
    return " and ".join(f"{one}.{key} <=> {other}.{key}" for key in keys) or "true"


def generations_of(touched: str, known: str, keys: Sequence[str]) -> str:
    """The keys that a step touches, and in which generation each is: one that goes on, or one that begins with the step.

    Args:
        touched: the keys, each once.
        known: rows of state, with the keys, `SINCE` and `EXPIRES_AT`; may be of other keys as well.
        keys: the columns; none: there is one key.
    """
    columns = [f"touched.{key}" for key in keys]
    of_generation = ", ".join([*keys, SINCE])
    alive = f"case when {lasts(f'known.{EXPIRES_AT}', 'watermark_before')} then known.{SINCE} end"
    return (
        f"with touched as (\n{touched}\n),\nknown as (\n"
        f"select {of_generation}, max({EXPIRES_AT}) as {EXPIRES_AT}\nfrom (\n{known}\n)\ngroup by {of_generation}\n)\n"
        f"select {', '.join([*columns, f'coalesce(max({alive}), {now(STEP)}) as {SINCE}'])}\n"
        f"from touched left join known on {same('touched', 'known', keys)}\n"
        f"group by {', '.join(columns) or 'true'}"
    )


class KeyGenerations:
    """The generations of a stage's keys, as the rows of one part of its state tell them."""

    def __init__(self, stage: str, part: str, keys: Sequence[str], ttl: int | None) -> None:
        self.ttl = ttl
        self._part, self._keys = part, list(keys)
        self._step = f"{stage}_generations"
        self._by = f"over (partition by {', '.join(keys)})" if keys else "over ()"

    @property
    def since(self) -> list[str]:
        """The columns that say which generation a row is of."""
        return [] if self.ttl is None else [SINCE]

    @property
    def columns(self) -> list[str]:
        """The columns of the part that tells generations."""
        return [] if self.ttl is None else [SINCE, EXPIRES_AT]

    def expiry(self, time: str) -> list[str]:
        """Select items: when a key is forgotten whose last row is of `time`."""
        if self.ttl is None:
            return []
        return [expiry(time, self.ttl)]

    def steps(self, keys_of_batch: str) -> list[Step]:
        """The generations that the keys of a batch are in."""
        if self.ttl is None:
            return []
        batch = f"select distinct * from (\n{keys_of_batch}\n)"
        return [
            Step(
                self._step,
                generations_of(batch, matching(self._part, self._keys, "touched"), self._keys),
                persist=True,
                initial=f"select batch.*, {now(STEP)} as {SINCE} from (\n{batch}\n) as batch",
            )
        ]

    def with_since(self, rows: str) -> str:
        """Rows of the batch with the generation their key is in."""
        if self.ttl is None:
            return rows
        on = same("own", "generations", self._keys)
        return f"select own.*, {SINCE} from (\n{rows}\n) as own join {self._step} as generations on {on}"

    def going_on(self, rows: str) -> str:
        """Rows of state of the generations that the keys of the batch are in."""
        return rows if self.ttl is None else of_keys(f"(\n{rows}\n)", [*self._keys, SINCE], self._step)

    def latest(self, rows: str) -> str:
        """Rows of the last generation of their keys."""
        if self.ttl is None:
            return rows
        return f"select * from (select *, max({SINCE}) {self._by} as __since from (\n{rows}\n)) where {SINCE} = __since"

    def alive(self, rows: str) -> str:
        """The same, of keys that aren't forgotten after the batch."""
        if self.ttl is None:
            return rows
        return (
            f"select * from (select *, max({EXPIRES_AT}) {self._by} as __until from (\n{self.latest(rows)}\n))\n"
            f"where {lasts('__until')}"
        )

    def of_living(self, part: str) -> str:
        """The rows of another part whose keys are alive, of that generation."""
        rows = f"select state.* from state where part = '{part}'"
        if self.ttl is None:
            return rows
        living = f"(\n{self.alive(matching(self._part, self._keys, None))}\n)"
        return of_keys(f"({rows})", [*self._keys, SINCE], living)
