"""Names that Iceberg has for columns of its own: a table that has one of them can be made, but not read."""

from __future__ import annotations

from collections.abc import Iterable

METADATA_COLUMNS = frozenset(
    {"_file", "_pos", "_deleted", "_partition", "_spec_id", "_row_id", "_last_updated_sequence_number"}
)


def reserved_name(names: Iterable[str]) -> str | None:
    """Returns the sentence on a column that an Iceberg table can't have, or None. Spark reads names in any case.

    >>> reserved_name(["file", "_change_type"])
    >>> print((reserved_name(["id", "_Pos"]) or "").partition(". ")[2])
    Give it another name, as in SELECT `_Pos` AS pos.
    """
    for name in names:
        if name.lower() in METADATA_COLUMNS:
            return (
                f"its column {name} has a name that Iceberg has for a column of its own, so its table couldn't be read. "
                f"Give it another name, as in SELECT `{name}` AS {name.lower().strip('_')}."
            )
    return None
