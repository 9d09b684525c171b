"""Translates patterns of SIMILAR TO to regular expressions."""

from __future__ import annotations

import re

_OUTSIDE = {"%": ".*", "_": ".", ".": "[.]", "$": "[$]", "^": "\\^", "\\": "\\\\"}
_INSIDE = {"\\": "\\\\"}


def regular_expression(pattern: str) -> str | None:
    """Returns the regular expression of a pattern; None if there is none.

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
    expression = f"(?s)^(?:{''.join(found)})$"
    try:
        re.compile(expression)
    except re.error:
        return None
    return expression
