"""Matches the state tables of two plans by lineage, so that a query with another text but the same meaning
finds its state.

A state table is named after the query it was created for. If an edited query has a part with the same rows
under another name, that part takes the old name (`stream.alike`), and the stored rows stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ..errors import QueryError
from ..plan.dataflow import Dataflow
from ..plan.lineage import Lineage, UnknownLineage, opaque
from ..plan.operator import Operator
from ..plan.operators.group_aggregate import GroupAggregate
from ..plan.operators.top_n import TopN
from ..plan.operators.window_results import WindowResults, of_windows
from ..plan.query_lineage import canonical_text
from ..plan.state.buffered_rows import BufferedRows
from ..plan.upserts import state_root
from ..sql.names import digest
from ..state_signature import Fingerprints


def fingerprints(flow: Dataflow, keeps: Mapping[str, BufferedRows | Operator]) -> Fingerprints:
    """Returns the lineage of a dataflow and of each of its state tables.

    Args:
        keeps: by state table, the buffered rows or the operator that it belongs to.
    """
    known = lineages(flow)
    root = known[state_root(flow).name]
    names = {group.name: name for name, group in flow.groups.items()}
    parts = {
        part: _part_fingerprint(of, known, flow)
        for part, of in keeps.items()
        if not isinstance(of, GroupAggregate)
    }
    rows = Counter(known[each].rows for each in names)
    groups = {}
    for operator, name in names.items():
        its = known[operator]
        # Two GROUP BY over the same rows are distinguished by their aggregates.
        groups[name] = its.rows if rows[its.rows] == 1 else digest(its.means)
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
        stages={
            name: rows
            for each in flow.operators
            if isinstance(each, WindowResults)
            for name, rows in of_windows(each.windows)[0].items()
        },
        rows=root.rows,
        columns=tuple((name, means) for name, means in root.columns),
        meaning=root.means,
    )


def _part_fingerprint(of: BufferedRows | Operator, known: Mapping[str, Lineage], flow: Dataflow) -> str:
    if isinstance(of, TopN) and not of.inputs[0].relation.changes:
        # The digest leaves out N: a ranking with a smaller N finds its rows in the state.
        all_rows = lineage_of(replace(of, top=replace(of.top, rows=0)), known)
        names = [name.lower() for name, _ in all_rows.columns]
        return digest(
            "first rows", all_rows.rows, [each for _, each in all_rows.columns], names, all_rows.star
        )
    if not isinstance(of, BufferedRows):
        below = [known[each.name].means for each in of.inputs]
        return digest(type(of).__name__, known[of.name].means, of.relation.changes, *below)
    changes, expires = of.operator.relation.changes, of.ttl is not None
    said: list[object] = [
        known[of.operator.name].means,
        changes,
        expires,
        of.ends,
        of.lasts,
        of.alone,
        of.busy,
    ]
    if of.partitions is not None and expires and not of.alone:
        # Identity of the partitions that expire together.
        owner = next((each for each in flow.operators if each.name == of.partitions.owner), None)
        said += [known[owner.name].rows if owner is not None else "each row"]
        said += [canonical_text(key, (of.alias,)) for key in of.keys]
    if of.top is not None:
        where = of.top.where and canonical_text(of.top.where, (of.alias,))
        said += ["top", canonical_text(of.top.place, (of.alias,)), of.top.rows, where]
    return digest("rows", *said)


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
    try:
        return operator.lineage([known[each.name] for each in operator.inputs])
    except (UnknownLineage, QueryError):
        # The name is a digest of the operator's text and everything below it.
        return opaque("as written", operator.name)
