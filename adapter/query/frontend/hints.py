"""Hints and marks: which parts of a tree are windows, streams, and results of stages.

Macros mark windows and streams with hints that Spark ignores (`expansion`). The planner marks
the tables that are streams, and the places where a stage's result has been put.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from ...util.quoting import quote_path
from ..errors import QueryError
from ..sql.dialect import canonical, from_clause, sql
from ..sql.names import unmarked
from ..sql.nodes import every
from ..sql.shortening import shortened
from ..windows import window_arguments, windows
from ..windows.expansion import INPUT, WINDOW_COLUMNS
from ..windows.windows import Window

_STREAM = "stream"
_OPERATOR = "operator"
_RELATION = "relation"
_STAGE = "stage"
_WROTE = "wrote"
_LINE_COMMENT = re.compile(r"--[^\n]*")


def window_of(node: exp.Expr) -> Window | None:
    """The window function a SELECT stands for, if it does."""
    for hint in _hints(node):
        if isinstance(hint, exp.Anonymous) and hint.name.lower() in windows.KINDS:
            first, *rest = hint.expressions
            literals = tuple(each.name for each in rest if isinstance(each, exp.Literal))
            columns = tuple(each.name for each in rest if not isinstance(each, exp.Literal))
            return window_arguments.from_hint(hint.name, _path(first), literals, columns)
    return None


def _path(column: exp.Expr) -> str:
    """The column of a hint, or a field of it, in quotes."""
    parts = column.parts if isinstance(column, exp.Column | exp.Dot) else [column]
    return quote_path(part.name for part in parts)


def user_text(query: exp.Query) -> str:
    """What a query reads, as its author wrote it: without what macros print around a relation, and
    without the select list."""
    return canonical(user_tree(query))


def user_tree(query: exp.Query) -> exp.Query:
    """The same as a tree of its own."""
    holder = exp.Subquery(this=query.copy())
    for select in list(windows_under(holder)):
        select.replace(input_of(select))
    read = as_written(holder).this
    if read.args.get("expressions"):
        read.set("expressions", [exp.Star()])
    for clause in ("group", "having", "order", "distinct", "hint"):
        read.set(clause, None)
    assert isinstance(read, exp.Query)
    return read


def quoted(node: exp.Expr, length: int = 80) -> str:
    """The beginning of a text for a message: with what its author wrote in the place of what macros print.

    >>> from ..sql.dialect import parse
    >>> quoted(parse("select k from (select /*+ STREAM */ * from clicks) as c where v > 1"), 41)
    'SELECT k FROM stream(clicks) AS c WHERE …'
    """
    return shortened(unmarked(sql(as_quoted(node))).strip(), length)


def as_quoted(node: exp.Expr) -> exp.Expr:
    """A tree of its own with what its author wrote in the place of what macros print."""
    holder = exp.Paren(this=node.copy())
    printed = {id(each): str(window_of(each)) for each in windows_under(holder)}
    for select in list(every(holder, exp.Select)):
        table = select.find(exp.Table)
        if table is not None and (marked_as_stream(select) or _is_all_of(select, table)):
            printed[id(select)] = f"stream({_relation_of(table)})"
    for select in [each for each in every(holder, exp.Select) if id(each) in printed]:
        call, around = exp.Var(this=printed[id(select)]), select.parent
        if isinstance(around, exp.Subquery):
            around.replace(exp.Table(this=call, alias=around.args.get("alias")))
        else:
            select.replace(call)
    return as_written(holder).this


def _is_all_of(select: exp.Select, table: exp.Table) -> bool:
    """Whether a SELECT is ``select * from`` a stream and nothing else, as `stream()` prints it."""
    source = from_clause(select)
    said = {name for name, value in select.args.items() if value and name not in ("hint", "kind")}
    return (
        is_stream(table)
        and source is not None
        and source.this is table
        and said <= {"expressions", "from", "from_"}
        and [type(each) for each in select.expressions] == [exp.Star]
    )


def _relation_of(table: exp.Table) -> str:
    """The name of a table as the compiled text has it, whatever it is called by now."""
    return str(table.meta_get(_RELATION) or relation_name(table))


def marked_as_stream(node: exp.Expr) -> bool:
    """Whether a SELECT is what ``stream()`` prints."""
    return any(hint.name.upper() == windows.STREAM.upper() for hint in _hints(node))


def _hints(node: exp.Expr) -> list[exp.Expr]:
    hint = node.args.get("hint") if isinstance(node, exp.Select) else None
    return hint.expressions if hint else []


def take_hints(
    tree: exp.Expr, wanted: Callable[[exp.Expr | str], bool]
) -> list[tuple[exp.Expr, exp.Expr | str]]:
    """Takes hints off a tree: each with the SELECT it stood at. What can't be parsed inside of one is a text."""
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


def check_places(name: str, example: str, found: int, text: str) -> None:
    """Passes a text all of whose hints of a name were found in its tree.

    Args:
        name: of the hint, in capitals.
        example: of the hint, with its arguments.
        found: how many there are in the tree.
        text: the query.

    Raises:
        QueryError: one stands where it is taken for a comment, and so would do nothing.
    """
    written = re.findall(
        rf"/\*\+(?:(?!\*/).)*\b{name}\b", _LINE_COMMENT.sub("", text), re.IGNORECASE | re.DOTALL
    )
    if len(written) > found:
        raise QueryError(
            f"A hint {name} stands where it is taken for a comment; put it right after a SELECT, before DISTINCT, and in "
            f"one /*+ … */ with other hints of that SELECT: SELECT /*+ {example} */ …."
        )


