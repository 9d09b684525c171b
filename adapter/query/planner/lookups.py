"""Joins with external tables, in which only the keys of a micro-batch are looked up.

Each such join is checked, and the table replaced by a view for the rows found. `lookup_keys` derives the
keys.

>>> from ..sql.dialect import parse, sql
>>> tree = parse("select o.id, c.name from o left join crm.customers as c on c.id = o.customer")
>>> for table in tree.find_all(exp.Table):
...     if table.name == "o": hints.mark_stream(table)
>>> tables = replace_by_views(tree, ["crm.customers"])
>>> sql(tree)
'SELECT o.id, c.name FROM o LEFT JOIN lookup_customers_by_id AS c ON c.id = o.customer'
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..plan.dataflow import Dataflow
from ..plan.lookup_keys import LookupKey, LookupTable, lookup_keys, needed_joins, relations_before
from ..plan.operators.materialized_project import MaterializedProject
from ..plan.operators.project import Project
from ..plan.operators.window_results import WindowResults
from ..plan.window_operator import WindowOperator
from ..sql.clauses import is_star_over
from ..sql.dialect import sql
from ..sql.functions import is_random
from ..sql.nodes import every


def replace_by_views(tree: exp.Query, relations: Collection[str]) -> tuple[LookupTable, ...]:
    """Replaces lookup tables by views. Streams are marked in the tree, which is changed.

    Args:
        tree: tree of a model's text.
        relations: names of the lookup tables.

    Raises:
        QueryError: a lookup table is in a place without keys to look up.
    """
    wanted = {relation.lower() for relation in relations}
    found: dict[str, LookupTable] = {}
    named = [table for table in every(tree, exp.Table) if _table_name(table).lower() in wanted]
    views: dict[int, str] = {}
    names = frozenset(node.this.lower() for node in every(tree, exp.Identifier))
    for table in sorted(named, key=_index_of_join):
        relation = _table_name(table)
        if any(table.args.get(clause) for clause in ("sample", "version", "when", "pivots")):
            raise QueryError(
                f"'{hints.relation_name(table)}' is of a lookup table: only its rows with the keys of the join are read. "
                f"Leave out what follows {relation}."
            )
        if hints.is_stream(table):
            raise QueryError(
                f"{relation} is a lookup table, which can't be read as a stream. {_example_join(relation)}."
            )
        table = _unwrap_plain_select(table)
        join = _join_of(table, relation)
        alias = table.alias_or_name
        keys = lookup_keys(join, alias)
        if not keys:
            raise QueryError(
                f"The join with {relation}, a lookup table, compares no column of it for equality with a value of the "
                f"stream. {_example_join(relation, alias)}; further conditions may be added."
            )
        _check_key_values(keys, relation)
        columns = None if _reads_all_columns(join.parent, alias) else tuple(sorted(names))
        before = {
            each.this.alias_or_name.lower(): each
            for each in relations_before(join)
            if isinstance(each, exp.Join)
        }
        waits_for = {views.get(id(each)) for each in needed_joins([key.value for key in keys], before)}
        columns_of_key = tuple(key.column.lower() for key in keys)
        view = _view_name(table, relation, columns_of_key, found, waits_for)
        views[id(join)] = view
        _replace_by_view(table, view)
        known = found.get(view)
        if known is not None and (known.columns is None or columns is None):
            columns = None
        found[view] = LookupTable(relation, view, columns_of_key, columns)
    return tuple(found.values())


def check_lookup_operators(flow: Dataflow, tables: Sequence[LookupTable]) -> None:
    """Raises unless only row-by-row operators read lookup tables.

    Raises:
        QueryError: another operator does, which would have to look up the keys of all its stored rows.
    """
    for operator in flow.operators:
        asks = isinstance(operator, Project | MaterializedProject | WindowOperator | WindowResults)
        for table in tables:
            if not asks and table.view in operator.tables_read:
                raise QueryError(
                    f"{table.relation}, a lookup table, is joined inside an expression of a query over streams; join it in "
                    "a CTE, and read that in the expression."
                )


def _table_name(table: exp.Table) -> str:
    """Returns a table's name, without TABLESAMPLE, a version or PIVOT."""
    parts = {part: table.args[part].copy() for part in ("this", "db", "catalog") if table.args.get(part)}
    return hints.relation_name(exp.Table(**parts))


def _index_of_join(table: exp.Table) -> int:
    """Returns the index of a table's join in its SELECT: its keys may come from earlier joins. -1 if it is in
    FROM."""
    join = table.find_ancestor(exp.Join, exp.Select)
    joins = join.parent.args.get("joins") or [] if isinstance(join, exp.Join) and join.parent else []
    return next((number for number, each in enumerate(joins) if each is join), -1)


