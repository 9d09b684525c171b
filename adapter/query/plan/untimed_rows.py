"""Excludes from a batch text the rows without a usable event time that the stream's operators drop.

A place is a SELECT, identified by its number in the parsed text, which its copies and rewritten forms have, too.

>>> from ..sql.dialect import parse, sql
>>> tree = parse("select a.k from a left join b on a.k = b.k and a.ts = b.ts")
>>> select_numbers.number_selects(tree)
>>> exclude_dropped_rows(tree, [DroppedRows(0, "ts", "b")])
>>> print(sql(tree))
SELECT a.k FROM a LEFT JOIN (SELECT * FROM b WHERE `b`.`ts` BETWEEN CAST('0001-01-01T00:00:00.000000Z' AS TIMESTAMP) AND \
CAST('9999-12-31T23:59:59.999999Z' AS TIMESTAMP)) AS b ON a.k = b.k AND a.ts = b.ts
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlglot import exp

from ..frontend import select_numbers
from ..sql.clauses import relations
from ..sql.dialect import parse
from ..sql.instants import usable_time_condition
from ..sql.names import remove_marks
from ..sql.nodes import every


@dataclass(frozen=True)
class DroppedRows:
    """A place where an operator drops rows whose event time is NULL or out of range."""

    select: int
    """Number of the operator's SELECT."""
    time: str = ""
    """Column with the event time; empty for the first column that OVER orders by."""
    alias: str = ""
    """Relation whose rows are dropped; empty for all that the SELECT reads."""

    def with_author_names(self) -> DroppedRows:
        """Returns the place with the author's names."""
        return replace(self, time=remove_marks(self.time), alias=remove_marks(self.alias))


def dropped_rows_of(select: exp.Select, time: str = "", alias: str = "") -> tuple[DroppedRows, ...]:
    """Returns a tuple with the `DroppedRows` of a SELECT; empty if the SELECT isn't part of the author's text."""
    place = select_numbers.select_number(select)
    return () if place is None else (DroppedRows(place, time, alias),)


def exclude_dropped_rows(tree: exp.Expr, dropped: Collection[DroppedRows]) -> None:
    """Adds filters that drop the same rows as the stream. Changes the tree."""
    if not dropped:
        return
    for select in list(every(tree, exp.Select)):
        for each in dropped:
            if each.select == select_numbers.select_number(select):
                _exclude_rows_without_time(select, each)


def _exclude_rows_without_time(select: exp.Select, dropped: DroppedRows) -> None:
    if not dropped.time:
        over = [node for item in select.expressions for node in item.find_all(exp.Window)]
        orders = [order.expressions for each in over if (order := each.args.get("order"))]
        if orders:
            select.where(_usable_time_condition(orders[0][0].this), copy=False)
        return
    # The stream joins a query in EXISTS or IN.
    read = [node for each in every(select, exp.Select) for node in relations(each)]
    for node in [*relations(select), *read]:
        if node.alias_or_name.lower() != dropped.alias.lower():
            continue
        time = exp.column(dropped.time, table=node.alias_or_name, quoted=True)
        holder = exp.Subquery(
            this=exp.Select(), alias=exp.TableAlias(this=exp.to_identifier(node.alias_or_name))
        )
        node.replace(holder)
        rows = (
            exp.Select(expressions=[exp.Star()])
            .from_(node, copy=False)
            .where(_usable_time_condition(time), copy=False)
        )
        holder.set("this", rows)
        return


def _usable_time_condition(time: exp.Expr) -> exp.Expr:
    """Returns the predicate `usable_time_condition` over a time."""
    (test,) = parse(f"select {usable_time_condition('event_time')}").selects
    test.set("this", time.copy())
    return test
