"""dbt's filter of a microbatch, taken off the streams of a model: windows at the edges need rows beyond it.

dbt puts ``(select * from relation where time >= 'start' and time < 'end')`` for a relation that has an
``event_time``. Tables that are no streams keep theirs.

>>> text = "select * from (select * from shop.bid where ts >= '2024-03-04' and ts < '2024-03-05') as bid"
>>> without_filter(text, "2024-03-04", "2024-03-05", ["shop.bid"])
'SELECT * FROM (SELECT * FROM shop.bid) AS bid'
>>> without_filter(text, "2024-03-04", "2024-03-05", ["shop.ask"]) == text
True
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from .text import hints
from .text.dialect import from_clause, parse, sql
from .text.nodes import every


def without_filter(text: str, start: str, end: str, streams: Collection[str]) -> str:
    """A text without the filters from `start` to `end` on streams.

    Args:
        text: compiled by dbt.
        start: of the microbatch, as dbt writes it.
        end: as well.
        streams: the relations that are streams, as the planner names them.
    """
    tree = parse(text)
    wanted = {name.lower() for name in streams}
    found = [select for select in every(tree, exp.Select) if _is_filtered(select, start, end, wanted)]
    for select in found:
        select.set("where", None)
    return sql(tree) if found else text


def _is_filtered(select: exp.Select, start: str, end: str, streams: Collection[str]) -> bool:
    source = from_clause(select)
    condition = select.args["where"].this if select.args.get("where") else None
    if source is None or not select.is_star or not isinstance(condition, exp.And):
        return False
    table, low, high = source.this, condition.left, condition.right
    if not isinstance(table, exp.Table) or hints.relation_name(table).lower() not in streams:
        return False
    bounds = isinstance(low, exp.GTE) and isinstance(high, exp.LT)
    return bounds and (low.expression.name, high.expression.name) == (start, end)
