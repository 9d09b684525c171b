"""Lineage of a SELECT that works row by row: its rows, and what each column is computed from.

>>> from ..sql.dialect import parse
>>> from .lineage import opaque_lineage
>>> source = opaque_lineage("source", "t")
>>> def named(text): return lineage_of_query(parse(text), {"__input_0": source})
>>> one = named("select a.v + 1 as x, k from __input_0 as a")
>>> two = named("select k, x from (select v + 1 as x, k from __input_0 as b)")
>>> one.rows == two.rows, one.column("x") == two.column("X"), one.meaning == two.meaning
(True, True, False)
>>> named("select v as x from __input_0 where k > 1").rows == named("select v as x from __input_0 as c where 1 < c.k").rows
True
>>> named("select v as x from __input_0 where k > 1").rows == named("select w from __input_0 as c where c.k > 1").rows
True
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ..frontend.source_text import text_without_aliases
from ..normalize.conditions import is_repeatable
from ..sql.clauses import conjuncts, filters, first_aggregate, passes_columns, relations, relations_with_joins
from ..sql.dialect import canonical
from ..sql.functions import makes_rows
from ..sql.names import digest
from ..sql.nodes import every
from .lineage import UNKNOWN, Lineage, digest_if_known, text_lineage
from .operator import input_name
from .relation import GIVEN_BY, WEIGHT

_HIDDEN = (WEIGHT, GIVEN_BY)


_CLAUSES = {"expressions", "from_", "from", "where", "joins", "laterals"}
"""Clauses of a SELECT that lineage understands."""


def lineage_of_query(query: exp.Expr, known: Mapping[str, Lineage]) -> Lineage | None:
    """Returns the lineage of a SELECT that works row by row on its input; None if the query does anything else.

    Args:
        known: lineages of the tables in it, by name.
    """
    if not isinstance(query, exp.Select) or first_aggregate(query) is not None:
        return None
    read = read_input(query, known)
    if read is None:
        return None
    columns: list[tuple[str, str]] = []
    star, hidden, starred = "", frozenset[str](), False
    defined: dict[str, str] = {}
    for item in query.expressions:
        if item.alias_or_name in _HIDDEN or item.alias_or_name.startswith(WEIGHT):
            continue
        if item.is_star:
            passed = read.star_columns(item) if isinstance(item, exp.Star | exp.Column) else None
            if starred or passed is None:
                return None
            columns += passed.columns
            star, hidden = passed.star, passed.hidden
            starred = True
            continue
        name = item.alias_or_name
        origin = read.expression_digest(item.unalias(), defined)
        if not name or isinstance(item, exp.Aliases) or origin is None:
            return None
        columns.append((name, origin))
        if isinstance(item, exp.Alias):
            defined[name.lower()] = origin
    return Lineage(read.rows, tuple(columns), star, hidden)


def read_input(select: exp.Select, known: Mapping[str, Lineage]) -> Input | None:
    """Returns the input of a SELECT: its relations, joins and WHERE; None if it isn't understood."""
    if {name for name, value in select.args.items() if value} - _CLAUSES:
        return None
    scope: dict[str, Lineage] = {}
    joins: list[exp.Join] = []
    for node, join in relations_with_joins(select):
        each, alias = _relation_lineage(node, known), node.alias_or_name.lower()
        if each is None or alias in scope:
            return None
        scope[alias] = each
        if join is None:
            continue
        if {name for name, value in join.args.items() if value} - {"this", "on", "side", "kind"}:
            return None
        joins.append(join)
    if not scope:
        return None
    tests = filters(select)
    is_inner = not any(join.side or (join.kind or "").upper() not in ("", "INNER", "CROSS") for join in joins)
    rows = [each.rows for each in scope.values()]
    if len(scope) == 1:
        sides = dict.fromkeys(scope, "")
    elif is_inner and len(set(rows)) == len(rows):
        # The order of inner-joined sides doesn't matter: each is identified by its rows.
        sides = {alias: each.rows for alias, each in scope.items()}
        rows.sort()
    else:
        sides = {alias: f"{place} {each.rows}" for place, (alias, each) in enumerate(scope.items())}
    read = Input("", scope, sides, known.keys())
    join_kinds: list[tuple[object, ...]] = []
    if is_inner:
        tests += [test for join in joins for test in conjuncts(join.args.get("on"))]
    else:
        join_kinds = [
            (
                (join.side or "").upper(),
                (join.kind or "").upper(),
                read.condition_digests(conjuncts(join.args.get("on"))),
            )
            for join in joins
        ]
    if any(None in kind for kind in join_kinds):
        return None
    read = replace(read, rows=digest("join", rows, join_kinds) if joins else rows[0])
    for lateral in select.args.get("laterals") or ():
        extended = _with_lateral(read, lateral)
        if extended is None:
            return None
        read = extended
    conditions = read.condition_digests(tests)
    if conditions is None:
        return None
    return replace(read, rows=digest("where", read.rows, conditions)) if conditions else read


