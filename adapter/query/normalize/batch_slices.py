"""Replaces queries over windows in a text for batch by queries that compute the windows from slices.

>>> from ..windows.expansion import expand_window
>>> from ..windows.window_arguments import make_window
>>> minutes = expand_window("t", make_window("cumulate", "ts", "1 minute", "1 hour"))
>>> items = "window_end, lag(count(*)) over (order by window_end) as before"
>>> tree = parse(f"select {items} from {minutes} group by window_start, window_end")
>>> compute_from_slices(tree, lambda text, inputs: "select … from t_slices")
>>> print(sql(tree))
SELECT `window_end`, LAG(`__aggregate_2`) OVER (ORDER BY `window_end`) AS before FROM (select … from t_slices) AS __groups
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TypeAlias

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..sql.clauses import first_aggregate, relations
from ..sql.dialect import parse, sql, with_clause
from ..sql.functions import QueryRunner
from ..sql.nodes import copied, every
from ..windows.expansion import expand_stream
from . import above_groups, conditions

SliceWriter: TypeAlias = Callable[[str, Mapping[str, exp.Query]], str | None]
"""Returns a query over windows, computed from slices; None if it leaves its windows, or aggregates none of them. Its
arguments are the query's text, and the queries of the relations in it that are no tables, by their names."""

_INPUT = "__window_input_"
"""Begins the name of a relation with the rows of a window's input."""
_EXPLAIN = "explain extended "
_NOT_DIVIDED = ("order", "sort", "distribute", "cluster", "qualify", "windows", "laterals")
"""Clauses of a SELECT that may read its rows as well as its groups."""


def compute_from_slices(
    query: exp.Expr, from_slices: SliceWriter, named: Mapping[str, exp.CTE | None] = MappingProxyType({})
) -> None:
    """Replaces the outermost queries in FROM and in WITH that stay within windows by queries that compute their windows from
    slices, if each row is in many of them. Changes the tree.

    Args:
        query: a query; anything else stays as it is.
        from_slices: writes a query from slices.
        named: the CTEs that the query may read, as written, by name in lower case; None for one that can't be repeated.
    """
    if not isinstance(query, exp.Query) or next(hints.windows_under(query), None) is None:
        return
    within = with_clause(query)
    for cte in within.expressions if within else ():
        name, written = cte.alias.lower(), copied(cte)
        _compute_below_from_slices(cte, from_slices, named)
        # Others of `named` may read the CTE that this one hides.
        named = dict.fromkeys([*named, name]) if name in named else {**named, name: written}
    if isinstance(query, exp.Subquery):
        compute_from_slices(query.this, from_slices, named)
    elif isinstance(query, exp.SetOperation):
        for side in (query.this, query.expression):
            compute_from_slices(side, from_slices, named)
    elif isinstance(query, exp.Select) and not _compute_groups_from_slices(query, from_slices, named):
        for relation in relations(query):
            if isinstance(relation, exp.Subquery):
                _compute_below_from_slices(relation, from_slices, named)


def _compute_groups_from_slices(
    query: exp.Select, from_slices: SliceWriter, named: Mapping[str, exp.CTE | None]
) -> bool:
    """Computes the groups of a SELECT that leaves its windows, such as by LAG over their results, from slices in a query
    below it. Changes the tree.

    Returns:
        Whether it did: the SELECT groups rows of windows, and can be divided.
    """
    has_groups = query.args.get("group") is not None or first_aggregate(query) is not None
    reads_windows = any(hints.window_of(each.unnest()) is not None for each in relations(query))
    if not (has_groups and reads_windows and _has_highly_overlapping_windows(query)):
        return False
    written = copied(query)
    around = {clause: written.args.get(clause) for clause in ("with_", "limit", "offset")}
    for clause in around:
        written.set(clause, None)
    above = _divided_from_slices(written, from_slices, named)
    if above is None:
        return False
    query.args.clear()
    for name, value in {**above.args, **around}.items():
        query.set(name, value)
    return True


def _divided_from_slices(
    query: exp.Select, from_slices: SliceWriter, named: Mapping[str, exp.CTE | None]
) -> exp.Select | None:
    """Returns a SELECT over a query from slices: over the SELECT's groups, or over the whole SELECT if it can't be divided
    from these. None if neither is possible."""
    if not any(query.args.get(clause) for clause in _NOT_DIVIDED):
        with suppress(QueryError):
            above = above_groups.select_over_groups(query)
            (groups,) = relations(above)
            if (made := _from_slices(groups.this, from_slices, named)) is not None:
                groups.set("this", made)
                return above
    made = _from_slices(query, from_slices, named)
    return None if made is None else exp.select("*").from_(exp.Subquery(this=made))


