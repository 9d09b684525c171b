"""Which catalog can hold a table of which format."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.project import table_formats
from dbt.adapters.spark_streaming.query.errors import QueryError

ICEBERG = {"spark.sql.catalog.lakehouse": "org.apache.iceberg.spark.SparkCatalog"}
KEPT = {"spark.sql.catalogImplementation": "hive"}
DELTA = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
SHARED = {"spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog"}


def check(file_format: str, catalog: str, settings: dict[str, str], materialized: str = "table") -> None:
    table_formats.check_format(file_format, materialized, catalog, "shop", {**ICEBERG, **settings}.get)


@pytest.mark.parametrize(
    ("file_format", "catalog", "settings"),
    [
        ("iceberg", "lakehouse", {}),
        # Iceberg tables with Parquet files.
        ("parquet", "lakehouse", {}),
        ("iceberg", "spark_catalog", SHARED),
        ("parquet", "spark_catalog", KEPT),
        ("parquet", "spark_catalog", KEPT | DELTA),
        ("delta", "spark_catalog", KEPT | DELTA),
        # What an unknown catalog can hold, it says itself.
        ("delta", "unity", {"spark.sql.catalog.unity": "io.unitycatalog.spark.UCSingleCatalog"}),
    ],
)
def test_a_catalog_holds_its_formats(file_format: str, catalog: str, settings: dict[str, str]) -> None:
    check(file_format, catalog, settings)


@pytest.mark.parametrize(
    ("file_format", "catalog", "settings", "said"),
    [
        ("delta", "lakehouse", DELTA, r"lakehouse only holds Iceberg tables.*schema='spark_catalog\.shop'"),
        ("csv", "lakehouse", {}, "lakehouse only holds Iceberg tables"),
        ("iceberg", "spark_catalog", KEPT | DELTA, "holds no Iceberg tables"),
        ("iceberg", "spark_catalog", KEPT, "holds no Iceberg tables"),
        ("delta", "spark_catalog", KEPT, r"Write packages: \[delta\]"),
        (
            "delta",
            "spark_catalog",
            {"spark.sql.catalogImplementation": "in-memory"} | DELTA,
            "is in memory here",
        ),
    ],
)
def test_another_format_is_refused(
    file_format: str, catalog: str, settings: dict[str, str], said: str
) -> None:
    with pytest.raises(QueryError, match=said):
        check(file_format, catalog, settings)


@pytest.mark.parametrize(("file_format", "catalog"), [("delta", "lakehouse"), ("iceberg", "spark_catalog")])
def test_the_table_of_a_stream_is_icebergs(file_format: str, catalog: str) -> None:
    check("iceberg", "lakehouse", KEPT | DELTA, "streaming_table")
    with pytest.raises(QueryError, match="a streaming model's table is an Iceberg table"):
        check(file_format, catalog, KEPT | DELTA, "streaming_table")


def test_rows_of_a_snapshot_change() -> None:
    check("delta", "spark_catalog", KEPT | DELTA, "snapshot")
    check("parquet", "lakehouse", KEPT, "snapshot")
    with pytest.raises(QueryError, match="a snapshot changes rows in place"):
        check("parquet", "spark_catalog", KEPT | DELTA, "snapshot")


def test_a_view_in_a_catalog_in_memory_is_refused() -> None:
    table_formats.check_outlives_process("lakehouse", {"spark.sql.catalogImplementation": "in-memory"}.get)
    with pytest.raises(QueryError, match="forgets it when dbt ends"):
        table_formats.check_outlives_process(
            "spark_catalog", {"spark.sql.catalogImplementation": "in-memory"}.get
        )
