"""Facts about a SELECT's clauses: whether it is deterministic, its subqueries over inputs, and which columns its
joins equate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from sqlglot import exp
from sqlglot.helper import ensure_list

from ..aggregates.aggregates import TYPED
from ..aggregates.types import types_of
from ..errors import QueryError, UnintendedQueryError
from ..frontend import hints
from ..sql.clauses import (
    conjuncts,
    filters,
    first_aggregate,
    is_semi_or_anti,
    over_clauses,
    relations,
    relations_with_joins,
    unwrap_call,
)
from ..sql.dialect import (
    arguments,
    canonical,
    correlated_columns,
    function_name,
    is_distinct,
    outermost_queries,
    sql,
)
from ..sql.functions import builtin_kind, is_random, makes_rows
from ..sql.nodes import copied, every, holds, quoted_column, star_without
from ..sql.tie_breaking import (
    add_tie_breaker,
    break_ties,
    depends_on_frame_ties,
    distinguishes_tied_rows,
    has_rows_frame,
    is_deterministic_extreme,
    is_ordered_by_all_columns,
)
from ..windows.window_columns import is_in_each_row
from . import event_clock
from .compared_types import has_mixed_types, have_mixed_types
from .rankings.orders import CUTS

INPUT = "__input_"

_ARRAYS = frozenset({"collect_list", "array_agg", "collect_set"})
_BY_ORDER = _ARRAYS | frozenset("first first_value last last_value listagg string_agg any_value".split())
_BY_CHANCE = frozenset(
    """
    mode min_by max_by approx_percentile percentile_approx histogram_numeric approx_top_k approx_top_k_accumulate
    approx_top_k_combine hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float theta_intersection_agg theta_sketch_agg
    theta_union_agg
    """.split()
)
"""Aggregates that return the value of any tied row, or depend on the order of arrival."""
INEXACT = frozenset(
    """
    sum avg mean variance var_samp var_pop stddev std stddev_samp stddev_pop try_sum try_avg corr covar_pop covar_samp
    skewness kurtosis regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    """.split()
)
"""Aggregates that depend on the order of addition for floating-point numbers: recomputing may change the last digit.
"""
_LISTS = frozenset({"listagg", "string_agg"})
_ORDER_LOST = frozenset(
    {
        "array_sort",
        "sort_array",
        "size",
        "cardinality",
        "array_size",
        "array_contains",
        "array_min",
        "array_max",
    }
)
_CLAUSES = ("expressions", "where", "having", "group", "qualify")


def is_repeatable(select: exp.Expr) -> bool:
    """Whether a query over equal rows returns equal rows each time."""
    return not holds(select, exp.TableSample) and not any(map(_is_nondeterministic, every(select, exp.Func)))


def _is_nondeterministic(node: exp.Func) -> bool:
    """Whether a function is non-deterministic, or a function or cast depends on the current time."""
    if isinstance(node, exp.Connector | exp.Cast | exp.Case):
        return event_clock.is_time_keyword(node)
    is_clock = function_name(node) in event_clock.NAMES and not event_clock.is_watermark(node)
    return is_random(node) or is_clock or event_clock.is_time_keyword(node)


def why_nondeterministic(select: exp.Query, to_the_digit: bool) -> str | None:
    """Returns the reason why an aggregating query over equal rows may have another value when computed again, so that
    the old value can't be retracted. None if it is deterministic.

    Args:
        to_the_digit: whether the last digit counts. It doesn't where old rows are found by their key.
    """
    reasons = (_why_node_nondeterministic(node, to_the_digit) for node in every(select, exp.AggFunc))
    return next((reason for reason in reasons if reason is not None), None)


def why_over_nondeterministic(
    select: exp.Select, keys: Sequence[frozenset[str]], to_the_digit: bool
) -> str | None:
    """Returns the reason why an OVER may have another value when computed again. None if all are deterministic. Run
    `order_by_whole_rows` before.

    Args:
        keys: sets of columns that identify an input row.
    """
    for window in over_clauses(select):
        order = window.args.get("order")
        call = unwrap_call(window.this)
        if (
            not isinstance(call.function, exp.AggFunc)
            or call.order
            or (order is not None and distinguishes_tied_rows(window))
        ):
            continue
        by = [
            *(window.args.get("partition_by") or ()),
            *(each.this for each in (order.expressions if order else ())),
        ]
        columns = {each.name.lower() for each in by if isinstance(each, exp.Column)}
        if any(key <= columns for key in keys):
            continue  # the order has no ties
        if (reason := _why_node_nondeterministic(call.function, to_the_digit)) is not None:
            return f"{reason}, or give the window ROWS BETWEEN …, in which tied rows have a fixed order"
    return None


def _why_node_nondeterministic(node: exp.Expr, to_the_digit: bool) -> str | None:
    name = function_name(node)
    if name in _BY_ORDER and not _is_order_fixed(node):
        array = name if name in _ARRAYS else "collect_list"
        return (
            f"its value depends on the order of rows, which may differ each time; sort it: array_sort({array}(…)), or "
            "LISTAGG(…) WITHIN GROUP (ORDER BY …)"
        )
    if name in _BY_CHANCE and not is_deterministic_extreme(node):
        return (
            f"{name}() may return another value for the same rows each time; compute it in a separate model"
        )
    if isinstance(node, exp.AnonymousAggFunc) and builtin_kind(name) is None:
        return (
            f"whether {name}(), which isn't Spark's own, returns the same value for the same rows isn't known; "
            "compute it in a separate model"
        )
    if to_the_digit and _rounds_when_adding(node):
        return (
            f"{name}() of floating-point numbers has other last digits when they are added up in another order; compute "
            "it in a separate GROUP BY, or of decimals"
        )
    return None


def _rounds_when_adding(node: exp.Expr) -> bool:
    """Whether an aggregate rounds with each value that it adds."""
    name = function_name(node)
    if name not in TYPED:
        return name in INEXACT
    types = types_of(node)
    return types is not None and types.argument in ("float", "double", "string")


def order_lists(query: exp.Expr) -> None:
    """Adds the value to the order of each LISTAGG … WITHIN GROUP, which makes it deterministic for ties. Changes the
    tree."""
    for within in every(query, exp.WithinGroup):
        # With DISTINCT, Spark accepts no other order.
        if (
            function_name(within.this) in _LISTS
            and not is_distinct(within.this)
            and not _is_ordered_by_value(within)
        ):
            value = arguments(within.this)[0].copy()
            within.expression.append("expressions", exp.Ordered(this=value, nulls_first=True))


def _is_ordered_by_value(within: exp.WithinGroup) -> bool:
    """Whether the listed value is part of the list's order."""
    value = arguments(within.this)[0]
    return any(each.this == value for each in within.expression.expressions)


