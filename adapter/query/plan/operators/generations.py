"""SQL of what an operator keeps under a TTL: rows of a partition that was idle for so long count no more.

As with groups (`operators.key_generations`) each row carries the step in which its partition's generation began, so
nothing has to be deleted in time: the rows of a generation are those of one partition with one `SINCE`, and it is over
when the watermark is at the greatest `EXPIRES_AT` of them. Folding takes out what is over when it comes by, and changes no
result.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...program import EXPIRES_AT, STEP, now
from .key_generations import SINCE, lasts, later, same

LIFE, UNTIL, CAME_IN = "__since", "__until", "__step"
"""`SINCE`, `EXPIRES_AT` and `STEP` beside the columns of a user's rows."""
HELD = "__held"
"""Whether a row keeps its partition from being over, however idle that is."""
FOR_EVER = "timestamp '9999-12-31 00:00:00'"
"""In the place of `UNTIL` of such rows. It is never kept: they may go."""


def stored(partitioned: bool) -> list[str]:
    """Select items over state: what a row carries of its generation."""
    return [
        f"{STEP} as {CAME_IN}",
        f"{EXPIRES_AT} as {UNTIL}",
        *([f"{SINCE} as {LIFE}"] if partitioned else []),
    ]


def until(ttl: int, busy: str | None = None) -> str:
    """A select item over `clock`: when a row expires that comes in the step, and is busy until a time."""
    time = now("watermark_after") if busy is None else f"greatest({now('watermark_after')}, {busy})"
    return f"{later(time, ttl)} as {EXPIRES_AT}"


def lasting(
    rows: str, by: Sequence[str] | None, watermark: str, beside: Sequence[str] = (), held: bool = False
) -> str:
    """Rows whose generation isn't over at a watermark; each expires with the last one of its generation.

    Args:
        rows: with `UNTIL`, and, where there are partitions, `LIFE`.
        by: the columns of a partition; None: each row has a generation of its own.
        watermark: the column of `clock`.
        beside: other rows, with the same columns, whose partitions are these as well.
        held: whether all have `HELD`, too; what is returned hasn't.
    """
    alive = lasts(f"own.{UNTIL}", watermark)
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
            f"on {same('own', 'ends', [*by, LIFE])}"
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
    """Rows without those of which nothing is known any more, so long after the time until which they would have counted.

    Args:
        rows: a relation, or a query in parentheses.
        busy: that time, of the columns of ``own``.
        ttl: microseconds.
    """
    return f"select own.* from {rows} as own where {lasts(later(busy, ttl), 'watermark_before')}"


def counted(rows: str, by: Sequence[str], times: Sequence[str]) -> str:
    """How often each row is there, where one may be retracted that had expired: it was not there any more.

    Args:
        rows: changes of rows, and the step that each came in; folded ones, without, are before all others.
        by: the columns of a row, and what is the same in all of its changes.
        times: columns with how many times more it is there.
    """
    columns, step = ", ".join(by), f"coalesce({CAME_IN}, -1L)"
    so_far = [
        f"sum({each}) over (partition by {columns} order by {CAME_IN}) as __so_far_{n}"
        for n, each in enumerate(times)
    ]
    # A sum starts anew where it went below zero.
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
    """Of rows that a key tells apart those that are there: of each key the one that came last.

    The operator that a row came from may have forgotten its key, and then seen it anew: what it gives then replaces
    the row, whether it is another one or not.

    Args:
        rows, by: as of `counted`.
        times: the column with how many times more a row is there.
        key: SQL of the key's columns, over a row; none: there is one row.
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
