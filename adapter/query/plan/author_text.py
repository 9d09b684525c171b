"""Prints SQL trees as short lines in the author's words: without needless quotes, generated columns and tie-breakers.

>>> select = parse("select `a`, b + 1 as c, `t`.`__stream_weight` as `__stream_weight` from `__input_0` as t where a > 1")
>>> clauses_text(select)
'a, b + 1 AS c WHERE a > 1'
>>> ranked = parse("select a, row_number() over (partition by a order by b desc) as r from t")
>>> from ..sql.tie_breaking import break_ties
>>> break_ties(ranked)
>>> order_text(ranked.expressions[1].this)
'b DESC'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from ..aggregates.grouping import grouping
from ..aggregates.model import GroupAggregateSpec, WindowAggregateSpec
from ..errors import QueryError
from ..normalize import on_change
from ..normalize.conditions import INPUT
from ..normalize.event_clock import watermark
from ..normalize.rankings.limits import RANK
from ..sql import intervals
from ..sql.clauses import AROUND, aggregates_in, filters, first_aggregate, over_clauses, relations_with_joins
from ..sql.dialect import function_name, parse, sql, walk_same_query
from ..sql.nodes import every, shape
from ..sql.tie_breaking import breaks_ties

_Spec = TypeVar("_Spec", WindowAggregateSpec, GroupAggregateSpec)
_Query = TypeVar("_Query", bound=exp.Query)
Expressions = Mapping[str, exp.Expr]
"""Column → the author's expression that it holds. Callers must not change it."""


def is_generated(name: str) -> bool:
    """Whether planning made a name. Names of the author's that begin with underscores have a mark while a query is
    planned."""
    return name.startswith("__")


def outermost_select(query: exp.Query) -> exp.Select:
    """Returns the outermost SELECT of a query; of a set operation the first one."""
    select = query.find(exp.Select)
    assert select is not None
    return select


def text_of(node: exp.Expr) -> str:
    """Returns the text of an expression or query as its author would write it."""
    return sql(as_author_writes(node))


def as_author_writes(node: exp.Expr, alias: str = "") -> exp.Expr:
    """Returns an expression or query of a plan as its author would write it, without the alias of its only relation.

    >>> sql(as_author_writes(parse("select max(`own`.`v`)").selects[0], "own"))
    'MAX(v)'
    """
    holder = exp.Paren(this=node.copy())
    clock = shape(watermark())
    for each in list(holder.walk()):
        each.comments = None
        if isinstance(each, exp.Identifier):
            each.set("quoted", not each.this.isidentifier())
        elif isinstance(each, exp.Table) and each.name.startswith(INPUT):
            # `explain` prints the input below the operator.
            each.set("this", exp.Var(this="(…)"))
            if is_generated(each.alias) or each.alias == "one_row":
                each.set("alias", None)
        elif isinstance(each, exp.Column):
            if is_generated(each.table) or (alias and each.table == alias):
                each.set("table", None)
            if each.name == RANK:
                each.set("this", exp.to_identifier("rank"))
        elif isinstance(each, exp.Coalesce):
            if shape(each) == clock:
                each.replace(exp.CurrentTimestamp())
    return holder.this


def relation_text(name: str) -> str:
    """Returns the name of a relation without needless quotes.

    >>> relation_text("`lake`.`raw`.`my bids`")
    'lake.raw.`my bids`'
    """
    try:
        table = parse(f"select 1 from {name}").find(exp.Table)
    except QueryError:
        return name
    return name if table is None else text_of(table)


def until_text(until: Sequence[tuple[str, int]]) -> str:
    """Returns the watermark until which a row may find matches, as text.

    >>> until_text((("ts", 60_000_000), ("window_end", 0)))
    'ts + 1 minute and window_end'
    """

    def time(column: str, micros: int) -> str:
        sign = "-" if micros < 0 else "+"
        return column if not micros else f"{column} {sign} {intervals.format(abs(micros))}"

    return " and ".join(time(column, micros) for column, micros in until)


# -- clauses of a SELECT ---------------------------------------------------------------------------


