"""Explains the state of joins: the buffered rows of each side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ..sql.clauses import relations_with_joins
from . import author_text
from .explanation import Context, State
from .operator import Operator, Until, input_name
from .time_bounds import buffered_join_side


def states_of_sides(
    operator: Operator,
    select: exp.Select,
    context: Context,
    *,
    need: str,
    until: Sequence[Until],
    clears: Callable[[Operator], str],
) -> tuple[State, ...]:
    """Returns the state tables of a join, which describe each side's rows by the side's alias.

    Args:
        need: the reason why a row is stored, as a relative clause.
        until: per input, the watermark until which a row may find matches; empty if unknown.
        clears: returns what clears the rows of an input, if `until` is empty.
    """
    aliases: dict[str, list[str]] = {}
    for node, _ in relations_with_joins(select):
        for number, each in enumerate(operator.inputs):
            if isinstance(node, exp.Table) and node.name == input_name(number):
                aliases.setdefault(each.name, []).append(node.alias)
    clearing = {
        buffered_join_side(
            each, context.names, last
        ).part: f"when the watermark has passed {author_text.until_text(last)}"
        for each, last in zip(operator.inputs, until, strict=False)
    }
    described = {}
    inputs = {each.name: each for each in operator.inputs}
    for part in sorted(context.state, key=[*clearing].index if clearing else None):
        below = inputs[context.rows_of[part]]
        names = " and ".join(each for each in aliases.get(below.name, ()) if not each.startswith("__"))
        rows = f"a row of {names} {need}" if names else "an input's row that later changes need"
        described[part] = rows, clearing.get(part) or clears(below)
    return context.state_tables(described, ("", ""))
