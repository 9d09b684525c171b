"""A `Plan` → SQL: the program of a micro-batch, and one statement for batch.

Batch is one micro-batch over everything, with empty state and no watermark. So both are put
together from the same pieces; what a stream reads back from ``state``, batch reads from the piece
that made it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from ...util.quoting import quote, shown_time
from ..normalize import event_clock
from ..normalize.names import own_names
from ..plan import lookup_keys
from ..plan.base import WindowResults
from ..plan.operators.sliced import SlicedStage
from ..plan.operators.window_buffer import BufferedWindows
from ..plan.operators.window_operators import operator_of
from ..plan.plan import LookupTable, Plan
from ..plan.stages import Stage
from ..planner.upsert_keys import replacing
from ..program import Boundaries, Level, Program, Rows, Step, StreamInput, reading
from ..sql import instants
from ..sql.dialect import parse, sql
from ..windows.emission import FINAL, Emission
from . import operators
from .signature import signature


def program(plan: Plan, emission: Emission = FINAL, upsert: bool = False, ttl: int | None = None) -> Program:
    """What one micro-batch of a plan does.

    Args:
        plan: of a model.
        emission: when results come.
        upsert: rows replace those of the same key, even where none needs to.
        ttl: microseconds after which an idle key of a query without windows is forgotten; None: never.

    Raises:
        QueryError: results would change that can't be found again.
    """
    with own_names.as_written():
        return own_names.apart(_program(plan, emission, upsert, ttl), plan.taken)


def _program(plan: Plan, emission: Emission, upsert: bool, ttl: int | None) -> Program:
    windows = plan.windows
    return _dataflow(plan, ttl, emission) if windows is None else _of_windows(plan, windows, emission, upsert)


def _of_windows(plan: Plan, windows: WindowResults, emission: Emission, upsert: bool) -> Program:
    """The program of windows that are all there is: they put themselves out."""
    replaces = upsert or emission.changes
    levels, everything = _levels(
        windows.stages, plan.lookups, partial(operator_of, emission=emission), replaces
    )
    # Of the last level nothing is read before the commit. How many windows close tells how to compute what comes of them.
    again = tuple(replace(step, materialize=step.persist) for level in levels for step in level.emit)
    levels[-1:] = [replace(level, emit=()) for level in levels[-1:]]
    levels[:1] = [_read_once(level) for level in levels[:1]]
    return Program(
        inputs=tuple(StreamInput(s.relation, s.view, s.columns, s.event_time) for s in plan.streams),
        levels=tuple(levels),
        output=windows.sql,
        lookups=lookup_keys.asked([windows.sql], plan.lookups),
        again=again,
        flushes_from_state=True,
        boundaries=_boundaries(everything),
        upsert=replacing(windows, everything, emission) if replaces else None,
        kept_for=emission.last,
        reads_clock=not levels and event_clock.READS_CLOCK in windows.sql,
        behind=_behind(windows.stages),
        tables=plan.static,
        mini_batch=plan.mini_batch,
        time_zones=_zones(windows.stages),
        signature=signature(plan, emission=emission),
    )


def _zones(stages: Sequence[Stage]) -> tuple[str, ...]:
    """The zones on whose clocks windows are cut."""
    return tuple(sorted({stage.window.time_zone for stage in stages if stage.window.time_zone}))


def _levels(
    stages: Sequence[Stage],
    lookups: Sequence[LookupTable],
    made: Callable[[Stage], SlicedStage | BufferedWindows],
    replaces: bool,
) -> tuple[list[Level], list[SlicedStage | BufferedWindows]]:
    """The levels of windows, and the pieces that they are made of; `replaces`: which windows have a result is
    read again."""
    levels = []
    everything: list[SlicedStage | BufferedWindows] = []
    for number in sorted({stage.level for stage in stages}):
        pieces = [made(stage) for stage in stages if stage.level == number]
        everything += pieces
        parts = [(piece, piece.parts()) for piece in pieces]
        levels.append(
            Level(
                lookups=lookup_keys.asked([piece.stage.rows for piece in pieces], lookups),
                known=tuple(step for piece, own in parts for step in reading(piece.known(), own)),
                rows=tuple(
                    Rows(
                        f"{piece.stage.name}_rows",
                        piece.rows_text(piece.stage.rows, clock=True),
                        piece.stage.streams,
                        piece.window.time_zone,
                        by_clock=event_clock.READS_CLOCK in piece.stage.rows,
                    )
                    for piece in pieces
                ),
                ingest=tuple(step for piece, own in parts for step in reading(piece.ingest(), own)),
                parts=tuple(part for _, own in parts for part in reading(own, own)),
                emit=tuple(
                    replace(step, persist=True) if replaces and step.name == piece.windows_step else step
                    for piece, own in parts
                    for step in reading(piece.emit(), own)
                ),
            )
        )
    return levels, everything


def _read_once(level: Level) -> Level:
    """The first level, whose rows alone read streams."""
    reads = Counter(view for rows in level.rows for view in rows.streams)
    alone = [not level.lookups and all(reads[view] == 1 for view in rows.streams) for rows in level.rows]
    return replace(
        level, rows=tuple(replace(rows, alone=each) for rows, each in zip(level.rows, alone, strict=True))
    )


def _dataflow(plan: Plan, ttl: int | None, emission: Emission) -> Program:
    """The program of operators: the windows among them level by level, then all others."""
    stages = plan.dataflow.windowed
    windows = (each for each in plan.dataflow.operators if isinstance(each, WindowResults))
    at_once = {each.name for results in windows for each in results.windows if each.at_once}

    def made(stage: Stage) -> SlicedStage | BufferedWindows:
        return operator_of(stage, replace(emission, at_once=True) if stage.name in at_once else emission)

    levels, _ = _levels(stages, plan.lookups, made, emission.changes)
    signed = signature(plan, ttl, emission)
    return operators.program(plan, levels, _zones(stages), ttl, _behind(stages), signed, emission=emission)


def _behind(stages: Sequence[Stage]) -> int:
    """A row at the very end of a session belongs to it, and isn't late where the watermark is just there.

    Not with sessions over windows: these come out when the watermark, that far behind, is at their end, and sessions of
    their `window_time`, which is a microsecond less, would be closed then.
    """
    merging = [stage for stage in stages if stage.window.merges]
    return int(bool(merging) and all(stage.level == 0 for stage in merging))


def _boundaries(pieces: Sequence[SlicedStage | BufferedWindows]) -> tuple[Boundaries, ...] | None:
    found = [piece.closing.boundaries for piece in pieces]
    listed = [each for boundaries in found if boundaries is not None for each in boundaries]
    return tuple(listed) if listed and None not in found else None


def _tables(plan: Plan, texts: Iterable[str]) -> list[Step]:
    """What the texts read besides state, whole."""
    read = {stream.view: stream.relation for stream in plan.streams}
    read |= {table.view: table.relation for table in plan.lookups}
    steps = [Step(view, f"select * from {relation}") for view, relation in read.items()]
    if any(event_clock.READS_CLOCK in text for text in texts):
        # As in a stream's first micro-batch.
        steps.append(Step("clock", "select cast(null as timestamp) as now_before"))
    return steps


def batch(plan: Plan) -> str:
    """One SELECT with the same rows, over the streams as tables."""
    windows = plan.windows
    if windows is not None and plan.batch is None:
        return windows_in_batch(plan, windows.stages, windows.sql)
    return own_names.apart(_in_batch(plan), plan.taken)


def _in_batch(plan: Plan) -> str:
    """The query itself."""
    assert plan.batch is not None
    outside = ", ".join(f"{each.view} as (select * from {each.relation})" for each in plan.lookups)
    return f"with {outside}\n{plan.batch}" if outside else plan.batch


def windows_in_batch(plan: Plan, stages: Sequence[Stage], output: str) -> str:
    """One SELECT over windows, which are put together as a stream does it.

    Args:
        plan: whose streams and tables are read.
        stages: what the windows keep, lower ones first.
        output: the query over their results.
    """
    steps = _tables(plan, (output, *(stage.rows for stage in stages)))
    for stage in stages:
        pieces = operator_of(stage)
        rows = pieces.rows_text(stage.rows, clock=False)
        steps.append(Step(f"{stage.name}_all_rows", rows))
        steps.append(
            Step(
                f"{stage.name}_rows",
                f"select * from {stage.name}_all_rows where {instants.is_usable('event_time')}",
            )
        )
        steps += pieces.batch()
    names = ",\n".join(f"{step.name} as (\n{_indented(step.sql)}\n)" for step in steps)
    return own_names.apart(f"with {names}\n{output}", plan.taken)


def times(plan: Plan) -> str | None:
    """A SELECT with the event time of each window over the streams, to look at its type; None: there are others than
    windows in it, or none. (Times of stacked windows are made by us.)"""
    windows = plan.windows
    if windows is None or not windows.stages:
        return None
    steps = _tables(plan, (windows.sql, *(stage.rows for stage in windows.stages)))
    names = ",\n".join(f"{step.name} as (\n{_indented(step.sql)}\n)" for step in steps)
    columns = ", ".join(
        f"(select first(event_time) from (\n{_indented(stage.rows)}\n)) as {quote(shown_time(stage.window.time_col))}"
        for stage in windows.stages
        if stage.level == 0
    )
    return own_names.apart(f"with {names}\nselect {columns}", plan.taken)


def pretty(text: str) -> str:
    """A generated text, laid out to be read."""
    return sql(parse(text), pretty=True)


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())
