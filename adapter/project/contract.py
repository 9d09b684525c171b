"""Reads the constraints of a model's contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..stream.common.model import Constraint
from ..util.quoting import quote_name


def enforced_constraints(node: Mapping[str, Any]) -> tuple[Constraint, ...]:
    """Returns the constraints that a model's contract enforces: `not_null` and `check`. Others are informational, as in
    dbt-spark."""
    contract = (node.get("config") or {}).get("contract") or {}
    if not (contract.get("enforced") if isinstance(contract, Mapping) else contract.enforced):
        return ()
    return tuple(_declared_constraints(node))


def _declared_constraints(node: Mapping[str, Any]) -> Iterator[Constraint]:
    for name, column in (node.get("columns") or {}).items():
        for each in column.get("constraints") or ():
            yield from _parse_constraint(each, [name], bool(column.get("quote")))
    for each in node.get("constraints") or ():
        yield from _parse_constraint(each, each.get("columns") or ())


def _parse_constraint(
    constraint: Mapping[str, Any], columns: Iterable[str], reserved: bool = False
) -> Iterator[Constraint]:
    if constraint["type"] == "check":
        name = f"{constraint['name']} " if constraint.get("name") else ""
        # The expression may end with a comment.
        yield Constraint(
            f"not ({constraint['expression']}\n)", f"Constraint {name}is broken: {constraint['expression']}"
        )
    elif constraint["type"] == "not_null":
        for column in columns:
            yield Constraint(f"{quote_name(column, reserved)} is null", f"Column {column} must not be null")
