"""Checks that the catalog of a node's table can hold a table of the node's `file_format`.

Iceberg's catalogs only hold Iceberg tables. Other tables are in Spark's own catalog, `spark_catalog`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..environment import ICEBERG_CATALOG
from ..query.errors import QueryError
from ..sources.source_tables import CATALOG as SPARKS_CATALOG
from .model_configs import MATERIALIZATIONS

_ICEBERG_FORMATS = ("iceberg", "parquet", "orc", "avro")
"""Formats of an Iceberg table: `USING parquet` makes an Iceberg table whose files are Parquet."""
_WITH_CHANGING_ROWS = ("delta", "hudi")
"""Formats of Spark's own catalog whose rows can be changed in place."""
_KIND_OF_CATALOG = "spark.sql.catalogImplementation"

Setting = Callable[[str], str | None]
"""Returns one of Spark's settings, or None."""


def check_format(file_format: str, materialized: str, catalog: str, schema: str, setting: Setting) -> None:
    """Raises unless a table of the format can be in the catalog, where the next process finds it again.

    Args:
        schema: the table's schema, without the catalog.
    """
    kind = setting(f"spark.sql.catalog.{catalog}") or ""
    is_sparks = catalog == SPARKS_CATALOG and "iceberg" not in kind
    if materialized in MATERIALIZATIONS and (is_sparks or file_format not in _ICEBERG_FORMATS):
        raise QueryError(
            f"it would be a table of format '{file_format}' in the catalog {catalog}, and a streaming model's table is an "
            "Iceberg table in an Iceberg catalog, which a micro-batch changes in one commit. Write file_format: iceberg, "
            "and a schema without a catalog; a batch model can copy its rows to a table of another format."
        )
    if kind == ICEBERG_CATALOG and file_format not in _ICEBERG_FORMATS:
        raise QueryError(
            f"config 'file_format' is '{file_format}', and its catalog {catalog} only holds Iceberg tables. Write iceberg, "
            f"or schema='{SPARKS_CATALOG}.{schema}', for a table in Spark's own catalog."
        )
    if not is_sparks:
        return
    if file_format == "iceberg":
        raise QueryError(
            f"config 'file_format' is 'iceberg', and {catalog}, Spark's own catalog, holds no Iceberg tables. Write another "
            "format, such as delta or parquet; or a schema without its catalog."
        )
    if file_format == "delta" and "delta" not in kind:
        raise QueryError(
            "config 'file_format' is 'delta', and Spark runs without Delta. Write packages: [delta] in the profile."
        )
    if materialized == "snapshot" and file_format not in _WITH_CHANGING_ROWS:
        raise QueryError(
            f"config 'file_format' is '{file_format}', and a snapshot changes rows in place, which that can't. Write delta; "
            "or iceberg, and a schema without a catalog."
        )
    check_outlives_process(catalog, setting)


def check_outlives_process(catalog: str, setting: Setting) -> None:
    """Raises if a catalog is Spark's own, and forgets its tables and views when the process ends."""
    if catalog == SPARKS_CATALOG and setting(_KIND_OF_CATALOG) == "in-memory":
        raise QueryError(
            f"it would be in {catalog}, Spark's own catalog, which is in memory here and forgets it when dbt ends. Write "
            f"{_KIND_OF_CATALOG}: hive under 'server_side_parameters' in the profile, with the address of a Hive metastore."
        )
