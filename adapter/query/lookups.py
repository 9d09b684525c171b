"""Joins with tables outside: which keys of a micro-batch such a table is asked for.

Before the planner, each such join is checked, and a view put in the place of the table (`place`): what
the table answers will be under it. After the planner, each text that reads the view tells which keys it
needs (`asked`): those of the relations that stand before it in FROM, a stream or the result of a stage.

>>> from .dialect import parse
>>> tree = parse("select o.id, c.name from o left join crm.customers as c on c.id = o.customer and o.id > 7")
>>> for table in tree.find_all(exp.Table):
...     if table.name == "o": marks.mark(table)
>>> tables = place(tree, ["crm.customers"])
>>> sql(tree)
'SELECT o.id, c.name FROM o LEFT JOIN lookup_customers_by_id AS c ON c.id = o.customer AND o.id > 7'
>>> asked([sql(tree)], tables)[0].keys
'SELECT DISTINCT o.customer AS key_1 FROM o WHERE NOT o.customer IS NULL AND o.id > 7'
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from . import marks
from .dialect import DIALECT, from_clause, parse, sql
from .errors import QueryError
from .plan import GroupStage, JoinStage, KeyedStage, LookupTable, Plan
from .program import Lookup
from .rewrites.refusals import is_random
from .row_level import is_aggregate

_VIEW = "lookup"


@dataclass(frozen=True)
class _Key:
    """A column of the table, and what has to be equal to it."""

    column: str
    value: exp.Expr


# -- before the planner ----------------------------------------------------------------------------


def place(tree: exp.Query, relations: Collection[str]) -> tuple[LookupTable, ...]:
    """Puts views in the place of lookup tables. Changes the tree, in which streams are marked.

    Args:
        tree: of a model's text.
        relations: those that are lookup tables.

    Raises:
        QueryError: one stands where it can't be asked for keys.
    """
    wanted = {relation.lower() for relation in relations}
    found: dict[str, LookupTable] = {}
    every = [table for table in tree.find_all(exp.Table) if marks.relation_name(table).lower() in wanted]
    views: dict[int, str] = {}
    names = frozenset(node.this.lower() for node in tree.find_all(exp.Identifier))
    for table in sorted(every, key=_place):
        relation = marks.relation_name(table)
        if marks.is_stream(table):
            raise QueryError(
                f"{relation} is a lookup table, which can't be read as a stream. {_example(relation)}."
            )
        table = _out_of_its_select(table)
        join = _join_of(table, relation)
        alias = table.alias_or_name
        keys = _keys_of(join, alias)
        if not keys:
            raise QueryError(
                f"The join with {relation}, a lookup table, compares no column of it for equality with a value of the "
                f"stream. {_example(relation, alias)}; further conditions may stand beside it."
            )
        _check_values(keys, relation)
        columns = None if _all_are_read(join.parent, alias) else tuple(sorted(names))
        before = {
            each.this.alias_or_name.lower(): each for each in _before(join) if isinstance(each, exp.Join)
        }
        waits_for = {views.get(id(each)) for each in _needed([key.value for key in keys], before)}
        view = _view(table, relation, tuple(key.column.lower() for key in keys), found, waits_for)
        views[id(join)] = view
        _put_view(table, view)
        known = found.get(view)
        if known is not None and (known.columns is None or columns is None):
            columns = None
        found[view] = LookupTable(relation, view, tuple(key.column.lower() for key in keys), columns)
    return tuple(found.values())


def _place(table: exp.Table) -> int:
    """Where among the joins of its SELECT a table stands: its keys may come out of those before."""
    join = table.find_ancestor(exp.Join, exp.Select)
    joins = join.parent.args.get("joins") or [] if isinstance(join, exp.Join) and join.parent else []
    return next((number for number, each in enumerate(joins) if each is join), -1)


def _needed(values: Sequence[exp.Expr], joins: Mapping[str, exp.Join]) -> list[exp.Join]:
    """The joins, of some by alias, that expressions need, for themselves or for each other."""
    found: dict[int, exp.Join] = {}
    waiting = list(values)
    while waiting:
        for column in waiting.pop().find_all(exp.Column):
            join = joins.get(column.table.lower())
            if join is not None and id(join) not in found:
                found[id(join)] = join
                waiting += [join.args["on"]] if join.args.get("on") else []
    return list(found.values())


def _example(relation: str, alias: str = "t") -> str:
    return (
        f"Write … JOIN {relation} AS {alias} ON {alias}.key = stream.key, with the columns' names before it"
    )


def _out_of_its_select(table: exp.Table) -> exp.Table:
    """A table that a CTE only passes on, ``select * from table``, in the place of the CTE."""
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
    """The join that a lookup table is the right side of."""
    join, what = table.parent, f"{relation} is a lookup table"
    if not isinstance(join, exp.Join) or not isinstance(join.parent, exp.Select):
        place = "in the FROM before the stream" if isinstance(join, exp.From) else "on its own"
        raise QueryError(
            f"{what}, which is asked for the keys of a join only, but stands {place}. {_example(relation)}."
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
            f"{what}, of which only the rows that keys ask for are known, so a "
            f"{f'{word} JOIN with it' if word else 'join without ON'} can't be told; use INNER or LEFT JOIN. "
            f"{_example(relation)}."
        )
    before = _before(join)
    if not any(marks.is_stream(each) for node in before for each in node.find_all(exp.Table)):
        raise QueryError(
            f"{what}, and nothing of a stream stands before it in its FROM, so there are no keys to ask for. "
            f"{_example(relation)}."
        )
    return join


def _before(join: exp.Join) -> list[exp.Expr]:
    """FROM, and the joins before one."""
    select = join.parent
    assert isinstance(select, exp.Select)
    source, joins = from_clause(select), select.args["joins"]
    place = next(number for number, each in enumerate(joins) if each is join)
    return [*([source] if source is not None else []), *joins[:place]]


def _keys_of(join: exp.Join, alias: str) -> list[_Key]:
    """The columns of the table that have to be equal to something, in the order they are written."""
    keys = [_Key(each.name, exp.column(each.name)) for each in join.args.get("using") or ()]
    for test in _tests(join.args.get("on")):
        if isinstance(test, exp.EQ):
            for one, other in ((test.this, test.expression), (test.expression, test.this)):
                column, value = one.unnest(), other.unnest()
                if isinstance(column, exp.Column) and _is_of(column, alias) and _is_value(value, alias):
                    keys.append(_Key(column.name, value))
                    break
    # A column that is compared twice is asked for once; the join sees to the rest.
    return list({key.column.lower(): key for key in reversed(keys)}.values())[::-1]


def _is_of(column: exp.Column, alias: str) -> bool:
    return column.table.lower() == alias.lower()


def _is_value(node: exp.Expr, alias: str) -> bool:
    """Whether an expression is over other relations than the table, and not over none."""
    columns = list(node.find_all(exp.Column))
    return bool(columns) and not node.find(exp.Query) and not any(_is_of(each, alias) for each in columns)


def _check_values(keys: Sequence[_Key], relation: str) -> None:
    for key in keys:
        for call in key.value.find_all(exp.Func):
            if is_random(call) or is_aggregate(call):
                raise QueryError(
                    f"The join with {relation}, a lookup table, compares {key.column} with '{sql(key.value)}', which isn't "
                    "the same each time it is computed; use a column of the stream."
                )


def _all_are_read(select: exp.Expr | None, alias: str) -> bool:
    """Whether a star of a SELECT takes all columns of one of its relations."""
    assert isinstance(select, exp.Select)
    for item in select.expressions:
        if isinstance(item, exp.Star) or (
            isinstance(item, exp.Column) and isinstance(item.this, exp.Star) and _is_of(item, alias)
        ):
            return True
        if isinstance(item, exp.Struct) and item.find(exp.Star):
            return True
    return False


def _view(
    table: exp.Table,
    relation: str,
    key: tuple[str, ...],
    found: Mapping[str, LookupTable],
    waits_for: Collection[str | None],
) -> str:
    """The view of a table that is asked by some columns: one for all joins, unless its keys come out of it."""
    base = re.sub(r"[^a-z0-9]+", "_", f"lookup_{table.name}_by_{'_'.join(key)}".lower())
    view, number = base, 1
    while view in waits_for or (
        view in found and (found[view].relation.lower(), found[view].key) != (relation.lower(), key)
    ):
        number += 1
        view = f"{base}_{number}"
    return view


def _put_view(table: exp.Table, view: str) -> None:
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=table.this.quoted)))
    table.set("this", exp.to_identifier(view))
    table.set("db", None)
    table.set("catalog", None)
    table.meta[_VIEW] = True


def are_under(node: exp.Expr) -> bool:
    """Whether lookup tables are read under a node."""
    return any(table.meta.get(_VIEW) for table in node.find_all(exp.Table))


# -- after the planner -----------------------------------------------------------------------------


def asked(texts: Sequence[str], tables: Sequence[LookupTable]) -> tuple[Lookup, ...]:
    """What has to be looked up before texts that are run one after the other.

    The order is that in which the tables can be asked: keys may come out of another's answer.

    Raises:
        QueryError: two tables wait for each other.
    """
    by_view = {table.view: table for table in tables}
    keys: dict[str, dict[str, None]] = {}
    for text in texts:
        if any(view in text for view in by_view):
            for view, query in _queries(parse(text), by_view):
                keys.setdefault(view, {}).setdefault(query)
    ordered: list[Lookup] = []
    while keys:
        ready = [view for view in keys if not any(_reads(query, keys) for query in keys[view])]
        if not ready:
            listed = " and ".join(dict.fromkeys(by_view[view].relation for view in keys))
            raise QueryError(
                f"The keys of {listed}, lookup tables, wait for each other's answers; join them in the same order "
                "everywhere."
            )
        for view in ready:
            table = by_view[view]
            query = "\nUNION\n".join(keys.pop(view))
            ordered.append(Lookup(view, table.relation, table.key, table.columns, query))
    return tuple(ordered)


def _reads(query: str, views: Collection[str]) -> bool:
    return any(re.search(rf"\b{view}\b", query) for view in views)


def _queries(tree: exp.Query, views: Collection[str]) -> Iterator[tuple[str, str]]:
    for select in tree.find_all(exp.Select):
        for join in select.args.get("joins") or ():
            if isinstance(join.this, exp.Table) and join.this.name in views and not join.this.db:
                yield join.this.name, sql(_keys_query(select, join, views))


def _keys_query(select: exp.Select, join: exp.Join, views: Collection[str]) -> exp.Select:
    """The distinct keys of what stands before a join. What can't be in the result isn't asked for."""
    alias = join.this.alias_or_name
    keys = _keys_of(join, alias)
    copy = select.copy()
    joins = _that_tell(copy.args["joins"][: len(_before(join)) - 1], keys, join.this.name, views)
    others = {each.this.alias_or_name.lower() for each in [from_clause(copy), *joins] if each is not None}
    where = select.args.get("where")
    tests = [*_tests(join.args.get("on")), *_tests(where.this if where else None)]
    query = exp.Select(
        expressions=[exp.alias_(key.value.copy(), f"key_{n}") for n, key in enumerate(keys, 1)],
        distinct=exp.Distinct(),
        joins=joins,
    )
    query.set("from_" if "from_" in select.args else "from", from_clause(copy))
    for key in keys:
        query = query.where(exp.Not(this=exp.Is(this=key.value.copy(), expression=exp.Null())), copy=False)
    for test in tests:
        if _is_over(test, others):
            query = query.where(test.copy(), copy=False, dialect=DIALECT)
    return query


def _that_tell(
    joins: Sequence[exp.Join], keys: Sequence[_Key], view: str, views: Collection[str]
) -> list[exp.Join]:
    """Those of the joins before a lookup that its keys need; other lookups needn't be there first."""
    outside = {each.this.alias_or_name.lower(): each for each in joins if each.this.name in views}
    values = [key.value for key in keys]
    for each in joins:
        if each.this.name not in views and each.args.get("on"):
            values.append(each.args["on"])
    needed = _needed(values, outside)
    if any(not column.table for value in values for column in value.find_all(exp.Column)):
        # Whose column that is, is not known here.
        needed = [each for each in outside.values() if each.this.name != view]
    return [each for each in joins if each.this.name not in views or any(each is one for one in needed)]


