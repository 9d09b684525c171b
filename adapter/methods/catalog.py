"""Converts Spark's DESCRIBE EXTENDED, and the progress of a stream, to the catalog of `dbt docs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbt.adapters.base import BaseRelation
from dbt.adapters.spark.column import SparkColumn
from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, StatsItem, TableMetadata

from ..stream.progress import open_windows
from ..stream.progress.watermark import from_text
from ..util.text import counted

_DETAILS = ("# Detailed Table Information", "# Detailed View Information")
"""Headings of the details that follow the columns."""


@dataclass(frozen=True)
class Description:
    """A described table or view."""

    columns: tuple[ColumnMetadata, ...]
    details: dict[str, str]
    """The details that follow the columns, by name: Owner, Comment, Statistics …"""

    @classmethod
    def from_rows(
        cls, rows: Sequence[tuple[Any, ...]], columns: Sequence[SparkColumn] | None = None
    ) -> Description:
        """Parses the rows of DESCRIBE EXTENDED: columns, partitioning, details.

        Args:
            columns: the columns of the relation, if its schema is known. Default: the rows before the first heading, which
                is wrong if a column's name looks like a heading.
        """
        if columns is None:
            ends = (place for place, (name, *_) in enumerate(rows) if not name or name.startswith("#"))
            columns = [
                SparkColumn(column=name, dtype=kind) for name, kind, _ in rows[: next(ends, len(rows))]
            ]
        described = (
            ColumnMetadata(column.dtype, index, column.name, row[2] or None)
            for index, (column, row) in enumerate(zip(columns, rows, strict=False), 1)
        )
        after = rows[len(columns) :]
        headings = [place for place, (name, *_) in enumerate(after) if name.startswith(_DETAILS)]
        details: dict[str, str] = {}
        for name, value, _ in after[headings[0] + 1 :] if headings else ():
            if name and not name.startswith("#"):
                details.setdefault(name, value)
        return cls(tuple(described), details)

    @property
    def comment(self) -> str | None:
        """The comment of the relation itself."""
        return self.details.get("Comment") or None

    @property
    def owner(self) -> str | None:
        return self.details.get("Owner") or None

    @property
    def statistics(self) -> dict[str, int]:
        """The numbers of ``bytes`` and ``catalog_rows``, if Spark knows them."""
        parts = (part.split() for part in self.details.get("Statistics", "").split(",") if part.strip())
        return {unit: int(number) for number, unit in parts}


def short_relation_info(information: str) -> str:
    """Returns the lines of SHOW TABLE EXTENDED on owner, type, provider and statistics, without columns and comments.

    >>> text = "Type: MANAGED\\nProvider: iceberg\\nComment: Type: VIEW\\nSchema: root\\n |-- Type: VIEW: int"
    >>> print(short_relation_info(text))
    Type: MANAGED
    Provider: iceberg
    """
    found: dict[str, str] = {}
    for line in information.partition("Schema: root")[0].splitlines():
        name, colon, _ = line.partition(": ")
        if colon and name in ("Owner", "Type", "Provider", "Statistics"):
            found.setdefault(name, line)
    return "\n".join(found.values())


_STREAM_FIGURES = (
    "watermark",
    "micro-batches",
    "rows in",
    "rows out",
    "dropped rows",
    "open windows",
    "state",
    "operators",
)
"""Figures of a streaming model."""


def stream_figures(progress: Mapping[str, Any] | None) -> dict[str, str | int]:
    """Returns the figures of a streaming model by name; none for another table."""
    if progress is None:
        return {}
    total, state = progress["total"], progress["state"]
    windows = open_windows.from_json(progress.get("windows"))
    watermark = from_text(progress["watermark"])
    dropped = f"{total['late_rows']:,} late, {total['null_time_rows']:,} without a time"
    found = {
        "watermark": "none yet" if watermark is None else f"{open_windows.time_text(watermark)} UTC",
        "micro-batches": progress["batch"] + 1,
        "rows in": total["rows_in"],
        "rows out": total["rows_out"],
        "dropped rows": dropped,
        "open windows": "" if windows is None else windows.summary_text(),
        "state": f"{counted(state['rows'], 'row')}, {state['bytes']:,} bytes" if state else "none",
        "operators": progress.get("operators", ""),
    }
    return {name: value for name, value in found.items() if value != ""}


def catalog_entry(
    relation: BaseRelation, described: Description, progress: Mapping[str, Any] | None = None
) -> CatalogTable:
    """Returns a relation's entry in dbt's catalog."""
    figures: dict[str, str | int] = {**described.statistics, **stream_figures(progress)}
    return CatalogTable(
        metadata=TableMetadata(
            type=_relation_type(relation, described),
            schema=str(relation.schema),
            name=str(relation.identifier),
            comment=described.comment,
            owner=described.owner,
        ),
        columns={column.name: column for column in described.columns},
        stats={
            name: StatsItem(id=name, label=name, value=value, include=True, description="")
            for name, value in figures.items()
        },
    )


def catalog_rows(
    relation: BaseRelation, described: Description, progress: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Returns a relation as rows of dbt's catalog query, one per column. See `catalog_entry`."""
    entry = catalog_entry(relation, described, progress)
    shared = {f"table_{name}": value for name, value in entry.metadata.to_dict(omit_none=False).items()}
    # All relations have the same columns, because they become one table.
    for name in ("bytes", "rows", *_STREAM_FIGURES):
        shared |= {
            f"stats:{name}:label": name,
            f"stats:{name}:value": entry.stats[name].value if name in entry.stats else None,
            f"stats:{name}:description": "",
            f"stats:{name}:include": name in entry.stats,
        }
    return [
        shared | {f"column_{name}": value for name, value in column.to_dict(omit_none=False).items()}
        for column in described.columns
    ]


def _relation_type(relation: BaseRelation, described: Description) -> str:
    if relation.type is not None:
        return str(relation.type)
    is_view = "View Text" in described.details or "View Query Output Columns" in described.details
    return "view" if is_view else "table"
