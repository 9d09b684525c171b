"""One operator of the displayed tree, with its properties."""

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
    """Kind of changes that an operator emits.

    >>> str(Changelog(UPSERT, ("k",))), str(Changelog(UPSERT)), str(Changelog(RETRACT))
    ('upsert(k)', 'upsert of one row', 'retract')
    """

    kind: str
    """`APPEND`: inserted rows that never change; `UPSERT`: rows that replace those of their key; `RETRACT`:
    inserted and retracted rows; `TABLE`: a static table, read again in each micro-batch."""
    key: tuple[str, ...] = ()
    """Key of `UPSERT`; empty if there is a single row."""

    def __str__(self) -> str:
        if self.kind != UPSERT:
            return self.kind
        return f"{self.kind}({', '.join(self.key)})" if self.key else f"{self.kind} of one row"


@dataclass(frozen=True)
class Computing:
    """Method that updates an operator's result."""

    how: str = FROM_CHANGES
    """`FROM_CHANGES`, `PARTITIONS` or `EVERYTHING`."""
    by: tuple[str, ...] = ()
    """Partition keys of `PARTITIONS`."""
    cost: str = ""
    """Rows that are read, if more than the changes."""

    @property
    def recomputes(self) -> bool:
        """Whether existing results are computed again."""
        return self.how != FROM_CHANGES

    def __str__(self) -> str:
        if self.how == PARTITIONS:
            return f"{self.how} by {', '.join(self.by)}"
        return f"{self.how} in each micro-batch" if self.how == EVERYTHING else self.how


@dataclass(frozen=True)
class State:
    """A state table of an operator."""

    part: str
    rows: str
    """Description of one of its rows."""
    clears: str
    """Event or condition that clears a row."""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeptMetric:
    """An aggregate call, with the state columns that store it."""

    sql: str
    """Text as written by the author."""
    function: str
    columns: tuple[str, ...]
    """Columns of the state; empty if it is computed from the stored rows."""
    how: str


@dataclass(frozen=True)
class Node:
    """An operator with its inputs."""

    operator: str
    """Standard name of the operator."""
    description: str
    """Description in terms of the model's text."""
    changelog: Changelog
    identity: str
    """Digest; equal operators over equal inputs have the same."""
    inputs: tuple[Node, ...] = ()
    key: tuple[str, ...] | None = None
    """Columns that identify a row; None if none are known."""
    event_time: str | None = None
    """Column with the event time, and its properties."""
    state: tuple[State, ...] = ()
    shares: tuple[str, ...] = ()
    """State tables of other operators that it also reads."""
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
    """Returns a node; without an `identity` that is computed from its parts."""
    computing = known.get("computing", Computing())
    made_of = (operator, description, str(computing), *(each.identity for each in inputs))
    return Node(operator, description, changelog, identity or digest(*made_of), inputs, **known)


def in_order(root: Node) -> Iterator[Node]:
    """Yields a node and all nodes below it, the node first, each once."""
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.identity not in seen:
            seen.add(node.identity)
            yield node
            waiting += reversed(node.inputs)


def as_dict(root: Node) -> dict[str, Any]:
    """Returns the tree as plain JSON; a repeated node is replaced by its identity.

    >>> source = make("Source", "orders", Changelog(APPEND))
    >>> tree = as_dict(make("Join", "a.k = b.k", Changelog(APPEND), (source, source)))
    >>> [each.get("description", "as above") for each in tree["inputs"]]
    ['orders', 'as above']
    """
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
