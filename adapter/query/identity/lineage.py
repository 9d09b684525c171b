"""Lineages of a tree's operators."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import QueryError
from ..plan.dataflow import Dataflow
from ..plan.lineage import Lineage, UnknownLineage, opaque
from ..plan.operator import Operator


def lineages(flow: Dataflow) -> dict[str, Lineage]:
    """Returns the lineage of each operator, by its name."""
    found: dict[str, Lineage] = {}
    for operator in flow.operators:
        found[operator.name] = of(operator, found)
    return found


def of(operator: Operator, known: Mapping[str, Lineage]) -> Lineage:
    """Returns the lineage of an operator.

    Args:
        known: lineages of the operators below, by name.
    """
    try:
        return operator.lineage([known[each.name] for each in operator.inputs])
    except (UnknownLineage, QueryError):
        # The name is a digest of the operator's text and everything below it.
        return opaque("as written", operator.name)
