"""One operator of the tree that is shown, and what there is to know of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..sql.names import digest

APPEND, UPSERT, RETRACT, TABLE = "append", "upsert", "retract", "table"
FROM_CHANGES, PARTITIONS, EVERYTHING = (
    "from changes",
    "recomputes touched partitions",
    "recomputes everything",
)


@dataclass(frozen=True)
class Changelog:
    """What flows out of an operator."""

    kind: str
    """`APPEND`: rows that never change; `UPSERT`: rows that replace those of their key; `RETRACT`: rows that are added
    and taken back; `TABLE`: no stream, read again in each micro-batch."""
    key: tuple[str, ...] = ()
    """Of `UPSERT`; none: there is one row."""

    def __str__(self) -> str:
        if self.kind != UPSERT:
            return self.kind
        return f"{self.kind}({', '.join(self.key)})" if self.key else f"{self.kind} of one row"


@dataclass(frozen=True)
class Computing:
    """How an operator's result is brought up to date."""

    how: str = FROM_CHANGES
    """`FROM_CHANGES`, `PARTITIONS` or `EVERYTHING`."""
    by: tuple[str, ...] = ()
    """What partitions the rows of `PARTITIONS`."""
    cost: str = ""
    """What is read for it, where it isn't what changed alone."""

    @property
    def recomputes(self) -> bool:
        """Whether rows that were computed before are computed again."""
        return self.how != FROM_CHANGES

    def __str__(self) -> str:
        if self.how == PARTITIONS:
            return f"{self.how} by {', '.join(self.by)}"
        return f"{self.how} in each micro-batch" if self.how == EVERYTHING else self.how


@dataclass(frozen=True)
class State:
    """A part of the state table that an operator keeps."""

    part: str
    rows: str
    """What one of its rows is."""
    clears: str
    """What clears it."""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeptMetric:
    """An aggregate call, and where it is kept."""

    sql: str
    """As its author wrote it."""
    function: str
    columns: tuple[str, ...]
    """Of the state; none: it is computed from the rows that are kept."""
    how: str


@dataclass(frozen=True)
class Node:
    """An operator over its inputs."""

    operator: str
    """Its name in the field's terms."""
    description: str
    """What it does, in the words of the model's text."""
    changelog: Changelog
    identity: str
    """A digest: equal operators over equal inputs are one."""
    inputs: tuple[Node, ...] = ()
    key: tuple[str, ...] | None = None
    """The columns that identify a row; None: nothing does, as far as is known."""
    event_time: str | None = None
    """The column that carries event time, and what is known of it."""
    state: tuple[State, ...] = ()
    shares: tuple[str, ...] = ()
    """Parts of the state that it reads, too, and another operator keeps."""
    computing: Computing = Computing()
    metrics: tuple[KeptMetric, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences."""


def make(
    operator: str,
    description: str,
    changelog: Changelog,
    inputs: tuple[Node, ...] = (),
    identity: str = "",
    **known: Any,
) -> Node:
    """A node; without an identity of its own it has that of what it is made of."""
    computing = known.get("computing", Computing())
    made_of = (operator, description, str(computing), *(each.identity for each in inputs))
    return Node(operator, description, changelog, identity or digest(*made_of), inputs, **known)


def in_order(root: Node) -> Iterator[Node]:
    """A node and all below it, the node first, each once."""
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.identity not in seen:
            seen.add(node.identity)
            yield node
            waiting += reversed(node.inputs)


def as_dict(root: Node) -> dict[str, Any]:
    """The tree as plain JSON; what is read a second time is there by its identity alone."""
    seen: set[str] = set()

    def shown(node: Node) -> dict[str, Any]:
        if node.identity in seen:
            return {"operator": node.operator, "see": node.identity}
        seen.add(node.identity)
        computing = node.computing
        return {
            "operator": node.operator,
            "description": node.description,
            "identity": node.identity,
            "changelog": {"mode": node.changelog.kind, "key": list(node.changelog.key)},
            "key": None if node.key is None else list(node.key),
            "event_time": node.event_time,
            "computes": {"how": computing.how, "by": list(computing.by), "cost": computing.cost or None},
            "state": [
                {"part": s.part, "columns": list(s.columns), "rows": s.rows, "clears": s.clears}
                for s in node.state
            ],
            "shares_state": list(node.shares),
            "metrics": [
                {"sql": m.sql, "function": m.function, "columns": list(m.columns), "how": m.how}
                for m in node.metrics
            ],
            "notes": list(node.notes),
            "inputs": [shown(each) for each in node.inputs],
        }

    return shown(root)
