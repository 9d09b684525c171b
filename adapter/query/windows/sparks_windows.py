"""Finds the macro that does what Spark's ``window()`` in a GROUP BY does."""

from __future__ import annotations

from sqlglot import exp

from ..sql.dialect import function_name, sql


def is_window(key: exp.Expr) -> bool:
    """Whether a key of GROUP BY is Spark's ``window()``."""
    return isinstance(key, exp.Func) and function_name(key) == "window"


def macro_for(call: exp.Expr) -> str:
    """Returns a FROM and a GROUP BY that are the same windows as ``window()``.

    >>> from ..sql.dialect import parse
    >>> def shown(text):
    ...     return macro_for(parse(f"select {text}").expressions[0])
    >>> shown("window(ts, '10 minutes')")
    "FROM {{ tumble(relation, 'ts', '10 minutes') }} … GROUP BY window_start, window_end"
    >>> shown("window(o.ts, '10 minutes', '5 minutes')")
    "FROM {{ hop(relation, 'ts', '5 minutes', '10 minutes') }} … GROUP BY window_start, window_end"
    >>> shown("window(ts, '1 day', '1 day', '6 hours')")
    "FROM {{ tumble(relation, 'ts', '1 day', offset='6 hours') }} … GROUP BY window_start, window_end"
    >>> shown("window(cast(v as timestamp), '1 day')")
    "FROM {{ tumble(relation, 'time_column', '1 day') }} … GROUP BY window_start, window_end"
    """
    time, *lengths = call.expressions
    size, slide, offset = [*map(sql, lengths), "", "", ""][:3]
    column = time.name if isinstance(time, exp.Column) else "time_column"
    of_windows = f"'{column}', {slide}, {size}" if slide not in ("", size) else f"'{column}', {size}"
    kind = "hop" if slide not in ("", size) else "tumble"
    more = f", offset={offset}" if offset else ""
    return f"FROM {{{{ {kind}(relation, {of_windows}{more}) }}}} … GROUP BY window_start, window_end"
