"""Names of Iceberg's metadata columns. A table with a column of such a name can be created, but not read."""

from __future__ import annotations

from collections.abc import Iterable

from dbt_common.exceptions import DbtRuntimeError

METADATA_COLUMNS = frozenset(
    {"_file", "_pos", "_deleted", "_partition", "_spec_id", "_row_id", "_last_updated_sequence_number"}
)


def reserved_name_message(names: Iterable[str]) -> str | None:
    """Returns a sentence on the first name that is a metadata column, in any case, or None.

    >>> reserved_name_message(["file", "_change_type"])
    >>> print((reserved_name_message(["id", "_Pos"]) or "").partition(". ")[2])
    Give it another name, as in SELECT `_Pos` AS pos.
    """
    for name in names:
        if name.lower() in METADATA_COLUMNS:
            return (
                f"its column {name} has the name of one of Iceberg's metadata columns, so its table couldn't be read. "
                f"Give it another name, as in SELECT `{name}` AS {name.lower().strip('_')}."
            )
    return None


def check_column_names(owner: str, names: Iterable[str]) -> None:
    """Raises `DbtRuntimeError` if a name is a metadata column. `owner`: the table or model that the message is about."""
    if (message := reserved_name_message(names)) is not None:
        raise DbtRuntimeError(f"{owner}: {message}")
