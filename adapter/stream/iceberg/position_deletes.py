"""Position deletes of Iceberg's format 2, which delete rows by file and position.

Without position deletes each micro-batch would rewrite all of an upsert table, even if few rows change. Spark's MERGE can
write them, too, but it searches the rows again, which shuffles the table, and it commits without a condition (`commit`).
Here the comparison of the table's rows with the new ones already has the positions.

Spark writes the delete files as rows into a table of two columns that is in no catalog. The reserved ids of these columns
make a file a position-delete file.

https://iceberg.apache.org/spec/#position-delete-files
"""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any

from ..common.session import java_class
from .table import IcebergTable, java_elements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

FILE, PLACE = "_file", "_pos"
"""Iceberg's metadata columns with the file and the position of a row."""
_OWN = {FILE, PLACE, "_spec_id", "_partition", "_deleted"}
PATH, POSITION = "file_path", "pos"
"""The columns of a delete file."""

_CORE = "org.apache.iceberg"
_PATH_NUMBER, _POSITION_NUMBER = 2147483546, 2147483545
_MERGE_MODE = "write.merge.mode"
_DELETE_FORMAT = "write.delete.format.default"
_COPIED = ("write.format.default", "write.data.path", "write.object-storage.", "write.location-provider.")
_COMPRESSION = ("compression-codec", "compression-level")


def are_possible(table: IcebergTable, columns: Iterable[str]) -> bool:
    """Returns whether position deletes can be written for a table.

    It needs format 2 (format 3 has deletion vectors, which only Iceberg's writers create), no partitions (a delete file is
    of one partition), no column with the name of a metadata column, and a ``write.merge.mode`` other than copy-on-write.

    Args:
        table: the table, as of its last refresh.
    """
    if table.property(_MERGE_MODE) == "copy-on-write":
        return False
    java = table.java
    versions = java_class(table.spark, f"{_CORE}.TableUtil")
    if any(spec.isPartitioned() for spec in _specs(java)):
        return False
    return int(versions.formatVersion(java)) == 2 and not has_names_of_iceberg(columns)


def _specs(table: Any) -> list[Any]:
    """Returns the current and earlier partition specs of Iceberg's table."""
    found = table.specs()
    # Nearly every table has one spec. Iterating over a Java map takes some ten calls.
    return [table.spec()] if len(found) == 1 else list(found.values())


def has_names_of_iceberg(columns: Iterable[str]) -> bool:
    """Returns whether a column has the name of one of Iceberg's metadata columns."""
    return not _OWN.isdisjoint(name.lower() for name in columns)


def position_delete_table(spark: SparkSession, table: Any) -> Any:
    """Returns an in-memory Iceberg table, in no catalog, for writing position-delete files of another table. `table`:
    Iceberg's table to delete rows of."""
    metadata = java_class(spark, f"{_CORE}.TableMetadataParser").fromJson(
        json.dumps(_delete_table_metadata(table))
    )
    operations = java_class(spark, f"{_CORE}.StaticTableOperations")
    made = operations(metadata, table.io(), table.locationProvider())
    return java_class(spark, f"{_CORE}.BaseTable")(made, f"{table.name()}.deletes")


def _delete_table_metadata(table: Any) -> dict[str, object]:
    """Returns the metadata of a table of position deletes, in Iceberg's JSON format."""
    has = table.properties()
    properties = {
        # Full bounds of paths, by which Iceberg skips delete files.
        "write.metadata.metrics.default": "full",
        "write.distribution-mode": "none",
    }
    for name in map(str, java_elements(has.keySet().iterator())):
        if name.startswith(_COPIED) or name.endswith(_COMPRESSION):
            properties[name] = str(has.get(name))
    if (kind := has.get(_DELETE_FORMAT)) is not None:
        properties["write.format.default"] = str(kind)
    columns = [
        {"id": _PATH_NUMBER, "name": PATH, "required": True, "type": "string"},
        {"id": _POSITION_NUMBER, "name": POSITION, "required": True, "type": "long"},
    ]
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": str(table.location()),
        "last-sequence-number": 0,
        "last-updated-ms": int(time.time() * 1000),
        "last-column-id": _PATH_NUMBER,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": columns}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": properties,
    }


def to_delete_file(spark: SparkSession, table: Any, file: Any) -> Any:
    """Converts a file that was written into a `position_delete_table` to Iceberg's object of a delete file of the table."""
    metrics = java_class(spark, f"{_CORE}.Metrics")(
        file.recordCount(),
        file.columnSizes(),
        file.valueCounts(),
        file.nullValueCounts(),
        file.nanValueCounts(),
        file.lowerBounds(),
        file.upperBounds(),
    )
    # The deletes belong to unpartitioned files, even if the table's current spec has partitions by now.
    (spec,) = (each for each in _specs(table) if each.isUnpartitioned())
    made = java_class(spark, f"{_CORE}.FileMetadata").deleteFileBuilder(spec).ofPositionDeletes()
    made = made.withPath(file.location()).withFormat(file.format())
    return made.withFileSizeInBytes(file.fileSizeInBytes()).withMetrics(metrics).build()
