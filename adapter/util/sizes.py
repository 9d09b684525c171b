"""Parses sizes of memory and files."""

from __future__ import annotations

import re
from typing import Any

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(text: Any, plain: int = 1) -> int | None:
    """Returns a size in bytes, or None if the text isn't a size.

    Args:
        plain: the unit of a number without one, in bytes.

    >>> parse_size("64 MB"), parse_size("1g"), parse_size(4096), parse_size("16384", plain=1 << 20), parse_size("large")
    (67108864, 1073741824, 4096, 17179869184, None)
    """
    found = _SIZE.fullmatch(str(text).strip())
    return int(found[1]) * _UNITS.get(found[2].lower(), plain) if found else None
