"""Asks Spark for the types of sums, averages and tie-breaking columns, and stores them in the tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from ...util.nested_types import struct_fields
from ..errors import QueryError
from ..frontend import hints
from ..frontend.select_kind import is_grouped
from ..frontend.streams import is_printed_by_macro
from ..sql import tie_breaking
from ..sql.clauses import is_over
from ..sql.dialect import (
    arguments,
    correlated_columns,
    function_name,
    select_over_same_relations,
    sql,
    walk_same_query,
)
from ..sql.functions import QueryRunner, makes_rows
from ..sql.maps import has_map
from ..sql.nodes import every, holds, selects_around
from .aggregates import TYPED, Types
from .grouping import mark_input_columns

_TYPES = "types"
_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)


def types_of(call: exp.Expr) -> Types | None:
    """Returns Spark's types of a call. None if they weren't requested."""
    found: Types | None = call.meta_get(_TYPES)
    return found


def find_types(tree: exp.Query, ask: QueryRunner) -> None:
    """Stores the types of sums and averages of each SELECT over a stream, and which names in GROUP BY are columns, as meta
    data of the tree.

    Args:
        tree: a query whose streams are marked.
    """
    over_streams = hints.selects_over_streams(tree)
    for select in every(tree, exp.Select):
        if id(select) not in over_streams:
            continue
        mark_input_columns(select, ask)
        calls = [*_typed_calls(select)]
        # A correlated column has no type when the SELECT is analyzed alone.
        correlated = {id(column) for column in correlated_columns(select)} if calls else ()
        calls = [
            call for call in calls if not any(id(column) in correlated for column in every(call, exp.Column))
        ]
        if calls:
            try:
                found = ask(_call_types_query(select, calls))
            except QueryError:
                if correlated:
                    continue  # its relations are correlated, too
                raise
            for place, call in enumerate(calls):
                call.meta[_TYPES] = Types(*map(str, found[place * 4 : place * 4 + 4]))
    find_ties(tree, ask)


def find_ties(tree: exp.Query, ask: QueryRunner) -> None:
    """Stores what breaks ties of each ROW_NUMBER, MIN_BY and MAX_BY, and of versions of one time, as meta data of the tree.

    Args:
        tree: a query whose streams are marked.

    Raises:
        QueryError: the order would need a MAP, which can't be ordered or hashed.
    """
    for lateral in every(tree, exp.Lateral):
        if (versions := hints.versions_as_of(lateral)) is not None:
            row = _row_type(exp.select("*").from_(versions.table.copy()), [exp.Star()], ask)
            if row is not None and has_map(row):
                hints.note_version_type(lateral, row)
    _find_order_of_extremes(tree, ask)
    with_over = {id(window.parent_select) for window in every(tree, exp.Window)}
    for select in every(tree, exp.Select):
        if id(select) not in with_over:
            continue
        if tie_breaking.breaks_ties_by_all_values(select) and not is_printed_by_macro(select):
            terms = [
                each if each.is_star else exp.alias_(each, f"__{number}")
                for number, each in enumerate(tie_breaking.tie_breaking_values(select))
            ]
            tie_breaking.note_term_types(select, _row_type(select, terms, ask))
        split = _is_in_split_topn(select) and hints.reads_stream(select)
        kinds = _RANKS if split else (exp.RowNumber,)
        if not _ranks_rows(select, kinds):
            continue
        row = _row_type(select, tie_breaking.items_without_over(select), ask)
        if row is None or not has_map(row):
            continue
        if split:
            raise QueryError(
                f"split_topn puts rows into buckets by a hash of them, and Spark has none of a MAP, which "
                f"{_field_with_map(row)} is or holds; select it as map_entries(…), or leave split_topn out."
            )
        if is_grouped(select):
            raise QueryError(
                f"ROW_NUMBER() and GROUP BY are in one SELECT. Its column {_field_with_map(row)} is or holds a MAP, "
                "which can't be ordered to break ties; put the GROUP BY into a subquery in FROM and rank its rows: then the "
                "entries of the MAP break ties."
            )
        tie_breaking.note_item_types(select, row)


def _find_order_of_extremes(tree: exp.Query, ask: QueryRunner) -> None:
    for call in tie_breaking.extremes_with_ties(tree):
        select = call.parent_select
        assert select is not None
        try:
            (kind,) = ask(types_query(select_over_same_relations(select), [f"ANY_VALUE({sql(call.this)})"]))
        except QueryError:
            continue  # correlated, or Spark rejects the query itself
        tie_breaking.note_map_order(call, str(kind))


def _is_in_split_topn(select: exp.Select) -> bool:
    """Whether a ``split_topn`` hint applies: on this SELECT or on one around it."""
    return any("split_topn" in each.meta for each in (select, *selects_around(select)))


def _field_with_map(row: str) -> str:
    """Name of a struct's first field that is or holds a MAP."""
    return next((name for name, kind in struct_fields(row) or () if has_map(kind)), "a column")


