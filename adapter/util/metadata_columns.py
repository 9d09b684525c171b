"""Names of Iceberg's metadata columns. A table with a column of such a name can be created, but not read."""

from __future__ import annotations

from collections.abc import Iterable

METADATA_COLUMNS = frozenset(
    {"_file", "_pos", "_deleted", "_partition", "_spec_id", "_row_id", "_last_updated_sequence_number"}
)


def reserved_name(names: Iterable[str]) -> str | None:
    """Returns a sentence on the first name that is a metadata column, in any case, or None.

    >>> reserved_name(["file", "_change_type"])
    >>> print((reserved_name(["id", "_Pos"]) or "").partition(". ")[2])
    Give it another name, as in SELECT `_Pos` AS pos.
    """
    for name in names:
        if name.lower() in METADATA_COLUMNS:
            return (
                f"its column {name} has the name of one of Iceberg's metadata columns, so its table couldn't be read. "
                f"Give it another name, as in SELECT `{name}` AS {name.lower().strip('_')}."
            )
    return None
