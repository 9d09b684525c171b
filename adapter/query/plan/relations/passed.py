"""Derives the relation that a row-by-row SELECT over one input returns."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlglot import exp

from ...normalize import conditions
from ...sql.clauses import relations
from ..column_origins import Outputs, outputs_of_select, value_of_column
from ..operator import input_name
from ..relation import Relation
from ..time_bounds import arrival_delay_of, delays_of_computed_columns


def input_tables(select: exp.Select) -> list[exp.Table]:
    """Returns the tables in FROM that are an operator's inputs, in the order of the inputs."""
    tables = [node for node in relations(select) if isinstance(node, exp.Table)]
    by_name = {table.name: table for table in tables}
    return [by_name[name] for n in range(len(by_name)) if (name := input_name(n)) in by_name]


def passed_columns(select: exp.Select) -> Outputs:
    """Returns the columns that a SELECT passes on from its only input.

    >>> from ...sql.dialect import parse
    >>> passed_columns(parse("select a.k as key from __input_0 as a join d on d.k = a.k")).names
    {'k': 'key'}
    """
    (table,) = input_tables(select)
    return outputs_of_select(select, table.alias_or_name)


def passed_relation(select: exp.Select, below: Relation) -> Relation:
    """Returns the properties of the rows of a SELECT.

    Args:
        select: works row by row over one input, which may be joined with static tables.
        below: properties of the input's rows.
    """
    (table,) = input_tables(select)
    alias, found = table.alias_or_name, passed_columns(select)
    delay_of_item = partial(
        arrival_delay_of, delay_of_column=lambda column: value_of_column(column, alias, below.times)
    )
    is_random = not conditions.is_repeatable(select)
    return replace(
        below,
        complete_by=found.with_output_names(below.complete_by),
        open_until=None if below.open_until is None else found[below.open_until],
        ends=_passed_column(found, below.ends),
        in_time=frozenset(found[name] for name in below.in_time if name in found),
        event_time=_passed_column(found, below.event_time),
        delays={**found.with_output_names(below.delays), **delays_of_computed_columns(select, delay_of_item)},
        keys=_passed_keys(select, table, found, below),
        bounded=below.bounded and not (is_random and select.args.get("laterals")),
        # Columns of a static table are read once for each input row.
        repeatable=below.repeatable and not is_random,
    )


def _passed_column(found: Outputs, column: str | None) -> str | None:
    return found[column] if column is not None and column in found else None


def _passed_keys(
    select: exp.Select, table: exp.Table, found: Outputs, below: Relation
) -> tuple[frozenset[str], ...]:
    """Returns the keys of the rows; none if an input row may become several rows."""
    if len(relations(select)) > 1 or conditions.may_multiply_rows(select) or table.args.get("pivots"):
        return ()
    if found.star:
        return tuple(key for key in below.keys if not key & found.hidden)
    return found.passed_keys(below.keys)
