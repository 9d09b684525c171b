"""Derives the columns that identify a row of a query over windows, so that a changed row finds the one it replaces.

Each column has an origin: a window column its name, a group key of a window operator ``operator.key``. The *unique*
set of a query has the origins that identify its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from ..aggregates.grouping import grouping
from ..errors import MissingKeyError, QueryError
from ..sql.clauses import is_semi_or_anti, output_column_of
from ..sql.dialect import arguments, canonical, unambiguous_names
from ..sql.functions import makes_rows
from ..sql.nodes import every, holds
from ..windows.window_columns import Columns, FromRelation
from .time_conditions import conditions

Unique = frozenset[str] | None
"""Origins that identify a row; None if nothing does."""

_END = "window_end"


def unique_origins(select: exp.Select, sources: Sequence[FromRelation], outputs: dict[str, str]) -> Unique:
    """Returns the origins that identify a row of a SELECT over results of windows; None if nothing does. Adds to `outputs`
    (column → origin) the columns that the SELECT computes."""
    if select.args.get("group") or select.args.get("distinct"):
        return unique_origins_of_groups(select, outputs)
    found: set[str] = set()
    repeated: set[str] = set()
    for source in sources:
        if source.kind == "result" and not (source.join is not None and is_semi_or_anti(source.join)):
            if source.unique is None:
                return unique_origins_of_ranking(select, outputs)
            repeated |= found & source.unique
            found |= source.unique
    # A relation that is joined with itself has each origin twice, with equal values only if the join equates them.
    return (
        frozenset(found)
        if repeated <= equated_origins(select, sources)
        else unique_origins_of_ranking(select, outputs)
    )


def equated_origins(select: exp.Select, sources: Sequence[FromRelation]) -> set[str]:
    """Returns the origins of columns that a SELECT's join conditions equate between two relations."""
    columns = {source.alias.lower(): source.window_columns for source in sources}
    found = {
        columns[alias][name.name.lower()]
        for join in select.args.get("joins") or ()
        for name in join.args.get("using") or ()
        for alias in columns
        if name.name.lower() in columns[alias]
    }
    for test in conditions(select):
        sides = (test.this, test.expression) if isinstance(test, exp.EQ | exp.NullSafeEQ) else ()
        carried = [
            columns.get(side.table.lower(), {}).get(side.name.lower())
            for side in sides
            if isinstance(side, exp.Column)
        ]
        if len(carried) == 2 and carried[0] == carried[1] and carried[0] is not None:
            found.add(carried[0])
    return found


def unique_origins_of_groups(select: exp.Select, outputs: dict[str, str]) -> Unique:
    """Returns the origins that identify a row of a grouped SELECT: its columns that aren't aggregates, or all columns for
    DISTINCT. None if they don't identify a group, for example because a key isn't selected."""
    if any(item.is_star for item in select.expressions) or not _identifies_groups(select):
        return None
    items = select.expressions
    if not select.args.get("distinct"):
        items = [item for item in items if _is_grouping_id(item) or not item.find(exp.AggFunc)]
    names = [item.alias_or_name.lower() for item in items]
    return frozenset(outputs.setdefault(name, f"group.{name}") for name in names)


def _identifies_groups(select: exp.Select) -> bool:
    """Whether no two rows of a grouped SELECT are equal in all columns that aren't aggregates."""
    if select.args.get("distinct") or not select.args.get("group"):
        return True  # all columns, or one row
    groups = grouping(select)
    same = unambiguous_names(select)
    shown = {canonical(item.unalias(), same) for item in select.expressions}
    if any(canonical(key, same) not in shown and not isinstance(key, exp.Literal) for key in groups.keys):
        return False
    if groups.sets is None or len(groups.sets) == 1:
        return True
    # A key may be NULL because its value is, or because the grouping set doesn't have it.
    ids = [item.unalias() for item in select.expressions if _is_grouping_id(item)]
    if not any(len(arguments(each)) in (0, len(groups.keys)) for each in ids):
        return False
    return len({frozenset(members) for members in groups.sets}) == len(groups.sets)


def multiplies_rows(query: exp.Query) -> bool:
    """Whether the query may turn one row into several."""
    return holds(query, exp.Lateral, exp.Pivot) or any(map(makes_rows, every(query, exp.Func, exp.UDTF)))


def _is_grouping_id(item: exp.Expr) -> bool:
    """Whether a select item is the number of the grouping set."""
    return isinstance(item.unalias(), exp.GroupingId)


def unique_origins_of_ranking(select: exp.Select, outputs: dict[str, str]) -> Unique:
    """Returns the origins that identify a row of a SELECT with ROW_NUMBER in windows: the window's end, the row number, and
    its partition keys.
    None if a partition key isn't selected, or there is no row number."""
    for item in select.expressions:
        rank = item.unalias()
        if not (isinstance(rank, exp.Window) and isinstance(rank.this, exp.RowNumber)):
            continue
        name = item.alias_or_name.lower()
        found = {_END, outputs.setdefault(name, f"rank.{name}")}
        for key in rank.args.get("partition_by") or ():
            if (shown := output_column_of(select, key)) is None:
                return None
            found.add(outputs.setdefault(shown, f"column.{shown}"))
        return frozenset(found)
    return None


def missing_key_error(outputs: Columns, unique: Unique, names: Mapping[str, str]) -> QueryError | None:
    """Returns the error about a query whose columns don't identify a row of the model's table; None if they do.

    Args:
        outputs: column → its origin.
        unique: origins that identify a row.
        names: origin → its name in a message, for origins that may lack a column.
    """
    if unique is None:
        return QueryError(
            "Nothing identifies a row of this query, so a result that changes couldn't find the row it replaces; group "
            "or rank (ROW_NUMBER() = 1 …) it, or leave out early firing, late_updates and output_mode 'upsert'."
        )
    missing = sorted(unique - {*outputs.values()}, key=_origin_sort_key)
    if not missing:
        return None
    listed = ", ".join(names.get(name, name.partition(".")[2] or name) for name in missing)
    return MissingKeyError(
        f"Results that change need to find the rows they replace: put {listed} into the select list."
    )


def key_columns(outputs: Columns, unique: Unique) -> tuple[str, ...]:
    """Returns the columns of the model's table that identify a row, if there are any (`missing_key_error`)."""
    found = {carried: column for column, carried in reversed(list(outputs.items()))}
    return tuple(found[name] for name in sorted(unique or (), key=_origin_sort_key))


def _origin_sort_key(origin: str) -> tuple[bool, str, str]:
    """Returns a sort key for origins: group keys come first, by name rather than by operator, then columns of windows.

    >>> sorted(["window_end", "window_f1.a", "window_01.b"], key=_origin_sort_key)
    ['window_f1.a', 'window_01.b', 'window_end']
    """
    operator, dot, name = origin.partition(".")
    return not dot, name, operator
