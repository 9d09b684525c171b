"""Holds back changes of open windows until these close, and counts late rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from ..plan import column_origins
from ..plan.operator import Operator
from ..plan.operators.late_rows import LateRows
from ..plan.operators.project import Project
from ..plan.operators.union_all import UnionAll
from ..plan.operators.window_close import WindowClose
from ..sql.names import digest
from .context import Planner
from .from_items import FromItem


def hold_back_open_windows(planner: Planner, operator: Operator) -> Operator:
    """Returns an operator that holds back changes of open windows until these close."""
    end = operator.relation.open_until
    if end is None:
        return operator
    return planner.add(
        WindowClose(
            name=f"closed_{digest(operator.name)}", inputs=(operator,), label=f"when {end} has passed"
        )
    )


def closed_inputs(
    planner: Planner, select: exp.Select, read: Sequence[FromItem], keep_passed_on: bool
) -> list[FromItem]:
    """Returns the relations that a SELECT reads, without changes of open windows. With `keep_passed_on`, a relation
    whose window end the SELECT passes on isn't changed."""
    return [
        each
        if each.operator is None or (keep_passed_on and passes_window_end(select, each))
        else replace(each, operator=hold_back_open_windows(planner, each.operator))
        for each in read
    ]


def passes_window_end(select: exp.Select, source: FromItem) -> bool:
    """Whether a SELECT passes on the end of open windows of a relation, if there are any."""
    end = source.stream_operator.relation.open_until
    return end is None or end in column_origins.outputs_of_select(select, source.alias)


def count_late_rows_of_inputs(
    planner: Planner, select: exp.Select, inputs: Sequence[Operator], streams: Sequence[FromItem]
) -> tuple[Operator, ...]:
    """Returns the inputs of a join, above operators that count their late rows. `streams` are the same relations in the
    SELECT."""
    return tuple(
        count_late_rows(planner, each, select, item.alias) for each, item in zip(inputs, streams, strict=True)
    )


def count_late_rows(planner: Planner, operator: Operator, select: exp.Select, alias: str) -> Operator:
    """Adds an operator that counts late rows above each operator that returns a stream's rows as they arrive, also below
    projections and unions. Others are returned unchanged.

    Args:
        planner: planner of the tree.
        operator: an input of a SELECT.
        select: the SELECT.
        alias: alias of the relation in the SELECT.
    """
    time = operator.relation.event_time
    if time is not None:
        name = f"timely_{digest(operator.name)}"
        found = planner.add(LateRows(name=name, inputs=(operator,), time=time))
        return planner.record_dropped_rows(found, select, time, alias)
    if not isinstance(operator, Project | UnionAll):
        return operator
    # The name of the column in the input's text is unknown.
    inputs = tuple(count_late_rows(planner, each, exp.Select(), "") for each in operator.inputs)
    if inputs == operator.inputs:
        return operator
    name = f"{operator.name.partition('_')[0]}_{digest(operator.name, *(each.name for each in inputs))}"
    return planner.add(replace(operator, name=name, inputs=inputs))
