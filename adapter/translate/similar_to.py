"""Writes patterns of SQL's SIMILAR TO as regular expressions."""

from __future__ import annotations

import re

_OUTSIDE = {"%": ".*", "_": ".", ".": "[.]", "$": "[$]", "^": "\\^", "\\": "\\\\"}
_INSIDE = {"\\": "\\\\"}


def regular_expression(pattern: str) -> str | None:
    """Returns a regular expression for the texts that are similar to a pattern. None for one that can't be written so.

    >>> regular_expression("4[0-9][0-9]"), regular_expression("a_%|b.c")
    ('(?s)^(?:4[0-9][0-9])$', '(?s)^(?:a..*|b[.]c)$')
    >>> regular_expression("[[:DIGIT:]]+"), regular_expression("[%]"), regular_expression("a[b")
    (None, None, None)
    """
    if any(word in pattern for word in ("[:", "[[", "&&", "\n")):
        return None
    found = []
    for part in re.split(r"(\[[^\]]*\])", pattern):
        is_set = part.startswith("[") and part.endswith("]")
        if is_set and ("%" in part or "_" in part):
            return None
        found.append("".join((_INSIDE if is_set else _OUTSIDE).get(char, char) for char in part))
    made = f"(?s)^(?:{''.join(found)})$"
    try:
        re.compile(made)
    except re.error:
        return None
    return made
