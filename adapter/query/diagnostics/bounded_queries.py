"""What a query may be instead whose state can grow for ever: as its author wrote it, with a predicate on event time.

The predicate stands where a stream is read, in the author's text. Whether the query can be planned so is tried, so what is
shown is not refused in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from ...util.quoting import is_path
from ..frontend import hints
from ..frontend.streams import Known
from ..rewrites import stream_rewrites
from ..sql.clauses import without_queries
from ..sql.dialect import DIALECT, from_clause, parse, sql
from ..sql.nodes import every

_Fits = Callable[[str, Mapping[str, Known]], bool]
"""Whether a text can be planned with what is known of relations."""
_LONGEST = 800
"""How many characters of a query a message has."""
_TRIED_ALONE = 4
"""Of how many reads of streams it is tried whether one of them is the one that needs a bound."""
_SOME_TIME = "event_time"
"""What an event time is called of which nothing says which column it is."""
_MARK = "bounded"


def by_time(text: str, known: Mapping[str, Known], fits: _Fits) -> str | None:
    """The end of the sentence that says what would bound a query: the query with a predicate on time; None: none would.

    Args:
        text: a model's compiled text, which can be planned but for its state.
        known: what the project says of relations.
        fits: whether another text can be planned.
    """
    tree = parse(text)
    if next(hints.windows_under(tree), None) is not None:
        return None  # beside windows a predicate is asked of a row once, when it comes
    if (found := _bounded(text, known, fits)) is not None:
        return f"; or bound it by time{found}"
    untimed = _untimed(tree, known)
    told = {name: replace(known.get(name, Known()), event_time=_SOME_TIME) for name in untimed}
    if untimed and (found := _bounded(text, {**known, **told}, fits)) is not None:
        listed = " and ".join(untimed)
        return f"; or say by dbt's config event_time which column of {listed} that is, and bound it by time{found}"
    return None


def _bounded(text: str, known: Mapping[str, Known], fits: _Fits) -> str | None:
    """The query, behind a colon; None: no place of a predicate is found where it helps."""
    reads = len(_reads(parse(text)))
    alone = [(number,) for number in range(reads)] if 1 < reads <= _TRIED_ALONE else []
    for chosen in (*alone, tuple(range(reads))):
        for below in (False, True):
            tree = parse(text)
            marked = _reads(tree)
            changed = [_with_predicate(tree, marked[each], known, below) for each in chosen]
            if any(changed) and fits(sql(tree), known):
                return _shown(tree)
    return None


def _reads(tree: exp.Expr) -> list[exp.Subquery]:
    """Where streams are read without a window: what `stream()` prints, in the order of the text."""
    return [
        select.parent
        for select in every(tree, exp.Select)
        if hints.marked_as_stream(select)
        and isinstance(select.parent, exp.Subquery)
        and select.parent.find_ancestor(exp.Select) is not None
    ]


def _with_predicate(tree: exp.Query, read: exp.Subquery, known: Mapping[str, Known], below: bool) -> bool:
    """Puts a predicate into the SELECT that reads a stream, or, where that does more with it than to take its rows one by
    one, into one of its own `below` that. Changes the tree.

    Returns:
        Whether there is one: of a stream without an event time there is not.
    """
    times = {*_times(tree, next(every(read, exp.Table)), known)}
    if len(times) != 1 or any(map(is_path, times)):
        return False
    around = read.find_ancestor(exp.Select)
    assert around is not None
    name, alias = times.pop(), read.args.get("alias")
    if (below and _asks_others(around)) or not _is_alone(around, read):
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


def _asks_others(select: exp.Select) -> bool:
    """Whether a SELECT puts rows together with others', in a join or a query inside, or is such a query."""
    around = select.parent
    while isinstance(around, exp.SetOperation):
        around = around.parent
    of_rows = around.parent if isinstance(around, exp.Subquery) else around
    if not isinstance(of_rows, exp.From | exp.Join | exp.CTE | exp.SetOperation | None):
        return True
    parts = [part for name, part in select.args.items() if name not in ("from", "from_", "with", "with_")]
    listed = [each for part in parts for each in (part if isinstance(part, list) else [part])]
    return any(isinstance(each, exp.Expr) and next(every(each, exp.Join, exp.Query), None) for each in listed)


def _is_alone(select: exp.Select, read: exp.Subquery) -> bool:
    """Whether a WHERE is asked of each row of a stream, whatever is joined to it, and can say whose column it asks for."""
    source = from_clause(select)
    joins = select.args.get("joins") or ()
    return (
        source is not None
        and source.this is read
        and not any(join.side in ("RIGHT", "FULL") for join in joins)
        and not (joins and not read.alias)
    )


def _times(tree: exp.Query, table: exp.Table, known: Mapping[str, Known]) -> Iterator[str]:
    """What the event times are called of a relation, or of those that a query of WITH reads."""
    by_name = {name.lower(): what for name, what in known.items()}
    queries = {each.alias.lower(): each.this for each in every(tree, exp.CTE)}
    tables = [table]
    while tables:
        name = hints.relation_name(tables.pop()).lower()
        if (query := queries.pop(name, None)) is not None:
            tables += every(query, exp.Table)
        elif (time := by_name.get(name, Known()).event_time) is not None:
            yield time


def _untimed(tree: exp.Query, known: Mapping[str, Known]) -> tuple[str, ...]:
    """The streams of which nothing says what their event time is."""
    tables = [next(every(read, exp.Table)) for read in _reads(tree)]
    names = dict.fromkeys(hints.relation_name(each) for each in tables if not any(_times(tree, each, known)))
    return tuple(names)


def _shown(tree: exp.Query) -> str:
    """A query behind a colon; of a long one the SELECTs that read the streams."""
    written = _as_written(tree)
    text = sql(written)
    if len(text) <= _LONGEST:
        return f": {text}"
    bounded = [each for each in every(written, exp.Select) if each.meta_get(_MARK)]
    return f", where it reads its streams: {' and '.join(dict.fromkeys(map(_outline, bounded)))}"


def _outline(select: exp.Select) -> str:
    """A SELECT without the queries in it; of a long one without its select list, too."""
    alone = without_queries(select.copy())
    if len(text := sql(alone)) > _LONGEST:
        alone.set("expressions", [exp.Var(this="…")])
        text = sql(alone)
    return text


def _as_written(tree: exp.Query) -> exp.Expr:
    """A tree of its own with the calls of macros in the place of what they print."""
    holder = exp.Paren(this=tree.copy())
    hints.take_hints(holder, stream_rewrites.is_asked_for)
    for node in holder.walk():
        node.comments = None
    return hints.as_quoted(holder).this