def author_items(select: exp.Select) -> list[exp.Expr]:
    """Returns a select list without generated columns. An OVER in it is shown by its alias."""
    found = []
    for item in select.expressions:
        name = item.alias_or_name
        lifted = is_generated(name) and name.startswith(_LIFTED)
        if is_generated(name) and not lifted and name != RANK:
            continue
        copy = item.copy()
        for star in list(every(copy, exp.Star)):
            left = [each for each in star.args.get("except_") or () if not is_generated(each.name)]
            star.set("except_", left or None)
        if isinstance(copy, exp.Alias):
            same = isinstance(copy.this, exp.Column) and copy.alias.lower() == copy.this.name.lower()
            if any(isinstance(each, exp.Window) for each in walk_same_query(copy.this)):
                copy = exp.column(copy.alias)
            elif same or lifted:
                copy = copy.this
        found.append(copy)
    return found


_LIFTED = ("__aggregate_", "__key_")
"""Prefixes of columns that hold an expression which `normalize.above_groups` moved there from the query above."""


def lifted_expressions(select: exp.Query) -> Expressions:
    """Maps each column with a prefix in `_LIFTED` to the author's expression that it holds."""
    made = (item for item in select.selects if isinstance(item, exp.Alias))
    return {item.alias: as_author_writes(item.this) for item in made if item.alias.startswith(_LIFTED)}


def _is_column_or_star(item: exp.Expr) -> bool:
    """Whether an item of a select list is a column or a star."""
    stars = [item, *every(item, exp.Star)] if isinstance(item, exp.Star | exp.Column) else []
    return bool(stars) and not any(
        star.args.get(each) for star in stars for each in ("except_", "replace", "rename")
    )


def clauses_text(select: exp.Select) -> str:
    """Returns the select list, if it has more than plain columns, with LATERAL VIEW, WHERE and HAVING."""
    listed = author_items(select)
    words = [] if all(map(_is_column_or_star, listed)) else [", ".join(map(text_of, listed))]
    if on_change.only_adds_flag(select):
        words = ["emit on_change: which rows are new at a step"]
    words += [text_of(each).strip() for each in select.args.get("laterals") or ()]
    if tests := filters(select):
        # Planning turns a HAVING into the WHERE of a query above.
        of_groups = any(isinstance(each, exp.AggFunc) for test in tests for each in walk_same_query(test))
        words.append(f"{'HAVING' if of_groups else 'WHERE'} {' AND '.join(map(text_of, tests))}")
    if having := select.args.get("having"):
        words.append(f"HAVING {text_of(having.this)}")
    return " ".join(words)


def joins_text(select: exp.Select) -> str:
    """Returns the joins of a SELECT, without the text of joined subqueries."""
    found = []
    for join in select.args.get("joins") or ():
        words = " ".join(word for word in (join.method, join.side, join.kind) if word).upper()
        name = join.this.alias_or_name
        text = f"{words or 'INNER'} JOIN {'(…)' if is_generated(name) else name}".replace("OUTER ", "")
        if join.args.get("using"):
            text += f" USING ({', '.join(each.name for each in join.args['using'])})"
        elif (on := join.args.get("on")) is not None:
            text += f" ON {text_of(on)}"
        found.append(text)
    return "; ".join(found)


def group_key_texts(select: exp.Select) -> list[str]:
    """Returns the GROUP BY keys of a SELECT."""
    return [text_of(key) for key in grouping(select).keys] if select.args.get("group") else []


def group_by_text(select: exp.Select) -> str:
    """Returns the GROUP BY in short: ``by a, b``."""
    found = grouping(select) if select.args.get("group") else None
    if found is None:
        return "all rows"
    if found.sets is not None:
        return text_of(select.args["group"]).strip().removeprefix("GROUP BY ")
    return f"by {', '.join(map(text_of, found.keys))}"


def is_grouped(select: exp.Select) -> bool:
    """Whether a SELECT aggregates rows, other than by DISTINCT."""
    return bool(select.args.get("group") or select.args.get("having")) or first_aggregate(select) is not None


