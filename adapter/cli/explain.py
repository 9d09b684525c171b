"""``dbt-stream explain``: the plan's dataclasses and the program's texts, laid out to be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

from .. import streaming
from ..query import generate, intervals
from ..query.errors import QueryError
from ..query.plan import AggregateStage, Plan, RowsStage
from ..query.program import Program
from .project import ProjectError


def _planned(node: Mapping[str, Any]) -> tuple[Plan, Program]:
    try:
        plan = streaming.plan(node, node["compiled_code"])
        return plan, streaming.program(node, plan)
    except QueryError as problem:
        raise ProjectError(str(problem)) from problem


def as_json(node: Mapping[str, Any]) -> dict[str, Any]:
    """Plan and program as plain JSON."""
    plan, program = _planned(node)
    stages = [
        {"kind": "aggregate" if isinstance(stage, AggregateStage) else "rows", **asdict(stage)}
        for stage in plan.stages
    ]
    return {
        "model": node["name"],
        "materialized": node["config"]["materialized"],
        "plan": {**asdict(plan), "stages": stages},
        "program": asdict(program),
    }


def print_plan(node: Mapping[str, Any]) -> None:
    """Shows a model's plan on the terminal."""
    plan, program = _planned(node)
    settings = streaming.config(node)
    console = Console()
    console.print(f"[bold]{node['name']}[/bold]  {node['config']['materialized']}  → {node['relation_name']}")
    watermark = intervals.format(settings.watermark)
    console.print(_streams(plan, watermark))
    if plan.static:
        console.print(f"Read afresh at each micro-batch: {', '.join(plan.static)}")
    for stage in plan.stages:
        console.print(_stage(stage))
    if not plan.stages:
        console.print("No state: the query works row by row.")
    for title, text in _texts(program):
        console.print(Panel(Syntax(_pretty(text), "sql", word_wrap=True), title=title, title_align="left"))


def _streams(plan: Plan, watermark: str) -> Table:
    table = Table(title="Streams", title_justify="left")
    for heading in ("relation", "columns read", "event time", "watermark"):
        table.add_column(heading)
    for stream in plan.streams:
        columns = "all" if stream.columns is None else "those the query names"
        table.add_row(stream.relation, columns, stream.event_time or "computed", f"newest − {watermark}")
    return table


def _stage(stage: AggregateStage | RowsStage) -> RenderableType:
    if isinstance(stage, RowsStage):
        body: RenderableType = f"Keeps the rows of open windows: {stage.reason}."
        return Panel(body, title=f"{stage.name}: {stage.window}", title_align="left")
    keys = ", ".join(key.sql for key in stage.keys) or "none"
    parts: list[RenderableType] = [f"Keys: {keys}"]
    if stage.grouping_sets is not None:
        parts.append(
            "Grouping sets: " + ", ".join(f"({', '.join(members)})" for members in stage.grouping_sets)
        )
    metrics = Table("metric", "kept in", "how")
    for metric in stage.metrics:
        how = "partial aggregates per slice"
        if metric.distinct_set:
            how = (
                "first sights per window"
                if stage.window.grows
                else "sights per slice, counted when a window closes"
            )
            how = f"{how}: {metric.distinct_set}"
        metrics.add_row(metric.sql, metric.name, how)
    parts.append(metrics)
    parts.append(
        f"Slices of {intervals.format(stage.window.slice)}; a window closes every {intervals.format(stage.window.step)}."
    )
    return Panel(Group(*parts), title=f"{stage.name}: {stage.window}", title_align="left")


def _texts(program: Program) -> Iterator[tuple[str, str]]:
    for level in program.levels:
        for rows in level.rows:
            yield f"{rows.name}: rows in", rows.sql
        for step in level.ingest:
            yield f"{step.name}{' (computed once)' if step.persist else ''}", step.sql
        for part in level.parts:
            yield f"state += {part.name}", part.append
        for step in level.emit:
            yield f"{step.name}: when windows close", step.sql
    yield "rows out", program.output


def _pretty(text: str) -> str:
    try:
        return generate.pretty(text)
    except QueryError:
        return text
