"""SQL for the state of keys and of partitions of rows: the rows of a step, and how long an idle key is stored.

Under a TTL an idle key expires, and its next row starts a new *generation*. All rows of a generation have in ``since`` the
step in which it began; rows of earlier ones have no effect. A generation expires when the watermark reaches the greatest
``expires_at`` of its rows. So nothing has to be deleted in time: compaction drops expired rows, which changes no result.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...program import EXPIRES_AT, STEP, Step, clock_sql

SINCE, TIME = "since", "row_time"
DUE = "due"
"""Column with the watermark at which a row is emitted."""
GENERATION, UNTIL, ADDED_IN = "__since", "__until", "__step"
"""Names of `SINCE`, `EXPIRES_AT` and `STEP` among the columns of a user's rows."""
HELD = "__held"
"""Column that says whether a row prevents its partition from expiring."""
FOR_EVER = "timestamp '9999-12-31 00:00:00'"
"""`UNTIL` of rows that prevent their partition from expiring. It isn't stored, because these rows may be retracted."""
NO_STEP = f"cast(null as bigint) as {STEP}"
"""`STEP` of compacted rows: NULL, as no step emits them again."""


def not_reached_condition(until: str, watermark: str = "watermark_after") -> str:
    """SQL predicate: a watermark hasn't reached a time. True if either is NULL."""
    return f"coalesce({until} > {clock_sql(watermark)}, true)"


def time_plus_sql(time: str, micros: int | None) -> str:
    """SQL of the time so many microseconds later. NULL if beyond the range of TIMESTAMP."""
    return f"timestamp_micros(try_add(unix_micros({time}), {micros}))"


def due_time_sql(time: str) -> str:
    """SQL of the watermark from which on only late rows can have this time or an earlier one."""
    return time_plus_sql(time, 1)


def passed_condition(time: str, watermark: str = "watermark_after") -> str:
    """SQL predicate: a watermark is after a time, so that only late rows can have it."""
    return f"not {not_reached_condition(due_time_sql(time), watermark)}"


def due_now_condition(relation: str) -> str:
    """SQL predicate: the watermark reaches `DUE` in this step, or had reached it when the row arrived in this step."""
    return (
        f"{DUE} <= {clock_sql('watermark_after')} and ({relation}.{STEP} = {clock_sql(STEP)} "
        f"or {clock_sql('watermark_before')} is null or {DUE} > {clock_sql('watermark_before')})"
    )


def touched_keys_step(name: str, part: str, columns: Sequence[str], added: str) -> Step:
    """Returns the step with the values of columns in the rows that this step stores, possibly with duplicates.

    Args:
        part: the state table.
        columns: columns of the state table.
        added: the step with those rows before the commit.
    """
    listed = ", ".join(columns) or "true as anything"
    noted = f"select distinct {listed} from state\nwhere part = '{part}' and {STEP} = {clock_sql(STEP)}"
    return Step(name, noted, persist=True, fresh=f"select {listed} from {added}")


def matching_rows(part: str, keys: Sequence[str], others: str | None) -> str:
    """Returns the rows of a state table with the keys in the relation `others`; all rows if it is None."""
    rows = f"select state.* from state\nwhere part = '{part}'"
    return rows if others is None else rows_of_keys(f"({rows})", keys, others)


def rows_of_keys(rows: str, keys: Sequence[str], others: str, in_memory: bool = False) -> str:
    """Returns rows with the keys in the relation `others`. `in_memory`: all rows are in memory, so that a shuffle is cheaper
    than a broadcast job."""
    hint = "/*+ merge(others) */ " if in_memory and keys else ""
    on = equal_keys_condition("own", "others", keys)
    return f"select {hint}own.* from {rows} as own\nleft semi join {others} as others on {on}"


def equal_keys_condition(one: str, other: str, keys: Sequence[str]) -> str:
    """SQL predicate: equal keys. NULL equals NULL."""
    return " and ".join(f"{one}.{key} <=> {other}.{key}" for key in keys) or "true"


def generations_of_keys(touched: str, known: str, keys: Sequence[str]) -> str:
    """Returns the touched keys with the generation of each: the current one, or a new one that begins with this step.

    Args:
        touched: the keys, without duplicates.
        known: state rows with the keys, `SINCE` and `EXPIRES_AT`. May include other keys.
        keys: the key columns. Empty if there is one key.
    """
    columns = [f"touched.{key}" for key in keys]
    of_generation = ", ".join([*keys, SINCE])
    alive = (
        f"case when {not_reached_condition(f'known.{EXPIRES_AT}', 'watermark_before')} then known.{SINCE} end"
    )
    return (
        f"with touched as (\n{touched}\n),\nknown as (\n"
        f"select {of_generation}, max({EXPIRES_AT}) as {EXPIRES_AT}\nfrom (\n{known}\n)\ngroup by {of_generation}\n)\n"
        f"select {', '.join([*columns, f'coalesce(max({alive}), {clock_sql(STEP)}) as {SINCE}'])}\n"
        f"from touched left join known on {equal_keys_condition('touched', 'known', keys)}\n"
        f"group by {', '.join(columns) or 'true'}"
    )


