"""Formats SQL trees as short lines in the author's words: without needless quotes, generated columns and
tie-breakers.

>>> from ..sql.dialect import parse
>>> select = parse("select `a`, b + 1 as c, `t`.`__stream_weight` as `__stream_weight` from `__input_0` as t where a > 1")
>>> listed(select), conditions(select)
(['a', 'b + 1 AS c'], ['a > 1'])
>>> ranked = parse("select a, row_number() over (partition by a order by b desc, struct(a)) as r from t")
>>> ordered(ranked.expressions[1].this, ranked)
'b DESC'
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from ..aggregates.aggregate_stage import GROUPING_ID
from ..aggregates.grouping import grouping
from ..aggregates.model import Key
from ..errors import QueryError
from ..normalize import on_change
from ..normalize.conditions import INPUT
from ..normalize.event_clock import WATERMARK
from ..normalize.rankings.limits import RANK
from ..plan.hidden_items import ROW_TIME
from ..plan.operator import Until
from ..plan.operators.over_aggregate import OVER_LIFE
from ..plan.operators.temporal_filter import ROW_TIME as EVENT_TIME
from ..plan.relation import WEIGHT
from ..plan.unbounded_state import OWN_ALIAS
from ..sql import intervals
from ..sql.clauses import aggregate, filters, is_over
from ..sql.dialect import DIALECT, function_name, parse, sql, walk_same_query
from ..sql.nodes import every


def shown(node: exp.Expr) -> str:
    """Returns an expression or query as its author would write it."""
    holder = exp.Paren(this=node.copy())
    clock = None
    for each in list(holder.walk()):
        each.comments = None
        if isinstance(each, exp.Identifier):
            each.set("quoted", not each.this.isidentifier())
        elif isinstance(each, exp.Table) and each.name.startswith(INPUT):
            # The input is displayed below the operator in the tree.
            each.set("this", exp.Var(this="(…)"))
            if each.alias.startswith("__") or each.alias == "one_row":
                each.set("alias", None)
        elif isinstance(each, exp.Column):
            if is_own_alias(each.table):
                each.set("table", None)
            if each.name == RANK:
                each.set("this", exp.to_identifier("rank"))
        elif isinstance(each, exp.Coalesce):
            clock = clock or sql(parse(f"select {WATERMARK}").expressions[0])
            if sql(each) == clock:
                each.replace(exp.CurrentTimestamp())
    return sql(holder.this)


def tidy(text: str) -> str:
    """Returns an expression of a plan as its author would write it."""
    return shown(parse(f"select {text}").expressions[0])


def until(lasts: Until) -> str:
    """Returns the watermark until which a row may find matches, as a phrase.

    >>> until((("ts", 60_000_000), ("window_end", 0)))
    'ts + 1 minute and window_end'
    """

    def shown_as(column: str, micros: int) -> str:
        sign = "-" if micros < 0 else "+"
        return column if not micros else f"{column} {sign} {intervals.format(abs(micros))}"

    return " and ".join(shown_as(column, micros) for column, micros in lasts)


def relation(name: str) -> str:
    """Returns the name of a relation without needless quotes.

    >>> relation("`lake`.`raw`.`my bids`")
    'lake.raw.`my bids`'
    """
    try:
        table = parse(f"select 1 from {name}").find(exp.Table)
    except QueryError:
        return name
    return name if table is None else shown(table)


def _is_hidden(item: exp.Expr) -> bool:
    name = item.alias_or_name
    return name in (ROW_TIME, EVENT_TIME) or name.startswith(WEIGHT)


def is_hidden_key(names: Collection[str]) -> bool:
    """Whether columns that identify a row include generated ones: a rewritten LIMIT has a rank."""
    return RANK in names


def is_own_alias(alias: str) -> bool:
    """Whether the planner generated the alias, for a relation without one."""
    return alias.startswith(OWN_ALIAS)


def is_lifted(name: str) -> bool:
    """Whether it is a generated column that passes a key or aggregate to a query moved above its GROUP BY."""
    return name.startswith(("__aggregate_", "__key_"))


def items(select: exp.Select) -> list[exp.Expr]:
    """Returns a select list without generated columns."""
    found = []
    for item in select.expressions:
        if _is_hidden(item):
            continue
        copy = item.copy()
        for star in [copy, *every(copy, exp.Star)]:
            left = [each for each in star.args.get("except_") or () if not _is_hidden(each)]
            if isinstance(star, exp.Star):
                star.set("except_", left or None)
        if isinstance(copy, exp.Alias) and isinstance(copy.this, exp.Column):
            if copy.alias.lower() == copy.this.name.lower():
                copy = copy.this
        if isinstance(copy, exp.Alias) and is_lifted(copy.alias):
            copy = copy.this
        found.append(copy)
    return found


def listed(select: exp.Select) -> list[str]:
    """Returns `items` as texts."""
    if on_change.is_told(select):
        return ["emit on_change: which rows are new at a step"]
    return [shown(item) for item in items(select)]


def hands_on(select: exp.Select) -> bool:
    """Whether a select list only has plain columns."""
    return all(
        (isinstance(item, exp.Star) and not any(item.args.values()))
        or (isinstance(item, exp.Column) and not any(star.args.get("except_") for star in every(item, exp.Star)))
        for item in items(select)
    )  # fmt: skip


def conditions(select: exp.Select) -> list[str]:
    """Returns the conditions of WHERE."""
    return [shown(test) for test in filters(select)]


def laterals(select: exp.Select) -> list[str]:
    """Returns the LATERAL VIEWs."""
    return [shown(each).strip() for each in select.args.get("laterals") or ()]


def joins(select: exp.Select) -> str:
    """Returns the joins of a SELECT, without the text of joined subqueries."""
    found = []
    for join in select.args.get("joins") or ():
        words = " ".join(word for word in (join.method, join.side, join.kind) if word).upper()
        name = join.this.alias_or_name
        text = f"{words or 'INNER'} JOIN {'(…)' if is_own_alias(name) else name}".replace("OUTER ", "")
        if join.args.get("using"):
            text += f" USING ({', '.join(each.name for each in join.args['using'])})"
        elif (on := join.args.get("on")) is not None:
            text += f" ON {shown(on)}"
        found.append(text)
    return "; ".join(found)


def keys(select: exp.Select) -> list[str]:
    """Returns the GROUP BY keys of a SELECT."""
    return [shown(key) for key in grouping(select).keys] if select.args.get("group") else []


def grouped_by(select: exp.Select) -> str:
    """Returns the GROUP BY in short: ``by a, b``."""
    found = grouping(select) if select.args.get("group") else None
    if found is None:
        return "all rows"
    if found.sets is not None:
        return shown(select.args["group"]).strip().removeprefix("GROUP BY ")
    return f"by {', '.join(map(shown, found.keys))}"


def is_grouped(select: exp.Select) -> bool:
    """Whether a SELECT aggregates rows, other than by DISTINCT."""
    return (
        bool(select.args.get("group") or select.args.get("having"))
        or aggregate(select) is not None
    )  # fmt: skip


def aggregates(select: exp.Select) -> list[tuple[str, str]]:
    """Returns the aggregate calls of the select list and HAVING, with their functions."""
    found: dict[str, str] = {}
    having = select.args.get("having")
    for item in [*select.expressions, *([having.this] if having else [])]:
        for node in walk_same_query(item):
            if isinstance(node, exp.AggFunc) and not is_over(node):
                outer: exp.Expr = node
                while isinstance(outer.parent, exp.Filter | exp.WithinGroup | exp.IgnoreNulls):
                    outer = outer.parent
                found.setdefault(shown(outer), function_name(node))
    return list(found.items())


def ordered(window: exp.Expr, select: exp.Select) -> str:
    """Returns the ORDER BY of an OVER, without tie-breakers."""
    order = window.args.get("order")
    found = list(order.expressions) if order else []
    if len(found) > 1 and _breaks_ties(found[-1].this, select):
        found.pop()
    return ", ".join(shown(each) for each in found)


def _breaks_ties(node: exp.Expr, select: exp.Select) -> bool:
    """Whether it is a struct of all columns of a SELECT or of one of its relations, as the planner adds it."""
    if function_name(node) != "struct":
        return False
    star = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(star, exp.Column) and isinstance(star.this, exp.Star):
        return True
    rest = [sql(item.unalias()) for item in select.expressions if not item.find(exp.Window)]
    # The parser names the struct's fields after columns, which may have been replaced by expressions.
    values = [
        each.expression if isinstance(each, exp.PropertyEQ) else each.unalias() for each in node.expressions
    ]
    return [sql(each) for each in values] == rest


def over(select: exp.Select) -> list[exp.Window]:
    """Returns the OVER clauses of the select list."""
    return [
        node for item in select.expressions for node in walk_same_query(item) if isinstance(node, exp.Window)
    ]


def over_text(window: exp.Window, select: exp.Select) -> str:
    """Returns an OVER in short: ``LAG(n) by ts per item``."""
    within = [
        shown(each)
        for each in window.args.get("partition_by") or ()
        if not (isinstance(each, exp.Column) and each.name == OVER_LIFE)
    ]
    order = ordered(window, select)
    return f"{shown(window.this)}{f' by {order}' if order else ''}{per(within)}"


def per(within: Sequence[str]) -> str:
    """Returns the partition keys of a ranking or OVER: `` per a, b``."""
    return f" per {', '.join(within)}" if within else ""


def first_rows(function: str, last: int | None, order: str, within: Sequence[str]) -> str:
    """Returns a ranking in short.

    >>> first_rows("row_number", 10, "n DESC", ["day"]), first_rows("rank", 1, "n", []), first_rows("rank", None, "n", [])
    ('first 10 by n DESC per day', 'first place by n, ties included', 'places by n, ties included')
    """
    if function == "row_number":
        what = "rows" if last is None else "first" if last == 1 else f"first {last}"
        ties = ""
    else:
        what = "places" if last is None else "first place" if last == 1 else f"first {last} places"
        ties = ", ties included" if function == "rank" else ", equal rows sharing a place"
    return f"{what} by {order}{per(within)}{ties}"


def put_back(select: exp.Select, written: Mapping[str, str], group_keys: Sequence[Key]) -> exp.Select:
    """Returns a SELECT over groups with the state's columns replaced by the author's keys and aggregates.

    Args:
        select: the SELECT; it isn't changed.
        written: the author's expression for each column.
        group_keys: keys of the groups, in order.
    """
    made = select.copy()
    holder = exp.Subquery(this=made)
    for node in list(every(holder, exp.Cast)):
        shifts = [int(each.expression.name) for each in every(node, exp.BitwiseRightShift)]
        if shifts and any(column.name == GROUPING_ID for column in every(node, exp.Column)):
            names = [group_keys[len(group_keys) - 1 - shift].sql for shift in reversed(shifts)]
            is_id = node.to.this == exp.DataType.Type.BIGINT
            call = f"grouping_id({', '.join(names)})" if is_id else f"grouping({names[0]})"
            node.replace(exp.maybe_parse(call, dialect=DIALECT))
    own = made.args.get("from_") or made.args.get("from")
    inside = set(map(id, every(own, exp.Column))) if own else set()
    for column in list(every(made, exp.Column)):
        if id(column) not in inside and (text := written.get(column.name)) is not None:
            node = exp.maybe_parse(text, dialect=DIALECT)
            plain = (
                isinstance(node, exp.Column | exp.Func)
                or column.parent is made
                or isinstance(column.parent, exp.Alias)
            )
            column.replace(node if plain else exp.paren(node))
    return holder.this
