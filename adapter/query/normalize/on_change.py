"""Rewrites `emit='on_change'` as plain SQL: a GROUP BY over a growing window drops the groups without a new row at a step.

Window operators over slices find such steps on their own (`plan.state.sliced`). Elsewhere each row gets a flag that says
whether it is new at the step, and HAVING counts the flags.
"""

from __future__ import annotations

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..frontend.select_kind import is_grouped, write_distinct_as_group
from ..sql.clauses import first_aggregate, is_semi_or_anti, is_star_over
from ..sql.dialect import parse
from ..sql.nodes import copied, every
from ..windows.windows import OPTIONS, Window
from .names import ctes

EMIT = "on_change"
NEW = "__new_row"
_ROWS, _SLICE, _FIRST = "__steps", "__slice_end", "__first_end"


def drop_unchanged_steps(tree: exp.Query) -> exp.Query:
    """Returns a copy of a tree in which each GROUP BY over on_change windows drops steps without new rows. CTEs are
    inlined if there are any such windows.

    Raises:
        QueryError: something else than a GROUP BY reads the rows of such a window.

    >>> from ..sql.dialect import sql
    >>> from ..windows.expansion import expand_window
    >>> from ..windows.window_arguments import make_window
    >>> steps = expand_window("t", make_window("cumulate", "ts", "1 minute", "1 hour", emit="on_change"))
    >>> made = drop_unchanged_steps(parse(f"select window_end, k, count(*) from {steps} group by window_end, k"))
    >>> sql(made.args["having"]).strip()
    'HAVING COUNT(CASE WHEN `__new_row` THEN 1 END) > 0'
    """
    made = exp.Subquery(this=copied(tree))
    if any(is_on_change(over) for over in hints.windows_under(made)):
        ctes.inline_ctes(made.this)
        # Innermost first, because outer ones copy inner ones.
        for over in reversed(list(hints.windows_under(made))):
            if is_on_change(over):
                _drop_unchanged_steps_of(over, None)
    found: exp.Query = made.this
    return found.pop()


def drop_unchanged_steps_in_group(group: exp.Select) -> bool:
    """Rewrites the on_change windows that a GROUP BY reads. Returns whether there are any. Changes the tree."""
    found = [
        over for over in hints.windows_under(group) if is_on_change(over) and _group_by_over(over) is group
    ]
    for over in reversed(found):
        _drop_unchanged_steps_of(over, group)
    return bool(found)


def ungrouped_message(window: Window) -> str:
    """Returns the message about a window's rows that no GROUP BY reads."""
    return (
        f"{window.kind}() with emit='on_change' leaves out steps without new rows of a key, and only a GROUP BY over its "
        "rows has keys: group them by window_start, window_end, or leave emit out."
    )


def only_adds_flag(select: exp.Select) -> bool:
    """Whether a SELECT only adds the flag for new rows."""
    return any(
        isinstance(item, exp.Alias)
        and item.alias in (NEW, _SLICE, _FIRST)
        and not isinstance(item.this, exp.Column)
        for item in select.expressions
    )


def is_on_change(over: exp.Select) -> bool:
    """Whether a windowing TVF has ``emit='on_change'``."""
    window = hints.window_of(over)
    return window is not None and window.emit == EMIT


def _group_by_over(over: exp.Expr) -> exp.Select | None:
    """Returns the GROUP BY that reads a window's rows one by one. None if there is none."""
    for select in _selects_above(over):
        if is_grouped(select):
            return None if select.args.get("distinct") and select.is_star else select
        has_over = any(item.find(exp.Window) for item in select.expressions)
        if has_over or any(select.args.get(clause) for clause in ("limit", "qualify")):
            return None
    return None


def _selects_above(node: exp.Expr) -> list[exp.Select]:
    """Returns the SELECTs above a query that read its rows in FROM, innermost first."""
    found = []
    while isinstance(node.parent, exp.Subquery) and isinstance(node.parent.parent, exp.From):
        select = node.parent.parent.parent
        if not isinstance(select, exp.Select) or node.parent.args.get("joins"):
            break
        joins = select.args.get("joins") or ()
        if any((join.side or "").upper() not in ("", "LEFT") and not is_semi_or_anti(join) for join in joins):
            break
        found.append(select)
        node = select
    return found


def _drop_unchanged_steps_of(over: exp.Select, group: exp.Select | None) -> None:
    window, group = hints.window_of(over), group or _group_by_over(over)
    assert window is not None
    if group is None:
        raise QueryError(ungrouped_message(window))
    if group.args.get("distinct") and not group.args.get("group") and first_aggregate(group) is None:
        write_distinct_as_group(group)
    rows = over.copy()
    for hint in rows.args["hint"].expressions:
        if isinstance(hint, exp.Anonymous):
            said = [each for each in hint.expressions if not each.name.startswith(OPTIONS["emit"])]
            hint.set("expressions", said)
    told = parse(_new_flag_sql(window))
    next(every(told, exp.Table)).replace(rows.subquery(_ROWS, copy=False))
    node: exp.Expr = over
    for select in _selects_above(over):
        source = node.parent
        assert isinstance(source, exp.Subquery)
        column = exp.column(NEW, table=source.alias or None, quoted=True)
        if select is group:
            one = exp.Case(ifs=[exp.If(this=column, true=exp.Literal.number(1))])
            new = exp.Count(this=one, big_int=True) > 0
            having = select.args.get("having")
            test = exp.and_(having.this.copy(), new, copy=False) if having is not None else new
            select.set("having", exp.Having(this=test))
            break
        if not any(is_star_over(item, source.alias) for item in select.expressions):
            select.append("expressions", exp.alias_(column, NEW, quoted=True))
        node = select
    over.replace(told)


def _new_flag_sql(window: Window) -> str:
    """SQL of a window's rows, each with a flag that says whether it is new at the step."""
    slice_end = window.slice_end(window.micros(window.time))
    if not window.time_zone:
        return f"select *, window_end = {window.latest_instant(slice_end)} as {NEW} from {_ROWS}"
    # For a step that the time zone skips: the next existing one. Nested queries, because each expression is repeated
    # in the next.
    shown = f"least({window.first_end_after(f'({window.next_local_time(_SLICE)} - 1)')}, {window.last_end(_SLICE)})"
    return (
        f"select * except ({_SLICE}, {_FIRST}), window_end = {window.latest_instant(_FIRST)} as {NEW} from ("
        f"select *, {shown} as {_FIRST} from (select *, {slice_end} as {_SLICE} from {_ROWS}))"
    )