def _is_order_fixed(node: exp.Expr) -> bool:
    """Whether the order of an aggregate's rows is fixed, or has no effect."""
    over = node.parent
    if isinstance(over, exp.WithinGroup):
        return function_name(node) in _LISTS and (is_distinct(node) or _is_ordered_by_value(over))
    while isinstance(over, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.Window):
        over = over.parent
    return isinstance(over, exp.Func) and function_name(over) in _ORDER_LOST


_UNNAMED, _WHOLE = "__unnamed_", "__whole"
_WHOLE_PARTITION = exp.WindowSpec(
    kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="UNBOUNDED", end_side="FOLLOWING"
)


def order_windows(query: exp.Expr) -> None:
    """Makes OVER deterministic in each SELECT of a query, also for ties. Changes the tree."""
    for select in every(query, exp.Select):
        if not over_clauses(select):
            continue
        for number, node in enumerate(relations(select)):
            if not node.alias_or_name:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(f"{_UNNAMED}{number}")))
        break_ties(select)
        order_by_whole_rows(select, *(node.alias_or_name for node in relations(select)))


def check_limits(query: exp.Expr) -> None:
    """Raises `QueryError` if a LIMIT has no ORDER BY."""
    for select in every(query, exp.Select):
        if any(select.args.get(clause) for clause in CUTS) and not select.args.get("order"):
            raise QueryError(
                f"'{hints.excerpt(select)}': without ORDER BY any rows could be the first; add ORDER BY."
            )


