"""Checks that a SELECT can be evaluated on the rows of one micro-batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from ..errors import NotInStages, QueryError
from ..frontend import hints
from ..frontend.streams import is_printed
from ..sql.clauses import only_asks
from ..sql.dialect import function_name, sql, walk_same_query
from ..sql.nodes import every
from ..windows.window_columns import FromRelation


def refuse_streams_in_expressions(select: exp.Select) -> None:
    """Raises unless a SELECT reads streams only in FROM.

    Raises:
        QueryError: a subquery reads one.
    """
    for node in _outside_from(select):
        for query in every(node, exp.Query):
            if any(hints.is_stream(table) for table in every(query, exp.Table)):
                raise NotInStages(
                    f"'{hints.quoted(query)}' reads a stream inside an expression; write it as a join "
                    "(LEFT SEMI, LEFT ANTI) in FROM."
                )


def _outside_from(select: exp.Select) -> Iterator[exp.Expr]:
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


def refuse_limit(node: exp.SetOperation) -> None:
    """Raises if a set operation has a LIMIT.

    Raises:
        QueryError: it has one.
    """
    if limit := node.args.get("limit") or node.args.get("offset"):
        kind = node.key.upper()
        raise QueryError(
            f"'{sql(limit).strip()}' cuts off rows of a {kind}; write SELECT * FROM (… {kind} …) "
            "ORDER BY … LIMIT … around it."
        )


def check_relations(tree: exp.Expr) -> None:
    """Raises unless only GROUP BY, joins and rankings combine rows of a stream in FROM.

    Raises:
        QueryError: PIVOT, TABLESAMPLE by number or a table function does; or a table is to be read as of each
            row's time.
    """
    for version in every(tree, exp.Version):
        if version.find(exp.Column) is not None:
            name = exp.table_name(version.parent) if isinstance(version.parent, exp.Table) else "the table"
            raise QueryError(
                f"'{sql(version)}' asks for {name} as it was at the time of each row, and Spark reads a table as of one "
                f"time. For what {name} has now, join it as it is. For what was valid then, join its changes: JOIN LATERAL "
                f"(SELECT * FROM {name} AS v WHERE v.key = … AND v.valid_from <= … ORDER BY v.valid_from DESC LIMIT 1)."
            )
        if _reads_stream(version.parent):
            raise QueryError(
                f"'{sql(version)}' of a stream: it has no version, for its rows come one micro-batch after the other. "
                "Leave it out, or read the table without stream()."
            )
    for pivot in every(tree, exp.Pivot):
        if not pivot.args.get("unpivot") and _reads_stream(_pivoted(pivot)):
            raise QueryError(
                f"'{sql(pivot).strip()[:80]}' over a stream; write its columns as aggregates with FILTER: "
                "SELECT key, sum(x) FILTER (WHERE y = 'a') AS a … GROUP BY key."
            )
    for join in every(tree, exp.Join):
        if join.method == "NATURAL" and not is_printed(join) and _reads_stream(join.parent):
            raise QueryError(
                f"'{hints.quoted(join)}' over a stream: what a stream has besides the columns that a query names isn't "
                "known; name those that are the same, with USING."
            )
    for call in every(tree, exp.Func):
        if function_name(call) == "session_window" and _reads_stream(call.find_ancestor(exp.Select)):
            raise QueryError(
                f"'{sql(call)}' over a stream would be a session of each row; read the stream through the macro: "
                "FROM {{ session(relation, 'time_column', '5 minutes') }} … GROUP BY window_start, window_end."
            )
    for sample in every(tree, exp.TableSample):
        if sample.args.get("size") is not None and _reads_stream(sample.parent):
            raise QueryError(
                f"'{sql(sample).strip()}' of a stream would take so many rows of each micro-batch; use "
                "TABLESAMPLE (… PERCENT), or a ROW_NUMBER() with a filter on it."
            )
    for table in every(tree, exp.Table):
        if isinstance(table.this, exp.Func) and _reads_stream(table.this):
            raise QueryError(
                f"'{sql(table)[:80]}' gives a stream to a table function, which would see the rows of one micro-batch at "
                "a time; call it for each row, with LATERAL, or in a model in batch."
            )


def _pivoted(pivot: exp.Pivot) -> exp.Expr | None:
    """Returns the relation of a PIVOT. After a join it is the joined relation."""
    node = pivot.parent
    return node.parent if isinstance(node, exp.Join) else node


def _reads_stream(node: exp.Expr | None) -> bool:
    return node is not None and hints.reads_stream(node)


def check_row_level(select: exp.Select, sources: Sequence[FromRelation]) -> None:
    """Raises unless a SELECT below a windowing table function works row by row. Removes its ORDER BY.

    Raises:
        QueryError: it doesn't.
    """
    for clause in ("group", "distinct", "limit", "having"):
        if value := select.args.get(clause):
            raise NotInStages(
                f"'{sql(value).strip() or 'DISTINCT'}' of a stream without windows has an updating result, and is "
                "below a windowing table function; put that function around the stream and group by window_start, "
                "window_end."
            )
    for item in select.expressions:
        for node in walk_same_query(item):
            if isinstance(node, exp.Window | exp.AggFunc):
                raise NotInStages(
                    f"'{sql(node)}' of a stream without windows has an updating result, and is below a windowing table "
                    "function; put that function around the stream and group or partition by window_start, window_end."
                )
    check_joins(sources)
    if order := select.args.get("order"):
        order.pop()


def check_joins(sources: Sequence[FromRelation]) -> None:
    """Raises if a join keeps unmatched rows of a static table.

    Raises:
        QueryError: one does.
    """
    streaming = False
    for source in sources:
        side = (source.join.side or "").upper() if source.join is not None else ""
        if source.join is not None:
            keeps_left = side in ("LEFT", "FULL") or only_asks(source.join)
            keeps_right = side in ("RIGHT", "FULL")
            if (keeps_right and source.kind == "static") or (
                keeps_left and not streaming and source.kind != "static"
            ):
                raise QueryError(
                    f"The {side} JOIN with '{source.alias}' keeps every row of a table that is not a stream, so each "
                    "micro-batch would emit them again; put the stream on the left of a LEFT JOIN, or read the table "
                    "as a stream, too: {{ stream(ref('…')) }}."
                )
        streaming = streaming or source.kind != "static"
