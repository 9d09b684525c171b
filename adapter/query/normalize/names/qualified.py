"""Qualifies columns in queries that join streams, or read them in expressions, with the one relation that has them.
Join planning needs to know which side each operand belongs to.

>>> from ...sql.dialect import parse, sql
>>> tree = parse("select k, w from (select k, v from t) as a join (select id, w from u) as b on k = id and w > 0")
>>> qualify_columns(tree, tree.find_all(exp.Select), lambda select: True), sql(tree).partition(" FROM ")[0]
((), 'SELECT a.k, b.w')
>>> sql(tree.args["joins"][0].args["on"])
'a.k = b.id AND b.w > 0'
>>> tree = parse("select k from (select k from t) as a where exists (select 1 from (select id from u) as b where id = k)")
>>> qualify_columns(tree, tree.find_all(exp.Select), lambda select: True), sql(tree.args["where"].find(exp.EQ))
((), 'b.id = a.k')
>>> tree = parse("select v from t as a join u as b on a.k = b.k")
>>> qualify_columns(tree, tree.find_all(exp.Select), lambda select: True)
('v',)
>>> types = {"t": ["struct<k:int,v:int>"], "u": ["struct<k:int>"]}
>>> ask = lambda query: types[parse(query).find(exp.Table).name]
>>> qualify_columns(tree, tree.find_all(exp.Select), lambda select: True, ask)
()
>>> sql(tree.expressions[0])
'a.v'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ...sql.clauses import is_semi_or_anti, relations_with_joins
from ...sql.dialect import qualifier_of, relation_names, relation_names_around, walk_same_query
from ...sql.functions import QueryRunner
from ...sql.nodes import every
from .same_names import name_relation
from .stars import column_names_if_known

_AFTER_THE_ITEMS = ("having", "qualify", "order", "sort")
"""Clauses in which a name refers to a select item first."""
_BEFORE = ("table", "db", "catalog")
"""Parts of a qualified column name, from right to left."""


def qualify_columns(
    tree: exp.Query,
    selects: Iterable[exp.Select],
    is_changing: Callable[[exp.Expr], bool],
    ask: QueryRunner | None = None,
) -> tuple[str, ...]:
    """Qualifies columns. Changes the tree.

    A SELECT that reads one changing relation row by row isn't changed, because nothing depends on a column's relation
    there.

    Args:
        tree: a query with inlined CTEs.
        selects: SELECTs that may be changed.
        is_changing: whether a relation or query reads a stream.

    Returns:
        Columns that can't be resolved, because a relation's columns are unknown.
    """
    known: dict[int, frozenset[str] | None] = {}

    def columns_of(relation: exp.Expr) -> frozenset[str] | None:
        if id(relation) not in known:
            known[id(relation)] = _column_names_of(relation, ask)
        return known[id(relation)]

    unknown: dict[str, None] = {}
    taken = {each.name.lower() for each in every(tree, exp.Identifier)}
    for select in list(selects):
        around = select if is_changing(select) else select_around(select)
        if around is not None and depends_on_owners(around, is_changing):
            for column, seen in list(_columns_with_relations(select)):
                owners = _owners(column, seen, select, columns_of)
                if owners is None:
                    unknown.setdefault(column.parts[0].name)
                for owner in owners or ():
                    if isinstance(owner, exp.Subquery | exp.Lateral) and not owner.alias:
                        name_relation(owner, taken)
                    # The next free part: the column may be a field's struct.
                    place = next(each for each in _BEFORE if not column.args.get(each))
                    column.set(place, (owner.args.get("alias") or owner).this.copy())
    return tuple(unknown)


@dataclass(frozen=True)
class _VisibleRelations:
    """The relations that a column at some place may belong to."""

    relations: Sequence[exp.Expr]
    items_first: bool = False


def depends_on_owners(select: exp.Select, is_changing: Callable[[exp.Expr], bool]) -> bool:
    """Whether a SELECT joins or queries several changing relations, or is itself a subquery in an expression."""
    if select_around(select) is not None:
        return True
    asked = (
        each for each in every(select, exp.Select) if each is not select and select_around(each) is select
    )
    read = [*(each for each, _ in relations_with_joins(select)), *asked]
    return len(read) > 1 and sum(map(is_changing, read)) > 1


def select_around(select: exp.Query) -> exp.Select | None:
    """Returns the SELECT whose expression contains a query, so that the query may be correlated. None for a query in
    FROM."""
    child: exp.Expr = select
    parent = child.parent
    while isinstance(parent, exp.Subquery | exp.SetOperation):
        child, parent = parent, parent.parent
    if parent is None or isinstance(parent, exp.From | exp.CTE):
        return None
    if isinstance(parent, exp.Join) and child.arg_key == "this":
        return None
    return parent.find_ancestor(exp.Select) if not isinstance(parent, exp.Select) else parent


def _columns_with_relations(select: exp.Select) -> Iterator[tuple[exp.Column, _VisibleRelations]]:
    """Yields a SELECT's own columns with the relations they may belong to."""
    sides = relations_with_joins(select)
    there = [each for each, join in sides if join is None or not is_semi_or_anti(join)]
    for place, (_, join) in enumerate(sides):
        on = None if join is None else join.args.get("on")
        if on is not None:
            before = [each for each, other in sides[:place] if other is None or not is_semi_or_anti(other)]
            for column in _columns_in(on, select):
                yield column, _VisibleRelations([*before, sides[place][0]])
    for clause, value in select.args.items():
        if clause in ("from", "from_", "joins", "with", "with_", "hint"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expr):
                for column in _columns_in(part, select):
                    yield column, _VisibleRelations(there, clause in _AFTER_THE_ITEMS)


