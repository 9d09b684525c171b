"""Removes brackets around relations in FROM, which the planner would take for queries.

>>> from ..sql.dialect import parse, sql
>>> def without_brackets(text):
...     tree = parse(text)
...     remove_brackets(tree)
...     return sql(tree)
>>> without_brackets("select a.k, d.n from (((t as a)) join d on d.k = a.k) left join e on e.k = a.k")
'SELECT a.k, d.n FROM t AS a JOIN d ON d.k = a.k LEFT JOIN e ON e.k = a.k'
>>> without_brackets("select z.n from s join (t as a join d using (k)) as z on z.k = s.k")
'SELECT z.n FROM s JOIN (SELECT * FROM t AS a JOIN d USING (k)) AS z ON z.k = s.k'
"""

from __future__ import annotations

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints, select_numbers
from ..sql.nodes import every


def remove_brackets(tree: exp.Expr) -> None:
    """Removes the brackets around relations and joins in FROM, where that means the same. Changes the tree.

    Brackets around a join that follows another relation stay: they determine which rows an outer join before them
    preserves.
    """
    # Innermost first, because brackets may be in brackets.
    for brackets in reversed(list(every(tree, exp.Subquery))):
        if isinstance(brackets.this, exp.Subquery | exp.Table):
            _remove_pair(brackets)


def _remove_pair(brackets: exp.Subquery) -> None:
    inner, around = brackets.this, brackets.parent
    joins = inner.args.get("joins") or []
    more = _clause_names(brackets)
    if brackets.alias:
        if _clause_names(inner):
            # The alias hides the names inside.
            inner.set("joins", None)
            below = exp.Select(expressions=[exp.Star()]).from_(inner, copy=False)
            below.set("joins", joins)
            if isinstance(outer := brackets.find_ancestor(exp.Select), exp.Select):
                select_numbers.copy_number(below, outer)
            brackets.set("this", below)
    elif not more and isinstance(around, exp.From) and isinstance(select := around.parent, exp.Select):
        inner.set("joins", None)
        brackets.replace(inner)
        select.set("joins", [*joins, *(select.args.get("joins") or ())])
    elif more <= {"joins"} and isinstance(around, exp.Subquery):
        inner.set("joins", [*joins, *(brackets.args.get("joins") or ())])
        brackets.replace(inner)
    elif not more and not joins and isinstance(around, exp.Join):
        brackets.replace(inner)


def _clause_names(relation: exp.Expr) -> set[str]:
    """Returns what a relation has in addition to its name or query, such as an alias, joins, or UNPIVOT."""
    return {name for name, value in relation.args.items() if value} - {"this", "db", "catalog"}


def check_streams_in_brackets(tree: exp.Expr) -> None:
    """Raises unless `remove_brackets` has removed all brackets around streams. Requires marked streams.

    Raises:
        QueryError: some are left. The planner wouldn't see the joins and clauses within them.
    """
    for brackets in every(tree, exp.Subquery):
        inner = brackets.this
        if not isinstance(inner, exp.Subquery | exp.Table) or not _clause_names(inner):
            continue
        if not hints.reads_stream(inner):
            continue
        if not inner.args.get("joins"):
            raise QueryError(f"'{hints.excerpt(brackets)}' is a stream in brackets; leave the brackets out.")
        raise QueryError(
            f"'{hints.excerpt(brackets)}' joins a stream in brackets; write the joins one after another, or those in "
            "brackets as a query: (SELECT … FROM … JOIN … ON …) AS name."
        )