def order_limits(query: exp.Expr) -> None:
    """Makes each LIMIT deterministic: ties are ordered by the output columns. Changes the tree.

    Raises:
        QueryError: a LIMIT has no ORDER BY.
    """
    check_limits(query)
    for select in list(every(query, exp.Select)):
        if not any(select.args.get(clause) for clause in CUTS):
            continue
        items = select.expressions
        # Named items are ordered by their names; a bare number would be an ordinal.
        values = [
            exp.column(item.alias, quoted=True) if isinstance(item, exp.Alias) else item for item in items
        ]
        values = [value for value in values if not isinstance(value, exp.Literal)]
        if any(value.is_star for value in values):
            # Spark doesn't allow '*' in ORDER BY.
            row = exp.Anonymous(this="STRUCT", expressions=[item.unalias().copy() for item in items])
            values = [quoted_column(_WHOLE)]
            below = select.copy()
            below.append("expressions", exp.alias_(row, _WHOLE, quoted=True))
            star = star_without([_WHOLE])
            select.replace(
                exp.Select(expressions=[star]).from_(below.subquery("ordered", copy=False), copy=False)
            )
            select = below
        for value in values:
            select.args["order"].append("expressions", exp.Ordered(this=value.copy(), nulls_first=True))


def order_by_whole_rows(select: exp.Select, *aliases: str) -> None:
    """Adds the whole row to the ORDER BY of each OVER that still depends on the order of rows after `break_ties`: it has no
    ORDER BY, or its tie-breaking values have no order. Changes the tree.

    Args:
        select: a SELECT with OVER.
        aliases: of the relations that it reads.

    Raises:
        UnintendedQueryError: a function depends on which of equal rows are in its frame.
    """
    for window in over_clauses(select):
        call = unwrap_call(window.this)
        is_ordered = bool(window.args.get("order") or call.order)
        if not is_ordered and _why_node_nondeterministic(call.function, to_the_digit=True):
            window.set("order", exp.Order(expressions=[]))
            window.set("spec", _WHOLE_PARTITION.copy())
        order = window.args.get("order")
        if order is None or is_ordered_by_all_columns(window) or not distinguishes_tied_rows(window):
            continue
        if not has_rows_frame(window) and depends_on_frame_ties(window):
            raise UnintendedQueryError(
                f"'{sql(window)}' depends on the order of rows that are equal by its ORDER BY; give it a frame of rows, as "
                "in ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW."
            )
        for alias in aliases:
            star = exp.Column(this=exp.Star(), table=exp.to_identifier(alias, quoted=True))
            add_tie_breaker(order, exp.Anonymous(this="STRUCT", expressions=[star]))


def has_generator(select: exp.Select) -> bool:
    """Whether the select list has a generator such as EXPLODE."""
    return any(makes_rows(node) for item in select.expressions for node in every(item, exp.Expr))


def may_multiply_rows(select: exp.Select) -> bool:
    """Whether one input row of a SELECT may become several."""
    return bool(select.args.get("laterals")) or has_generator(select)


def inner_queries(select: exp.Select, clauses: Sequence[str] = _CLAUSES) -> list[exp.Query]:
    """Returns the outermost subqueries in expressions, join conditions and LATERAL that read streams or inputs, without
    those of ``as_of()``."""
    parts: list[exp.Expr | None] = []
    for clause in clauses:
        parts += ensure_list(select.args.get(clause))
    if "where" in clauses:
        for join in select.args.get("joins") or ():
            parts.append(join.args.get("on"))
            if isinstance(join.this, exp.Lateral) and hints.versions_as_of(join.this) is None:
                parts.append(join.this.this)
    return [
        query for part in parts if part is not None for query in outermost_queries(part) if reads_input(query)
    ]


def _is_streaming(table: exp.Table) -> bool:
    return hints.is_stream_or_operator(table) or table.name.startswith(INPUT)


def reads_input(node: exp.Expr) -> bool:
    """Whether a query or relation reads a stream or an input."""
    return any(map(_is_streaming, every(node, exp.Table)))


