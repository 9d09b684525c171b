"""Change types of a changelog, and the number that each of its commits carries."""

from __future__ import annotations

from ...query.program import CHANGE_TYPE
from ..progress.position import PREFIX

INSERT, BEFORE, AFTER, DELETE = "insert", "update_before", "update_after", "delete"
ADDS = f"{CHANGE_TYPE} in ('{INSERT}', '{AFTER}')"
"""SQL condition for changes whose row is in the table afterwards."""
CHANGES_ID = f"{PREFIX}changes-id"
"""Snapshot property with the `BATCH_ID` of the commit."""
