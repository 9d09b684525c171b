"""The stages of queries without windows, laid out to be read."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..query import intervals
from ..query.plan import AggregateStage, GroupStage, JoinStage, KeptStage, KeyedStage, Metric, TopStage

_STRATEGIES = {
    "append-only": "rows come in and stay; one that isn't among the first is dropped at once.",
    "improving": "a group's place only gets better, so the members and the groups that changed are all that is ranked.",
    "general": "a member may fall; if the members and the groups that changed don't fill its ranking, that ranking is "
    "looked up again in the groups' state.",
}


def panel(stage: GroupStage | TopStage | KeyedStage | KeptStage | JoinStage) -> RenderableType:
    """One stage in a frame."""
    if isinstance(stage, GroupStage):
        parts = of_groups(stage, _how)
        return Panel(Group(*parts), title=f"{stage.name}: groups of a whole stream", title_align="left")
    if isinstance(stage, TopStage):
        lines = _top(stage)
    elif isinstance(stage, JoinStage):
        lines = _join(stage)
    elif isinstance(stage, KeyedStage):
        lines = _keyed(stage)
    else:
        kept = (
            "until no time predicate holds for them"
            if stage.lasts is not None
            else "for as long as state_ttl says"
        )
        lines = [f"Keeps rows {kept}: {stage.reason}."]
    titles = {TopStage: "ranking", KeyedStage: "rows by key", JoinStage: "join of streams", KeptStage: "rows"}
    return Panel(Group(*map(Text, lines)), title=f"{stage.name}: {titles[type(stage)]}", title_align="left")


def of_groups(stage: AggregateStage | GroupStage, how: Callable[[Metric], str]) -> list[RenderableType]:
    """The keys of a GROUP BY, and how each metric of it is kept."""
    keys = ", ".join(key.sql for key in stage.keys) or "none"
    parts: list[RenderableType] = [Text(f"Keys: {keys}")]
    if stage.grouping_sets is not None:
        sets = ", ".join(f"({', '.join(members)})" for members in stage.grouping_sets)
        parts.append(Text(f"Grouping sets: {sets}"))
    metrics = Table("metric", "kept in", "how")
    for metric in stage.metrics:
        metrics.add_row(Text(metric.sql), metric.name, how(metric))
    return [*parts, metrics]


def _how(metric: Metric) -> str:
    if metric.distinct_set is None:
        return "partial aggregates per key"
    if metric.signed:
        return f"how often each value is there: {metric.distinct_set}"
    return f"counted when first seen: {metric.distinct_set}"


def _top(stage: TopStage) -> list[str]:
    of = f" of each {', '.join(key.sql for key in stage.keys)}" if stage.keys else ""
    over = f" over {stage.over}" if stage.over is not None else ""
    lines = [f"The first {stage.top.rows}{of} by {stage.top.function}(){over}."]
    if stage.final:
        return [*lines, "A row is put out when the watermark has passed it, so that none can come before it."]
    return [*lines, f"Strategy {stage.strategy}: {_STRATEGIES[stage.strategy]}"]


def _join(stage: JoinStage) -> list[str]:
    lines = []
    for side in stage.sides:
        lasts = "for ever" if side.lasts is None else f"{intervals.format(side.lasts)} of event time"
        lines.append(f"Rows of {side.alias} are kept {lasts}.")
    if stage.unmatched is not None:
        lines.append(f"A row of {stage.sides[0].alias} without a match comes out alone when it goes.")
    return lines


def _keyed(stage: KeyedStage) -> list[str]:
    key = ", ".join(stage.key)
    read = "Read through its change feed" if stage.feed else "A row replaces the one before it"
    lines = [f"{read}: one row per {key}."]
    if stage.signed:
        lines.append("What a row replaces is taken away from the aggregates above.")
    if stage.stored:
        lines.append("The last row of each key is kept.")
    return lines