def reads_tables(template: exp.Expr) -> bool:
    """Whether a query over inputs also reads tables, in expressions or in FROM."""
    # The replacement of a clock reads the watermark.
    clocks = {id(table) for each in hints.replacements(template) for table in every(each, exp.Table)}
    return any(not _is_streaming(table) and id(table) not in clocks for table in every(template, exp.Table))


def is_inner_join(join: exp.Join | None) -> bool:
    """Whether a join returns only matched pairs."""
    return join is None or (not join.side and (join.kind or "").upper() in ("", "INNER", "CROSS"))


def aliases_in_every_row(select: exp.Select) -> list[str]:
    """Aliases of the relations that have a row in each row of the join.

    >>> from ..sql.dialect import parse
    >>> joins = (", b", "left join b", "semi join b", "right join b")
    >>> [aliases_in_every_row(parse(f"select 1 from a {join}")) for join in joins]
    [['a', 'b'], ['a'], ['a'], ['b']]
    """
    read = relations_with_joins(select)
    joins = [join for _, join in read]
    return [node.alias_or_name for place, (node, _) in enumerate(read) if is_in_each_row({place}, joins)]


def equal_columns(select: exp.Select, aliases: Sequence[str]) -> list[dict[str, exp.Expr]]:
    """Returns classes of expressions that the SELECT's joins and WHERE equate: alias (lower case) → expression."""
    names = [alias.lower() for alias in aliases]
    classes: list[dict[str, exp.Expr]] = []
    pairs: list[tuple[str, exp.Expr, str, exp.Expr]] = []
    for join in select.args.get("joins") or ():
        alias = join.this.alias_or_name.lower()
        place = names.index(alias) if alias in names else 0
        for column in join.args.get("using") or () if place else ():
            if not has_mixed_types(column):
                sides = [exp.column(column.name, table=aliases[n], quoted=True) for n in (0, place)]
                pairs.append((names[0], sides[0], names[place], sides[1]))
    pairs += _equalities(select, names)
    for left, one, right, other in pairs:
        texts = {left: canonical(one), right: canonical(other)}
        for each in classes:
            if any(name in each and canonical(each[name]) == text for name, text in texts.items()):
                break
        else:
            classes.append(each := {})
        each.setdefault(left, one)
        each.setdefault(right, other)
    by_alias = dict(zip(names, aliases, strict=True))
    return [{by_alias[name]: node for name, node in each.items()} for each in classes]


def _equalities(select: exp.Select, names: Sequence[str]) -> Iterator[tuple[str, exp.Expr, str, exp.Expr]]:
    """Yields the equalities of ON and WHERE that hold for all matched rows: the alias and the expression of each
    side.

    With outer joins, fewer equalities hold. WHERE and later ON clauses also see the NULLs of unmatched rows, for which only
    an equality of plain columns is never true. An ON needn't hold for the rows of earlier relations.
    """
    joins = select.args.get("joins") or ()
    inner = all(map(is_inner_join, joins))
    outer = has_outer_join(select)
    where = select.args.get("where")
    places = [(join.args.get("on"), join, number > 0) for number, join in enumerate(joins)]
    for condition, join, later in [*places, (where.this if where else None, None, True)]:
        own = None if join is None else join.this.alias_or_name.lower()
        for test in conjuncts(condition):
            if not isinstance(test, exp.EQ | exp.NullSafeEQ):
                continue
            sides = [(_only_alias(node, names), node.unnest()) for node in (test.this, test.expression)]
            (left, one), (right, other) = sides
            if left is None or right is None or left == right or have_mixed_types(one, other):
                continue
            if not inner and own is not None and own not in (left, right):
                continue
            others = [node for alias, node in sides if alias != own]
            if outer and later and not (isinstance(test, exp.EQ) and all(map(_is_column, others))):
                continue
            yield left, one, right, other


def as_inner_join(template: exp.Select) -> exp.Select:
    """Returns an outer join of two relations as an inner join."""
    made = template.copy()
    (join,) = made.args["joins"]
    join.set("side", None)
    join.set("kind", "INNER")
    return made


