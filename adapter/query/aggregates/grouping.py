"""Reads GROUP BY as a list of keys and, if there are any, grouping sets over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..sql.clauses import relations
from ..sql.dialect import arguments, canonical, select_over_same_relations, sql
from ..sql.functions import QueryRunner
from ..sql.nodes import every
from ..windows.expansion import WINDOW_COLUMNS
from ..windows.sparks_windows import is_spark_window, macro_for

_IS_COLUMN = "is_column"
"""Mark of a name in GROUP BY that is an input column, although a select item has the same alias."""


@dataclass(frozen=True)
class Grouping:
    """Keys in the order in which Spark numbers them, and the keys of each grouping set."""

    keys: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...] | None
    """Positions in `keys`. None for a plain GROUP BY."""


def grouping(select: exp.Select) -> Grouping:
    """Returns the GROUP BY of a SELECT, with ordinals, aliases, ALL, ROLLUP and CUBE written out."""
    group = select.args.get("group")
    if group is None:
        return Grouping((), None)
    if group.args.get("all"):
        return Grouping(
            tuple(item.unalias() for item in select.expressions if not _has_aggregate(item)), None
        )
    keys: list[exp.Expr] = []
    seen: dict[str, int] = {}

    def position(node: exp.Expr) -> int:
        node = resolve_key(node.this if isinstance(node, exp.Paren) else node, select)
        text = canonical(node)
        if text not in seen:
            seen[text] = len(keys)
            keys.append(node)
        return seen[text]

    def members(node: exp.Expr) -> tuple[int, ...]:
        return tuple(position(item) for item in (node.expressions if isinstance(node, exp.Tuple) else [node]))

    def sets_of(node: exp.Expr) -> list[tuple[int, ...]]:
        if isinstance(node, exp.GroupingSets):
            return [keys_of for item in node.expressions for keys_of in sets_of(item)]
        if isinstance(node, exp.Rollup | exp.Cube):
            parts = [members(item) for item in node.expressions]
            if isinstance(node, exp.Rollup):
                chosen = [parts[:length] for length in range(len(parts), -1, -1)]
            else:
                chosen = [
                    list(some) for size in range(len(parts), -1, -1) for some in combinations(parts, size)
                ]
            return [tuple(key for part in some for key in part) for some in chosen]
        return [members(node)]

    plain: list[int] = []
    factors: list[list[tuple[int, ...]]] = []
    for node in group.expressions:
        if isinstance(node, exp.GroupingSets | exp.Rollup | exp.Cube):
            factors.append(sets_of(node))
        else:
            plain.append(position(node))
    if listed := group.args.get("grouping_sets"):
        # GROUP BY a, b GROUPING SETS (…): the keys only give the order.
        factors += map(sets_of, listed)
        plain = []
    for suffix, operator in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        if group.args.get(suffix):  # GROUP BY a, b WITH ROLLUP
            factors.append(sets_of(operator(expressions=[keys[index].copy() for index in plain])))
            plain = []
    if not factors:
        return Grouping(tuple(keys), None)
    sets = [
        tuple(dict.fromkeys([*plain, *(key for part in some for key in part)])) for some in product(*factors)
    ]
    return Grouping(tuple(keys), tuple(sets))


def resolve_key(node: exp.Expr, select: exp.Select) -> exp.Expr:
    """Returns the expression that an ordinal or an alias in GROUP BY refers to.

    A column precedes an alias, as in Spark: an alias of an aggregate, or of an expression over a column of the same
    name, is read as the column.

    Raises:
        QueryError: an alias of a constant may hide a column of its name, or an ordinal counts a star.
    """
    if isinstance(node, exp.Literal) and node.is_int and 0 < int(node.this) <= len(select.expressions):
        counted: list[exp.Expr] = select.expressions[: int(node.this)]
        if any(item.is_star for item in counted):
            raise QueryError(
                f"GROUP BY {node.this} counts the columns of a select list that has '*'; name the keys."
            )
        return counted[-1].unalias()
    if isinstance(node, exp.Column) and not node.table:
        for item in select.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                made: exp.Expr = item.this
                if node.meta_get(_IS_COLUMN) or _lists_column(node.name, select):
                    return node
                names = {column.name.lower() for column in every(made, exp.Column)}
                if not names and not _has_aggregate(made):
                    return node if _hides_column(item, select) else made
                is_column = node.name.lower() in names and not isinstance(made, exp.Column)
                return node if is_column or _has_aggregate(made) else made
    return node


def check_items_are_keys(select: exp.Select) -> None:
    """Raises unless each plain column of a grouped SELECT is a key.

    >>> from ..sql.dialect import parse
    >>> check_items_are_keys(parse("select a, t.b, c as d, s.x, count(*) as n, n as m from t group by 1, b, c, s"))
    """
    group = select.args.get("group")
    if group is None or group.args.get("all"):
        return
    known = {
        *_window_columns_without_key(select),
        *(item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)),
    }
    keys = grouping(select).keys
    for key in keys:
        known |= {column.name.lower() for column in every(key, exp.Column)}
    window = next(filter(is_spark_window, keys), None)
    for item in select.expressions:
        column = item.unalias()
        if isinstance(column, exp.Column) and not column.is_star:
            names = {column.name.lower(), column.table.lower()}
            if window is not None and "window" in names:
                raise QueryError(
                    f"'{sql(column)}' is the name that Spark gives the key {sql(window)}. Read the stream through a macro, "
                    f"FROM {{{{ {macro_for(window)} }}}} … GROUP BY window_start, window_end; or name it "
                    f"in a subquery in FROM, SELECT *, {sql(window)} AS w, and group by w."
                )
            if not known & names:
                raise _no_key_error(column)


def keys_of_grouping(call: exp.Expr, has_sets: bool, key_of: Callable[[exp.Expr], str | None]) -> list[str]:
    """Returns the group keys that a call of GROUPING or GROUPING_ID names.

    Args:
        has_sets: whether the GROUP BY has grouping sets.
        key_of: returns the name of the group key that an expression is; None if it is none.

    Raises:
        QueryError: there are no grouping sets, or an argument is no group key.
    """
    if not has_sets:
        raise QueryError(f"'{sql(call)}' needs GROUPING SETS, ROLLUP or CUBE in the GROUP BY.")
    found = [key_of(item) for item in arguments(call)]
    keys = [name for name in found if name is not None]
    if len(keys) < len(found):
        raise QueryError(
            f"'{sql(call)}' names something that is not a group key; name keys of GROUP BY only."
        )
    return keys


def why_window_column_is_no_key(select: exp.Select) -> QueryError | None:
    """Returns the error about the first window column outside aggregates that is no key: Spark, which runs this GROUP BY,
    doesn't know that the columns of a window determine each other. None if all are keys."""
    keys = {column.name.lower() for key in grouping(select).keys for column in every(key, exp.Column)}
    for item in select.expressions:
        for column in every(item, exp.Column):
            is_aggregated = column.find_ancestor(exp.AggFunc, exp.Select) is not select
            if (
                column.name.lower() in WINDOW_COLUMNS
                and column.name.lower() not in keys
                and not is_aggregated
            ):
                return _no_key_error(column)
    return None


