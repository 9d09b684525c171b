"""Decides which files a DROP of a table may delete.

In a catalog that is a folder (type: hadoop), each DROP deletes a table's whole folder.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..common.errors import StreamError
from ..common.identifiers import parts
from ..storage.savepoints import BRANCH
from .table import UUID, IcebergTable, path_below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN = re.compile(
    rf"(?:metadata/\.?(?:v\d+[^/]*\.metadata\.json|version-hint\.text|[^/]*{UUID})[^/]*|data/(?:.*/)?[^/]*{UUID}[^/]*)"
)


def may_delete_files(table: IcebergTable) -> bool:
    """Returns whether dropping a table may delete its files.

    All files have to be in its folder, no branch or tag of a user may retain a snapshot, and ``gc.enabled`` must not be
    false.
    """
    is_kept = any(name != "main" and not name.startswith(BRANCH) for name in table.java.refs())
    return not is_kept and table.property("gc.enabled") != "false" and table.has_only_its_own()


def is_folder(spark: SparkSession, table: str) -> bool:
    """Returns whether the catalog of a table is a folder, in which a table is a folder, too."""
    prefix = f"spark.sql.catalog.{parts(table)[0]}"
    kind, cls = (str(spark.conf.get(f"{prefix}.{option}", None) or "") for option in ("type", "catalog-impl"))
    return kind.lower() == "hadoop" or cls.endswith("HadoopCatalog")


def check_drop(spark: SparkSession, table: IcebergTable, may_delete: bool) -> None:
    """Raises if a DROP of a table would delete files that have to stay.

    Args:
        may_delete: whether the files of the table itself may be deleted.
    """
    if not is_folder(spark, table.name):
        return
    others = (file for file in table.listed(table.folder) if not is_own(file, table.folder))
    if not may_delete:
        why = (
            "its files have to stay: this package didn't make it, or a branch, a tag or a property keeps them"
        )
    elif (file := next(others, None)) is not None:
        why = f"{file} is in its folder and doesn't belong to it"
    else:
        return
    raise StreamError(
        f"{table.name} isn't dropped, since {why}; and its catalog {parts(table.name)[0]} is a folder (type: hadoop), whose "
        "DROP deletes all that is in a table's folder. Move what is to stay out of it or drop the table yourself, and run "
        "the command again."
    )


def is_own(file: str, folder: str) -> bool:
    """Returns whether a file of a table's folder has a name that Iceberg gives in a catalog of type hadoop.

    >>> data = "data/day=1/00000-4-0f8fad5b-d9cb-469f-a165-70867728950e-0-00001.parquet"
    >>> named = [data, "metadata/v1.metadata.json", "metadata/.version-hint.text.crc", "metadata/v2.gz.metadata.json"]
    >>> [is_own(f"file:/in/t/{name}", "file:///in/t") for name in named]
    [True, True, True, True]
    >>> [is_own(f"/in/t/{name}", "/in/t") for name in ("mine.csv", "data/mine.csv", "metadata/v1.txt", f"sub/{data}")]
    [False, False, False, False]
    """
    return _OWN.fullmatch(path_below(folder, file) or "") is not None
