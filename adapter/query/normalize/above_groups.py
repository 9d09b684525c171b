"""Moves stream subqueries and OVER from a GROUP BY's select list and HAVING to a SELECT above it.

>>> from ..sql.dialect import parse, sql
>>> tree = parse("select upper(k) as k, sum(v) / (select max(v) from t) as s from t group by 1 having s > 2")
>>> print(sql(select_over_groups(tree)))
SELECT `__key_0` AS k, `__aggregate_1` / (SELECT MAX(v) FROM t) AS s FROM (SELECT UPPER(k) AS `__key_0`, \
SUM(v) AS `__aggregate_1` FROM t GROUP BY UPPER(k)) AS __groups WHERE (`__aggregate_1` / (SELECT MAX(v) FROM t)) > 2
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from ..aggregates.grouping import grouping
from ..errors import QueryError
from ..frontend import hints
from ..sql.clauses import is_over, output_name, relations, unwrap_call
from ..sql.dialect import canonical, correlated_columns, qualifier_of, unambiguous_names
from ..sql.nodes import every, is_name, quoted_column

_ALIAS = "__groups"


def select_over_groups(select: exp.Select) -> exp.Select:
    """Returns a SELECT with GROUP BY as a plain SELECT over the groups. The tree isn't changed.

    Raises:
        QueryError: it has grouping sets, or a subquery refers to a relation of its FROM.
    """
    found = grouping(select)
    if found.sets is not None:
        raise QueryError(
            "OVER, LIMIT or a subquery over a stream is in a SELECT with grouping sets; put the GROUP BY into a subquery "
            "in FROM."
        )
    return _GroupBySplit(select, found.keys).query_over_groups()


class _GroupBySplit:
    """Splits a SELECT with GROUP BY into one that groups and one over the groups.

    Args:
        keys: its group keys.
    """

    def __init__(self, select: exp.Select, keys: tuple[exp.Expr, ...]) -> None:
        self.select, self.keys = select, keys
        self.same = unambiguous_names(select)
        self.columns: dict[str, str] = {}
        self.items: list[exp.Expr] = []
        self.aliases = {i.alias.lower(): i.this for i in select.expressions if isinstance(i, exp.Alias)}
        self.outer = {node.alias_or_name.lower() for node in relations(select)} - {""}
        names: set[str] = set()
        for number, key in enumerate(keys):
            # A column keeps its name, so correlated subqueries find it.
            name = key.name if isinstance(key, exp.Column) else ""
            if not name or name.lower() in names:
                name = f"__key_{number}"
            names.add(name.lower())
            self._add_column(key, name)

    def query_over_groups(self) -> exp.Select:
        """Returns the SELECT above, over the groups."""
        outer = exp.Select()
        for item in self.select.expressions:
            above = self._rewrite_over_groups(item.unalias())
            name = output_name(item)
            if not name:
                raise QueryError(
                    f"'{hints.excerpt(item)}' is next to OVER or a subquery over a stream, and has no name; write … AS "
                    "name."
                )
            if not (isinstance(above, exp.Column) and above.name == name):
                quoted = not isinstance(item, exp.Alias) or bool(item.args["alias"].quoted)
                above = exp.alias_(above, name, quoted=quoted)
            outer.append("expressions", above)
        if self.select.args.get("distinct"):
            outer.set("distinct", exp.Distinct())
        having = self.select.args.get("having")
        where = None if having is None else self._rewrite_over_groups(having.this, aliases=True)
        below = self.select.copy()
        for clause in ("having", "distinct", "order"):
            below.set(clause, None)
        below.set("expressions", self.items or [exp.alias_(exp.true(), "anything")])
        if self.keys:
            below.set("group", exp.Group(expressions=[key.copy() for key in self.keys]))
        outer = outer.from_(below.subquery(_ALIAS, copy=False), copy=False)
        return outer if where is None else outer.where(where, copy=False)

    def _canonical_text(self, node: exp.Expr) -> str:
        return canonical(node, self.same)

    def _add_column(self, node: exp.Expr, name: str) -> str:
        self.columns[self._canonical_text(node)] = name
        self.items.append(exp.alias_(node.copy(), name, quoted=True))
        return name

    def _rewrite_over_groups(self, node: exp.Expr, aliases: bool = False) -> exp.Expr:
        """Rewrites an expression over the groups' columns. With `aliases`, a name may be a select alias."""
        if is_name(node):
            return node.copy()
        if (name := self.columns.get(self._canonical_text(node))) is not None:
            return exp.column(name, quoted=True)
        if isinstance(node, exp.Query):
            return self._rewrite_over_keys(node, {id(column) for column in correlated_columns(node)})
        if isinstance(unwrap_call(node).function, exp.AggFunc) and not is_over(node):
            if node.find(exp.Query):
                raise QueryError(
                    f"A subquery is inside the aggregate '{hints.excerpt(node)}'; join it in a subquery in FROM."
                )
            return exp.column(self._add_column(node, f"__aggregate_{len(self.items)}"), quoted=True)
        if aliases and isinstance(node, exp.Column) and not node.table and node.name.lower() in self.aliases:
            return exp.paren(self._rewrite_over_groups(self.aliases[node.name.lower()]))
        made = node.copy()
        for child, old in zip(list(made.iter_expressions()), list(node.iter_expressions()), strict=True):
            child.replace(self._rewrite_over_groups(old, aliases))
        return made

    def _rewrite_over_keys(self, node: exp.Expr, asked: Collection[int]) -> exp.Expr:
        """Rewrites a subquery, or a part of one: references to the grouped rows become group keys.

        Args:
            asked: identities of the whole subquery's correlated columns.
        """
        columns = list(every(node, exp.Column))
        if columns and all(id(column) in asked and qualifier_of(column) in self.outer for column in columns):
            if (name := self.columns.get(self._canonical_text(node))) is not None:
                return quoted_column(name, _ALIAS)
            if isinstance(node, exp.Column):
                raise QueryError(
                    f"'{node.sql()}' is used in a subquery of the groups' select list or HAVING, and is no key; put "
                    "the GROUP BY into a subquery in FROM, and write the other subquery over that."
                )
        made = node.copy()
        for child, old in zip(list(made.iter_expressions()), list(node.iter_expressions()), strict=True):
            child.replace(self._rewrite_over_keys(old, asked))
        return made