def aggregate_calls(select: exp.Select) -> list[tuple[str, str]]:
    """Returns the aggregate calls of the select list and HAVING, with their functions."""
    found: dict[str, str] = {}
    having = select.args.get("having")
    for item in [*select.expressions, *([having.this] if having else [])]:
        for node in aggregates_in(item):
            outer = node
            while isinstance(outer.parent, AROUND):
                outer = outer.parent
            found.setdefault(text_of(outer), function_name(node))
    return list(found.items())


# -- OVER ------------------------------------------------------------------------------------------


def over_clauses_text(select: exp.Select) -> str:
    """Returns the OVER clauses in short: ``LAG(n) by ts per item``."""
    found = []
    for window in over_clauses(select):
        order = order_text(window)
        found.append(
            f"{text_of(window.this)}{f' by {order}' if order else ''}{per_suffix(partition_key_texts(window))}"
        )
    return ", ".join(found)


def order_text(window: exp.Expr) -> str:
    """Returns the ORDER BY of an OVER, without tie-breakers."""
    order = window.args.get("order")
    found = list(order.expressions) if order else []
    found = [each for each in found if not breaks_ties(each)] or found
    return ", ".join(text_of(each) for each in found)


def partition_key_texts(window: exp.Expr) -> list[str]:
    """Returns the author's PARTITION BY of an OVER."""
    by = window.args.get("partition_by") or ()
    return [text_of(each) for each in by if not (isinstance(each, exp.Column) and is_generated(each.name))]


def per_suffix(within: Sequence[str]) -> str:
    """Returns partition keys as a suffix: `` per a, b``."""
    return f" per {', '.join(within)}" if within else ""


# -- groups --------------------------------------------------------------------------------------


def spec_as_written(spec: _Spec) -> _Spec:
    """Returns a spec with its keys and aggregates as their author wrote them, without the alias of its rows."""
    read = relations_with_joins(outermost_select(spec.written))
    alias = read[0][0].alias_or_name if len(read) == 1 else ""
    return replace(
        spec,
        keys=tuple(replace(each, expression=as_author_writes(each.expression, alias)) for each in spec.keys),
        metrics=tuple(replace(each, call=as_author_writes(each.call, alias)) for each in spec.metrics),
    )


def author_expressions(spec: WindowAggregateSpec | GroupAggregateSpec) -> Expressions:
    """Returns the author's expression for each column of groups."""
    return {key.name: key.expression for key in spec.keys} | {each.name: each.call for each in spec.metrics}


def spec_group_by_text(spec: WindowAggregateSpec | GroupAggregateSpec) -> str:
    """Returns the GROUP BY of an aggregation in short."""
    named = {key.name: key.sql for key in spec.keys}
    if spec.grouping_sets is not None:
        sets = (", ".join(named[name] for name in members) for members in spec.grouping_sets)
        return f"by GROUPING SETS ({', '.join(f'({each})' for each in sets)})"
    return f"by {', '.join(named.values())}" if named else "all rows"


def with_author_expressions(select: _Query, written: Expressions) -> _Query:
    """Returns a query with columns of its input replaced by the expressions that they hold.

    Args:
        select: the query; it isn't changed.
        written: the author's expression for each column.

    >>> text_of(with_author_expressions(parse("select n + 1 as m from groups"), {"n": exp.Count(this=exp.Star())}))
    'SELECT COUNT(*) + 1 AS m FROM groups'
    """
    if not written:
        return select
    made = select.copy()
    holder = exp.Subquery(this=made)
    source = made.args.get("from_") or made.args.get("from")
    inside = set(map(id, every(source, exp.Column))) if source else set()
    for column in list(every(made, exp.Column)):
        if id(column) not in inside and (node := written.get(column.name)) is not None:
            node = node.copy()
            plain = (
                isinstance(node, exp.Column | exp.Func)
                or column.parent is made
                or isinstance(column.parent, exp.Alias)
            )
            column.replace(node if plain else exp.paren(node))
    return holder.this
