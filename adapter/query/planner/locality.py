"""Checks that a SELECT over results of windows stays within one window.

Such a query groups, ranks and joins by ``window_end``, so it can be evaluated on the windows that have just
closed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ..aggregates.grouping import grouping
from ..errors import NotWithinWindows, QueryError
from ..sql.clauses import conjuncts, first_aggregate, is_semi_or_anti, left_out
from ..sql.dialect import arguments, sql
from ..sql.nodes import every
from ..windows.window_columns import Columns, FromRelation, in_each_row, window_column


def _in_each_row(sources: Sequence[FromRelation]) -> list[FromRelation]:
    """Returns the relations that have a row in each row of the join."""
    there = in_each_row([source.join for source in sources])
    return [source for source, is_there in zip(sources, there, strict=True) if is_there]


def window_key(node: exp.Expr, sources: Sequence[FromRelation]) -> str | None:
    """Returns the window column that an expression equals in each row; None if there is none, or if it may be
    NULL."""
    if isinstance(node, exp.Column) and not node.table:
        return window_column(node, sources)  # a column that USING merges
    return window_column(node, _in_each_row(sources)) or _coalesced_window_column(node, sources)


def output_columns(select: exp.Select, sources: Sequence[FromRelation]) -> dict[str, str]:
    """Returns the window columns that a SELECT passes on.

    >>> from ..sql.dialect import parse
    >>> select = parse("select w.window_end as at, w.n from windows as w")
    >>> output_columns(select, [FromRelation("w", select, "", {"window_end": "window_end"})])
    {'at': 'window_end'}
    """
    found: dict[str, str] = {}
    there = _in_each_row(sources)
    for item in select.expressions:
        column = item.unalias()
        if isinstance(column, exp.Star):
            for source in there:
                found.update(_star_columns(column, source.window_columns))
        elif isinstance(column, exp.Column) and isinstance(column.this, exp.Star):
            for source in there:
                if source.alias.lower() == column.table.lower():
                    found.update(_star_columns(column.this, source.window_columns))
        elif kind := window_key(column, sources):
            found[item.alias_or_name.lower()] = kind
    return found


def _star_columns(star: exp.Expr, columns: Columns) -> dict[str, str]:
    """Returns the columns that a star passes on unchanged."""
    others = left_out(star)
    return {name: what for name, what in columns.items() if name.lower() not in others}


def _coalesced_window_column(node: exp.Expr, sources: Sequence[FromRelation]) -> str | None:
    """Returns the window column whose values from several sources are coalesced, as after an outer join; None
    for other expressions."""
    if not isinstance(node, exp.Coalesce):
        return None
    kinds = {window_column(each, sources) for each in arguments(node)}
    return kinds.pop() if len(kinds) == 1 else None


def check(select: exp.Select, sources: Sequence[FromRelation], outputs: Columns) -> None:
    """Raises unless all operators of a SELECT stay within one window.

    Args:
        select: a SELECT over results of windows.
        sources: its relations.
        outputs: the result of `output_columns`.

    Raises:
        QueryError: one doesn't; the message says how to change it.
    """
    check_ranks(select, sources)
    if limit := select.args.get("limit") or select.args.get("fetch") or select.args.get("offset"):
        raise QueryError(
            f"'{sql(limit).strip()}' cuts off rows across windows; to keep the first rows of each window, filter on "
            "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY …)."
        )
    group = select.args.get("group")
    if group and not _groups_by_window(select, sources):
        raise NotWithinWindows(
            f"'{sql(group).strip()}' groups rows of different windows together; add window_start, window_end to it "
            "as they are, to each set of it where it has several."
        )
    if not group and (select.args.get("having") or first_aggregate(select) is not None):
        raise QueryError(
            "An aggregate over window results without GROUP BY mixes windows; add GROUP BY window_start, window_end."
        )
    if select.args.get("distinct") and "window_end" not in outputs.values():
        raise QueryError(
            "SELECT DISTINCT over window results mixes windows; put window_end into the select list."
        )
    for source in sources:
        if source.join is not None:
            _check_join(source, sources)


def _groups_by_window(select: exp.Select, sources: Sequence[FromRelation]) -> bool:
    """Whether each group of a GROUP BY, in each grouping set, belongs to one window. An expression computed
    from the window's end doesn't count, since it may be equal for several windows."""
    found = grouping(select)
    ends = {place for place, key in enumerate(found.keys) if window_key(key, sources) == "window_end"}
    return bool(ends) if found.sets is None else all(ends & {*keys} for keys in found.sets)


def check_ranks(select: exp.Select, sources: Sequence[FromRelation]) -> None:
    """Raises `NotWithinWindows` unless the OVER clauses of a SELECT are partitioned by ``window_end``."""
    for item in [*select.expressions, select.args.get("qualify")]:
        for window in every(item, exp.Window) if item else ():
            if not any(
                window_key(key, sources) == "window_end" for key in window.args.get("partition_by") or ()
            ):
                raise NotWithinWindows(
                    f"'{sql(window)}' ranks rows of different windows together; write PARTITION BY "
                    "window_start, window_end, ….",
                )


def _check_join(source: FromRelation, sources: Sequence[FromRelation]) -> None:
    """Raises `QueryError` unless a relation's join with those before it stays within one window."""
    join = source.join
    assert join is not None
    before = sources[: list(sources).index(source)]
    results = [other for other in before if other.kind == "result"]
    side = (join.side or "").upper()
    if source.kind != "result":
        if results and (side in ("RIGHT", "FULL")):
            raise QueryError(
                f"{side} JOIN keeps every row of '{source.alias}', which is not a stream, in every window; "
                "make it a LEFT JOIN with the window result on the left."
            )
        return
    if not results:
        if side in ("LEFT", "FULL") and not is_semi_or_anti(join):
            raise QueryError(
                f"{side} JOIN keeps every row of '{before[0].alias}', which is not a stream, in every window; "
                "put the window result on the left."
            )
        return
    for column in join.args.get("using") or ():
        name = exp.column(column.name)
        if window_column(name, [source]) == window_column(name, before) == "window_end":
            return
    for test in conjuncts(join.args.get("on")):
        if isinstance(test, exp.EQ | exp.NullSafeEQ):
            left, right = test.this, test.expression
            for own, other in ((left, right), (right, left)):
                if window_column(own, [source]) == window_column(other, before) == "window_end":
                    return
    raise QueryError(
        f"The join with '{source.alias}' compares rows of different windows; add "
        "ON a.window_start = b.window_start AND a.window_end = b.window_end."
    )
