"""Columns that don't say whose they are, in a query that joins streams or asks them in an expression: each gets the name of
the one relation that has it. A join is planned by what each side of its conditions is of.

>>> from ...sql.dialect import parse, sql
>>> tree = parse("select k, w from (select k, v from t) as a join (select id, w from u) as b on k = id and w > 0")
>>> qualify(tree, tree.find_all(exp.Select), lambda select: True), sql(tree).partition(" FROM ")[0]
((), 'SELECT a.k, b.w')
>>> sql(tree.args["joins"][0].args["on"])
'a.k = b.id AND b.w > 0'
>>> tree = parse("select k from (select k from t) as a where exists (select 1 from (select id from u) as b where id = k)")
>>> qualify(tree, tree.find_all(exp.Select), lambda select: True), sql(tree.args["where"].find(exp.EQ))
((), 'b.id = a.k')
>>> tree = parse("select v from t as a join u as b on a.k = b.k")
>>> qualify(tree, tree.find_all(exp.Select), lambda select: True)
('v',)
>>> of_tables = {"t": ["struct<k:int,v:int>"], "u": ["struct<k:int>"]}
>>> qualify(tree, tree.find_all(exp.Select), lambda select: True, lambda query: of_tables[parse(query).find(exp.Table).name])
()
>>> sql(tree.expressions[0])
'a.v'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ...errors import QueryError
from ...sql.clauses import joined, only_asks
from ...sql.dialect import relation_names, relation_of, relations_around, walk_same_query
from ...sql.functions import QueryRunner
from ...sql.nodes import every
from .same_names import name_relation
from .stars import names_of

_AFTER_THE_ITEMS = ("having", "qualify", "order", "sort")
"""The clauses in which a name is first that of an item of the select list."""
_BEFORE = ("table", "db", "catalog")
"""What may stand before a column's name, from the right to the left."""


def qualify(
    tree: exp.Query,
    selects: Iterable[exp.Select],
    is_changing: Callable[[exp.Expr], bool],
    ask: QueryRunner | None = None,
) -> tuple[str, ...]:
    """Names the relations of columns. Changes the tree.

    What one relation feeds row by row stays as it is written: nothing there depends on whose a column is.

    Args:
        tree: in which WITH queries stand where they are read.
        selects: those of its SELECTs that may be changed.
        is_changing: whether a relation, or a query, reads a stream.
        ask: carries out a query of one row; None: there is nobody who knows what a table has.

    Returns:
        The columns of which it isn't known whose they are, as nobody says what some relation has.
    """
    known: dict[int, frozenset[str] | None] = {}

    def columns_of(relation: exp.Expr) -> frozenset[str] | None:
        if id(relation) not in known:
            known[id(relation)] = _columns_of(relation, ask)
        return known[id(relation)]

    unknown: dict[str, None] = {}
    taken = {each.name.lower() for each in every(tree, exp.Identifier)}
    for select in list(selects):
        around = select if is_changing(select) else asking(select)
        if around is not None and depends_on_owners(around, is_changing):
            for column, seen in list(_columns(select)):
                owners = _owner(column, seen, select, columns_of)
                if owners is None:
                    unknown.setdefault(column.parts[0].name)
                for owner in owners or ():
                    if isinstance(owner, exp.Subquery | exp.Lateral) and not owner.alias:
                        name_relation(owner, taken)
                    # Before a column, or one whose field it is.
                    place = next(each for each in _BEFORE if not column.args.get(each))
                    column.set(place, (owner.args.get("alias") or owner).this.copy())
    return tuple(unknown)


@dataclass(frozen=True)
class _Seen:
    """The relations whose columns may be called at a place."""

    relations: Sequence[exp.Expr]
    items_first: bool = False


def depends_on_owners(select: exp.Select, is_changing: Callable[[exp.Expr], bool]) -> bool:
    """Whether a SELECT joins several relations that change, or asks them in an expression, or is asked in one."""
    if asking(select) is not None:
        return True
    read = [*(each for each, _ in joined(select)), *_inside(select)]
    return len(read) > 1 and sum(map(is_changing, read)) > 1