def _with_lateral(read: Input, lateral: exp.Lateral) -> Input | None:
    """Returns the input extended by a LATERAL VIEW; None if that isn't understood."""
    alias = lateral.args.get("alias")
    if not lateral.args.get("view") or alias is None or not alias.name or alias.name.lower() in read.scope:
        return None
    value = read.expression_digest(lateral.this, makes_several=True)
    if value is None or not alias.columns:
        return None
    # Two LATERAL VIEWs of one expression extend different rows.
    generated = digest("lateral", read.rows, value, bool(lateral.args.get("outer")))
    columns = tuple((each.name, digest(generated, place)) for place, each in enumerate(alias.columns))
    name = alias.name.lower()
    return replace(
        read,
        rows=digest("beside", read.rows, generated),
        scope={**read.scope, name: Lineage(generated, columns)},
        sides={**read.sides, name: ""},
    )


def _relation_lineage(node: exp.Expr, known: Mapping[str, Lineage]) -> Lineage | None:
    """Returns the lineage of a relation in FROM; None if it isn't understood."""
    alias = node.args.get("alias")
    clauses = {name for name, value in node.args.items() if value} - {"this", "alias"}
    is_static = isinstance(node, exp.Table | exp.Subquery) and not any(
        each.name in known or not isinstance(each.this, exp.Identifier) for each in every(node, exp.Table)
    )
    if is_static and isinstance(node, exp.Table):
        clauses -= {"db", "catalog"}
    if clauses or (alias is not None and alias.args.get("columns")):
        return None
    if is_static:
        # A static table, or a query over static tables, as it is in each micro-batch.
        text = node.copy()
        text.set("alias", None)
        if not is_repeatable(text):
            return None
        body = text_without_aliases(text.this) if isinstance(text, exp.Subquery) else canonical(text)
        rows = digest("table", body)
        return Lineage(rows, star=rows)
    if isinstance(node, exp.Subquery):
        return lineage_of_query(node.this, known)
    found = known.get(node.name) if isinstance(node, exp.Table) else None
    return None if found is UNKNOWN else found


