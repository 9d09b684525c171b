"""Names for columns of state, made from what the user wrote, so that the state can be read.

>>> names = Names({"window_start"})
>>> names.new("COUNT(DISTINCT device_id) FILTER(WHERE channel = 'A')")
'count_distinct_device_id_where_channel_a'
>>> names.new("window_start")
'window_start_2'
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_LONGEST = 60


class Names:
    """Hands out names that differ in more than case, and avoids reserved ones."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = {name.lower() for name in reserved}

    def new(self, text: str) -> str:
        """A name for a piece of SQL; the same text gives the same name in an equal query."""
        slug = text.lower().replace("count(*)", "count_all").replace("filter(where", " where ")
        slug = re.sub(r"[^a-z0-9]+", "_", slug).strip("_") or "expression"
        if len(slug) > _LONGEST:
            digest = hashlib.sha256(text.encode()).hexdigest()[:8]
            slug = f"{slug[: _LONGEST - 9].rstrip('_')}_{digest}"
        name, number = slug, 1
        while name in self._taken:
            number += 1
            name = f"{slug}_{number}"
        self._taken.add(name)
        return name