class KeyGenerations:
    """Generations of an operator's keys, from the rows of one of its state tables."""

    def __init__(self, operator: str, part: str, keys: Sequence[str], ttl: int | None) -> None:
        self.ttl = ttl
        self._part, self._keys = part, list(keys)
        self._step = f"{operator}_generations"
        self._by = f"over (partition by {', '.join(keys)})" if keys else "over ()"

    @property
    def generation_columns(self) -> list[str]:
        """Columns that identify a row's generation."""
        return [] if self.ttl is None else [SINCE]

    @property
    def columns(self) -> list[str]:
        """Generation columns of the state table."""
        return [] if self.ttl is None else [SINCE, EXPIRES_AT]

    def expiry_items(self, time: str) -> list[str]:
        """Select items with the expiry of a key whose last row has this time; none without a TTL."""
        return [] if self.ttl is None else [f"{time_plus_sql(time, self.ttl)} as {EXPIRES_AT}"]

    def steps(self, keys_of_batch: str) -> list[Step]:
        """Returns the steps with the generations of the batch's keys."""
        if self.ttl is None:
            return []
        batch = f"select distinct * from (\n{keys_of_batch}\n)"
        return [
            Step(
                self._step,
                generations_of_keys(batch, matching_rows(self._part, self._keys, "touched"), self._keys),
                persist=True,
                initial=f"select batch.*, {clock_sql(STEP)} as {SINCE} from (\n{batch}\n) as batch",
            )
        ]

    def with_generation(self, rows: str) -> str:
        """Returns rows of the batch with the generation of their key."""
        if self.ttl is None:
            return rows
        on = equal_keys_condition("own", "generations", self._keys)
        return f"select own.*, {SINCE} from (\n{rows}\n) as own join {self._step} as generations on {on}"

    def rows_of_current_generation(self, rows: str) -> str:
        """Returns the state rows of the current generations of the batch's keys."""
        return rows if self.ttl is None else rows_of_keys(f"(\n{rows}\n)", [*self._keys, SINCE], self._step)

    def latest_rows(self, rows: str) -> str:
        """Returns the rows of each key's last generation."""
        if self.ttl is None:
            return rows
        return f"select * from (select *, max({SINCE}) {self._by} as __since from (\n{rows}\n)) where {SINCE} = __since"

    def unexpired_rows(self, rows: str) -> str:
        """Returns the rows of each key's last generation, without keys that have expired after the batch."""
        if self.ttl is None:
            return rows
        return (
            f"select * from (select *, max({EXPIRES_AT}) {self._by} as __until from (\n{self.latest_rows(rows)}\n))\n"
            f"where {not_reached_condition('__until')}"
        )

    def unexpired_rows_of_table(self, part: str) -> str:
        """Returns the rows of another state table whose generations haven't expired after the batch."""
        rows = f"select state.* from state where part = '{part}'"
        if self.ttl is None:
            return rows
        living = f"(\n{self.unexpired_rows(matching_rows(self._part, self._keys, None))}\n)"
        return rows_of_keys(f"({rows})", [*self._keys, SINCE], living)


# -- partitions of rows ----------------------------------------------------------------------------


def generation_items(partitioned: bool) -> list[str]:
    """Select items over `state`: the step and the generation of a row.

    >>> generation_items(partitioned=True)
    ['step as __step', 'expires_at as __until', 'since as __since']
    """
    return [
        f"{STEP} as {ADDED_IN}",
        f"{EXPIRES_AT} as {UNTIL}",
        *([f"{SINCE} as {GENERATION}"] if partitioned else []),
    ]


def expiry_item(ttl: int, busy: str | None = None) -> str:
    """Select item over `clock`: expiry of a row of this step. `busy` is the time until which its partition isn't idle; None
    for the row's arrival."""
    time = (
        clock_sql("watermark_after") if busy is None else f"greatest({clock_sql('watermark_after')}, {busy})"
    )
    return f"{time_plus_sql(time, ttl)} as {EXPIRES_AT}"


