"""Restores the author's text from texts of a plan: generated names are removed, and moved expressions put
back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from ..aggregates.model import AggregateStage, GroupStage
from ..plan.operators.window_results import WindowResults
from ..sql.clauses import relations
from ..sql.dialect import parse
from ..sql.nodes import every
from . import text
from .groups import written_of
from .selects import Read

_DISTINCT = "own"
"""Alias that the planner gives the rows of a DISTINCT."""


def select_of(sql: str) -> exp.Select:
    """Returns the outermost SELECT of a text."""
    made = parse(sql)
    select = made if isinstance(made, exp.Select) else made.find(exp.Select)
    assert select is not None
    return select


def lifted(sql: str, below: Read) -> Mapping[str, str]:
    """Returns the expressions of generated columns that move subqueries out of a GROUP BY
    (`normalize.above_groups`), by column."""
    select = select_of(sql)
    if below.written:
        select = text.put_back(select, below.written, below.keys)
    made = (item for item in select.expressions if isinstance(item, exp.Alias))
    return {item.alias: text.shown(item.this) for item in made if text.is_lifted(item.alias)}


def lifted_in_windows(results: WindowResults) -> Mapping[str, str]:
    """Returns the expressions of such columns in groups within windows."""
    found: dict[str, str] = {}
    for stage in results.stages:
        if isinstance(stage, AggregateStage):
            select = text.put_back(select_of(stage.output), written_of(stage), stage.keys)
            made = (item for item in select.expressions if isinstance(item, exp.Alias))
            found |= {item.alias: text.shown(item.this) for item in made if text.is_lifted(item.alias)}
    return found


def expression(sql: str) -> exp.Expr:
    """Returns the tree of an expression."""
    made: exp.Expr = parse(f"select {sql} as made").expressions[0].unalias()
    return made


def in_authors_words(stage: GroupStage) -> GroupStage:
    """Returns a stage whose keys and aggregates have no generated alias."""
    alias = relations(select_of(stage.written))[0].alias_or_name
    if alias != _DISTINCT and not text.is_own_alias(alias):
        return stage

    def without(sql: str) -> str:
        made = expression(sql)
        for column in every(made, exp.Column):
            if column.table == alias:
                column.set("table", None)
        return text.shown(made)

    return replace(
        stage,
        keys=tuple(replace(key, sql=without(key.sql)) for key in stage.keys),
        metrics=tuple(replace(metric, sql=without(metric.sql)) for metric in stage.metrics),
    )


def without_joins(select: exp.Select) -> exp.Select:
    """Returns a SELECT without its joins.

    >>> without_joins(select_of("select a.x from a join b on a.k = b.k")).sql()
    'SELECT a.x FROM a'
    """
    made = select.copy()
    made.set("joins", None)
    return made
