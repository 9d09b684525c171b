"""Bounds of state: sets of values that don't grow, and time."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ..aggregates.model import Key
from ..plan import column_origins, unbounded_state
from ..plan.relation import Relation
from ..sql.dialect import sql
from ..sql.finite import is_finite
from .context import Planner


def passed_end(select: exp.Select, alias: str, relation: Relation, keys: Sequence[exp.Expr]) -> str | None:
    """Returns the output column with the end of the windows, if rows are grouped by that end and it is
    selected; None otherwise."""
    end = relation.ends
    if end is None or not any(column_origins.value_of_column(key, alias, {end: end}) for key in keys):
        return None
    outputs = column_origins.outputs(select, alias)
    return outputs[end] if end in outputs else None


def fixed_keys(planner: Planner, keys: Sequence[exp.Expr], select: exp.Select) -> bool:
    """Whether the sets of values of all keys are bounded, by their expressions or by constant_domains."""
    return all(
        is_finite(key, select) or is_covered(planner, unbounded_state.names_of(Key("", sql(key)), select))
        for key in keys
    )


def is_covered(planner: Planner, names: tuple[str, ...]) -> bool:
    """Whether constant_domains has a key's alias, or all columns that it is computed from. `names` is the
    result of `names_of`."""
    alias, *columns = names or ("",)
    return alias in planner.domains or (bool(names) and all(column in planner.domains for column in columns))
