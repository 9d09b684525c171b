"""``dbt-stream explain``: the plan's dataclasses and the program's texts, laid out to be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from .. import streaming
from ..query import generate, intervals
from ..query.emission import Emission
from ..query.errors import QueryError
from ..query.plan import (
    AggregateStage,
    GroupStage,
    JoinStage,
    KeptStage,
    KeyedStage,
    LookupTable,
    Metric,
    Plan,
    RowsStage,
    Stage,
    TopStage,
)
from ..query.program import Lookup, Program, Upsert
from ..query.ranks import Top
from ..query.streams import Known
from ..query.windows import Window
from ..stream_config import StreamConfig
from . import explain_continuous, explain_operators
from .project import ProjectError

_KINDS: Mapping[type, str] = {
    AggregateStage: "aggregate",
    RowsStage: "rows",
    GroupStage: "group",
    TopStage: "top",
    KeyedStage: "keyed",
    KeptStage: "kept",
    JoinStage: "join",
}


def _planned(node: Mapping[str, Any], known: Mapping[str, Known]) -> tuple[Plan, Program]:
    try:
        plan = streaming.plan(node, node["compiled_code"], known)
        return plan, streaming.program(node, plan)
    except QueryError as problem:
        raise ProjectError(str(problem)) from problem


def _listed(program: Program) -> dict[str, Any]:
    found = asdict(program)
    # Not a part of a micro-batch, and made only when a query was edited.
    del found["remake"]
    return found


def as_json(node: Mapping[str, Any], known: Mapping[str, Known]) -> dict[str, Any]:
    """Plan and program as plain JSON."""
    plan, program = _planned(node, known)
    if plan.dataflow is not None:
        return {
            "model": node["name"],
            "materialized": node["config"]["materialized"],
            "settings": asdict(streaming.config(node)),
            "streams": [asdict(stream) for stream in plan.streams],
            "operators": explain_operators.as_json(plan.dataflow),
            "program": _listed(program),
        }
    stages = [{"kind": _KINDS[type(stage)], **asdict(stage)} for stage in plan.stages]
    return {
        "model": node["name"],
        "materialized": node["config"]["materialized"],
        "settings": asdict(streaming.config(node)),
        "plan": {
            **asdict(plan),
            "stages": stages,
            "unique": None if plan.unique is None else sorted(plan.unique),
        },
        "program": _listed(program),
    }


def print_plan(node: Mapping[str, Any], known: Mapping[str, Known]) -> None:
    """Shows a model's plan on the terminal."""
    plan, program = _planned(node, known)
    settings = streaming.config(node)
    console = Console()
    console.print(f"[bold]{node['name']}[/bold]  {node['config']['materialized']}  → {node['relation_name']}")
    console.print(_streams(plan, settings))
    if sentence := _mini_batch(plan, settings):
        console.print(sentence, markup=False)
    for lookup in plan.lookups:
        console.print(_lookup(lookup), markup=False)
    if plan.static:
        console.print(f"Read afresh at each micro-batch: {', '.join(plan.static)}")
    if plan.dataflow is not None:
        console.print(explain_operators.tree(plan.dataflow))
    if plan.unknown_functions:
        console.print(
            f"Not among Spark's own functions: {', '.join(plan.unknown_functions)}. Here each is taken for one that makes a "
            "value of a row; a run asks Spark, and if it makes one value of many rows, plans it so.",
            markup=False,
        )
    for stage in plan.stages:
        console.print(_stage(stage))
    for rewrite, effect in plan.rewrites:
        console.print(f"{rewrite}: {effect}.", markup=False)
    if plan.windowed:
        console.print(_results(settings.emission))
    elif not plan.stages and plan.dataflow is None:
        console.print("No state: the query works row by row.")
    if plan.whole:
        console.print(
            "What stands above the stages is computed anew from all that they hold, at each micro-batch; only rows "
            "that differ are written."
        )
    for sentence in _table(node, program, settings):
        console.print(sentence, markup=False)
    for title, text in _texts(program):
        console.print(Panel(Syntax(_pretty(text), "sql", word_wrap=True), title=title, title_align="left"))


def _streams(plan: Plan, settings: StreamConfig) -> Table:
    table = Table(title="Streams", title_justify="left")
    for heading in ("relation", "columns read", "event time", "watermark"):
        table.add_column(heading)
    watermark = f"newest − {intervals.format(settings.watermark)}"
    if len(plan.streams) > 1:
        watermark += ", of the slowest stream"
        if settings.idle_timeout is not None:
            watermark += f" with rows in the last {intervals.format(settings.idle_timeout)}"
    for stream in plan.streams:
        columns = "all" if stream.columns is None else "those the query names"
        table.add_row(stream.relation, columns, stream.event_time or "computed", watermark)
    return table


def _mini_batch(plan: Plan, settings: StreamConfig) -> str:
    """How long and how large micro-batches are, where something says so."""
    limits = []
    if (interval := streaming.interval(settings, plan)) is not None:
        limits.append(f"one every {interval} while the stream keeps going")
    if plan.mini_batch is not None and plan.mini_batch.rows is not None:
        limits.append(f"of at most {plan.mini_batch.rows:,} rows, as far as the sources can tell")
    return f"Micro-batches: {'; '.join(limits)}." if limits else ""


