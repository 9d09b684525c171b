"""A join of streams: for how long the rows of each are kept, and what is joined with what.

A pair of rows comes out when the second of the two comes in. With streams a, b, c the new pairs are

    new a × all b × all c  +  old a × new b × all c  +  old a × old b × new c

so the user's own SELECT is evaluated once for each stream, over views of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ..dialect import DIALECT, canonical, sql
from ..errors import QueryError
from ..locality import Source
from ..plan import JoinStage, Side, UnboundedState
from ..time_conditions import at_most, conditions
from ..windows import quote
from .hidden_columns import ROW_TIME, leave_out

_JOINED = "joined"


def split(select: exp.Select) -> None:
    """Puts the join under a SELECT that groups or ranks into a query of its own. Changes the tree."""
    below = exp.Select()
    for clause in ("from_", "from", "joins", "laterals", "where"):
        if value := select.args.get(clause):
            below.set(
                clause, value.copy() if not isinstance(value, list) else [each.copy() for each in value]
            )
            select.set(clause, None)
    stars = [item for item in select.expressions if item.is_star]
    for item in stars:
        below.append("expressions", item.copy())
    names: dict[str, str] = {}
    taken: set[str] = set()
    for column in list(select.find_all(exp.Column)):
        if isinstance(column.this, exp.Star):
            continue
        key = canonical(column)
        if key not in names:
            if not column.table and _is_alias(column, select):
                continue
            name = column.name if not stars and column.name.lower() not in taken else f"__{len(names)}"
            taken.add(name.lower())
            names[key] = name
            below.append("expressions", exp.alias_(column.copy(), name, quoted=True))
        item = column.parent if isinstance(column.parent, exp.Select) else None
        made: exp.Expr = exp.column(names[key], quoted=True)
        column.replace(exp.alias_(made, column.name, quoted=True) if item is select else made)
    if not below.expressions:
        below.append("expressions", exp.alias_(exp.true(), "anything"))
    if stars:
        helpers = [exp.to_identifier(name, quoted=True) for name in names.values()]
        rest = [item for item in select.expressions if not item.is_star]
        star = exp.Star(except_=helpers) if helpers else exp.Star()
        select.set("expressions", [star, *rest])
    alias = exp.TableAlias(this=exp.to_identifier(_JOINED))
    made_from = select.from_(exp.Subquery(this=below, alias=alias), copy=False)
    assert made_from is select


def _is_alias(column: exp.Column, select: exp.Select) -> bool:
    """Whether a name without a qualifier is that of an output column, in GROUP BY or ORDER BY."""
    inside = column.find_ancestor(exp.Group, exp.Order, exp.Having)
    return inside is not None and any(
        isinstance(item, exp.Alias) and item.alias.lower() == column.name.lower()
        for item in select.expressions
    )


def stage(
    select: exp.Select,
    sources: Sequence[Source],
    name: str,
    level: int,
    ttl: int | None,
    is_time: Callable[[exp.Column], bool],
    with_hidden: Callable[..., exp.Expr],
    streams_under: Callable[[exp.Expr], tuple[str, ...]],
    growth: UnboundedState,
) -> JoinStage:
    """The stage of a SELECT that joins streams row by row.

    Raises:
        QueryError: a kind of join whose rows can't be told in time.
    """
    streams = [source for source in sources if source.kind == "rows"]
    condition = next((source.join.args.get("on") for source in streams[1:] if source.join), None)
    outer = _check_kinds(sources, streams)
    tests = conditions(select)
    bound = _bounds(tests, streams, is_time) if len(streams) == 2 else None
    if outer and bound is None:
        raise QueryError(
            "A LEFT JOIN of two streams puts a row out alone when no match can come any more, so it needs a time at "
            f"which that is: bound it on both sides, as in ON … AND {_example(streams)}."
        )
    # Without ON the bound stands in WHERE, which no row passes alone.
    outer = outer and condition is not None
    times: list[str | None] = [ROW_TIME] * len(streams)
    lasts: list[int | None] = [ttl] * len(streams)
    if bound is not None:
        (times[0], times[1]), low, high, slack = bound
        # The last row that a row may find; for a LEFT JOIN, the second stream's until the first's are out.
        lasts = [max(high, 0) + 1 + slack, max(-low, high - low if outer else 0, 0) + 1 + slack]
    timed = bound is None and ttl is not None
    sides = [
        _side(source, select, last, time, with_hidden, timed or ttl is not None, outer)
        for source, last, time in zip(streams, lasts, times, strict=True)
    ]
    hidden = [ROW_TIME] if ttl is not None else []
    joined = tuple(
        _over(
            select, streams, [_view(name, s, _which(place, new)) for place, s in enumerate(streams)], hidden
        )
        for new in range(len(streams))
    )
    unmatched = None
    if outer:
        views = [f"{name}_{streams[0].alias}_unmatched", f"{name}_{streams[1].alias}_none"]
        unmatched = _over(select, streams, views, hidden, keep_outer=True)
    return JoinStage(
        name=name,
        level=level,
        streams=streams_under(select),
        sides=tuple(sides),
        joined=joined,
        source=canonical(select),
        condition=sql(condition) if outer and condition is not None else None,
        unmatched=unmatched,
        growth=None if bound is not None else growth,
        hidden=tuple(hidden),
        written=sql(select),
    )


def _check_kinds(sources: Sequence[Source], streams: Sequence[Source]) -> bool:
    """Passes joins that can be told; whether it is a LEFT JOIN of two streams."""
    outer = False
    for source in streams:
        join = source.join
        side = (join.side or "").upper() if join is not None else ""
        kind = (join.kind or "").upper() if join is not None else ""
        word = " ".join(filter(None, (side, kind)))
        if side == "LEFT" and kind in ("", "OUTER") and len(streams) == 2 and len(sources) == 2:
            outer = True
        elif side or kind not in ("", "INNER", "CROSS"):
            beside = (
                " Of a table that stands beside them in the SELECT, every column has to say whose it is (r.v), without "
                "USING and with one star at most of the streams."
            )
            raise QueryError(
                f"{word} JOIN of streams, with '{source.alias}', is not supported; write an INNER JOIN, or a LEFT JOIN "
                "of two streams that is bounded in time on both sides; or join them within windows."
                f"{beside if len(sources) > len(streams) else ''}"
            )
    return outer


def _example(streams: Sequence[Source]) -> str:
    one, other = streams[0].alias, streams[1].alias
    return f"{other}.ts BETWEEN {one}.ts - INTERVAL '5' MINUTE AND {one}.ts + INTERVAL '1' HOUR"


def _bounds(
    tests: Sequence[exp.Expr], streams: Sequence[Source], is_time: Callable[[exp.Column], bool]
) -> tuple[tuple[str, str], int, int, int] | None:
    """The times of two streams, where the second's lies relative to the first's, and how much farther away it may be when
    clocks are changed; None: anywhere."""
    first, second = (source.alias.lower() for source in streams)
    low: list[int] = []
    high: list[int] = []
    times: dict[str, str] = {}
    slack = 0
    for each in at_most(tests):
        columns = (each.one, each.other)
        named = [(column.table.lower(), column.name.lower()) for column in columns]
        if {alias for alias, _ in named} != {first, second} or not all(map(is_time, columns)):
            continue
        if any(times.setdefault(alias, name) != name for alias, name in named):
            continue
        slack = max(slack, each.slack)
        if named[0][0] == second:
            high.append(each.micros)
        else:
            low.append(-each.micros)
    if not low or not high:
        return None
    return (times[first], times[second]), max(low), min(high), slack


def _side(
    source: Source,
    select: exp.Select,
    lasts: int | None,
    time: str | None,
    with_hidden: Callable[..., exp.Expr],
    timed: bool,
    outer: bool,
) -> Side:
    node = source.node
    query = node.this.copy() if isinstance(node, exp.Subquery) else exp.select("*").from_(node.copy())
    below = with_hidden(query, False, timed)
    rows = exp.select("*").from_(
        exp.Subquery(this=below, alias=exp.TableAlias(this=exp.to_identifier(source.alias)))
    )
    if not outer:
        # What a row must have whatever it finds: others needn't be kept.
        for test in conditions(select):
            tables = {column.table.lower() for column in test.find_all(exp.Column)}
            if tables == {source.alias.lower()} and not test.find(exp.Query):
                rows = rows.where(test.copy(), copy=False)
    measured = None if lasts is None or time is None else f"cast({quote(time)} as timestamp)"
    return Side(source.alias, sql(rows), lasts, measured)


def _which(place: int, new: int) -> str:
    return "new" if place == new else "old" if place < new else "all"


def _view(name: str, source: Source, which: str) -> str:
    return f"{name}_{source.alias}_{which}"


def _over(
    select: exp.Select,
    streams: Sequence[Source],
    views: Sequence[str],
    hidden: Sequence[str],
    keep_outer: bool = False,
) -> str:
    """The SELECT over views in the place of its streams."""
    holder = exp.Subquery(this=select.copy())
    copy = holder.this
    places = {source.alias.lower(): view for source, view in zip(streams, views, strict=True)}
    source = copy.args.get("from_") or copy.args.get("from")
    for each in [source, *(copy.args.get("joins") or ())]:
        alias = each.this.alias_or_name
        if alias.lower() in places:
            if isinstance(each, exp.Join) and not keep_outer:
                each.set("side", None)
                each.set(
                    "kind", None if each.args.get("on") is None and not each.args.get("using") else "INNER"
                )
            each.set("this", exp.to_table(places[alias.lower()], alias=alias))
    for item in copy.expressions if hidden else ():
        leave_out(item, {source.alias.lower(): list(hidden) for source in streams})
    for name in hidden:
        times = ", ".join(f"{quote(source.alias)}.{name}" for source in streams)
        copy.append("expressions", exp.alias_(exp.maybe_parse(f"greatest({times})", dialect=DIALECT), name))
    copy.set("order", None)
    return sql(copy)
