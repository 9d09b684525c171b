"""Rows of a table that go, each by its file and its place in it: what Iceberg's format 2 calls position deletes.

A table whose rows change by key would else be read and written as a whole for each micro-batch, however few rows that
changes. Spark's own MERGE can write such deletes, too, but looks for the rows once more, which takes a shuffle of the table,
and commits without a condition (`commit`). Here who compares the table's rows with new ones has their places already.

Spark writes the delete files as it writes rows, into a table of two columns that lies in no catalog: what makes a file one
of position deletes is the numbers of its columns, which Iceberg reserves for it.

https://iceberg.apache.org/spec/#position-delete-files
"""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any

from ..common.session import java_class

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from .table import IcebergTable

FILE, PLACE = "_file", "_pos"
"""What Iceberg calls where a row is, beside a table's own columns."""
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
    """Whether rows of a table can go that way: it is of format 2 and has no partitions, none of its columns is called as
    Iceberg calls a row's place, and its author doesn't want files to be written anew instead.

    Args:
        table: the table, as it was looked at last. In format 3 deletes are vectors, which only Iceberg's own writers
            make; and a delete file is of one partition.
        columns: what its columns are called.
    """
    if table.property(_MERGE_MODE) == "copy-on-write":
        return False
    java = table.java
    versions = java_class(table.spark, f"{_CORE}.TableUtil")
    if any(spec.isPartitioned() for spec in _specs(java)):
        return False
    return int(versions.formatVersion(java)) == 2 and not has_names_of_iceberg(columns)


def _specs(table: Any) -> list[Any]:
    """In which ways the files of Iceberg's table are divided, or were."""
    found = table.specs()
    # Nearly every table has one: to go through a map of Java's takes some ten calls.
    return [table.spec()] if len(found) == 1 else list(found.values())


def has_names_of_iceberg(columns: Iterable[str]) -> bool:
    """Whether one of a table's columns is called as one that Iceberg has beside them."""
    return not _OWN.isdisjoint(name.lower() for name in columns)


def table_of_deletes(spark: SparkSession, table: Any) -> Any:
    """Iceberg's table that delete files of another one can be written into; it is in no catalog.

    Args:
        spark: a session.
        table: Iceberg's table that the deletes are of.
    """
    packages = {name: java_class(spark, f"{_CORE}.{name}") for name in ("TableMetadataParser", "BaseTable")}
    metadata = packages["TableMetadataParser"].fromJson(json.dumps(_metadata(table)))
    operations = java_class(spark, f"{_CORE}.StaticTableOperations")(
        metadata, table.io(), table.locationProvider()
    )
    return packages["BaseTable"](operations, f"{table.name()}.deletes")


def _metadata(table: Any) -> dict[str, object]:
    """What the metadata of a table of position deletes says."""
    has = table.properties()
    names = has.keySet().iterator()
    properties = {
        # Of paths the whole: by them Iceberg passes over delete files.
        "write.metadata.metrics.default": "full",
        "write.distribution-mode": "none",
    }
    while names.hasNext():
        name = str(names.next())
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


def as_deletes(spark: SparkSession, table: Any, file: Any) -> Any:
    """A file of a `table_of_deletes`, as a delete file of the table that it is of.

    Args:
        spark: a session.
        table: Iceberg's table that the deletes are of.
        file: Iceberg's description of a file that was written.
    """
    metrics = java_class(spark, f"{_CORE}.Metrics")(
        file.recordCount(),
        file.columnSizes(),
        file.valueCounts(),
        file.nullValueCounts(),
        file.nanValueCounts(),
        file.lowerBounds(),
        file.upperBounds(),
    )
    # Of how files are divided that have no partitions, as those have that the deletes are of; by now new ones may have some.
    (spec,) = (each for each in _specs(table) if each.isUnpartitioned())
    made = java_class(spark, f"{_CORE}.FileMetadata").deleteFileBuilder(spec).ofPositionDeletes()
    made = (
        made.withPath(file.location()).withFormat(file.format()).withFileSizeInBytes(file.fileSizeInBytes())
    )
    return made.withMetrics(metrics).build()
