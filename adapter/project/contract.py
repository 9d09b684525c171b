"""Reads the constraints of a model's contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..stream.common.model import Constraint
from ..util.quoting import quote_name


def constraints(node: Mapping[str, Any]) -> tuple[Constraint, ...]:
    """Returns the enforced constraints, `not_null` and `check`. Others are informational, as in dbt-spark.

    Args:
        node: a model's node. Without an enforced contract it has no constraints.
    """
    contract = (node.get("config") or {}).get("contract") or {}
    if not (contract.get("enforced") if isinstance(contract, Mapping) else contract.enforced):
        return ()
    return tuple(_column_constraints(node)) + tuple(_model_constraints(node))


def _column_constraints(node: Mapping[str, Any]) -> Iterator[Constraint]:
    for name, column in (node.get("columns") or {}).items():
        for each in column.get("constraints") or ():
            if each["type"] == "not_null":
                yield _not_null_constraint(name, bool(column.get("quote")))
            elif each["type"] == "check":
                yield _check_constraint(each)


def _model_constraints(node: Mapping[str, Any]) -> Iterator[Constraint]:
    for each in node.get("constraints") or ():
        if each["type"] == "check":
            yield _check_constraint(each)
        elif each["type"] == "not_null":
            yield from map(_not_null_constraint, each.get("columns") or ())


def _not_null_constraint(name: str, reserved: bool = False) -> Constraint:
    return Constraint(f"{quote_name(name, reserved)} is null", f"Column {name} must not be null")


def _check_constraint(constraint: Mapping[str, Any]) -> Constraint:
    name = f"{constraint['name']} " if constraint.get("name") else ""
    expression = constraint["expression"]
    # The expression may end with a comment.
    return Constraint(f"not ({expression}\n)", f"Constraint {name}is broken: {expression}")
