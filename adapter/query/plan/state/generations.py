"""SQL of an operator's state under a TTL: rows of an idle partition expire.

As with groups (`key_generations`), each row has the step in which its partition's generation began, so
nothing has to be deleted in time: a generation consists of the rows of one partition with equal `SINCE`, and it is
over when the watermark reaches the greatest `EXPIRES_AT` of them. Compaction removes expired generations, which
changes no result.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....util.quoting import quote
from ...program import EXPIRES_AT, STEP, now
from ..operator import Operator, ttl_over
from .key_generations import SINCE, equal_keys, is_not_reached, later

LIFE, UNTIL, CAME_IN = "__since", "__until", "__step"
"""`SINCE`, `EXPIRES_AT` and `STEP` next to the columns of a user's rows."""
HELD = "__held"
"""Whether a row prevents its partition from expiring."""
FOR_EVER = "timestamp '9999-12-31 00:00:00'"
"""Replaces `UNTIL` of such rows when reading. It is never stored, because they may be retracted."""


def generation_items(partitioned: bool) -> list[str]:
    """Select items over state: the generation columns of a row.

    >>> generation_items(partitioned=True)
    ['step as __step', 'expires_at as __until', 'since as __since']
    """
    return [
        f"{STEP} as {CAME_IN}",
        f"{EXPIRES_AT} as {UNTIL}",
        *([f"{SINCE} as {LIFE}"] if partitioned else []),
    ]


def expiry_of_row(ttl: int, busy: str | None = None) -> str:
    """Select item over `clock`: expiry of a row of this step. `busy` is the time until which the row keeps its partition
    from being idle; None for its arrival."""
    time = now("watermark_after") if busy is None else f"greatest({now('watermark_after')}, {busy})"
    return f"{later(time, ttl)} as {EXPIRES_AT}"


def unexpired(
    rows: str, by: Sequence[str] | None, watermark: str, beside: Sequence[str] = (), held: bool = False
) -> str:
    """Returns rows whose generation isn't over at a watermark. A generation expires with its last row.

    Args:
        rows: with `UNTIL` and, if partitioned, `LIFE`.
        by: partition columns. None if each row is its own generation.
        watermark: a column of `clock`.
        beside: other rows with the same columns and partitions.
        held: whether all have `HELD`, too. It isn't returned.
    """
    alive = is_not_reached(f"own.{UNTIL}", watermark)
    if by is None:
        return f"select own.* from (\n{rows}\n) as own where {alive}"
    of_generation = ", ".join([*by, LIFE])
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
            f"on {equal_keys('own', 'ends', [*by, LIFE])}"
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


def countable(rows: str, busy: str, ttl: int) -> str:
    """Drops rows whose time, with the TTL added, the watermark has passed.

    Args:
        rows: a relation, or a query in parentheses.
        busy: the time, over the columns of ``own``.
        ttl: microseconds.
    """
    return f"select own.* from {rows} as own where {is_not_reached(later(busy, ttl), 'watermark_before')}"


def without_expired_windows(rows: str, operator: Operator, ttl: int | None) -> str:
    """Drops rows of windows whose state has expired, and which therefore can't be updated.

    Args:
        rows: SQL of the rows of an operator.
        ttl: microseconds after which idle state expires; None for never.
    """
    relation = operator.relation
    idle = ttl_over(operator, ttl)
    if idle is None or relation.open_until is None or relation.open_for is not None:
        return rows
    return countable(f"(\n{rows}\n)", f"own.{quote(relation.open_until)}", idle)


def with_multiplicity(rows: str, by: Sequence[str], times: Sequence[str]) -> str:
    """Returns the multiplicity of rows. Retractions of expired rows have no effect.

    Args:
        rows: changes of rows with their steps. Compacted rows have no step and precede all others.
        by: columns of a row, and others that are equal in all of its changes.
        times: columns with weights.
    """
    columns, step = ", ".join(by), f"coalesce({CAME_IN}, -1L)"
    so_far = [
        f"sum({each}) over (partition by {columns} order by {CAME_IN}) as __so_far_{n}"
        for n, each in enumerate(times)
    ]
    # The sum restarts where it dropped below zero.
    there = [f"cast(sum({each}) - least(0L, min(__so_far_{n})) as bigint)" for n, each in enumerate(times)]
    named = [f"{text} as {each}" for text, each in zip(there, times, strict=True)]
    summed = [f"sum({each}) as {each}" for each in times]
    return (
        f"select {', '.join([columns, *named])} from (\n"
        f"select *, {', '.join(so_far)} from (\n"
        f"select {', '.join([columns, f'{step} as {CAME_IN}', *summed])} from (\n{rows}\n) group by {columns}, {step}\n)\n"
        f") group by {columns} having {' or '.join(f'{text} > 0' for text in there)}"
    )


def newest(rows: str, by: Sequence[str], times: str, key: Sequence[str]) -> str:
    """Returns the current row of each key: the one that was inserted last.

    The operator below may have expired a key and seen it again. Its new row then replaces the old one without a
    retraction.

    Args:
        rows, by: see `with_multiplicity`.
        times: column with weights.
        key: SQL of the key's columns, over a row. Empty if there is only one row.
    """
    columns, step = ", ".join(by), f"coalesce({CAME_IN}, -1L)"
    changes = (
        f"select {columns}, {step} as {CAME_IN}, sum({times}) as {times} from (\n{rows}\n) "
        f"group by {columns}, {step} having sum({times}) <> 0"
    )
    last = (
        f"select {columns}, max({CAME_IN}) as {CAME_IN}, max_by({times}, {CAME_IN}) as {times} from (\n{changes}\n) "
        f"group by {columns}"
    )
    within = f"partition by {', '.join(key)} " if key else ""
    placed = f"row_number() over ({within}order by {CAME_IN} desc) as __place"
    there = f"select *, {placed} from (\n{last}\n) where {times} > 0"
    return f"select {columns}, 1L as {times} from (\n{there}\n) where __place = 1"