@dataclass(frozen=True)
class Input:
    """The relations that a SELECT reads, with their lineages. A digest of what isn't understood is None."""

    rows: str
    scope: Mapping[str, Lineage]
    """Lineages by alias, in lower case."""
    sides: Mapping[str, str]
    """Alias → text that distinguishes its columns from those of other relations; empty if there is one relation."""
    operators: Collection[str]
    """Names of the tables that are operators' rows."""

    def condition_digests(self, tests: Sequence[exp.Expr]) -> list[str] | None:
        """Returns digests of conditions that are combined by AND; None if one isn't understood."""
        found = [*map(self._condition_digest, tests)]
        known = [each for each in found if each is not None]
        return sorted(known) if len(known) == len(found) else None

    def _condition_digest(self, test: exp.Expr) -> str | None:
        """Returns a digest of a condition, independent of the order of the sides of a comparison."""
        if isinstance(test, exp.EQ | exp.NullSafeEQ | exp.GT | exp.GTE | exp.LT | exp.LTE):
            one, other = self.expression_digest(test.this), self.expression_digest(test.expression)
            if one is None or other is None:
                return None
            sides = [one, other]
            if isinstance(test, exp.EQ | exp.NullSafeEQ):
                sides.sort()
            if isinstance(test, exp.GT | exp.GTE):
                sides.reverse()
            return digest({"gt": "lt", "gte": "lte"}.get(test.key, test.key), *sides)
        return self.expression_digest(test)

    def expression_digest(
        self, node: exp.Expr, defined: Mapping[str, str] | None = None, makes_several: bool = False
    ) -> str | None:
        """Returns a digest of an expression over the rows.

        Args:
            defined: digests of the preceding items of the select list, by name in lower case: Spark may
                resolve names to them.
            makes_several: whether it may turn one row into several.
        """
        if isinstance(node, exp.Column):
            return self._column_digest(node, defined)
        if not is_repeatable(node):
            return None
        holder = exp.Paren(this=node.copy())
        for query in [each for each in every(holder, exp.Query) if each.find_ancestor(exp.Query) is None]:
            subquery = self._subquery_digest(query)
            if subquery is None:
                return None
            query.replace(exp.Var(this=f"q{subquery}"))
        for each in list(holder.walk()):
            if isinstance(each, exp.Query | exp.Window | exp.Lambda | exp.Star) or makes_rows(each):
                if makes_several and each is holder.this:
                    continue
                if not (isinstance(each, exp.Star) and isinstance(each.parent, exp.Count)):
                    return None
            elif isinstance(each, exp.Column) and not isinstance(each.parent, exp.Column):
                column = self._column_digest(each, defined)
                if column is None:
                    return None
                each.replace(exp.column(f"c{column}"))
        return digest(canonical(holder.this))

    def _subquery_digest(self, query: exp.Query) -> str | None:
        """Returns a digest of a subquery over static tables: its text, and the outer columns that it may read."""
        if any(each.name in self.operators for each in every(query, exp.Table)):
            return None
        outer: list[str | None] = []
        for column in every(query, exp.Column):
            if isinstance(column.this, exp.Star) or _belongs_to_query(column, query):
                continue
            # Unqualified, it may be an outer column.
            candidates = [each for each in self.scope.values() if each.star or each.lists_column(column.name)]
            if column.table or candidates:
                outer.append(self._column_digest(column, None))
        return digest_if_known("asked", canonical(query), outer)

    def _column_digest(self, column: exp.Column, defined: Mapping[str, str] | None) -> str | None:
        if column.args.get("db") or isinstance(column.this, exp.Star):
            return None
        name, table = column.name, column.table.lower()
        if table in self.scope and table:
            return self._digest_in_relation(table, name)
        if table:
            # A field of a struct column.
            holder = self._column_digest(exp.column(column.args["table"].copy()), defined)
            return digest_if_known("field", holder, name.lower())
        listed = [alias for alias, each in self.scope.items() if each.lists_column(name)]
        # If another relation also had such a column, Spark would reject the name.
        candidates = listed or [alias for alias, each in self.scope.items() if each.star] or [*self.scope]
        if len(candidates) > 1:
            return None
        (alias,) = candidates
        earlier = None if listed or defined is None else defined.get(name.lower())
        if earlier is None:
            return self._digest_in_relation(alias, name)
        if not self.scope[alias].star:
            return earlier
        # Either that item or a column of the rows: the digest is of both.
        return digest_if_known("either", earlier, self._digest_in_relation(alias, name))

    def _digest_in_relation(self, alias: str, name: str) -> str | None:
        found, side = self.scope[alias].column(name), self.sides[alias]
        return digest_if_known(side, found) if side else found

    def star_columns(self, item: exp.Star | exp.Column) -> Lineage | None:
        """Returns the columns that a star expands to; None if it changes them, or there are several relations."""
        star = item if isinstance(item, exp.Star) else item.this
        table = item.table.lower() if isinstance(item, exp.Column) else ""
        if not passes_columns(star) or len(self.scope) != 1 or (table and table not in self.scope):
            return None
        left_out = star.args.get("except_") or ()
        (read,) = self.scope.values()
        return read.without_columns(*(each.name for each in left_out if not each.name.startswith(_HIDDEN)))


def _belongs_to_query(column: exp.Column, query: exp.Expr) -> bool:
    """Whether a column in a query certainly belongs to a relation of that query. An alias is looked up in the
    innermost SELECT first; a subquery in FROM doesn't see the relations next to it."""
    name = column.table.lower()
    path: list[exp.Expr] = [column]
    while name and path[-1] is not query and path[-1].parent is not None:
        path.append(path[-1].parent)
        node, child = path[-1], path[-2]
        if not isinstance(node, exp.Select):
            continue
        clause = path[-3].arg_key if isinstance(child, exp.Join) else child.arg_key
        aliases = {
            each.alias_or_name.lower() for each in (*relations(node), *(node.args.get("laterals") or ()))
        }
        if name in aliases and clause not in ("from", "from_", "with", "with_", "this"):
            return True
    return False


def canonical_by_position(node: exp.Expr, aliases: Sequence[str]) -> str:
    """Returns the canonical text of an expression, with its relations named by position.

    >>> from ..sql.dialect import parse
    >>> (key,) = parse("select upper(a.k)").selects
    >>> canonical_by_position(key, ("b", "a")), canonical_by_position(key, ("a",))
    ('UPPER(__1.k)', 'UPPER(k)')
    """
    places = {alias.lower(): number for number, alias in enumerate(aliases)}
    holder = exp.Paren(this=node.copy())
    for each in every(holder, exp.Column):
        if each.table.lower() in places:
            place = exp.to_identifier(f"__{places[each.table.lower()]}")
            each.set("table", place if len(places) > 1 else None)
    return canonical(holder.this)


def lineage_over(kind: str, query: exp.Select, below: Sequence[Lineage]) -> Lineage:
    """Returns the lineage of an operator's query, or of its text if the query isn't understood.

    Args:
        kind: name of the operator's class.
        query: reads the inputs as ``__input_0`` …
    """
    found = lineage_of_query(query, {input_name(number): each for number, each in enumerate(below)})
    return text_lineage(kind, query, below) if found is None else found
