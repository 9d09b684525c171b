"""The types of sums and averages, as Spark says them: asked before a tree is taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from . import hints, tie_breaking
from .aggregates import TYPED, Types
from .clauses import is_over
from .dialect import DIALECT, arguments, function_name, read_alone, sql, walk_same_query
from .errors import QueryError
from .functions import QueryRunner, makes_rows
from .grouping import find_columns
from .unwindowed.select_kind import is_grouped

_TYPES = "types"


def types_of(call: exp.Expr) -> Types | None:
    """What Spark said of a call; None: it wasn't asked."""
    found: Types | None = call.meta_get(_TYPES)
    return found


def find_types(tree: exp.Query, ask: QueryRunner) -> None:
    """Notes of each SELECT over a stream the types of its sums and averages, and which names in GROUP BY are columns.
    Changes no text.

    Args:
        tree: in which streams are marked.
        ask: carries out a query of one row.
    """
    for select in tree.find_all(exp.Select):
        if not any(hints.is_stream(table) for table in select.find_all(exp.Table)):
            continue
        find_columns(select, ask)
        if calls := list(_calls(select)):
            found = ask(_question(select, calls))
            for place, call in enumerate(calls):
                call.meta[_TYPES] = Types(*map(str, found[place * 4 : place * 4 + 4]))
    find_ties(tree, ask)


def find_ties(tree: exp.Query, ask: QueryRunner) -> None:
    """Notes of each SELECT over a stream what ties of its ROW_NUMBER go by. Changes no text.

    Args:
        tree: in which streams are marked.
        ask: carries out a query of one row.
    """
    for select in tree.find_all(exp.Select):
        if any(map(hints.is_stream, select.find_all(exp.Table))) and _numbers_rows(select):
            _find_ties(select, ask)


def _numbers_rows(select: exp.Select) -> bool:
    """Whether it has a ROW_NUMBER over the rows that it reads, and other values beside it that are theirs alone."""
    items = tie_breaking.listed(select)
    others = {item.alias.lower() for item in select.expressions if item.find(exp.Window)}
    if not items or is_grouped(select) or any(makes_rows(node) for item in items for node in item.walk()):
        return False
    if any(column.name.lower() in others for item in items for column in item.find_all(exp.Column)):
        return False
    numbers = (window for window in select.find_all(exp.Window) if isinstance(window.this, exp.RowNumber))
    return any(window.parent_select is select for window in numbers)


def _calls(select: exp.Select) -> Iterator[exp.Expr]:
    for clause in (*select.expressions, select.args.get("having"), select.args.get("order")):
        for node in walk_same_query(clause) if clause is not None else ():
            if isinstance(node, exp.AggFunc) and function_name(node) in TYPED and len(arguments(node)) == 1:
                if not is_over(node) or _is_of_rows(node, select):
                    yield node


def _is_of_rows(call: exp.Expr, select: exp.Select) -> bool:
    """Whether the function of an OVER is one of what FROM reads, not of other values of the select list; and written by
    the query's author, not for a window function."""
    around: exp.Expr | None = select
    while around is not None:
        if hints.window_of(around):
            return False
        around = around.find_ancestor(exp.Select)
    aliases = {item.alias.lower() for item in select.expressions if item.alias}
    (argument,) = arguments(call)
    names = {column.name.lower() for column in argument.find_all(exp.Column) if not column.table}
    return not names & aliases and argument.find(exp.AggFunc) is None


def _question(select: exp.Select, calls: Sequence[exp.Expr]) -> str:
    values: list[str] = []
    for call in calls:
        argument = sql(arguments(call)[0])
        total = f"sum({argument})"
        values += (sql(call), total, f"{total} / count({argument})", f"any_value({argument})")
    return question(read_alone(select), values)


def _find_ties(select: exp.Select, ask: QueryRunner) -> None:
    """Notes the types of a select list without ranks, which ties go by."""
    items = [item.copy() for item in tie_breaking.listed(select)]
    rows = read_alone(select).select(*items, copy=False).subquery("listed")
    try:
        (found,) = ask(question(exp.select().from_(rows), ["struct(*)"]))
    except QueryError:
        return  # Spark says the same, or not, of the query itself
    tie_breaking.note_types(select, str(found))


def question(read: exp.Select, values: Sequence[str]) -> str:
    """A query of one row: the types of values over what a SELECT reads.

    Spark answers it while it plans, without a job: types are constants, and a join that nothing fulfils needs no rows. An
    aggregate of no rows would take one, which in a new process is 2 seconds.

    Args:
        read: a SELECT of nothing yet. Is changed.
        values: SQL of aggregates, or of values of its rows.
    """
    names = [f"__value_{number}" for number in range(len(values))]
    for name, value in zip(names, values, strict=True):
        read.select(f"{value} as {name}", dialect=DIALECT, copy=False)
    made = exp.select(*(f"typeof({name})" for name in names), dialect=DIALECT)
    made = made.from_("values (1) as one(row)", dialect=DIALECT)
    return sql(made.join(read.where("false").subquery("asked"), on="false", join_type="left"))
