"""Describes Top-N operators: the name, and what clears the state."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from ..normalize.rankings import ranks
from ..plan.operators.top_n import TopN
from .bounds import Bounds
from .selects import ranking

UPDATABLE = (
    "A group's place only gets better, so the members and the groups that changed are all that is ranked."
)
RETRACTABLE = (
    "The members and the groups that changed are ranked; where they don't fill a ranking any more, that ranking is looked "
    "up again in its groups' state."
)
IN_ITS_ORDER = "A row is emitted when the watermark has passed it, so that none can come before it."


@dataclass(frozen=True)
class Ranked:
    """Description of a `TopN`."""

    name: str
    what: str
    rows: str
    """Description of a row of its state."""
    clears: str
    notes: tuple[str, ...]


def ranked(operator: TopN, select: exp.Select, bounds: Bounds) -> Ranked:
    """Returns the description of a ranking's operator, in Flink's terms.

    Args:
        operator: the operator.
        select: its ranking, as the author wrote it.
        bounds: describes what clears state.
    """
    (below,) = operator.inputs
    ((_, placed),) = ranks.ranks(select).items()
    over_groups = bool(below.relation.changes)
    time = "" if over_groups else below.relation.event_time or ""
    name = "AppendOnlyTopN"
    if over_groups:
        name = "UpdatableTopN" if operator.improves else "RetractableTopN"
    name, what = ranking(
        select=select, rank=placed, last=operator.top.rows, windows=False, time=time, operator=name
    )
    rows, clears, notes = "a row that is, or was, among the first", "when others take its place", []
    if over_groups:
        rows, clears = "a member that came, changed or went", "when it is no member any more"
        notes.append(UPDATABLE if operator.improves else RETRACTABLE)
    elif name == "Deduplicate":
        keep = "first" if what.startswith("keep first") else "last"
        rows = f"the {keep} row of a key"
        keys = {key: () for key in placed.args.get("partition_by") or ()}
        clears = bounds.of_keys(keys, select, below.relation.bounded)
    if not over_groups and not operator.is_global:
        last = "it came" if name == "Deduplicate" else "its ranking's last new member"
        clears = bounds.after(last) or clears
    if operator.final:
        notes.append(IN_ITS_ORDER)
    if operator.top.buckets is not None:
        notes.append(f"New rows are ranked in {operator.top.buckets} buckets first.")
    return Ranked(name, what, rows, clears, tuple(notes))
