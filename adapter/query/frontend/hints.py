"""Reads hints in a tree and marks nodes: windows, streams, and results of window operators.

Macros mark windows and streams with hints that Spark ignores (`expansion`). The planner marks tables that are
streams, and where it inserted a window operator's result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from ...util.quoting import quote_path
from ..errors import QueryError
from ..sql.dialect import canonical, from_clause, sql
from ..sql.names import remove_marks
from ..sql.nodes import copied, every, selects_around
from ..sql.shortening import shorten
from ..windows import window_arguments, windows
from ..windows.expansion import INPUT, WINDOW_COLUMNS
from ..windows.windows import Window

_STREAM = "stream"
_OPERATOR = "operator"
_RELATION = "relation"
_WINDOW_RESULT = "window_result"
_WROTE = "wrote"
_ROW = "row"
_LINE_COMMENT = re.compile(r"--[^\n]*")


def window_of(node: exp.Expr) -> Window | None:
    """Returns the windowing TVF that a SELECT represents. None if it isn't one."""
    for hint in _hints(node):
        if isinstance(hint, exp.Anonymous) and hint.name.lower() in windows.KINDS:
            first, *rest = hint.expressions
            literals = tuple(each.name for each in rest if isinstance(each, exp.Literal))
            columns = tuple(each.name for each in rest if not isinstance(each, exp.Literal))
            return window_arguments.window_from_hint(hint.name, _quoted_path(first), literals, columns)
    return None


def _quoted_path(column: exp.Expr) -> str:
    """Returns the quoted path of a hint's column, or of a field of it."""
    parts = column.parts if isinstance(column, exp.Column | exp.Dot) else [column]
    return quote_path(part.name for part in parts)


def input_as_written(query: exp.Query) -> exp.Query:
    """Returns a query's input as its author wrote it, as a new tree: without text that macros print around a relation, and
    without the select list."""
    holder = exp.Subquery(this=copied(query))
    for select in list(windows_under(holder)):
        select.replace(window_input(select))
    read = restore_originals(holder).this
    if read.args.get("expressions"):
        read.set("expressions", [exp.Star()])
    for clause in ("group", "having", "order", "distinct", "hint"):
        read.set(clause, None)
    assert isinstance(read, exp.Query)
    return read


def excerpt(node: exp.Expr, length: int = 80) -> str:
    """Returns the beginning of a query's text for a message, with macro calls instead of their expansion.

    >>> from ..sql.dialect import parse
    >>> excerpt(parse("select k from (select /*+ STREAM */ * from clicks) as c where v > 1"), 41)
    'SELECT k FROM stream(clicks) AS c WHERE …'
    """
    return shorten(remove_marks(sql(with_macro_calls(node))).strip(), length)


def with_macro_calls(node: exp.Expr) -> exp.Expr:
    """Returns a copy of the tree with macro calls instead of their expansion."""
    holder = exp.Paren(this=copied(node))
    for lateral in list(every(holder, exp.Lateral)):
        if (versions := versions_as_of(lateral)) is not None:
            call = exp.Var(this=f"as_of({versions.relation}, {sql(versions.time)})")
            lateral.replace(exp.Table(this=call, alias=lateral.args.get("alias")))
    printed = {id(each): str(window_of(each)) for each in windows_under(holder)}
    for select in list(every(holder, exp.Select)):
        table = next(every(select, exp.Table), None)
        if table is not None and (is_marked_as_stream(select) or _is_plain_stream_read(select, table)):
            printed[id(select)] = f"stream({_compiled_name(table)})"
    for select in [each for each in every(holder, exp.Select) if id(each) in printed]:
        call, around = exp.Var(this=printed[id(select)]), select.parent
        if isinstance(around, exp.Subquery):
            beside = {name: around.args.get(name) for name in ("alias", "joins")}
            around.replace(exp.Table(this=call, **beside))
        else:
            select.replace(call)
    return restore_originals(holder).this


def _is_plain_stream_read(select: exp.Select, table: exp.Table) -> bool:
    """Whether a SELECT is just ``select * from`` a stream, as `stream()` prints it."""
    source = from_clause(select)
    said = {name for name, value in select.args.items() if value and name not in ("hint", "kind")}
    return (
        is_stream(table)
        and source is not None
        and source.this is table
        and said <= {"expressions", "from", "from_"}
        and [type(each) for each in select.expressions] == [exp.Star]
    )


def _compiled_name(table: exp.Table) -> str:
    """Returns a table's name in the compiled text, even if it was renamed since."""
    return str(table.meta_get(_RELATION) or relation_name(table))