def _example_join(relation: str, alias: str = "t") -> str:
    """Returns the part of a message that shows how to join a lookup table."""
    return (
        f"Write … JOIN {relation} AS {alias} ON {alias}.key = stream.key, with the columns' names before it"
    )


def _unwrap_plain_select(table: exp.Table) -> exp.Table:
    """Replaces a subquery that is only ``select * from table``, such as an inlined CTE, by the table; returns
    the table."""
    while True:
        select = table.find_ancestor(exp.Select)
        if (
            select is None
            or not isinstance(select.parent, exp.Subquery)
            or not isinstance(table.parent, exp.From)
        ):
            return table
        clauses = {name for name, value in select.args.items() if value}
        plain = [
            item for item in select.expressions if isinstance(item, exp.Star) and not any(item.args.values())
        ]
        if not clauses <= {"expressions", "from", "from_", "kind"} or len(plain) != len(select.expressions):
            return table
        around = select.parent
        if around.args.get("alias") is not None and around.args["alias"].args.get("columns"):
            return table
        moved = table.copy()
        moved.set("alias", around.args.get("alias") or table.args.get("alias"))
        moved.set("joins", around.args.get("joins"))
        around.replace(moved)
        table = moved


def _join_of(table: exp.Table, relation: str) -> exp.Join:
    """Returns the join whose right side is a lookup table. Raises `QueryError` if there is none, or if it
    needs more than the rows found."""
    join, what = table.parent, f"{relation} is a lookup table"
    if not isinstance(join, exp.Join) or not isinstance(join.parent, exp.Select):
        place = "in the FROM before the stream" if isinstance(join, exp.From) else "on its own"
        raise QueryError(
            f"{what}, which is queried for the keys of a join only, but is {place}. {_example_join(relation)}."
        )
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    word = " ".join(filter(None, (join.method, side, "" if kind == "CROSS" else kind))).upper()
    if (
        join.method
        or side not in ("", "LEFT")
        or kind not in ("", "INNER", "OUTER", "SEMI", "ANTI")
        or (not join.args.get("on") and not join.args.get("using"))
    ):
        raise QueryError(
            f"{what}, and only its rows for requested keys are known, so a "
            f"{f'{word} JOIN with it' if word else 'join without ON'} isn't possible; use INNER or LEFT JOIN. "
            f"{_example_join(relation)}."
        )
    before = relations_before(join)
    if not any(hints.is_stream(each) for node in before for each in every(node, exp.Table)):
        raise QueryError(
            f"{what}, and no stream is before it in its FROM, so there are no keys to look up. {_example_join(relation)}."
        )
    return join


def _check_key_values(keys: Sequence[LookupKey], relation: str) -> None:
    """Raises `QueryError` if a key is compared with an aggregate or a random value."""
    for key in keys:
        for call in every(key.value, exp.Func):
            if is_random(call) or isinstance(call, exp.AggFunc):
                raise QueryError(
                    f"The join with {relation}, a lookup table, compares {key.column} with '{sql(key.value)}', which is "
                    "non-deterministic or an aggregate; use a column of the stream."
                )


def _reads_all_columns(select: exp.Expr | None, alias: str) -> bool:
    """Whether a star in a SELECT expands to all columns of one of its relations."""
    assert isinstance(select, exp.Select)
    return any(
        is_star_over(item, alias) or (isinstance(item, exp.Struct) and item.find(exp.Star) is not None)
        for item in select.expressions
    )


def _view_name(
    table: exp.Table,
    relation: str,
    key: tuple[str, ...],
    found: Mapping[str, LookupTable],
    waits_for: Collection[str | None],
) -> str:
    """Returns the view of a table for some key columns: one for all joins, unless the join's keys come from
    that view.

    Args:
        table: the lookup table in FROM.
        relation: its name in the text.
        key: columns that are looked up.
        found: lookup tables so far, by view.
        waits_for: views that the join's keys come from.
    """
    base = re.sub(r"[^a-z0-9]+", "_", f"lookup_{table.name}_by_{'_'.join(key)}".lower())
    view, number = base, 1
    while view in waits_for or (
        view in found and (found[view].relation.lower(), found[view].key) != (relation.lower(), key)
    ):
        number += 1
        view = f"{base}_{number}"
    return view


def _replace_by_view(table: exp.Table, view: str) -> None:
    """Replaces a table in FROM by a view with the table's alias. Changes the tree."""
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=table.this.quoted)))
    table.set("this", exp.to_identifier(view))
    table.set("db", None)
    table.set("catalog", None)