def side_as_semi_join(template: exp.Select, place: int, kind: str) -> exp.Select:
    """Returns the rows of one of two joined relations that have a match in the other (SEMI), or none (ANTI).

    Args:
        template: the join, over ``__input_n``.
    """
    nodes = relations(template)
    own, other = nodes[place].copy(), nodes[1 - place].copy()
    (join,) = template.args["joins"]
    star = exp.Column(this=exp.Star(), table=exp.to_identifier(own.alias_or_name, quoted=True))
    on, using = join.args.get("on"), join.args.get("using")
    meets = exp.Join(
        this=other,
        side="LEFT",
        kind=kind,
        on=None if on is None else on.copy(),
        using=[each.copy() for each in using] if using else None,
    )
    made = exp.Select(expressions=[star]).from_(own)
    made.set("joins", [meets])
    return made


def has_outer_join(select: exp.Select) -> bool:
    """Whether a join may fill a relation's columns with NULLs."""
    return any(
        not is_inner_join(join) and not is_semi_or_anti(join) for join in select.args.get("joins") or ()
    )


def _is_column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column)


def _only_alias(node: exp.Expr, names: Sequence[str]) -> str | None:
    """Returns the only alias whose columns an expression refers to. None if there are several, or none."""
    if node.find(exp.Query):
        return None
    found = {column.table.lower() for column in every(node, exp.Column)}
    return found.pop() if len(found) == 1 and found <= set(names) else None


def partition_expressions(
    template: exp.Select, aliases: Sequence[str], inputs: int
) -> tuple[tuple[exp.Expr, ...], ...]:
    """Returns for each input the expressions that are equal in matched rows, in one order for all inputs. Empty tuples if no
    expression is equal in all inputs. Callers must not change the expressions.

    Args:
        template: the SELECT over ``__input_n``.
        inputs: number of inputs; those not in FROM are in expressions.
    """
    nothing: tuple[tuple[exp.Expr, ...], ...] = tuple(() for _ in range(inputs))
    classes = [each for each in equal_columns(template, aliases) if len(each) == len(aliases)]
    asked = inner_queries(template)
    if not asked:
        return (
            tuple(tuple(each[alias].copy() for each in classes) for alias in aliases) if classes else nothing
        )
    inner = [found for query in asked if (found := _equated_by_correlation(query, aliases)) is not None]
    if len(inner) < len(asked) or len(inner) + len(aliases) != inputs:
        return nothing
    if len(aliases) == 1:
        # Outer expressions by which every inner query is correlated.
        shared = [text for text in inner[0] if all(text in each for each in inner)]
        outer = tuple(inner[0][text][0] for text in shared)
        return (outer, *(tuple(each[text][1] for text in shared) for each in inner)) if shared else nothing
    keys: list[tuple[exp.Expr, ...]] = []
    for each in classes:
        texts = {
            canonical(node) for node in each.values() if _is_column(node) or not has_outer_join(template)
        }
        of_inner = [[own for outer, own in found.values() if canonical(outer) in texts] for found in inner]
        if all(of_inner):
            keys.append((*(each[alias].copy() for alias in aliases), *(found[0] for found in of_inner)))
    return tuple(zip(*keys, strict=True)) if keys else nothing


_Equated: TypeAlias = dict[str, tuple[exp.Expr, exp.Expr]]
"""Text of an outer expression → that expression, and the inner one that a correlated query equates it with."""


def _equated_by_correlation(query: exp.Query, aliases: Sequence[str]) -> _Equated | None:
    """Returns the outer expressions that a correlated query equates with inner ones. None if its value may also depend on
    rows without this equality."""
    over = query.parent
    while isinstance(over, exp.Subquery | exp.Paren):
        over = over.parent
    # LATERAL returns the rows that its WHERE selects, whatever its other clauses do.
    others = (
        () if isinstance(over, exp.Lateral) else ("group", "distinct", "having", "limit", "offset", "order")
    )
    if not isinstance(query, exp.Select) or any(query.args.get(c) for c in ("laterals", "joins", *others)):
        return None
    nodes = relations(query)
    names = [each.lower() for each in aliases]
    if len(nodes) != 1 or not isinstance(nodes[0], exp.Table) or not nodes[0].name.startswith(INPUT):
        return None
    alias = nodes[0].alias_or_name
    if alias.lower() in names:
        return None  # the inner query hides the outer alias
    wanted = filters(query)
    if any(node.find(exp.Query) for node in wanted):
        return None
    found = _equated_with_inner(wanted, alias, names)
    if not isinstance(over, exp.In):
        return found or None
    clause = over.find_ancestor(exp.Where, exp.Having, exp.Join, exp.Select)
    assert clause is not None
    # In a select list, Spark returns false for NULL.
    tests = [over] if isinstance(clause, exp.Select) else conjuncts(clause.args.get("on") or clause.this)
    is_test = any(over is each for each in tests)
    if not is_test or over.find_ancestor(exp.Not, exp.Or, exp.Case) is not None:
        return None  # its value depends on NULLs among all rows
    if isinstance(clause, exp.Where):
        found |= _expressions_equated_by_in(over, query, alias, names)
    return found or None