def is_marked_as_stream(node: exp.Expr) -> bool:
    """Whether a SELECT is the expansion of ``stream()``."""
    return any(hint.name.upper() == windows.STREAM.upper() for hint in _hints(node))


@dataclass(frozen=True)
class VersionsAsOf:
    """A temporal join, as the macro ``as_of`` prints it. It gives each row of the relations before it in FROM the version of
    a key at the row's time."""

    table: exp.Table
    """The relation with the versions."""
    key: tuple[str, ...]
    """Columns that all versions of one row have in common."""
    version_time: exp.Column
    """Column with the time from which a version is valid."""
    valid_until: exp.Column
    """Column with the time at which the next version begins."""
    time: exp.Expr
    """The time at which a version is looked for, an expression over the relations before it in FROM."""
    row: str | None
    """The type of a version, a struct as `typeof` prints it, if it holds a MAP; None if not, or if unknown."""

    @property
    def relation(self) -> str:
        """Returns the name of the relation in the compiled text."""
        return _compiled_name(self.table)


def versions_as_of(node: exp.Expr) -> VersionsAsOf | None:
    """Returns the temporal join that a LATERAL in FROM is, an expansion of ``as_of()``; None if it is another LATERAL."""
    select = node.this.unnest() if isinstance(node, exp.Lateral) and node.this is not None else None
    if not isinstance(select, exp.Select):
        return None
    for hint in _hints(select):
        if isinstance(hint, exp.Anonymous) and hint.name.lower() == windows.AS_OF:
            begins, ends = (next(every(select.args["where"], kind)) for kind in (exp.LTE, exp.GT))
            (table,) = every(select, exp.Table)
            key = tuple(each.name for each in hint.expressions)
            return VersionsAsOf(
                table=table,
                key=key,
                version_time=begins.this,
                valid_until=ends.this,
                time=begins.expression,
                row=node.meta.get(_ROW),
            )
    return None


def note_version_type(node: exp.Expr, kind: str) -> None:
    """Notes the type of a version, which holds a MAP, at the LATERAL that reads the versions (`VersionsAsOf`)."""
    node.meta[_ROW] = kind


def _hints(node: exp.Expr) -> list[exp.Expr]:
    hint = node.args.get("hint") if isinstance(node, exp.Select) else None
    return hint.expressions if hint else []


def take_hints(
    tree: exp.Expr, wanted: Callable[[exp.Expr | str], bool]
) -> list[tuple[exp.Expr, exp.Expr | str]]:
    """Removes matching hints from a tree and returns each with its SELECT. A hint that can't be parsed is a str."""
    taken = []
    for hint in list(every(tree, exp.Hint)):
        select = hint.parent
        assert select is not None
        own = [each for each in hint.expressions if wanted(each)]
        others = [each for each in hint.expressions if not wanted(each)]
        taken += [(select, each) for each in own]
        if own and others:
            hint.set("expressions", others)
        elif own:
            select.set("hint", None)
    return taken


def check_hint_places(name: str, example: str, found: int, text: str) -> None:
    """Raises unless all hints of this name in a text were found in its tree.

    Args:
        name: the hint's name, in capitals.
        example: the hint with arguments.
        found: number of such hints in the tree.

    Raises:
        QueryError: one is where it is read as a comment, so it would have no effect.
    """
    written = re.findall(
        rf"/\*\+(?:(?!\*/).)*\b{name}\b", _LINE_COMMENT.sub("", text), re.IGNORECASE | re.DOTALL
    )
    if len(written) > found:
        raise QueryError(
            f"A hint {name} is where it is read as a comment; put it right after a SELECT, before DISTINCT, and in "
            f"one /*+ … */ with other hints of that SELECT: SELECT /*+ {example} */ …."
        )


def window_input(select: exp.Select) -> exp.Query:
    """Returns the query under a windowing TVF: ``select * from relation``."""
    source = from_clause(select)
    assert source is not None
    while source.this.alias != INPUT:
        source = from_clause(source.this.this)
        assert source is not None
    query: exp.Query = source.this.this
    return query


def freeze_printed_columns(tree: exp.Expr) -> None:
    """Replaces the trees of printed window columns by their text. Nothing reads them as trees, and with a time zone
    they are most of a query, which would be copied and walked with it. Changes the tree."""
    for select in windows_under(tree):
        for item in select.expressions:
            if item.alias.lower() in WINDOW_COLUMNS:
                item.set("this", exp.Var(this=canonical(item.this)))


