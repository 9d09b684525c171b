"""A `Plan` → SQL: the program of a micro-batch, and one statement for batch.

Batch is one micro-batch over everything, with empty state and no watermark. So both are put
together from the same pieces; what a stream reads back from ``state``, batch reads from the piece
that made it.
"""

from __future__ import annotations

from dataclasses import asdict

from .dialect import parse, sql
from .kept import KeptRows
from .plan import AggregateStage, Plan, RowsStage
from .program import Level, Program, Rows, Step, StreamInput
from .sliced import SlicedStage

SIGNATURE_VERSION = 1


def _pieces(stage: AggregateStage | RowsStage) -> SlicedStage | KeptRows:
    return SlicedStage(stage) if isinstance(stage, AggregateStage) else KeptRows(stage)


def program(plan: Plan) -> Program:
    """What one micro-batch of a plan does."""
    levels = []
    for number in sorted({stage.level for stage in plan.stages}):
        stages = [stage for stage in plan.stages if stage.level == number]
        pieces = [_pieces(stage) for stage in stages]
        levels.append(
            Level(
                rows=tuple(Rows(f"{stage.name}_rows", stage.rows, stage.streams) for stage in stages),
                ingest=tuple(step for piece in pieces for step in piece.ingest()),
                parts=tuple(part for piece in pieces for part in piece.parts()),
                emit=tuple(step for piece in pieces for step in piece.emit()),
            )
        )
    return Program(
        inputs=tuple(StreamInput(s.relation, s.view, s.columns, s.event_time) for s in plan.streams),
        levels=tuple(levels),
        output=plan.output,
        boundaries=tuple(stage.window.boundaries for stage in plan.stages) if plan.stages else None,
        signature=signature(plan),
    )


def batch(plan: Plan) -> str:
    """One SELECT with the same rows, over the streams as tables."""
    steps = [Step(stream.view, f"select * from {stream.relation}") for stream in plan.streams]
    for stage in plan.stages:
        steps.append(Step(f"{stage.name}_all_rows", stage.rows))
        steps.append(
            Step(f"{stage.name}_rows", f"select * from {stage.name}_all_rows where event_time is not null")
        )
        steps += _pieces(stage).batch()
    names = ",\n".join(f"{step.name} as (\n{_indented(step.sql)}\n)" for step in steps)
    return f"with {names}\n{plan.output}"


def times(plan: Plan) -> str | None:
    """A SELECT with the event time of each stage over the streams, to look at its type; None without
    stages. (Times of stacked windows are made by us.)"""
    steps = [Step(stream.view, f"select * from {stream.relation}") for stream in plan.streams]
    stages = [stage for stage in plan.stages if stage.level == 0]
    names = ",\n".join(f"{step.name} as (\n{_indented(step.sql)}\n)" for step in steps)
    columns = ", ".join(
        f"(select first(event_time) from (\n{_indented(stage.rows)}\n)) as `{stage.window.time_col}`"
        for stage in stages
    )
    return f"with {names}\nselect {columns}" if stages else None


def signature(plan: Plan) -> dict[str, object]:
    """What the state of a plan depends on, as plain JSON; equal signatures can share a state."""
    stages = []
    for stage in plan.stages:
        entry: dict[str, object] = {
            "name": stage.name,
            "window": asdict(stage.window),
            "streams": [stream.relation for stream in plan.streams if stream.view in stage.streams],
            "source": stage.source,
        }
        if isinstance(stage, AggregateStage):
            entry["keys"] = {key.name: key.sql for key in stage.keys}
            entry["grouping_sets"] = [list(members) for members in stage.grouping_sets or ()]
            entry["metrics"] = {metric.name: metric.sql for metric in stage.metrics}
        stages.append(entry)
    return {"version": SIGNATURE_VERSION, "stages": stages}


def pretty(text: str) -> str:
    """A generated text, laid out to be read."""
    return sql(parse(text), pretty=True)


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())
