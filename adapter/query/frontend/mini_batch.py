"""``/*+ MINI_BATCH('5 seconds', 10000) */``: limits a micro-batch's duration or number of rows.

It changes when results are emitted, not their rows. So it is removed before planning, and a state continues whether
the hint is present or not. Spark ignores it.

>>> from ..sql.dialect import parse, sql
>>> text = "select /*+ MINI_BATCH('5 seconds', 10000) */ a from b"
>>> tree = parse(text)
>>> take_hint(tree, text)
MiniBatch(latency=5000000, rows=10000)
>>> sql(tree)
'SELECT a FROM b'
"""

from __future__ import annotations

from sqlglot import exp

from ..errors import QueryError
from ..program import MiniBatch
from ..sql import intervals
from ..sql.dialect import parse, sql
from . import hints

NAME = "MINI_BATCH"
_INSTEAD = "Write how long, how many rows, or both: /*+ MINI_BATCH('5 seconds', 10000) */"


def take_hint(tree: exp.Expr, text: str) -> MiniBatch | None:
    """Removes the hint from a tree and returns it. None if there is none. Must run before WITH is inlined.

    Raises:
        QueryError: the hint occurs twice, can't be read, or is where it has no effect.
    """
    found = [hint for _, hint in hints.take_hints(tree, _is_mini_batch)]
    if len(found) > 1:
        listed = " and ".join(map(_hint_text, found))
        raise QueryError(
            f"The query has {len(found)} hints {NAME}, {listed}; it is one stream, so write one."
        )
    hints.check_hint_places(NAME, f"{NAME}('5 seconds', 10000)", len(found), text)
    return _parse_hint(found[0]) if found else None


def check_hint(text: str) -> None:
    """Raises if a text has a hint that can't be read."""
    if NAME not in text.upper():
        return
    try:
        tree = parse(text)
    except QueryError:
        return  # Spark reports it
    take_hint(tree, text)


def _is_mini_batch(hint: exp.Expr | str) -> bool:
    name = hint.name if isinstance(hint, exp.Anonymous | exp.Var) else str(hint).partition("(")[0]
    return name.strip().upper() == NAME


def _hint_text(hint: exp.Expr | str) -> str:
    return hint if isinstance(hint, str) else sql(hint)


def _parse_hint(hint: exp.Expr | str) -> MiniBatch:
    shown = _hint_text(hint)
    arguments = hint.expressions if isinstance(hint, exp.Anonymous) else []
    if isinstance(hint, str) or len(arguments) > 2:
        raise QueryError(f"The hint {shown} can't be read. {_INSTEAD}.")
    if not arguments:
        raise QueryError(f"The hint {shown} has no arguments. {_INSTEAD}.")
    latency = rows = None
    for argument in arguments:
        if isinstance(argument, exp.Interval) or (isinstance(argument, exp.Literal) and argument.is_string):
            if latency is not None:
                raise QueryError(f"The hint {shown} has two lengths of time. {_INSTEAD}.")
            latency = _latency(argument, shown)
        else:
            if rows is not None:
                raise QueryError(f"The hint {shown} has two numbers of rows. {_INSTEAD}.")
            rows = _row_limit(argument, shown)
    return MiniBatch(latency, rows)


def _latency(argument: exp.Expr, shown: str) -> int:
    text = argument.name if isinstance(argument, exp.Literal) else sql(argument)
    latency = intervals.parse(text, f"In the hint {shown},")
    if latency <= 0:
        raise QueryError(f"The hint {shown} has no time in it: '{text}' must be longer than zero.")
    return latency


def _row_limit(argument: exp.Expr, shown: str) -> int:
    text = sql(argument)
    if not text.isdigit() or not int(text):
        raise QueryError(
            f"The hint {shown} has '{text}' for the number of rows; it must be a whole number of at least 1."
        )
    return int(text)