def input_of(select: exp.Select) -> exp.Query:
    """The query under a window function: ``select * from relation``."""
    source = from_clause(select)
    assert source is not None
    while source.this.alias != INPUT:
        source = from_clause(source.this.this)
        assert source is not None
    query: exp.Query = source.this.this
    return query


def close_printed(tree: exp.Expr) -> None:
    """Puts the text of the columns that window functions print in the place of their trees, which nobody looks into: on a
    zone's clock they are most of a query, and would be copied, walked and printed with it. Changes the tree."""
    for select in windows_under(tree):
        for item in select.expressions:
            if item.alias.lower() in WINDOW_COLUMNS:
                item.set("this", exp.Var(this=canonical(item.this)))


def mark_streams(tree: exp.Query) -> None:
    """Marks the table under each window function, or those under ``stream()``, as a stream.

    Raises:
        QueryError: there is none, or more than one and nothing says which.
    """
    for select in every(tree, exp.Select):
        if marked_as_stream(select):
            tables = list(every(select, exp.Table))
            if len(tables) != 1:
                raise QueryError(
                    f"stream() marks one table, found {_listed(tables) or 'none'} under it; put it around the one that is "
                    "the stream, where the query reads it: FROM {{ stream(ref('…')) }}."
                )
            mark(tables[0])
    for select in every(tree, exp.Select):
        if window := window_of(select):
            below = input_of(select)
            if any(window_of(inner) for inner in every(below, exp.Select)):
                continue  # a window over the result of a window
            tables = list(every(below, exp.Table))
            if any(is_stream(table) for table in tables):
                continue
            if len({sql(_bare(table)).lower() for table in tables}) != 1:
                raise QueryError(
                    f"{window.kind}() has {_listed(tables) or 'no table'} under it; mark the one that is the "
                    "stream: {{ stream(ref('…')) }}."
                )
            for table in tables:
                mark(table)


def _bare(table: exp.Table) -> exp.Table:
    copy = table.copy()
    copy.set("alias", None)
    for node in copy.walk():
        node.comments = None
    return copy


def _listed(tables: list[exp.Table]) -> str:
    return ", ".join(dict.fromkeys(sql(_bare(table)) for table in tables))


def mark(table: exp.Expr) -> None:
    """Marks a table as a stream."""
    table.meta[_STREAM] = True
    if isinstance(table, exp.Table):
        table.meta[_RELATION] = relation_name(table)


def is_stream(table: exp.Expr) -> bool:
    """Whether a table is read as a stream."""
    return bool(table.meta_get(_STREAM))


def place(table: exp.Expr, operator: str) -> None:
    """Has a table stand for an operator that was planned, by its name."""
    table.meta[_OPERATOR] = operator


def placed(node: exp.Expr) -> str | None:
    """The operator that a table stands for, if it stands for one."""
    name: str | None = node.meta_get(_OPERATOR)
    return name


def is_streamed(table: exp.Expr) -> bool:
    """Whether a table is read as a stream, or stands for an operator, which reads one."""
    return is_stream(table) or placed(table) is not None


def reads_stream(node: exp.Expr) -> bool:
    """Whether a table under a node is read as a stream."""
    return any(map(is_stream, every(node, exp.Table)))


def relation_name(table: exp.Table) -> str:
    """The name of a table as the compiled text has it."""
    return sql(_bare(table))


@dataclass(frozen=True)
class StageResult:
    """The result of a stage, where the stage was."""

    name: str
    level: int
    window_columns: tuple[tuple[str, str], ...]
    unique: frozenset[str] | None


def stage_result(result: StageResult) -> exp.Select:
    """``select * from stage``, marked."""
    select = exp.Select(expressions=[exp.Star()]).from_(exp.to_table(result.name))
    select.meta[_STAGE] = result
    return select


def result_of(node: exp.Expr) -> StageResult | None:
    """The mark that `stage_result` left."""
    return node.meta_get(_STAGE)


def stand_in(node: exp.Expr, wrote: exp.Expr) -> None:
    """Marks an expression that is put in the place of one that the author wrote."""
    node.meta[_WROTE] = wrote.copy()


def is_stand_in(node: exp.Expr) -> bool:
    """Whether an expression was put in the place of one that the author wrote."""
    return node.meta_get(_WROTE) is not None


def stand_ins(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The expressions that stand in for others."""
    return filter(is_stand_in, every(tree, exp.Expr))


def as_written(tree: exp.Expr) -> exp.Expr:
    """A tree as its author wrote it. Changes the tree."""
    for node in list(stand_ins(tree)):
        node.replace(node.meta[_WROTE].copy())
    return tree


def windows_under(tree: exp.Expr) -> Iterator[exp.Select]:
    """The window functions under a node, outermost first."""
    for select in every(tree, exp.Select):
        if window_of(select):
            yield select