def _is_over(test: exp.Expr, aliases: Collection[str]) -> bool:
    """Whether a condition is surely over some relations alone."""
    columns = list(test.find_all(exp.Column))
    if not columns or test.find(exp.Query):
        return False
    if any(is_random(call) for call in test.find_all(exp.Func)):
        return False
    return all(column.table.lower() in aliases for column in columns)


def _tests(condition: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that must all hold."""
    if condition is None:
        return []
    node = condition.unnest()
    if isinstance(node, exp.And):
        return [*_tests(node.left), *_tests(node.right)]
    return [node]


# -- in the plan -----------------------------------------------------------------------------------


def with_tables(plan: Plan, tables: tuple[LookupTable, ...]) -> Plan:
    """A plan in which views stand for lookup tables, with those tables.

    Raises:
        QueryError: one stands where its keys aren't known in time.
    """
    for stage in plan.stages:
        if isinstance(stage, GroupStage) and stage.signed:
            for table in tables:
                if table.view in stage.rows:
                    raise QueryError(
                        f"{table.relation}, a lookup table, is joined below a GROUP BY over rows that change: it would be "
                        "asked again for a row that is taken away, and may say something else by then. Join it above the "
                        "GROUP BY."
                    )
        texts = [*stage.joined, stage.unmatched or ""] if isinstance(stage, JoinStage) else []
        for table in tables:
            if any(table.view in text for text in texts):
                raise QueryError(
                    f"{table.relation}, a lookup table, is joined beside a join of streams; put the join of the streams "
                    "into a WITH of its own, and join the table to that."
                )
    views = {table.view for table in tables}
    return replace(
        plan, lookups=tables, static=tuple(relation for relation in plan.static if relation not in views)
    )


def of_level(plan: Plan, level: int) -> tuple[Lookup, ...]:
    """What is looked up for the rows that go into the stages of a level."""
    texts: list[str] = []
    for stage in plan.stages:
        if stage.level == level:
            texts += [side.rows for side in stage.sides] if isinstance(stage, JoinStage) else []
            texts += [] if isinstance(stage, JoinStage | KeyedStage) else [stage.rows]
    return asked(texts, plan.lookups)


def of_output(plan: Plan) -> tuple[Lookup, ...]:
    """What is looked up for the rows that go to the table."""
    return asked([plan.output], plan.lookups)
