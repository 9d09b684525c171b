"""A `Plan` → SQL: the program of a micro-batch, and one statement for batch.

Batch is one micro-batch over everything, with empty state and no watermark. So both are put
together from the same pieces; what a stream reads back from ``state``, batch reads from the piece
that made it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace

from sqlglot import exp

from . import event_clock, instants, lookup_keys
from .continuous import generate as continuous
from .continuous.groups import Groups
from .dialect import parse, sql
from .emission import FINAL, Emission
from .kept import KeptRows, KeptSessions
from .metric_columns import MetricColumns
from .operators import generate as operators
from .operators.base import Dataflow, GroupAggregate, WindowResults
from .operators.conditions import explodes
from .partials import Partials
from .plan import (
    AggregateStage,
    GroupStage,
    JoinStage,
    KeptStage,
    KeyedStage,
    Plan,
    RowsStage,
    Stage,
    TopStage,
)
from .program import Boundaries, Level, Program, Rows, Step, StreamInput
from .ranks import Top
from .replacing import replacing
from .sessions import SessionStage
from .sliced import SlicedStage
from .windows import Window

SIGNATURE_VERSION = 2


def _pieces(stage: AggregateStage | RowsStage, emission: Emission = FINAL) -> SlicedStage | KeptRows:
    if isinstance(stage, AggregateStage):
        return SessionStage(stage, emission) if stage.window.merges else SlicedStage(stage, emission)
    return KeptSessions(stage, emission) if stage.window.merges else KeptRows(stage, emission)


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
    if plan.dataflow is not None:
        return _dataflow(plan, ttl)
    if plan.is_continuous:
        return continuous.program(plan, ttl, signature(plan, ttl))
    replaces = upsert or emission.changes
    levels = []
    everything: list[SlicedStage | KeptRows] = []
    for number in sorted({stage.level for stage in plan.stages}):
        pieces = [_pieces(stage, emission) for stage in plan.windowed if stage.level == number]
        everything += pieces
        levels.append(
            Level(
                lookups=lookup_keys.of_level(plan, number),
                known=tuple(step for piece in pieces for step in piece.known()),
                rows=tuple(
                    Rows(
                        f"{piece.stage.name}_rows",
                        piece.rows_text(piece.stage.rows, clock=True),
                        piece.stage.streams,
                        piece.window.time_zone,
                    )
                    for piece in pieces
                ),
                ingest=tuple(step for piece in pieces for step in piece.ingest()),
                parts=tuple(part for piece in pieces for part in piece.parts()),
                emit=tuple(
                    replace(step, persist=True) if replaces and step.name == piece.windows_step else step
                    for piece in pieces
                    for step in piece.emit()
                ),
            )
        )
    return Program(
        inputs=tuple(StreamInput(s.relation, s.view, s.columns, s.event_time) for s in plan.streams),
        levels=tuple(levels),
        output=plan.output,
        lookups=lookup_keys.of_output(plan),
        boundaries=_boundaries(everything),
        upsert=replacing(plan, everything, emission) if replaces else None,
        kept_for=emission.last,
        behind=_behind(plan.windowed),
        mini_batch=plan.mini_batch,
        time_zones=tuple(sorted({s.window.time_zone for s in plan.windowed if s.window.time_zone})),
        signature=signature(plan),
    )


def _dataflow(plan: Plan, ttl: int | None) -> Program:
    """The program of operators: the windows among them level by level, then all others."""
    assert plan.dataflow is not None
    stages = _stages_of_windows(plan.dataflow)
    levels = program(replace(plan, stages=stages, dataflow=None)).levels if stages else ()
    zones = tuple(sorted({stage.window.time_zone for stage in stages if stage.window.time_zone}))
    made = operators.program(plan, levels, zones, ttl, signature(plan, ttl))
    return replace(made, behind=_behind(stages))


def _behind(stages: Sequence[AggregateStage | RowsStage]) -> int:
    """A row at the very end of a session belongs to it, and isn't late where the watermark is just there.

    Not with sessions over windows: these come out when the watermark, that far behind, is at their end, and sessions of
    their `window_time`, which is a microsecond less, would be closed then.
    """
    merging = [stage for stage in stages if stage.window.merges]
    return int(bool(merging) and all(stage.level == 0 for stage in merging))


def _stages_of_windows(flow: Dataflow) -> tuple[AggregateStage | RowsStage, ...]:
    windows = [each.plan for each in flow.operators if isinstance(each, WindowResults)]
    return tuple(stage for each in windows for stage in each.windowed)


def _boundaries(pieces: Sequence[SlicedStage | KeptRows]) -> tuple[Boundaries, ...] | None:
    found = [piece.closing.boundaries for piece in pieces]
    listed = [each for boundaries in found if boundaries is not None for each in boundaries]
    return tuple(listed) if listed and None not in found else None


def _tables(plan: Plan) -> list[Step]:
    """What the texts read besides state, whole."""
    read = {stream.view: stream.relation for stream in plan.streams}
    read |= {table.view: table.relation for table in plan.lookups}
    steps = [Step(view, f"select * from {relation}") for view, relation in read.items()]
    if any(event_clock.READS_CLOCK in text for text in (plan.output, *(s.rows for s in plan.windowed))):
        # As in a stream's first micro-batch.
        steps.append(Step("clock", "select cast(null as timestamp) as now_before"))
    return steps


def batch(plan: Plan) -> str:
    """One SELECT with the same rows, over the streams as tables."""
    if plan.batch is not None:
        outside = ", ".join(f"{each.view} as (select * from {each.relation})" for each in plan.lookups)
        return f"with {outside}\n{plan.batch}" if outside else plan.batch
    steps = _tables(plan)
    for stage in plan.windowed:
        pieces = _pieces(stage)
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
    return f"with {names}\n{plan.output}"


def times(plan: Plan) -> str | None:
    """A SELECT with the event time of each stage over the streams, to look at its type; None without
    stages. (Times of stacked windows are made by us.)"""
    steps = _tables(plan)
    stages = [stage for stage in plan.windowed if stage.level == 0]
    names = ",\n".join(f"{step.name} as (\n{_indented(step.sql)}\n)" for step in steps)
    columns = ", ".join(
        f"(select first(event_time) from (\n{_indented(stage.rows)}\n)) as `{stage.window.time_col}`"
        for stage in stages
    )
    return f"with {names}\nselect {columns}" if stages else None


def signature(plan: Plan, ttl: int | None = None) -> dict[str, object]:
    """What the state of a plan depends on, as plain JSON; equal signatures can share a state."""
    stages = []
    for stage in plan.stages:
        entry: dict[str, object] = {
            "name": stage.name,
            "streams": [stream.relation for stream in plan.streams if stream.view in stage.streams],
            "source": stage.source,
        }
        if isinstance(stage, AggregateStage | RowsStage):
            entry["window"] = _window(stage.window)
        elif ttl is not None:
            # Without it the state doesn't know when its keys were idle.
            entry["state_ttl"] = True
        if isinstance(stage, AggregateStage | GroupStage):
            entry |= _aggregates(stage, ttl)
            if stage.grouping_sets is not None:
                entry["key_order"] = [key.identity for key in stage.keys]
            if isinstance(stage, AggregateStage) and stage.has_finest_set:
                entry["distinct_sets"] = "finest"
            if stage.enumerated is not None:
                entry["enumerated"] = [list(stage.enumerated.keys), list(map(list, stage.enumerated.values))]
        elif isinstance(stage, RowsStage):
            entry["row"] = f"{stage.name}_row"
            if stage.top is not None:
                entry["top"] = _top(stage.top)
        elif isinstance(stage, JoinStage):
            entry["sides"] = {side.alias: [side.rows, side.lasts] for side in stage.sides}
        elif isinstance(stage, KeptStage):
            entry |= {"lasts": stage.lasts, "made_of": stage.made_of}
        elif isinstance(stage, KeyedStage):
            entry["key"] = list(stage.key)
            entry["replaces"] = [stage.feed, None if stage.feed else stage.time, stage.stored]
        elif isinstance(stage, TopStage):
            entry |= {
                "top": [*_top(stage.top), stage.order_of],
                "made_of": stage.made_of,
            }
            if stage.final:
                # Left out where it says nothing, so that states made before it was there still fit.
                entry["final"] = True
            if stage.over is not None:
                # Its members can be found again among the groups.
                entry["members"] = {
                    "part": f"{stage.name}_members",
                    "row": f"{stage.name}_row",
                    "keys": [key.name for key in stage.keys],
                }
        if below := _below(plan, stage):
            entry["below"] = below
            # One name in the state may be of several aggregates, one after the other: `sum(v + 1)`, `sum(v - 1)`.
            entry["reads"] = {
                each.name: {key.name: key.identity for key in each.keys}
                | {metric.name: metric.identity for metric in each.metrics}
                for each in plan.stages
                if each.name in below and isinstance(each, AggregateStage | GroupStage)
            }
        stages.append(entry)
    found: dict[str, object] = {"version": SIGNATURE_VERSION, "stages": stages}
    if plan.text:
        found["text"] = plan.text
    if plan.dataflow is not None:
        windows = replace(plan, stages=_stages_of_windows(plan.dataflow), dataflow=None)
        found["stages"] = signature(windows)["stages"]
        found["operators"] = {each.name: each.label for each in plan.dataflow.operators}
        groups = [each for each in plan.dataflow.operators if isinstance(each, GroupAggregate)]
        found["groups"] = {each.name: _aggregates(each.stage, ttl) for each in groups}
        found["state_ttl"] = ttl is not None
        if ttl is not None:
            found["lives"] = True
    return found


def _below(plan: Plan, stage: Stage) -> dict[str, object]:
    """What a stage keeps of the results of others: how these are made, by their stage. Where it keeps aggregates of them,
    also column by column: others may come and go."""
    if isinstance(stage, TopStage):
        return {} if stage.over is None else {stage.over: stage.rows}
    if not isinstance(stage, AggregateStage | RowsStage):
        return {}
    others = [each for each in plan.windowed if each.level < stage.level]
    found: dict[str, object] = {}
    for each in others:
        if re.search(rf"\b{each.name}\b", stage.rows):
            text = each.output if isinstance(each, AggregateStage) else each.source
            by_name = isinstance(stage, AggregateStage) and not _takes_all_columns(stage)
            columns = _columns(text) if by_name else None
            found[each.name] = text if columns is None else {"text": text, **columns}
    return found


def _takes_all_columns(stage: AggregateStage) -> bool:
    """Whether a column more below can change what rows there are, or what others are."""
    if any("*" in key.identity for key in stage.keys):
        return True
    for star in parse(stage.rows).find_all(exp.Star):
        over = star.parent.parent if isinstance(star.parent, exp.Column) else star.parent
        if not isinstance(over, exp.Select | exp.Count):
            return True
    # Not in what a window is expanded to, which has a NATURAL JOIN that is ours.
    query = parse(stage.source)
    named = any(alias.args.get("columns") for alias in query.find_all(exp.TableAlias))
    natural = any(join.args.get("method") for join in query.find_all(exp.Join))
    distinct = any(select.args.get("distinct") for select in query.find_all(exp.Select))
    return named or natural or distinct or query.find(exp.SetOperation, exp.Lateral) is not None


def _columns(text: str) -> dict[str, object] | None:
    """What a SELECT's columns are made of, and its rows; None: its columns aren't listed."""
    query = parse(text)
    if not isinstance(query, exp.Select) or query.is_star or query.args.get("distinct") or explodes(query):
        return None
    columns = {item.alias_or_name.lower(): sql(item.unalias()) for item in query.expressions}
    query.set("expressions", [exp.Star()])
    return {"columns": columns, "rows": sql(query)}


def _aggregates(stage: AggregateStage | GroupStage, ttl: int | None) -> dict[str, object]:
    """Which columns of the state belong to what. A metric, a set and a key are told by their text over the rows, which
    stays the same when an alias, the order or something else of the query changes."""
    pieces = _pieces(stage) if isinstance(stage, AggregateStage) else Groups(stage, ttl, fused=False)
    assert isinstance(pieces, Partials)
    columns, sets = pieces.state_columns(), pieces.set_parts()
    by_name = {members.name: members.identity for members in stage.distinct_sets}
    metrics = {}
    for metric in stage.metrics:
        kept = list(MetricColumns(metric).aggregate.make)
        metrics[metric.identity] = {
            "sql": metric.sql,
            "columns": columns[metric.identity],
            # Changes where a version of this package, or another type of its argument, keeps it in another way.
            "kept": [*kept, *([metric.types.sum] if metric.types else [])],
            "rows": metric.rows,
            **({"set": by_name[metric.distinct_set]} if metric.distinct_set else {}),
        }
    return {
        "keys": {key.name: key.identity for key in stage.keys},
        "grouping_sets": [list(members) for members in stage.grouping_sets or ()],
        "metrics": metrics,
        **(
            {"sets": {each: {"part": sets[each][0], "columns": sets[each][1]} for each in sets}}
            if sets
            else {}
        ),
        **({"retracts": True} if isinstance(stage, GroupStage) and stage.signed else {}),
    }


def _top(top: Top) -> list[object]:
    return [top.function, list(top.partition), top.order, top.rows]


def _window(window: Window) -> dict[str, object]:
    listed: dict[str, object] = {**asdict(window), "partition_by": list(window.partition_by)}
    # Left out where they say nothing, so that states made before they were there still fit.
    return {key: value for key, value in listed.items() if key not in ("partition_by", "time_zone") or value}


def pretty(text: str) -> str:
    """A generated text, laid out to be read."""
    return sql(parse(text), pretty=True)


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())
