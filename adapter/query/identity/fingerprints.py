"""Fingerprints of state tables by lineage, so that a query with another text but the same meaning finds its state.

A state table is named after the query it was created for. If an edited query has a state table with the same
rows under another name, it gets the old name (`stream.evolution`), and the stored rows stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ..plan.dataflow import Dataflow
from ..plan.lineage import Lineage, opaque_lineage
from ..plan.operator import Operator
from ..plan.operators.group_aggregate import GroupAggregate
from ..plan.operators.top_n import TopN
from ..plan.operators.window_results import WindowResults, lineages_of_windows
from ..plan.query_lineage import canonical_by_position
from ..plan.state.buffered_rows import BufferedRows
from ..plan.upserts import state_root
from ..program import NEW_STATE, StateNames
from ..sql.names import digest
from ..state_signature import Fingerprints


def fingerprints(
    flow: Dataflow, owners: Mapping[str, BufferedRows | Operator], state: StateNames = NEW_STATE
) -> Fingerprints:
    """Returns the lineage of a dataflow and of each of its state tables.

    Args:
        owners: state table → the buffered rows, or the operator, that it belongs to.
        state: names of groups and windows in the state.
    """
    known = lineages(flow)
    root = known[state_root(flow).name]
    names = {group.name: state.get(name, name) for name, group in flow.groups.items()}
    parts = {
        part: _part_fingerprint(owner, known, flow)
        for part, owner in owners.items()
        if not isinstance(owner, GroupAggregate)
    }
    rows = Counter(known[each].rows for each in names)
    groups = {}
    for operator, name in names.items():
        lineage = known[operator]
        # Two GROUP BY over the same rows are distinguished by their aggregates.
        groups[name] = lineage.rows if rows[lineage.rows] == 1 else digest(lineage.meaning)
    metrics = {
        names[each.name]: {
            metric.identity: dict(known[each.name].columns).get(metric.name, "")
            for metric in each.spec.metrics
        }
        for each in flow.groups.values()
    }
    return Fingerprints(
        parts=parts,
        groups=groups,
        metrics=metrics,
        windows={
            state.get(name, name): rows
            for each in flow.operators
            if isinstance(each, WindowResults)
            for name, rows in lineages_of_windows(each.windows)[0].items()
        },
        rows=root.rows,
        columns=tuple((name, means) for name, means in root.columns),
        meaning=root.meaning,
    )


def _part_fingerprint(owner: BufferedRows | Operator, known: Mapping[str, Lineage], flow: Dataflow) -> str:
    if isinstance(owner, TopN) and not owner.inputs[0].relation.changes:
        # The digest leaves out N: a ranking with a smaller N finds its rows in the state.
        all_rows = lineage_of(replace(owner, top=replace(owner.top, rows=0)), known)
        names = [name.lower() for name, _ in all_rows.columns]
        return digest(
            "first rows", all_rows.rows, [each for _, each in all_rows.columns], names, all_rows.star
        )
    if not isinstance(owner, BufferedRows):
        below = [known[each.name].meaning for each in owner.inputs]
        return digest(type(owner).__name__, known[owner.name].meaning, owner.relation.changes, *below)
    changes, expires = owner.operator.relation.changes, owner.ttl is not None
    definition: list[object] = [
        known[owner.operator.name].meaning,
        changes,
        expires,
        owner.ends,
        owner.lasts,
        owner.expires_by_itself,
        owner.busy,
    ]
    if owner.partitions is not None and expires and not owner.expires_by_itself:
        # Identity of the partitions that expire together.
        reader = next((each for each in flow.operators if each.name == owner.partitions.owner), None)
        definition += [known[reader.name].rows if reader is not None else "each row"]
        definition += [canonical_by_position(key, (owner.alias,)) for key in owner.keys]
    if owner.top is not None:
        where = owner.top.where and canonical_by_position(owner.top.where, (owner.alias,))
        definition += ["top", canonical_by_position(owner.top.place, (owner.alias,)), owner.top.rows, where]
    return digest("rows", *definition)


def lineages(flow: Dataflow) -> dict[str, Lineage]:
    """Returns the lineage of each operator, by its name."""
    found: dict[str, Lineage] = {}
    for operator in flow.operators:
        found[operator.name] = lineage_of(operator, found)
    return found


def lineage_of(operator: Operator, known: Mapping[str, Lineage]) -> Lineage:
    """Returns the lineage of an operator.

    Args:
        known: lineages of the operators below, by name.
    """
    found = operator.lineage([known[each.name] for each in operator.inputs])
    # The name is a digest of the operator's text and everything below it.
    return opaque_lineage("as written", operator.name) if found is None else found