def _inside(select: exp.Select) -> Iterator[exp.Query]:
    """The queries in a SELECT's expressions."""
    for query in every(select, exp.Select):
        if query is not select and asking(query) is select:
            yield query


def asking(select: exp.Query) -> exp.Select | None:
    """The SELECT in an expression of which a query stands, so that it may ask for columns of its rows; None: it stands in
    FROM, and asks for none."""
    child: exp.Expr = select
    parent = child.parent
    while isinstance(parent, exp.Subquery | exp.SetOperation):
        child, parent = parent, parent.parent
    if parent is None or isinstance(parent, exp.From | exp.CTE):
        return None
    if isinstance(parent, exp.Join) and child.arg_key == "this":
        return None
    return parent.find_ancestor(exp.Select) if not isinstance(parent, exp.Select) else parent


def _columns(select: exp.Select) -> Iterator[tuple[exp.Column, _Seen]]:
    """The columns that a SELECT calls itself, with the relations that they may be of."""
    sides = joined(select)
    there = [each for each, join in sides if join is None or not only_asks(join)]
    for place, (_, join) in enumerate(sides):
        on = None if join is None else join.args.get("on")
        if on is not None:
            before = [each for each, other in sides[:place] if other is None or not only_asks(other)]
            for column in _called_in(on, select):
                yield column, _Seen([*before, sides[place][0]])
    for clause, value in select.args.items():
        if clause in ("from", "from_", "joins", "with", "with_", "hint"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expr):
                for column in _called_in(part, select):
                    yield column, _Seen(there, clause in _AFTER_THE_ITEMS)


def _called_in(part: exp.Expr, select: exp.Select) -> Iterator[exp.Column]:
    names = relation_names(select) | relations_around(select)
    for node in walk_same_query(part):
        if isinstance(node, exp.Column) and not node.is_star and len(node.parts) <= len(_BEFORE):
            if relation_of(node) not in names - {""}:
                yield node


def _owner(
    column: exp.Column,
    seen: _Seen,
    select: exp.Select,
    columns_of: Callable[[exp.Expr], frozenset[str] | None],
) -> list[exp.Expr] | None:
    """The one relation that has a column; none: several have it, or something else is called so. None: that isn't known."""
    name = column.parts[0].name.lower()
    inside: set[str] = set()
    if seen.items_first and name in {item.alias_or_name.lower() for item in select.expressions}:
        return []
    relations, around = seen.relations, select
    while True:
        has = [columns_of(each) for each in relations]
        owners = [each for each, columns in zip(relations, has, strict=True) if columns and name in columns]
        lateral = _lateral(name, around)
        if len(owners) > 1 or (lateral is not None and (owners or around is select)):
            return []
        if lateral is not None:
            return [lateral] if lateral.alias else []
        if None in has:
            return None
        if owners:
            return [each for each in owners if each.alias_or_name.lower() not in inside]
        inside |= {each.alias_or_name.lower() for each, _ in joined(around)}
        outer = asking(around)
        if outer is None:
            return []
        relations = _seen_from(around, outer)
        around = outer


def _seen_from(query: exp.Select, around: exp.Select) -> list[exp.Expr]:
    """The relations of a SELECT whose columns a query in it may call: a LATERAL one those before it."""
    found: list[exp.Expr] = []
    lateral = query.find_ancestor(exp.Lateral, exp.Select)
    for each, join in joined(around):
        if each is lateral:
            break
        if join is None or not only_asks(join):
            found.append(each)
    return found


def _lateral(name: str, select: exp.Select) -> exp.Lateral | None:
    """The LATERAL VIEW of a SELECT that gives a column of a name, or may; None: there is none."""
    for lateral in select.args.get("laterals") or ():
        alias = lateral.args.get("alias")
        if alias is None or not alias.columns or name in {each.name.lower() for each in alias.columns}:
            found: exp.Lateral = lateral
            return found
    return None


def _columns_of(relation: exp.Expr, ask: QueryRunner | None) -> frozenset[str] | None:
    """The columns of a relation, in lower case; None: they aren't known."""
    try:
        names = names_of(relation, ask)
    except QueryError:
        return None  # what is wrong with it is said by who plans it
    return None if names is None else frozenset(map(str.lower, names))