def _equated_with_inner(tests: Sequence[exp.Expr], alias: str, names: Sequence[str]) -> _Equated:
    """Returns the outer expressions that conditions equate with inner ones.

    Args:
        tests: conditions of a correlated query.
        names: the outer relations, in lower case.
    """
    found: _Equated = {}
    for test in tests:
        if isinstance(test, exp.EQ):
            for mine, others in ((test.this, test.expression), (test.expression, test.this)):
                # An unqualified name is the inner query's own column, if it has such a column.
                if (
                    _only_alias(mine, [alias.lower()])
                    and _only_alias(others, names)
                    and not have_mixed_types(mine, others)
                ):
                    found[sql(others)] = (others.copy(), mine.copy())
    return found


def _expressions_equated_by_in(over: exp.In, query: exp.Select, alias: str, names: Sequence[str]) -> _Equated:
    """Returns the expression before IN with the only select item of the query after it. Empty if one of the two isn't
    computed from a single row, or if their types are mixed."""
    item = query.expressions[0].unalias() if len(query.expressions) == 1 else None
    # Of a single outer relation, a column needs no qualifier.
    outer = [*names, ""] if len(names) == 1 else names
    if (
        _only_alias(over.this, outer) is None
        or item is None
        or item.find(exp.Star, exp.AggFunc)
        or have_mixed_types(over.this, item)
    ):
        return {}
    columns = list(every(item, exp.Column))
    if not columns or any(column.table.lower() not in ("", alias.lower()) for column in columns):
        return {}
    copy = item.copy()
    for column in every(copy, exp.Column):
        column.set("table", exp.to_identifier(alias))
    return {sql(over.this): (over.this.copy(), copy)}


def returns_one_row(query: exp.Query) -> bool:
    """Whether an inner query is an uncorrelated aggregate over all of its rows.

    An unqualified name may be an outer column. It counts as one if it is compared with another name.
    """
    if not isinstance(query, exp.Select) or first_aggregate(query) is None:
        return False
    if any(
        query.args.get(c) for c in ("group", "having", "distinct", "limit", "offset", "laterals", "joins")
    ):
        return False
    nodes = (*query.expressions, *filters(query))
    if any(node.find(exp.Query) for node in nodes) or correlated_columns(query):
        return False
    own = {each.alias_or_name.lower() for each in relations(query)}
    columns = [list(every(node, exp.Column)) for node in nodes]
    if not all(column.table.lower() in own or not column.table for each in columns for column in each):
        return False
    compared = columns[len(query.expressions) :]
    return all(
        len({column.name.lower() for column in each}) < 2 or all(column.table for column in each)
        for each in compared
    )


def inner_aliases(template: exp.Select, start: int, inputs: int) -> tuple[str, ...]:
    """Returns the aliases that inner queries give to the inputs with the numbers from `start` to `inputs` - 1."""
    found = {}
    for query in inner_queries(template):
        for table in every(query, exp.Table):
            if table.name.startswith(INPUT):
                found[int(table.name.removeprefix(INPUT))] = table.alias_or_name
    return tuple(found[number] for number in range(start, inputs))


def input_rows_text(template: exp.Select) -> str:
    """Canonical text of the rows below a SELECT's GROUP BY."""
    copy = copied(template)
    for clause in ("group", "having", "order", "distinct", "hint"):
        copy.set(clause, None)
    copy.set("expressions", [exp.Star()])
    return canonical(copy)
