"""Lines of a log: plain, or JSON objects of the form of dbt's for ``--log-format json``."""

from __future__ import annotations

import json
from datetime import datetime, timezone


def log_line(text: str, as_json: bool, level: str = "info") -> str:
    """Returns a line of a log.

    >>> log_line("stopped", as_json=False)
    'stopped'
    >>> json.loads(log_line("stopped", as_json=True))["info"]["msg"]
    'stopped'
    """
    if not as_json:
        return text
    now = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
    return json.dumps({"data": {}, "info": {"level": level, "msg": text, "name": "DbtStream", "ts": now}})
