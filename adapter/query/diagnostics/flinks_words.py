"""Finds Flink's syntax and names what to write instead."""

from __future__ import annotations

import re

from sqlglot import exp

from ..errors import QueryError
from ..sql.nodes import every
from ..windows.windows import KINDS

_OF_A_TABLE = re.compile(rf"\b({'|'.join(KINDS)})\s*\(\s*(table\s|data\s*=>)", re.IGNORECASE)
_CALLS = {f"{kind}{end}": kind for kind in KINDS for end in ("", "_start", "_end", "_rowtime")}


def check(text: str, tree: exp.Expr | None) -> None:
    """Raises if a text uses Flink's syntax.

    Args:
        text: the text.
        tree: its tree. None if it doesn't parse.

    Raises:
        QueryError: it does; says what to write instead.
    """
    if tree is None:
        if (found := _OF_A_TABLE.search(text)) is not None:
            raise _macro(found[1].lower())
        return
    for call in every(tree, exp.Anonymous):
        if call.name.upper() == "STATE_TTL" and call.find_ancestor(exp.Hint):
            raise QueryError(
                "The hint STATE_TTL is Flink's, and isn't read here: write config state_ttl='1 day', which holds for the "
                "whole model."
            )
        kind = _CALLS.get(call.name.lower())
        if kind is not None and call.find_ancestor(exp.Hint) is None:
            raise _macro(kind)


def _macro(kind: str) -> QueryError:
    lengths = "'10 minutes'" if kind in ("tumble", "session") else "'10 minutes', '1 hour'"
    return QueryError(
        f"{kind}() is a macro here: write FROM {{{{ {kind}(relation, 'time_column', {lengths}) }}}}, with GROUP BY "
        "window_start, window_end where rows are grouped."
    )
