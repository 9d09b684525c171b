"""`LookupTable`: an external table in which joins look up rows by key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LookupTable:
    """An external table in which joins look up the keys of a micro-batch."""

    relation: str
    """Table as the compiled text names it."""
    view: str
    """View that holds the rows found."""
    key: tuple[str, ...]
    """Columns that are looked up."""
    columns: tuple[str, ...] | None
    """Columns the query may use; None for all."""
