"""Checks the relations of a query: their names, and that only GROUP BY, joins and rankings combine rows of a stream."""

from __future__ import annotations

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..frontend.streams import is_printed_by_macro
from ..sql.dialect import from_clause, function_name, sql
from ..sql.nodes import every
from ..windows.expansion import WINDOW_COLUMNS
from . import as_of_joins


def check_name_case(tree: exp.Query) -> None:
    """Raises if relations of a text differ only in the case of their names, since names are compared without
    it."""
    found: dict[tuple[str, ...], exp.Table] = {}
    for table in every(tree, exp.Table):
        names = tuple(part.name for part in table.parts)
        other = found.setdefault(tuple(map(str.lower, names)), table)
        if names != tuple(part.name for part in other.parts):
            one, two = sorted(map(hints.relation_name, (table, other)))
            raise QueryError(
                f"The query reads {one} and {two}, whose names differ only in case, so it would treat them as one. If "
                "they are one table, write its name the same way; otherwise give one of them another name, or read it "
                "in a separate model."
            )


def check_stream_relations(tree: exp.Expr) -> None:
    """Raises unless only GROUP BY, joins and rankings combine rows of a stream in FROM.

    Raises:
        QueryError: PIVOT, TABLESAMPLE by number or a table function does; or a table is to be read as of each
            row's time.
    """
    as_of_joins.check_version_joins(tree)
    for version in every(tree, exp.Version):
        if version.find(exp.Column) is not None:
            name = exp.table_name(version.parent) if isinstance(version.parent, exp.Table) else "the table"
            raise QueryError(
                f"'{sql(version)}' asks for {name} as it was at the time of each row, and Spark reads a table as of one "
                f"time. For what {name} has now, join it as it is. For what was valid then, write JOIN {{{{ as_of(…, "
                "'o.ordered_at') }} AS r ON …, which has the version of each row's time."
            )
        if _reads_stream(version.parent):
            raise QueryError(
                f"'{sql(version)}' of a stream: it has no version, for its rows come one micro-batch after the other. "
                "Leave it out, or read the table without stream()."
            )
    for pivot in every(tree, exp.Pivot):
        if not pivot.args.get("unpivot") and _reads_stream(_relation_of_pivot(pivot)):
            raise QueryError(
                f"'{sql(pivot).strip()[:80]}' over a stream; write its columns as aggregates with FILTER: "
                "SELECT key, sum(x) FILTER (WHERE y = 'a') AS a … GROUP BY key."
            )
    for join in every(tree, exp.Join):
        if join.method == "NATURAL" and not is_printed_by_macro(join) and _reads_stream(join.parent):
            raise QueryError(
                f"'{hints.excerpt(join)}' over a stream: a stream reads only the columns that a query names, so the columns "
                "that both sides have aren't known; name them, with USING."
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
                f"'{sql(sample).strip()}' of a stream would take that number of rows from each micro-batch; use "
                "TABLESAMPLE (… PERCENT), or a ROW_NUMBER() with a filter on it."
            )
    for table in every(tree, exp.Table):
        if isinstance(table.this, exp.Func) and _reads_stream(table.this):
            raise QueryError(
                f"'{sql(table)[:80]}' gives a stream to a table function, which would see the rows of one micro-batch at "
                "a time; call it for each row, with LATERAL, or in a model in batch."
            )


def _relation_of_pivot(pivot: exp.Pivot) -> exp.Expr | None:
    """Returns the relation of a PIVOT. After a join it is the joined relation."""
    node = pivot.parent
    return node.parent if isinstance(node, exp.Join) else node


def check_times_of_windows(tree: exp.Expr) -> None:
    """Raises if a window's time column is ``window_start``, ``window_end`` or ``window_time`` and its relation has no such
    column. Spark wouldn't report that, because the macro's expansion adds these columns to its input as NULL."""
    for select in hints.windows_under(tree):
        window, read = hints.window_of(select), hints.window_input(select)
        source = from_clause(read) if isinstance(read, exp.Select) else None
        assert window is not None and source is not None
        below, time = source.this.unnest(), window.time_col.lower()
        if time not in WINDOW_COLUMNS or not isinstance(below, exp.Select) or below.is_star:
            continue
        if time not in map(str.lower, below.named_selects):
            name = source.this.alias_or_name
            raise QueryError(
                f"{window} goes by {window.time_col}, which {name} doesn't have. Add it to the select list of {name}, and "
                "to its GROUP BY."
            )


def _reads_stream(node: exp.Expr | None) -> bool:
    return node is not None and hints.reads_stream(node)