def _compute_below_from_slices(
    node: exp.Subquery | exp.CTE,
    from_slices: SliceWriter,
    named: Mapping[str, exp.CTE | None],
) -> None:
    """Computes a query in FROM or in WITH from slices, or else the queries in it; see `compute_from_slices`."""
    query = node.this
    if next(hints.windows_under(query), None) is not None:
        if (made := _from_slices(query, from_slices, named)) is not None:
            node.set("this", made)
            return
    compute_from_slices(query, from_slices, named)


def _from_slices(
    query: exp.Query, from_slices: SliceWriter, named: Mapping[str, exp.CTE | None]
) -> exp.Expr | None:
    """Returns a query with its windows computed from slices; None if it doesn't stay within windows, or slices don't pay."""
    whole = _with_ctes_read(query, named)
    if whole is None or not _has_highly_overlapping_windows(whole):
        return None
    text = from_slices(sql(whole), {})
    return _over_inputs_as_tables(query, from_slices) if text is None else exp.Var(this=text)


def _over_inputs_as_tables(query: exp.Query, from_slices: SliceWriter) -> exp.Expr | None:
    """Returns a query with its windows computed from slices over their inputs, which it reads as tables, such as joins and
    rankings of streams; None if it does more than that, or an input can't be repeated."""
    names = (node.name for node in every(query, exp.Identifier))
    if with_clause(query) is not None or any(name.startswith(_INPUT) for name in names):
        return None
    over_tables = copied(query)
    inputs: dict[str, exp.Query] = {}
    for select in hints.windows_under(over_tables):
        rows = hints.window_input(select)
        if not conditions.is_repeatable(rows) or next(hints.windows_under(rows), None) is not None:
            return None
        known = (name for name, each in inputs.items() if each == rows)
        name = next(known, f"{_INPUT}{len(inputs)}")
        inputs[name] = copied(rows)
        rows.replace(parse(f"select * from {expand_stream(name)}"))
    text = from_slices(sql(over_tables), inputs)
    if text is None:
        return None
    made = exp.select("*").from_(exp.Subquery(this=exp.Var(this=text)))
    return with_relations(made, inputs)


def with_relations(query: exp.Query, defined: Mapping[str, exp.Query]) -> exp.Query:
    """Returns a query with a WITH that defines relations first, by their names. Changes the query."""
    within = with_clause(query) or exp.With(expressions=[])
    ctes = [
        exp.CTE(this=copied(rows), alias=exp.TableAlias(this=exp.to_identifier(name)))
        for name, rows in defined.items()
    ]
    within.set("expressions", [*ctes, *within.expressions])
    query.set("with_", within)
    return query


def with_relations_known(ask: QueryRunner | None, defined: Mapping[str, exp.Query]) -> QueryRunner | None:
    """Returns a query runner whose queries may also read relations, by their names; None without a session."""
    if ask is None or not defined:
        return ask

    def asked(text: str) -> Sequence[object]:
        if not any(name in text for name in defined):
            return ask(text)
        explain = _EXPLAIN if text.startswith(_EXPLAIN) else ""
        return ask(explain + sql(with_relations(parse(text.removeprefix(explain)), defined)))

    return asked


def _has_highly_overlapping_windows(query: exp.Query) -> bool:
    """Whether each row is in so many windows that slices are faster than plain SQL."""
    found = map(hints.window_of, hints.windows_under(query))
    return any(window is not None and window.is_highly_overlapping for window in found)


def _with_ctes_read(query: exp.Query, named: Mapping[str, exp.CTE | None]) -> exp.Query | None:
    """Returns a query with a WITH that defines the CTEs it reads; None if one of them can't be repeated, is hidden by one of
    the query's own, or hides a table that is read.

    Args:
        named: see `compute_from_slices`.
    """
    read: dict[str, exp.CTE] = {}
    needed = _names_read(query) & named.keys()
    names = list(named)
    for place in reversed(range(len(names))):
        if names[place] not in needed:
            continue
        cte = named[names[place]]
        if cte is None or not conditions.is_repeatable(cte):
            return None
        below = _names_read(cte) & named.keys()
        if not below <= {*names[:place]}:
            return None
        read[names[place]] = cte
        needed |= below
    if not read:
        return query
    whole = copied(query)
    within = with_clause(whole) or exp.With(expressions=[])
    if not read.keys().isdisjoint(cte.alias.lower() for cte in within.expressions):
        return None
    within.set("expressions", [*map(copied, reversed(read.values())), *within.expressions])
    whole.set("with_", within)
    return whole


def _names_read(node: exp.Expr) -> set[str]:
    """Returns the names without a schema of the tables and CTEs under a node, in lower case."""
    return {table.name.lower() for table in every(node, exp.Table) if not table.db}