def _no_key_error(column: exp.Column) -> QueryError:
    return QueryError(
        f"'{sql(column)}' is neither a key of GROUP BY nor in an aggregate. Add it to GROUP BY, or say which of "
        f"its values is meant: any_value({sql(column)})."
    )


def _window_columns_without_key(select: exp.Select) -> tuple[str, ...]:
    """Returns the window columns that a grouped SELECT may list although they are no keys, because the columns of a window
    determine each other. Spark doesn't know that of a session's window_time."""
    queries = (node.unnest() for node in relations(select))
    windows = (hints.window_of(each) for each in queries if isinstance(each, exp.Select))
    is_session = any(window is not None and window.kind == "session" for window in windows)
    return WINDOW_COLUMNS[:2] if is_session else WINDOW_COLUMNS


def mark_input_columns(select: exp.Select, ask: QueryRunner) -> None:
    """Marks names in GROUP BY that are input columns, which precede aliases of the same name.

    Args:
        select: a SELECT whose streams are marked.
    """
    group = select.args.get("group")
    aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    for node in every(group, exp.Column) if group is not None else ():
        made = aliases.get(node.name.lower())
        if (
            made is None
            or node.table
            or (isinstance(made, exp.Column) and made.name.lower() == node.name.lower())
        ):
            continue
        query = select_over_same_relations(select).select(node.copy(), copy=False).where("false")
        answer = str(ask(f"explain extended {sql(query)}")[0])
        if "UNRESOLVED_COLUMN" not in answer and "AnalysisException" not in answer:
            node.meta[_IS_COLUMN] = True


def _lists_column(name: str, select: exp.Select) -> bool:
    """Whether a query in FROM lists a column with this name."""
    queries = (node.unnest() for node in relations(select))
    return any(
        isinstance(each, exp.Select) and name.lower() in map(str.lower, each.named_selects)
        for each in queries
    )


def _hides_column(item: exp.Alias, select: exp.Select) -> bool:
    """Whether an input column has the alias of this item; Spark would prefer the column.

    Raises:
        QueryError: the input columns aren't known.
    """
    if _lists_column(item.alias, select):
        return True
    for node in relations(select):
        inner = node.unnest()
        if not isinstance(inner, exp.Select) or inner.is_star or select.args.get("laterals"):
            raise ambiguous_key_error(item.alias, item.this)
    return False


def ambiguous_key_error(name: str, value: exp.Expr) -> QueryError:
    """Returns the error on a name in GROUP BY that may be a column or a select item."""
    return QueryError(
        f"'{name}' in GROUP BY may be a column or the value {sql(value)}, which the select list gives that name; write the "
        "column with its relation's name, or, for the value, its place in the select list (GROUP BY 1)."
    )


def _has_aggregate(item: exp.Expr) -> bool:
    return item.find(exp.AggFunc) is not None
