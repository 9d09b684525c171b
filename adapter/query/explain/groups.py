"""Describes a GROUP BY stored as partial aggregates per key: its keys, aggregates and state."""

from __future__ import annotations

from collections.abc import Mapping

from ..aggregates.aggregate_stage import GROUPING_ID
from ..aggregates.model import AggregateStage, GroupStage
from ..aggregates.model import Metric as PlanMetric
from ..plan.state.group_state import Groups
from . import text
from .node import KeptMetric, State
from .state import Columns
from .window_stages import grouping_sets


def metrics_of(stage: GroupStage, pieces: Groups) -> tuple[KeptMetric, ...]:
    """Returns the aggregates of groups, with the state columns that store them."""
    own = pieces.state_columns()
    return tuple(
        KeptMetric(
            text.tidy(m.sql),
            f"{m.function} distinct" if m.distinct else m.function,
            tuple(own.get(m.identity, ())),
            _how(m),
        )
        for m in stage.metrics
    )


def _how(metric: PlanMetric) -> str:
    if metric.distinct_set is None:
        return "partial aggregate per key"
    return "how often each value is there" if metric.signed else "first occurrences per key"


def state_of_groups(
    stage: GroupStage, pieces: Groups, columns: Columns, clears: str, ttl: int | None
) -> tuple[State, ...]:
    """Returns the state tables of groups and of their distinct values."""
    kept = "partial aggregates per key" if stage.keys else "partial aggregates"
    found = [State(pieces.part, kept, clears, columns(pieces.part))]
    for part, values in pieces.set_parts().values():
        named = ", ".join(values)
        what = f"how often a value of {named} is there" if stage.signed else f"a value of {named}, once"
        value_clears = "with its key" if ttl is not None else "nothing: as many as there are values"
        if stage.signed and ttl is None:
            value_clears = "when it isn't there any more"
        found.append(
            State(part, f"{what}{' per key' if stage.keys else ''}", value_clears, columns(part))
        )  # fmt: skip
    return tuple(found)


def written_of(stage: AggregateStage | GroupStage) -> Mapping[str, str]:
    """Returns the author's expression for each column of groups."""
    return {key.name: key.sql for key in stage.keys} | {m.name: m.sql for m in stage.metrics}


def by_keys(stage: GroupStage) -> str:
    """Returns the GROUP BY of groups in short."""
    if stage.grouping_sets is not None:
        return f"by {grouping_sets(stage)}"
    return f"by {', '.join(text.tidy(key.sql) for key in stage.keys)}" if stage.keys else "all rows"


def key_of(stage: GroupStage) -> tuple[str, ...]:
    """Returns the keys that identify a group, as the author wrote them."""
    sets = (f"{GROUPING_ID}()",) if stage.grouping_sets is not None else ()
    return (*(text.tidy(key.sql) for key in stage.keys), *sets)
