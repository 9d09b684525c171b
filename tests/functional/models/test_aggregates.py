"""Aggregates whose rows are kept, in models: percentiles, collections and UDAFs, over windows and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.models.conftest import sources

PERCENTILES = """
select window_start, window_end, page, median(amount) as middle, percentile_cont(0.9) within group (order by amount) as most,
    array_size(collect_list(device)) as seen, listagg(device) within group (order by device) as devices, count(*) as n
from {{ tumble(source('raw', 'events'), 'ts', '1 hour') }}
group by window_start, window_end, page
"""
# Spark has no other aggregate beside one that is written in Python.
UDAF = """
select window_start, window_end, page, total_of(amount) as total
from {{ cumulate(source('raw', 'events'), 'ts', '10 minutes', '1 hour') }}
group by window_start, window_end, page
"""
STREAM = "from {{ stream(source('raw', 'events')) }} where ts is not null"
MODELS = {
    "tumbling": ("window_aggregate", PERCENTILES),
    "curve": ("cumulate", UDAF),
    "whole": ("streaming_table", f"select try_sum(amount) as again, any(amount > 3) as some_large {STREAM}"),
    "whole_udaf": ("streaming_table", f"select total_of(amount) as total {STREAM}"),
}


@pytest.mark.thorough
class TestKeptRows:
    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        made = {"sources.yml": sources(events)}
        for name, (materialized, text) in MODELS.items():
            more = ", state_ttl='1000 days'" if materialized == "streaming_table" else ""
            settings = f"materialized='{materialized}', watermark='1 day'{more}"
            made[f"{name}.sql"] = f"{{{{ config({settings}) }}}}{text}"
            made[f"{name}_in_batch.sql"] = f"{{{{ config(materialized='table') }}}}{text}"
        return made

    @pytest.fixture(scope="class", autouse=True)
    def udaf(self, spark: Any) -> None:
        from pyspark.sql.pandas.functions import pandas_udf

        total: Any = pandas_udf(lambda values: float(values.sum()), "double", 202)  # GROUPED_AGG
        spark.udf.register("total_of", total)

    def test_streams_have_the_rows_of_batch(self, project: Any, spark: Any) -> None:
        run_dbt(["run", "--vars", "{flush: true}"])
        for name in MODELS:
            found, expected = (
                sorted(map(str, spark.table(f"{project.test_schema}.{each}").collect()))
                for each in (name, f"{name}_in_batch")
            )
            assert found == expected != [], name
        assert spark.table(f"{project.test_schema}.whole").count() == 1
