"""The entry of a streaming model in `dbt docs`."""

from __future__ import annotations

from typing import Any

from dbt_common.contracts.metadata import ColumnMetadata

from dbt.adapters.spark_streaming.methods.catalog import (
    Description,
    catalog_entry,
    catalog_rows,
    stream_figures,
)
from dbt.adapters.spark_streaming.relation import SparkStreamingRelation
from dbt.adapters.spark_streaming.stream.progress.open_windows import OpenWindowSummary
from dbt.adapters.spark_streaming.stream.progress.position import Position
from dbt.adapters.spark_streaming.stream.progress.report import BatchMetrics, progress_report

RELATION = SparkStreamingRelation.create(schema="shop", identifier="orders_per_shop", type="table")
DESCRIBED = Description((ColumnMetadata("string", 1, "shop"),), {"Statistics": "900 bytes, 2 rows"})
POSITION = Position(
    "m", query_id="q", batch=1, after=1_748_768_820_000_000, rows_in=6, late_rows=1, rows_out=2
)
PROGRESS: dict[str, Any] = {
    **progress_report(POSITION, BatchMetrics(), {"rows": 3, "bytes": 12_000, "files": 1}),
    "operators": "Sink shop.orders_per_shop ← Source raw.orders",
    "windows": OpenWindowSummary(1, 1_748_769_600_000_000, 1_748_769_900_000_000).as_json(),
}


def test_a_streaming_model_has_its_watermark_state_micro_batches_and_operators() -> None:
    assert stream_figures(PROGRESS) == {
        "watermark": "2025-06-01 09:07:00 UTC",
        "micro-batches": 2,
        "rows in": 6,
        "rows out": 2,
        "dropped rows": "1 late, 0 without a time",
        "open windows": "1 window open, the next closes at 2025-06-01 09:20:00",
        "state": "3 rows, 12,000 bytes",
        "operators": "Sink shop.orders_per_shop ← Source raw.orders",
    }
    entry = catalog_entry(RELATION, DESCRIBED, PROGRESS)
    assert (entry.stats["rows"].value, entry.stats["watermark"].value) == (2, "2025-06-01 09:07:00 UTC")
    (row,) = catalog_rows(RELATION, DESCRIBED, PROGRESS)
    assert (row["stats:state:value"], row["stats:state:include"]) == ("3 rows, 12,000 bytes", True)


def test_another_table_has_none_of_them_in_the_same_columns() -> None:
    assert stream_figures(None) == {}
    assert set(catalog_entry(RELATION, DESCRIBED).stats) == {"rows", "bytes"}
    (stream,), (other,) = catalog_rows(RELATION, DESCRIBED, PROGRESS), catalog_rows(RELATION, DESCRIBED)
    assert stream.keys() == other.keys()
    assert (other["stats:rows:include"], other["stats:watermark:include"]) == (True, False)


def test_a_model_that_keeps_no_state_and_no_windows() -> None:
    figures = stream_figures(progress_report(Position("m", query_id="q", batch=0), BatchMetrics(), None))
    assert (figures["state"], figures["watermark"]) == ("none", "none yet")
    assert "open windows" not in figures and "operators" not in figures
