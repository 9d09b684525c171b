"""Values as literals of Spark SQL."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any


def literal(value: Any) -> str:
    r"""A value as a literal of Spark SQL.

    >>> literal("it's"), literal(None), literal(Decimal("1.50")), literal(True)
    ("'it\\'s'", 'null', '1.50', 'true')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, Decimal)):
        # Not through float: 2**53 + 1 is a number too.
        return format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, float):
        return f"double('{value!r}')"
    if isinstance(value, (datetime.datetime, datetime.date)):
        value = value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