def _ranks_rows(select: exp.Select, kinds: tuple[type[exp.Expr], ...]) -> bool:
    """Whether a SELECT ranks its input rows, and otherwise only selects values of single rows."""
    numbers = (window for window in every(select, exp.Window) if isinstance(window.this, kinds))
    if not any(window.parent_select is select for window in numbers):
        return False
    items = tie_breaking.items_without_over(select)
    others = {item.alias.lower() for item in select.expressions if holds(item, exp.Window)}
    if not items or any(makes_rows(node) for item in items for node in every(item, exp.Func, exp.UDTF)):
        return False
    return not any(column.name.lower() in others for item in items for column in every(item, exp.Column))


def _typed_calls(select: exp.Select) -> Iterator[exp.Expr]:
    for clause in (*select.expressions, select.args.get("having"), select.args.get("order")):
        for node in walk_same_query(clause) if clause is not None else ():
            if isinstance(node, exp.AggFunc) and function_name(node) in TYPED and len(arguments(node)) == 1:
                if not is_over(node) or _is_over_input_rows(node, select):
                    yield node


def _is_over_input_rows(call: exp.Expr, select: exp.Select) -> bool:
    """Whether the function of an OVER is applied to input columns, not to other select items, and its author wrote it, not a
    windowing macro."""
    if any(map(hints.window_of, (select, *selects_around(select)))):
        return False
    aliases = {item.alias.lower() for item in select.expressions if item.alias}
    (argument,) = arguments(call)
    names = {column.name.lower() for column in every(argument, exp.Column) if not column.table}
    return not names & aliases and argument.find(exp.AggFunc) is None


def _call_types_query(select: exp.Select, calls: Sequence[exp.Expr]) -> str:
    values: list[str] = []
    for call in calls:
        argument = sql(arguments(call)[0])
        total = f"SUM({argument})"
        values += (sql(call), total, f"{total} / COUNT({argument})", f"ANY_VALUE({argument})")
    return types_query(select_over_same_relations(select), values)


def _row_type(select: exp.Select, items: Sequence[exp.Expr], ask: QueryRunner) -> str | None:
    """Returns the type of items over the input of a SELECT, as a struct. None if Spark rejects the query."""
    listed = select_over_same_relations(select).select(*(item.copy() for item in items), copy=False)
    for clause in ("group", "having") if is_grouped(select) else ():
        if (value := select.args.get(clause)) is not None:
            listed.set(clause, value.copy())
    try:
        (found,) = ask(types_query(exp.select().from_(listed.subquery("listed")), ["struct(*)"]))
    except QueryError:
        return None  # Spark reports the error for the query itself
    return str(found)


def types_query(read: exp.Select, values: Sequence[str]) -> str:
    """Returns a query of one row with the types of values over the input of a SELECT.

    Spark answers it while planning, without a job: types are constants, and the left join on FALSE reads no rows. An
    aggregate over no rows would need a job (2 seconds in a new process).

    Args:
        read: a SELECT without items. It is changed.
        values: SQL of aggregates, or of values of its rows.

    >>> for part in types_query(exp.select().from_("orders"), ["SUM(v)"]).split(" LEFT JOIN "):
    ...     print(part)
    SELECT TYPEOF(__value_0) FROM VALUES (1) AS one(row)
    (SELECT SUM(v) AS __value_0 FROM orders WHERE FALSE) AS asked ON FALSE
    """
    # Inserted as text: parsing them would take longer than all the rest.
    read.set("expressions", [exp.Var(this=f"{value} AS __value_{n}") for n, value in enumerate(values)])
    over_no_rows = sql(read.where(exp.false(), copy=False))
    kinds = ", ".join(f"TYPEOF(__value_{n})" for n in range(len(values)))
    return f"SELECT {kinds} FROM VALUES (1) AS one(row) LEFT JOIN ({over_no_rows}) AS asked ON FALSE"
