"""Names unnamed columns of the result as Spark does in batch: `count(1)` for ``count(*)``.

>>> from ...sql.dialect import parse
>>> items = "k, count(*), sum(t.v) + 1, cast(min(v) as int), try_cast(max(v) as int), count(distinct v), a and b"
>>> tree = parse(f"select {items} from t")
>>> nameless = name_columns(tree)
>>> [item.alias for item in tree.expressions]
['', 'count(1)', '(sum(v) + 1)', 'CAST(min(v) AS INT)', 'TRY_CAST(max(v) AS INT)', 'count(DISTINCT v)', '']
>>> nameless is tree.expressions[-1]
True
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from ...errors import QueryError
from ...sql.clauses import output_name
from ...sql.dialect import arguments, function_name, is_distinct, sql
from ...sql.functions import makes_rows

_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_PLAIN = frozenset(
    "count sum avg min max upper lower trim length abs concat coalesce date_trunc min_by max_by".split()
)
"""Functions that Spark prints with their arguments and nothing else."""
_TYPES = frozenset("BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE STRING BINARY DATE TIMESTAMP".split())
"""Types that Spark prints as sqlglot does."""


def result_selects(query: exp.Expr) -> Iterator[exp.Select]:
    """Yields the SELECTs that a query consists of: itself, or the sides of its set operations."""
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        yield from result_selects(query.left)
        yield from result_selects(query.right)
    elif isinstance(query, exp.Select):
        yield query


def name_columns(tree: exp.Query) -> exp.Expr | None:
    """Names a query's unnamed columns. Changes the tree.

    Returns:
        A column whose name in Spark isn't known here. None if there is none.

    Raises:
        QueryError: two columns have the same name.
    """
    first = next(result_selects(tree), None)
    nameless, seen = None, set[str]()
    for item in list(first.expressions) if first is not None else ():
        name = output_name(item)
        if not name and not item.is_star and not isinstance(item, exp.Aliases) and not makes_rows(item):
            made = _spark_name(item)
            if made is not None:
                item.replace(exp.alias_(item.copy(), made, quoted=True))
            elif not isinstance(item, exp.Func) or isinstance(item, exp.Connector | exp.Case | exp.If):
                nameless = nameless or item
            name = made or ""
        if name.lower() in seen:
            raise QueryError(
                f"The query has two columns called '{name}'. Give one of the two another name with AS, or leave it out."
            )
        seen |= {name.lower()} - {"", "*"}
    return nameless


def _spark_name(node: exp.Expr) -> str | None:
    """Returns Spark's name for an unnamed expression. None if it isn't known here."""
    node = node.unnest()
    if isinstance(node, exp.Column | exp.Literal):
        return None if node.is_star else node.name
    if isinstance(node, exp.Binary) and type(node) in _OPERATORS:
        left, right = _spark_name(node.this), _spark_name(node.expression)
        return None if left is None or right is None else f"({left} {_OPERATORS[type(node)]} {right})"
    if isinstance(node, exp.Cast) and not isinstance(node.this, exp.Literal):
        made, kind = _spark_name(node.this), sql(node.args["to"])
        # sqlglot reads both as TryCast.
        function = "TRY_CAST" if node.args.get("safe") else "CAST"
        return None if made is None or kind not in _TYPES else f"{function}({made} AS {kind})"
    if not isinstance(node, exp.Func) or (function := function_name(node)) not in _PLAIN:
        return None
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return "count(1)"
    listed = [_spark_name(each) for each in arguments(node)]
    if not listed or None in listed:
        return None
    return f"{function}({'DISTINCT ' if is_distinct(node) else ''}{', '.join(filter(None, listed))})"
