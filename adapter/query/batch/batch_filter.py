"""Handles dbt's microbatch filters in a model's text: removes them from streams, or makes them compare instants.

dbt writes ``(select * from relation where time >= 'start' and time < 'end')`` for a relation that has an
``event_time``.

>>> from datetime import datetime
>>> from ...util.event_time import condition
>>> batch = (datetime(2024, 3, 4), datetime(2024, 3, 5))
>>> text = f"select * from (select * from shop.bid where {condition('ts', *batch)})"
>>> remove_batch_filters(text, batch, ["shop.bid"])
'SELECT * FROM (SELECT * FROM shop.bid)'
>>> remove_batch_filters(text, batch, ["shop.ask"]) == text
True
>>> filtered_relations(text, batch)
[('shop.bid', 'ts')]
>>> compare_instants(text, batch).partition(" WHERE ")[2].partition(" AND ")[0]
"CAST(ts AS TIMESTAMP) >= '2024-03-04 00:00:00+00:00'"
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from sqlglot import exp

from ...util.event_time import bounds
from ..frontend import hints
from ..sql.dialect import from_clause, parse, sql
from ..sql.nodes import every

Batch = tuple[datetime, datetime]
"""Start (inclusive) and end (exclusive)."""

_COMPARISONS: dict[str, type[exp.Binary]] = {">=": exp.GTE, ">": exp.GT, "<": exp.LT, "<=": exp.LTE}


def remove_batch_filters(text: str, batch: Batch, streams: Collection[str]) -> str:
    """Removes the batch filters on streams, because windows at the batch's edges need rows outside it. Other tables
    keep their filters.

    Args:
        text: compiled by dbt.
        batch: the microbatch, or the sample.
        streams: names of the streams' relations, as the planner prints them.
    """
    tree = parse(text)
    wanted = {name.lower() for name in streams}
    found = [
        select
        for select, table in _filtered_selects(tree, batch)
        if hints.relation_name(table).lower() in wanted
    ]
    for select in found:
        select.set("where", None)
    return sql(tree) if found else text


def filtered_relations(text: str, batch: Batch) -> list[tuple[str, str]]:
    """Returns the relations that dbt filtered, each with its filter column."""
    found = _filtered_selects(parse(text), batch)
    return [(sql(table), sql(select.args["where"].this.left.this)) for select, table in found]


def compare_instants(text: str, batch: Batch) -> str:
    """Makes the filters compare instants: times are cast to TIMESTAMP in the session's time zone."""
    tree = parse(text)
    found = [select.args["where"].this for select, _ in _filtered_selects(tree, batch)]
    for both in found:
        for side in (both.left, both.right):
            side.set("this", exp.cast(side.this, exp.DataType.Type.TIMESTAMPTZ))
    return sql(tree) if found else text


def _filtered_selects(tree: exp.Query, batch: Batch) -> Iterator[tuple[exp.Select, exp.Table]]:
    """Yields the SELECTs that consist of a relation and dbt's filter, each with the table."""
    wanted = [(_COMPARISONS[each.comparison], each.text) for each in bounds(*batch)]
    for select in every(tree, exp.Select):
        source = from_clause(select)
        where = select.args["where"].this if select.args.get("where") else None
        if source is None or not select.is_star or not isinstance(where, exp.And):
            continue
        sides = [where.left, where.right]
        if isinstance(source.this, exp.Table) and all(isinstance(side, exp.Binary) for side in sides):
            if [(type(side), side.expression.name) for side in sides] == wanted:
                yield select, source.this
