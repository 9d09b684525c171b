"""Says why a SELECT can't be evaluated on the rows of one micro-batch, if it can't."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from ..errors import NotWithinWindows, QueryError
from ..frontend import hints
from ..sql.clauses import is_semi_or_anti
from ..sql.dialect import sql, walk_same_query
from ..sql.nodes import every
from ..windows.window_columns import FromRelation


def why_streams_in_expressions(select: exp.Select) -> QueryError | None:
    """Returns the error about the first subquery outside FROM that reads a stream; None if there is none."""
    for node in _clauses_outside_from(select):
        for query in every(node, exp.Query):
            if any(hints.is_stream(table) for table in every(query, exp.Table)):
                return NotWithinWindows(
                    f"'{hints.excerpt(query)}' reads a stream inside an expression; write it as a join "
                    "(LEFT SEMI, LEFT ANTI) in FROM."
                )
    return None


def _clauses_outside_from(select: exp.Select) -> Iterator[exp.Expr]:
    """Yields the parts of a SELECT except WITH and the relations in FROM."""
    for clause, value in select.args.items():
        for node in value if isinstance(value, list) else [value]:
            if clause == "with_" or not isinstance(node, exp.Expr):
                continue
            if not isinstance(node, exp.From | exp.Join):
                yield node
                continue
            if not isinstance(node.this, exp.Table | exp.Subquery | exp.Query):
                yield node.this
            if isinstance(on := node.args.get("on"), exp.Expr):
                yield on


def why_limited(node: exp.SetOperation) -> QueryError | None:
    """Returns the error about the LIMIT of a set operation; None if it has none."""
    limit = node.args.get("limit") or node.args.get("offset")
    if limit is None:
        return None
    kind = node.key.upper()
    return QueryError(
        f"'{sql(limit).strip()}' cuts off rows of a {kind}; write SELECT * FROM (… {kind} …) "
        "ORDER BY … LIMIT … around it."
    )


def first_combining_node(select: exp.Select) -> exp.Expr | None:
    """Returns the first clause or call of a SELECT that combines rows; None if it works row by row."""
    for clause in ("group", "distinct", "limit", "offset", "having"):
        value: exp.Expr | None = select.args.get(clause)
        if value:
            return value
    calls = (node for item in select.expressions for node in walk_same_query(item))
    return next((node for node in calls if isinstance(node, exp.Window | exp.AggFunc)), None)


def why_not_row_by_row(select: exp.Select, sources: Sequence[FromRelation]) -> QueryError | None:
    """Returns why a SELECT below a windowing table function doesn't work row by row; None if it does."""
    if (found := first_combining_node(select)) is not None:
        by = "group or partition" if isinstance(found, exp.Window | exp.AggFunc) else "group"
        return NotWithinWindows(
            f"'{sql(found).strip() or 'DISTINCT'}' of a stream without windows has an updating result, and is below a "
            f"windowing table function; put that function around the stream and {by} by window_start, window_end."
        )
    return why_repeated_rows(sources)


def why_repeated_rows(sources: Sequence[FromRelation]) -> QueryError | None:
    """Returns the error about the first join that keeps unmatched rows of a static table; None if none does."""
    streaming = False
    for source in sources:
        join, is_static = source.join, source.kind == "static"
        if join is not None:
            side = (join.side or "").upper()
            keeps_left = side in ("LEFT", "FULL") or is_semi_or_anti(join)
            keeps_right = side in ("RIGHT", "FULL")
            if (keeps_right and is_static and streaming) or (keeps_left and not is_static and not streaming):
                word = " ".join(filter(None, (side, join.kind))).upper()
                return QueryError(
                    f"The {word} JOIN with '{source.alias}' keeps every row of a table that is not a stream, so each "
                    "micro-batch would emit them again; put the stream on the left of a LEFT JOIN, or read the table "
                    "as a stream, too: {{ stream(ref('…')) }}."
                )
        streaming = streaming or not is_static
    return None