def mark_streams(tree: exp.Query) -> None:
    """Marks the table under each windowing TVF, or those under ``stream()``, as a stream."""
    for select in every(tree, exp.Select):
        if is_marked_as_stream(select):
            tables = list(every(select, exp.Table))
            if len(tables) != 1:
                raise QueryError(
                    f"stream() marks one table, found {_table_list(tables) or 'none'} under it; put it around the one that "
                    "is the stream, where the query reads it: FROM {{ stream(ref('…')) }}."
                )
            mark_stream(tables[0])
    for select in every(tree, exp.Select):
        if window := window_of(select):
            below = window_input(select)
            if any(window_of(inner) for inner in every(below, exp.Select)):
                continue  # a cascading window
            tables = list(every(below, exp.Table))
            if any(is_stream(table) for table in tables):
                continue
            if len({sql(_plain_table(table)).lower() for table in tables}) != 1:
                raise QueryError(
                    f"{window.kind}() has {_table_list(tables) or 'no table'} under it; mark the one that is the "
                    "stream: {{ stream(ref('…')) }}."
                )
            for table in tables:
                mark_stream(table)


def _plain_table(table: exp.Table) -> exp.Table:
    """Returns a copy of a table without its alias, its comments and the joins in its brackets."""
    copy = copied(table)
    copy.set("alias", None)
    copy.set("joins", None)
    for node in every(copy, exp.Expr):
        node.comments = None
    return copy


def _table_list(tables: list[exp.Table]) -> str:
    return ", ".join(dict.fromkeys(sql(_plain_table(table)) for table in tables))


def mark_stream(table: exp.Expr) -> None:
    table.meta[_STREAM] = True
    if isinstance(table, exp.Table):
        table.meta[_RELATION] = relation_name(table)


def is_stream(table: exp.Expr) -> bool:
    return bool(table.meta_get(_STREAM))


def mark_placeholder(table: exp.Expr, operator: str) -> None:
    """Marks a table as the placeholder of a planned operator."""
    table.meta[_OPERATOR] = operator


def placeholder_of(node: exp.Expr) -> str | None:
    """Returns the operator that a table is the placeholder of. None if it isn't one."""
    name: str | None = node.meta_get(_OPERATOR)
    return name


def is_stream_or_operator(table: exp.Expr) -> bool:
    """Whether a table is a stream or the placeholder of an operator."""
    return is_stream(table) or placeholder_of(table) is not None


def reads_stream(node: exp.Expr) -> bool:
    """Whether a node holds a table that is read as a stream."""
    return any(map(is_stream, every(node, exp.Table)))


def reads_stream_or_operator(node: exp.Expr) -> bool:
    """Whether a node holds a stream or the placeholder of an operator."""
    return any(map(is_stream_or_operator, every(node, exp.Table)))


def selects_over_streams(tree: exp.Expr) -> set[int]:
    """Returns the ids of the SELECTs that hold a table which is read as a stream."""
    return {id(each) for table in filter(is_stream, every(tree, exp.Table)) for each in selects_around(table)}


def relation_name(table: exp.Table) -> str:
    """Returns the name of a table in the compiled text."""
    return sql(_plain_table(table))


@dataclass(frozen=True)
class WindowResult:
    """The result of a window operator, in the place of its SELECT."""

    name: str
    window_columns: tuple[tuple[str, str], ...]
    unique: frozenset[str] | None


def select_window_result(result: WindowResult) -> exp.Select:
    """Returns ``select * from NAME``, marked with the window operator of that name."""
    select = exp.Select(expressions=[exp.Star()]).from_(exp.Table(this=exp.to_identifier(result.name)))
    select.meta[_WINDOW_RESULT] = result
    return select


def window_result_of(node: exp.Expr) -> WindowResult | None:
    """Returns the mark that `select_window_result` set. None if there is none."""
    return node.meta_get(_WINDOW_RESULT)


def keep_original(node: exp.Expr, wrote: exp.Expr) -> None:
    """Marks a generated expression with the author's expression that it replaces."""
    node.meta[_WROTE] = wrote.copy()


def is_replacement(node: exp.Expr) -> bool:
    """Whether an expression replaces one that the author wrote."""
    return node.meta_get(_WROTE) is not None


def replacements(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yields the generated expressions that replace the author's."""
    return filter(is_replacement, every(tree, exp.Expr))


def restore_originals(tree: exp.Expr) -> exp.Expr:
    """Restores the author's expressions. Changes the tree."""
    for node in list(replacements(tree)):
        node.replace(node.meta[_WROTE].copy())
    return tree


def windows_under(tree: exp.Expr) -> Iterator[exp.Select]:
    """Yields the windowing TVFs under a node, outermost first."""
    for select in every(tree, exp.Select):
        if window_of(select):
            yield select
