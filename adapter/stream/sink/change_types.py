"""The kinds of changes that a changelog has, and the number that each of its commits carries."""

from __future__ import annotations

from ...query.program import CHANGE_TYPE
from ..progress.position import PREFIX

INSERT, BEFORE, AFTER, DELETE = "insert", "update_before", "update_after", "delete"
ADDS = f"{CHANGE_TYPE} in ('{INSERT}', '{AFTER}')"
"""Whether a change is of a row that is in the table from then on."""
CHANGES_ID = f"{PREFIX}changes-id"
"""The property of a commit with its `BATCH_ID`."""
