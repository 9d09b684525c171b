"""A query's operators as a tree, laid out to be read."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from ..query.operators.base import (
    Dataflow,
    GroupAggregate,
    Join,
    Operator,
    Recompute,
    SetOperation,
    Source,
    WindowChanges,
    WindowClose,
    WindowResults,
)

_NAMES = {
    "Source": "source",
    "WindowResults": "windows",
    "WindowChanges": "early and late results",
    "WindowRows": "windows, row by row",
    "WindowClose": "window close",
    "Project": "project",
    "UnionAll": "union all",
    "Local": "within the micro-batch",
    "GroupAggregate": "group aggregate",
    "SetOperation": "set operation",
    "Join": "inner join",
    "Recompute": "recompute",
}


def tree(flow: Dataflow) -> RenderableType:
    """The operators, the last one first, each with what it gives, keeps and computes."""
    shown: set[str] = set()

    def node(operator: Operator, into: Tree) -> None:
        known = operator.name in shown
        shown.add(operator.name)
        lines = [Text(f"{_NAMES[type(operator).__name__]}: {operator.label}", style="bold")]
        lines += [Text("as above, computed once")] if known else [Text(line) for line in describe(operator)]
        branch = into.add(Group(*lines))
        for each in () if known else operator.inputs:
            node(each, branch)

    root = Tree(Text("Operators, each over those below it"))
    node(flow.root, root)
    return root


def describe(operator: Operator) -> list[str]:
    """What there is to know of an operator, a line each."""
    relation = operator.relation
    gives = "rows that may be retracted" if relation.changes else "rows that never change"
    if relation.together:
        gives += f", all of one {', '.join(relation.together)} at once"
    lines = [f"gives {gives}"]
    if relation.key is not None:
        lines.append(f"key: {', '.join(sorted(relation.key)) or 'one row'}")
    lines.append(f"state: {_state(operator)}")
    if isinstance(operator, Recompute):
        lines.append(
            "computes all of it again in each micro-batch"
            if operator.is_whole
            else f"computes the partitions that were touched again, by {', '.join(operator.keys[0])}"
        )
    elif isinstance(operator, GroupAggregate | SetOperation | Join):
        lines.append("computes from changes")
    return lines


def _state(operator: Operator) -> str:
    if isinstance(operator, WindowResults) and operator.plan.stages:
        return "slices, rows or sessions of open windows; they end with their window"
    if isinstance(operator, WindowChanges):
        return "what open windows gave last; it ends with their window"
    if isinstance(operator, WindowClose):
        return "changes of open windows; they end with their window"
    if isinstance(operator, GroupAggregate):
        return f"partial aggregates per {', '.join(key.sql for key in operator.stage.keys) or 'stream'}"
    if isinstance(operator, SetOperation):
        return "how often each row is there"
    if isinstance(operator, Join):
        return "the rows of all sides"
    if isinstance(operator, Recompute):
        return (
            f"the first {operator.top.rows} rows of each partition" if operator.top else "the rows below it"
        )
    return "none"


def as_json(flow: Dataflow) -> dict[str, Any]:
    """The same tree as plain JSON."""

    def node(operator: Operator) -> dict[str, Any]:
        relation = operator.relation
        return {
            "name": operator.name,
            "operator": type(operator).__name__,
            "label": operator.label,
            "changelog": "retract" if relation.changes else "append",
            "key": None if relation.key is None else sorted(relation.key),
            "together": sorted(relation.together),
            "bounded": relation.bounded,
            "state": _state(operator),
            "from_changes": not isinstance(operator, Recompute),
            "changelog_source": isinstance(operator, Source) and operator.changelog,
            "inputs": [node(each) for each in operator.inputs],
        }

    return node(flow.root)