def _columns_in(part: exp.Expr, select: exp.Select) -> Iterator[exp.Column]:
    names = relation_names(select) | relation_names_around(select)
    for node in walk_same_query(part):
        if isinstance(node, exp.Column) and not node.is_star and len(node.parts) <= len(_BEFORE):
            if qualifier_of(node) not in names - {""}:
                yield node


def _owners(
    column: exp.Column,
    seen: _VisibleRelations,
    select: exp.Select,
    columns_of: Callable[[exp.Expr], frozenset[str] | None],
) -> list[exp.Expr] | None:
    """Returns the relation that has a column, as a list. Empty if several have it or the name means something else.
    None if unknown."""
    name = column.parts[0].name.lower()
    inside: set[str] = set()
    if seen.items_first and name in {item.alias_or_name.lower() for item in select.expressions}:
        return []
    relations, around = seen.relations, select
    while True:
        has = [columns_of(each) for each in relations]
        owners = [each for each, columns in zip(relations, has, strict=True) if columns and name in columns]
        lateral = _lateral_view_with_column(name, around)
        if len(owners) > 1 or (lateral is not None and (owners or around is select)):
            return []
        if lateral is not None:
            return [lateral] if lateral.alias else []
        if None in has:
            return None
        if owners:
            return [each for each in owners if each.alias_or_name.lower() not in inside]
        inside |= {each.alias_or_name.lower() for each, _ in relations_with_joins(around)}
        outer = select_around(around)
        if outer is None:
            return []
        relations = _visible_relations(around, outer)
        around = outer


def _visible_relations(query: exp.Select, around: exp.Select) -> list[exp.Expr]:
    """The relations of a SELECT that a query in it may refer to. For LATERAL only the earlier ones."""
    found: list[exp.Expr] = []
    lateral = query.find_ancestor(exp.Lateral, exp.Select)
    for each, join in relations_with_joins(around):
        if each is lateral:
            break
        if join is None or not is_semi_or_anti(join):
            found.append(each)
    return found


def _lateral_view_with_column(name: str, select: exp.Select) -> exp.Lateral | None:
    """Returns the LATERAL VIEW that has (or may have) a column. None if there is none."""
    laterals: list[exp.Lateral] = select.args.get("laterals") or []
    named = ((each, [*map(str.lower, each.alias_column_names)]) for each in laterals)
    return next((each for each, columns in named if not columns or name in columns), None)


def _column_names_of(relation: exp.Expr, ask: QueryRunner | None) -> frozenset[str] | None:
    """Returns a relation's columns in lower case. None if unknown."""
    names = column_names_if_known(relation, ask)
    return None if names is None else frozenset(map(str.lower, names))
