"""Derives which keys a micro-batch looks up in an external table, from the texts that join it.

The keys come from the relations before the table in FROM: a stream, or the result of a window operator. Rows that the
stream's columns alone exclude from the result aren't looked up.

>>> table = LookupTable("crm.customers", "lookup_customers_by_id", ("id",), None)
>>> from ..sql.dialect import parse
>>> text = "select o.id, c.name from o left join lookup_customers_by_id as c on c.id = o.customer and o.id > 7"
>>> required_lookups([parse(text)], [table])[0].keys
'SELECT DISTINCT o.customer AS key_1 FROM o WHERE NOT o.customer IS NULL AND o.id > 7'
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ..errors import QueryError
from ..program import Lookup
from ..sql.clauses import conjuncts, filters, table_names
from ..sql.dialect import DIALECT, from_clause, sql
from ..sql.functions import is_random
from ..sql.nodes import every
from .operator import with_inputs


@dataclass(frozen=True)
class LookupTable:
    """An external table in which joins look up the keys of a micro-batch."""

    relation: str
    """Table as the compiled text names it."""
    view: str
    """View that holds the rows found."""
    key: tuple[str, ...]
    """Columns that are looked up."""
    columns: tuple[str, ...] | None
    """Columns the query may use; None for all."""


@dataclass(frozen=True)
class LookupKey:
    """A column of the table, and the expression that it is equated with."""

    column: str
    value: exp.Expr


@dataclass(frozen=True)
class KeyQuery:
    """A query for the keys that are looked up."""

    view: str
    """View of the lookup table."""
    sql: str
    reads: frozenset[str]
    """Names of the tables and views that it reads."""

    def with_input_queries(self, inputs: Sequence[str], reads: Collection[str] = ()) -> KeyQuery:
        """Returns the query of an operator with its inputs, which are queries.

        Args:
            reads: names of the tables and views that the inputs read.
        """
        text = f"select * from (\n{with_inputs(self.sql, inputs)}\n)"
        return replace(self, sql=text, reads=self.reads.union(reads))


def required_lookups(queries: Iterable[exp.Query], tables: Sequence[LookupTable]) -> tuple[Lookup, ...]:
    """Returns the look-ups that queries need, which are run one after the other, in the order of `ordered_lookups`."""
    return ordered_lookups((each for query in queries for each in key_queries(query, tables)), tables)


def key_queries(query: exp.Query, tables: Sequence[LookupTable]) -> Iterator[KeyQuery]:
    """Yields a query for the keys of each lookup table that a query joins."""
    views = {table.view for table in tables}
    for select in every(query, exp.Select) if views else ():
        for join in select.args.get("joins") or ():
            if isinstance(join.this, exp.Table) and join.this.name in views and not join.this.db:
                keys = _keys_query(select, join, views)
                yield KeyQuery(join.this.name, sql(keys), table_names(keys))


def ordered_lookups(found: Iterable[KeyQuery], tables: Sequence[LookupTable]) -> tuple[Lookup, ...]:
    """Returns the look-ups of queries for keys, in an order in which they can run: keys may be computed from
    another look-up.

    Raises:
        QueryError: two tables depend on each other.
    """
    by_view = {table.view: table for table in tables}
    keys: dict[str, dict[str, KeyQuery]] = {}
    for query in found:
        keys.setdefault(query.view, {}).setdefault(query.sql, query)
    lookups: list[Lookup] = []
    while keys:
        ready = [
            view for view, queries in keys.items() if all(q.reads.isdisjoint(keys) for q in queries.values())
        ]
        if not ready:
            listed = " and ".join(dict.fromkeys(by_view[view].relation for view in keys))
            raise QueryError(
                f"The keys of {listed}, lookup tables, wait for each other's answers; join them in the same order "
                "everywhere."
            )
        for view in ready:
            table = by_view[view]
            text = "\nUNION\n".join(keys.pop(view))
            lookups.append(Lookup(view, table.relation, table.key, table.columns, text))
    return tuple(lookups)


def _keys_query(select: exp.Select, join: exp.Join, views: Collection[str]) -> exp.Select:
    """Returns the query for the distinct keys of the relations before a join, without rows that can't be in
    the result."""
    alias = join.this.alias_or_name
    keys = lookup_keys(join, alias)
    copy = select.copy()
    joins = _joins_for_keys(
        copy.args["joins"][: len(relations_before(join)) - 1], keys, join.this.name, views
    )
    others = {each.this.alias_or_name.lower() for each in [from_clause(copy), *joins] if each is not None}
    query = exp.Select(
        expressions=[exp.alias_(key.value.copy(), f"key_{n}") for n, key in enumerate(keys, 1)],
        distinct=exp.Distinct(),
        joins=joins,
    )
    query.set("from_" if "from_" in select.args else "from", from_clause(copy))
    for key in keys:
        query = query.where(exp.Not(this=exp.Is(this=key.value.copy(), expression=exp.Null())), copy=False)
    for test in [*conjuncts(join.args.get("on")), *filters(select)]:
        if _reads_only(test, others):
            query = query.where(test.copy(), copy=False, dialect=DIALECT)
    return query


def _joins_for_keys(
    joins: Sequence[exp.Join], keys: Sequence[LookupKey], view: str, views: Collection[str]
) -> list[exp.Join]:
    """Returns the joins before a look-up, but of other look-ups only the ones that its keys depend on."""
    lookups = {each.this.alias_or_name.lower(): each for each in joins if each.this.name in views}
    values = [key.value for key in keys]
    for each in joins:
        if each.this.name not in views and each.args.get("on"):
            values.append(each.args["on"])
    needed = needed_joins(values, lookups)
    if any(not column.table for value in values for column in every(value, exp.Column)):
        # A column without an alias may belong to any of them.
        needed = [each for each in lookups.values() if each.this.name != view]
    return [each for each in joins if each.this.name not in views or any(each is one for one in needed)]


def _reads_only(test: exp.Expr, aliases: Collection[str]) -> bool:
    """Whether a condition certainly reads columns of these relations only."""
    columns = list(every(test, exp.Column))
    if not columns or test.find(exp.Query):
        return False
    if any(is_random(call) for call in every(test, exp.Func)):
        return False
    return all(column.table.lower() in aliases for column in columns)


def lookup_keys(join: exp.Join, alias: str) -> list[LookupKey]:
    """Returns the columns of the table that the join equates with something, in the order they are written."""
    keys = [LookupKey(each.name, exp.column(each.name)) for each in join.args.get("using") or ()]
    for test in conjuncts(join.args.get("on")):
        if isinstance(test, exp.EQ):
            for one, other in ((test.this, test.expression), (test.expression, test.this)):
                column, value = one.unnest(), other.unnest()
                if (
                    isinstance(column, exp.Column)
                    and is_column_of(column, alias)
                    and _reads_only_others(value, alias)
                ):
                    keys.append(LookupKey(column.name, value))
                    break
    # A column that is compared twice is looked up by the first value; the join checks the other.
    return list({key.column.lower(): key for key in reversed(keys)}.values())[::-1]


def _reads_only_others(node: exp.Expr, alias: str) -> bool:
    """Whether an expression reads columns, and none of the table's."""
    columns = list(every(node, exp.Column))
    return (
        bool(columns) and not node.find(exp.Query) and not any(is_column_of(each, alias) for each in columns)
    )


def is_column_of(column: exp.Column, alias: str) -> bool:
    """Whether a column is qualified by an alias."""
    return column.table.lower() == alias.lower()


def relations_before(join: exp.Join) -> list[exp.Expr]:
    """Returns FROM and the joins before this one."""
    select = join.parent
    assert isinstance(select, exp.Select)
    source, joins = from_clause(select), select.args["joins"]
    place = next(number for number, each in enumerate(joins) if each is join)
    return [*([source] if source is not None else []), *joins[:place]]


def needed_joins(values: Sequence[exp.Expr], joins: Mapping[str, exp.Join]) -> list[exp.Join]:
    """Returns the joins, of those given by alias, that expressions read directly or through other joins."""
    found: dict[int, exp.Join] = {}
    waiting = list(values)
    while waiting:
        for column in every(waiting.pop(), exp.Column):
            join = joins.get(column.table.lower())
            if join is not None and id(join) not in found:
                found[id(join)] = join
                waiting += [join.args["on"]] if join.args.get("on") else []
    return list(found.values())
