"""Finds the windowing macro that corresponds to Spark's ``window()`` in a GROUP BY."""

from __future__ import annotations

from sqlglot import exp

from ..sql.dialect import function_name, sql


def is_spark_window(key: exp.Expr) -> bool:
    """Whether a key of GROUP BY is Spark's ``window()``."""
    return isinstance(key, exp.Func) and function_name(key) == "window"


def macro_for(call: exp.Expr) -> str:
    """Returns the call of a macro that gives the windows of ``window()``.

    >>> from ..sql.dialect import parse
    >>> def shown(text):
    ...     return macro_for(parse(f"select {text}").expressions[0])
    >>> shown("window(ts, '10 minutes')"), shown("window(o.ts, '10 minutes', '5 minutes')")
    ("tumble(relation, 'ts', '10 minutes')", "hop(relation, 'ts', '5 minutes', '10 minutes')")
    >>> shown("window(ts, '1 day', '1 day', '6 hours')"), shown("window(date(ts), '1 day')")
    ("tumble(relation, 'ts', '1 day', offset='6 hours')", "tumble(relation, 'time_column', '1 day')")
    """
    time, *lengths = call.expressions
    size, slide, offset = [*map(sql, lengths), "", "", ""][:3]
    column = time.name if isinstance(time, exp.Column) else "time_column"
    more = f", offset={offset}" if offset else ""
    if slide not in ("", size):
        return f"hop(relation, '{column}', {slide}, {size}{more})"
    return f"tumble(relation, '{column}', {size}{more})"