def _lookup(lookup: LookupTable) -> str:
    """Which table is asked for what, in a sentence."""
    key = ", ".join(lookup.key)
    return (
        f"Looked up at each micro-batch: {lookup.relation}, for its distinct {key}; the rows that come back are "
        f"{lookup.view} in the SQL below."
    )


def _stage(stage: Stage) -> RenderableType:
    if not isinstance(stage, AggregateStage | RowsStage):
        return explain_continuous.panel(stage)
    title = f"{stage.name}: {stage.window}"
    if isinstance(stage, RowsStage):
        kept = f"Keeps the rows of open windows: {stage.reason}."
        lines = [kept, *([_top(stage.top)] if stage.top else []), *_bounds(stage.window)]
        return Panel(Group(*map(Text, lines)), title=title, title_align="left")
    parts = explain_continuous.of_groups(stage, lambda metric: _how(metric, stage))
    return Panel(Group(*parts, *map(Text, _bounds(stage.window))), title=title, title_align="left")


def _how(metric: Metric, stage: AggregateStage) -> str:
    window = stage.window
    of = "session" if window.kind == "session" else "slice"
    if not metric.distinct_set:
        return f"partial aggregates per {of}"
    shared = ", once for all grouping sets" if stage.has_finest_set else ""
    if window.kind == "cumulate":
        return f"first sights per window{shared}: {metric.distinct_set}"
    when = "at each step" if window.grows else "when a window closes"
    return f"sights per {of}{shared}, counted {when}: {metric.distinct_set}"


def _top(top: Top) -> str:
    """Which of a window's rows are kept."""

    def named(text: str) -> str:
        return text.replace("`row`.", "").replace("`", "")

    of_each = f" of each {', '.join(map(named, top.partition))}" if top.partition else ""
    return f"Only the first {top.rows}{of_each} by {top.function}() are kept in a slice; no other row can be in the ranking."


def _bounds(window: Window) -> Iterator[str]:
    """How windows are cut, in sentences."""
    if not window.merges:
        yield f"Slices of {intervals.format(window.slice)}; a window closes every {intervals.format(window.step)}."
    else:
        of = f"each {', '.join(window.partition_by)}" if window.partition_by else "all rows together"
        yield (
            f"Sessions of {of}, ended by {intervals.format(window.size)} without rows. Their bounds are found in the "
            "rows of a micro-batch and in the sessions that are open in the state."
        )
    if window.kind == "dynamic_cumulate":
        yield (
            f"A result at each step of {intervals.format(window.step)}, the last one at the first step at or after the "
            "session's end."
        )
    if window.emit == "on_change":
        yield "A key has results only at steps in which it had new rows."
    if window.time_zone:
        yield f"Windows are cut on the clock of {window.time_zone}; the watermark is an instant."


def _results(emission: Emission) -> Table:
    """The logical times of a window's results."""

    def at(offset: int) -> str:
        length = intervals.format(abs(offset))
        return "its end" if not offset else f"its end {'−' if offset < 0 else '+'} {length}"

    table = Table(title="Results of a window", title_justify="left")
    for heading in ("when the watermark is at", "result"):
        table.add_column(heading)
    if emission.first is not None:
        again = f", then every {intervals.format(emission.update)}" if emission.update else ""
        table.add_row(f"{at(emission.first)}{again}", "early, if the window has rows")
    if emission.late_updates:
        table.add_row(at(emission.complete), "complete")
        table.add_row(f"up to {at(emission.last)}", "updated by late rows; then the state is cleared")
    else:
        table.add_row(at(emission.complete), "complete; the state is cleared, later rows are dropped")
    return table


def _table(node: Mapping[str, Any], program: Program, settings: StreamConfig) -> Iterator[str]:
    """How rows come into the model's table, in sentences."""
    if program.upsert is None:
        yield "Output mode append: rows are added and never change."
    else:
        yield (
            f"Output mode upsert: {_key(program.upsert)}; what changes in a micro-batch is merged in one commit."
        )
    if settings.changelog:
        yield f"Every change is also appended to {node['relation_name']}__changes."


def _key(upsert: Upsert) -> str:
    if upsert.key is None:
        return "rows are told apart by all of their columns"
    return f"one row per {', '.join(upsert.key)}" if upsert.key else "one row"


def _texts(program: Program) -> Iterator[tuple[str, str]]:
    for level in program.levels:
        yield from _keys(level.lookups)
        for rows in level.rows:
            yield f"{rows.name}: rows in", rows.sql
        for step in level.ingest:
            yield f"{step.name}{' (computed once)' if step.persist else ''}", step.sql
        for part in level.parts:
            yield f"state += {part.name}", part.append
        for step in level.emit:
            yield f"{step.name}: results", step.sql
    yield from _keys(program.lookups)
    yield "rows out", program.output


def _keys(lookups: Sequence[Lookup]) -> Iterator[tuple[str, str]]:
    for lookup in lookups:
        yield f"{lookup.view}: keys that {lookup.relation} is asked for", lookup.keys


def _pretty(text: str) -> str:
    try:
        return generate.pretty(text)
    except QueryError:
        return text
