"""Suggests a time filter that would bound the state of a rejected query.

The filter is added in the author's text, where a stream is read. The result is planned, so a suggestion isn't
rejected in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from ...util.quoting import is_path
from ..frontend import hints
from ..frontend.streams import RelationInfo
from ..normalize import brackets
from ..rewrites import stream_rewrites
from ..sql.clauses import without_queries
from ..sql.dialect import DIALECT, from_clause, parse, sql
from ..sql.nodes import every

_CanPlan = Callable[[str, Mapping[str, RelationInfo]], bool]
"""Whether a text can be planned with these declarations of relations."""
_LONGEST = 800
"""Maximum length of a query in a message, in characters."""
_TRIED_ALONE = 4
"""Number of reads of streams up to which a filter on one of them is tried before filters on all."""
_SOME_TIME = "event_time"
"""Placeholder for an event time column that isn't declared."""
_MARK = "bounded"


def propose_time_filter(text: str, known: Mapping[str, RelationInfo], can_plan: _CanPlan) -> str | None:
    """Returns the end of a sentence that proposes a query bounded by time. None if none is found.

    Args:
        text: a model's compiled text, which can be planned except for its state.
        can_plan: whether another text can be planned.
    """
    tree = parse(text)
    if next(hints.windows_under(tree), None) is not None:
        return None  # next to windows, such a filter is applied only when a row arrives
    if (found := _with_time_filter(text, known, can_plan)) is not None:
        return f"; or bound it by time{found}"
    untimed = _streams_without_event_time(tree, known)
    declared = {name: replace(known.get(name, RelationInfo()), event_time=_SOME_TIME) for name in untimed}
    if untimed and (found := _with_time_filter(text, {**known, **declared}, can_plan)) is not None:
        listed = " and ".join(untimed)
        return f"; or name the event time of {listed} in dbt's config event_time, and bound the query by time{found}"
    return None


def _with_time_filter(text: str, known: Mapping[str, RelationInfo], can_plan: _CanPlan) -> str | None:
    """Returns the bounded query after a colon. None if a filter helps nowhere."""
    reads = len(_stream_reads(parse(text)))
    single = [(number,) for number in range(reads)] if 1 < reads <= _TRIED_ALONE else []
    for chosen in (*single, tuple(range(reads))):
        for below in (False, True):
            tree = parse(text)
            brackets.remove_brackets(tree)
            marked = _stream_reads(tree)
            changed = [_add_predicate(tree, marked[each], known, below) for each in chosen]
            if any(changed) and can_plan(sql(tree), known):
                return _query_text(tree)
    return None


def _stream_reads(tree: exp.Expr) -> list[exp.Subquery]:
    """Returns the subqueries that read streams without a window (expansions of `stream()`), in the order of the text."""
    return [
        select.parent
        for select in every(tree, exp.Select)
        if hints.is_marked_as_stream(select)
        and isinstance(select.parent, exp.Subquery)
        and select.parent.find_ancestor(exp.Select) is not None
    ]


def _add_predicate(
    tree: exp.Query, read: exp.Subquery, known: Mapping[str, RelationInfo], below: bool
) -> bool:
    """Adds the filter to the SELECT that reads a stream, or to a new SELECT below: with `below`, or if that one may not be
    filtered. Changes the tree.

    Returns:
        Whether the filter was added: a stream may have no plain event time, or several.
    """
    times = {*_event_times(tree, next(every(read, exp.Table)), known)}
    if len(times) != 1 or any(map(is_path, times)):
        return False
    around = read.find_ancestor(exp.Select)
    assert around is not None
    name, alias = times.pop(), read.args.get("alias")
    if (below and _combines_rows(around)) or not _can_filter(around, read):
        inner = read.copy()
        inner.set("alias", None)
        around = exp.select("*").from_(inner)
        read.replace(exp.Subquery(this=around, alias=alias))
        alias = None
    column = exp.column(name, table=alias.name if alias else None)
    column.this.set("quoted", not exp.SAFE_IDENTIFIER_RE.match(name))
    test: exp.Expr = exp.maybe_parse("current_timestamp() - interval '7' day", dialect=DIALECT)
    around.where(exp.GTE(this=column, expression=test), copy=False)
    around.meta[_MARK] = True
    return True


def _combines_rows(select: exp.Select) -> bool:
    """Whether a SELECT combines its rows with others, in a join or a subquery, or is itself a subquery of an
    expression."""
    around = select.parent
    while isinstance(around, exp.SetOperation):
        around = around.parent
    of_rows = around.parent if isinstance(around, exp.Subquery) else around
    if not isinstance(of_rows, exp.From | exp.Join | exp.CTE | exp.SetOperation | None):
        return True
    parts = [part for name, part in select.args.items() if name not in ("from", "from_", "with", "with_")]
    listed = [each for part in parts for each in (part if isinstance(part, list) else [part])]
    return any(isinstance(each, exp.Expr) and next(every(each, exp.Join, exp.Query), None) for each in listed)


def _can_filter(select: exp.Select, read: exp.Subquery) -> bool:
    """Whether WHERE filters exactly the rows of a stream and can qualify its columns."""
    source = from_clause(select)
    joins = select.args.get("joins") or ()
    return (
        source is not None
        and source.this is read
        and not any(join.side in ("RIGHT", "FULL") for join in joins)
        and not (joins and not read.alias)
    )


def _event_times(tree: exp.Query, table: exp.Table, known: Mapping[str, RelationInfo]) -> Iterator[str]:
    """Yields the event time columns of a relation, or of the relations that a CTE reads."""
    by_name = {name.lower(): what for name, what in known.items()}
    queries = {each.alias.lower(): each.this for each in every(tree, exp.CTE)}
    tables = [table]
    while tables:
        name = hints.relation_name(tables.pop()).lower()
        if (query := queries.pop(name, None)) is not None:
            tables += every(query, exp.Table)
        elif (time := by_name.get(name, RelationInfo()).event_time) is not None:
            yield time


def _streams_without_event_time(tree: exp.Query, known: Mapping[str, RelationInfo]) -> tuple[str, ...]:
    """Returns the names of the streams without a declared event time."""
    tables = [next(every(read, exp.Table)) for read in _stream_reads(tree)]
    names = dict.fromkeys(
        hints.relation_name(each) for each in tables if not any(_event_times(tree, each, known))
    )
    return tuple(names)


def _query_text(tree: exp.Query) -> str:
    """Returns a query after a colon; of a long one only the SELECTs that read the streams."""
    written = _with_macro_calls(tree)
    text = sql(written)
    if len(text) <= _LONGEST:
        return f": {text}"
    bounded = [each for each in every(written, exp.Select) if each.meta_get(_MARK)]
    return f", where it reads its streams: {' and '.join(dict.fromkeys(map(_short_text, bounded)))}"


def _short_text(select: exp.Select) -> str:
    """Returns a SELECT without subqueries and, if it is long, without its select list."""
    outline = without_queries(select)
    if len(text := sql(outline)) > _LONGEST:
        outline.set("expressions", [exp.Var(this="…")])
        text = sql(outline)
    return text


def _with_macro_calls(tree: exp.Query) -> exp.Expr:
    """Returns a copy of the tree with macro calls instead of their expansions."""
    holder = exp.Paren(this=tree.copy())
    hints.take_hints(holder, stream_rewrites.is_rewrite_hint)
    for node in holder.walk():
        node.comments = None
    return hints.with_macro_calls(holder).this
