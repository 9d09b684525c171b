"""Rewrites EXISTS, NOT EXISTS and IN over one relation as semi and anti joins.

>>> from ..sql.dialect import parse, sql
>>> tree = parse("select l.k from l where l.v > 0 and not exists (select 1 from r where r.k = l.k and r.v > 2)")
>>> sql(rewrite_as_semi_joins(tree))
'SELECT l.k FROM l LEFT ANTI JOIN r ON r.k = l.k AND r.v > 2 WHERE l.v > 0'
>>> sql(rewrite_as_semi_joins(parse("select l.k from l where (l.k, l.v) in (select r.k, r.v + 1 from r)")))
'SELECT l.k FROM l LEFT SEMI JOIN r ON l.k = r.k AND l.v = r.v + 1'
"""

from __future__ import annotations

from sqlglot import exp

from ..sql.clauses import filters, first_aggregate, relations_with_joins, set_filters
from ..sql.nodes import every

_CLAUSES = {"kind", "expressions", "from_", "from", "where", "hint"}


def rewrite_as_semi_joins(select: exp.Select) -> exp.Select | None:
    """Returns a copy of a SELECT with joins instead of subqueries in WHERE. None if a subquery can't be one. Requires
    qualified columns and distinct aliases."""
    if select.args.get("where") is None:
        return None
    made = select.copy()
    aliases = {node.alias_or_name.lower() for node, _ in relations_with_joins(select)}
    stay: list[exp.Expr] = []
    for test in filters(made):
        if test.find(exp.Query) is None:
            stay.append(test)
            continue
        join = _semi_join_of(test, aliases)
        if join is None:
            return None
        aliases.add(join.this.alias_or_name.lower())
        made.append("joins", join)
    set_filters(made, stay)
    return None if any(item.find(exp.Query) for item in made.expressions) else made


def _semi_join_of(test: exp.Expr, aliases: set[str]) -> exp.Join | None:
    """Returns the semi or anti join for an EXISTS, NOT EXISTS or IN; None if it can't be one. `aliases`: those of the
    relations before it, in lower case."""
    kind = "SEMI"
    if isinstance(test, exp.Not):
        test, kind = test.this.unnest(), "ANTI"
    if isinstance(test, exp.Exists):
        query, equal = test.this, None
    elif isinstance(test, exp.In) and kind == "SEMI" and test.args.get("query") is not None:
        query, equal = test.args["query"], test.this
    else:
        return None
    query = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(query, exp.Select) or {name for name, value in query.args.items() if value} - _CLAUSES:
        return None
    sides = relations_with_joins(query)
    if len(sides) != 1 or first_aggregate(query) is not None or query.find(exp.Window):
        return None
    node = sides[0][0]
    alias = node.alias_or_name.lower()
    tests = [each.copy() for each in filters(query)]
    if equal is not None:
        items = equal.expressions if isinstance(equal, exp.Tuple) else [equal]
        if len(query.expressions) != len(items) or query.is_star:
            return None
        pairs = zip(items, query.expressions, strict=True)
        tests += [exp.EQ(this=item.copy(), expression=other.unalias().copy()) for item, other in pairs]
    columns = [column for each in tests for column in every(each, exp.Column)]
    named = all(len(c.parts) > 1 and c.parts[0].name.lower() in aliases | {alias} for c in columns)
    if not alias or alias in aliases or not tests or not named or any(each.find(exp.Query) for each in tests):
        return None
    return exp.Join(this=node.copy(), side="LEFT", kind=kind, on=exp.and_(*tests, copy=False))