def unexpired_rows(
    rows: str, by: Sequence[str] | None, watermark: str, beside: Sequence[str] = (), held: bool = False
) -> str:
    """Returns rows whose generation hasn't expired at a watermark. A generation expires with its last row.

    Args:
        rows: with `UNTIL` and, if partitioned, `GENERATION`.
        by: partition columns. None if each row is its own generation.
        watermark: a column of `clock`.
        beside: other rows with the same columns and partitions.
        held: whether `HELD` is among the columns. It isn't returned.
    """
    alive = not_reached_condition(f"own.{UNTIL}", watermark)
    if by is None:
        return f"select own.* from (\n{rows}\n) as own where {alive}"
    of_generation = ", ".join([*by, GENERATION])
    last = {UNTIL: ("max", "__last"), **({HELD: ("bool_or", "__is_held")} if held else {})}
    if beside:
        every = "\nunion all\n".join(
            f"select {', '.join([of_generation, *last])} from (\n{each}\n)" for each in (rows, *beside)
        )
        ends = ", ".join(f"{how}({column}) as {name}" for column, (how, name) in last.items())
        listed = ", ".join(f"ends.{name}" for _, name in last.values())
        rows = (
            f"select own.*, {listed} from (\n{rows}\n) as own\n"
            f"join (\nselect {of_generation}, {ends} from (\n{every}\n) group by {of_generation}\n) as ends "
            f"on {equal_keys_condition('own', 'ends', [*by, GENERATION])}"
        )
    else:
        ends = ", ".join(
            f"{how}({column}) over (partition by {of_generation}) as {name}"
            for column, (how, name) in last.items()
        )
        rows = f"select *, {ends} from (\n{rows}\n)"
    rows = f"select * except (__last, {', '.join(last)}), __last as {UNTIL} from (\n{rows}\n)"
    if held:
        return f"select own.* except (__is_held) from (\n{rows}\n) as own where {alive} or own.__is_held"
    return f"select own.* from (\n{rows}\n) as own where {alive}"


def rows_within_ttl(rows: str, busy: str, ttl: int) -> str:
    """Drops rows that had expired before the micro-batch: the watermark had reached their time plus the TTL.

    Args:
        rows: a relation, or a query in parentheses.
        busy: SQL of the time, over ``own``.
        ttl: microseconds.
    """
    return f"select own.* from {rows} as own where {not_reached_condition(time_plus_sql(busy, ttl), 'watermark_before')}"


def rows_with_multiplicity(rows: str, by: Sequence[str], times: Sequence[str]) -> str:
    """Returns rows with their multiplicities. Retractions of expired rows have no effect.

    Args:
        rows: changes of rows with their steps; compacted rows, which have none, precede all others.
        by: columns of a row, and columns that are equal in all changes of it.
        times: columns with weights.
    """
    columns, step = ", ".join(by), f"coalesce({ADDED_IN}, -1L)"
    so_far = [
        f"sum({each}) over (partition by {columns} order by {ADDED_IN}) as __so_far_{n}"
        for n, each in enumerate(times)
    ]
    # The sum restarts where it dropped below zero.
    there = [f"cast(sum({each}) - least(0L, min(__so_far_{n})) as bigint)" for n, each in enumerate(times)]
    named = [f"{text} as {each}" for text, each in zip(there, times, strict=True)]
    summed = [f"sum({each}) as {each}" for each in times]
    return (
        f"select {', '.join([columns, *named])} from (\n"
        f"select *, {', '.join(so_far)} from (\n"
        f"select {', '.join([columns, f'{step} as {ADDED_IN}', *summed])} from (\n{rows}\n) group by {columns}, {step}\n)\n"
        f") group by {columns} having {' or '.join(f'{text} > 0' for text in there)}"
    )


def newest_rows(rows: str, by: Sequence[str], times: str, key: Sequence[str]) -> str:
    """Returns the current row of each key: the one that was inserted last.

    If a key of the operator below has expired and returned, its new row replaces the old one without a retraction.

    Args:
        rows, by: see `rows_with_multiplicity`.
        times: column with weights.
        key: SQL of the key's columns, over a row. Empty if there is only one row.
    """
    columns, step = ", ".join(by), f"coalesce({ADDED_IN}, -1L)"
    changes = (
        f"select {columns}, {step} as {ADDED_IN}, sum({times}) as {times} from (\n{rows}\n) "
        f"group by {columns}, {step} having sum({times}) <> 0"
    )
    last = (
        f"select {columns}, max({ADDED_IN}) as {ADDED_IN}, max_by({times}, {ADDED_IN}) as {times} from (\n{changes}\n) "
        f"group by {columns}"
    )
    within = f"partition by {', '.join(key)} " if key else ""
    placed = f"row_number() over ({within}order by {ADDED_IN} desc) as __place"
    there = f"select *, {placed} from (\n{last}\n) where {times} > 0"
    return f"select {columns}, 1L as {times} from (\n{there}\n) where __place = 1"
