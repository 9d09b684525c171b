"""Names of the tables that a model has in addition to its own."""

from __future__ import annotations

from ...query.program import CHANGES
from .identifiers import parts
from .model import STATE


def may_be_kept(relation: str) -> bool:
    """Returns whether a relation has the name of a streaming model's state or changelog.

    >>> may_be_kept("shop.`Orders__STATE`"), may_be_kept("shop.states")
    (True, False)
    """
    return parts(relation)[-1].lower().endswith((STATE, CHANGES))
