"""A stream's table and the columns that it is partitioned by: what doesn't fit is refused, and the stream continues."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from dbt.tests.util import run_dbt

QUERY = """{{ config(materialized='streaming_table', on_schema_change='sync_all_columns', partition_by=['k']) }}
select v, {% if var('renamed', false) %}k as c{% else %}k{% endif %} from {{ stream(source('raw', 'src')) }}"""
INCREMENTAL = QUERY.replace("streaming_table", "incremental").replace(
    "stream(source('raw', 'src'))", "source('raw', 'src')"
)


class TestPartitionsOfStreams:
    @pytest.fixture(scope="class")
    def models(self, unique_schema: str) -> dict[str, str]:
        source = {"name": "raw", "schema": unique_schema, "tables": [{"name": "src"}]}
        return {
            "sources.yml": yaml.safe_dump({"sources": [source]}),
            "streamed.sql": QUERY,
            "added.sql": INCREMENTAL,
        }

    def test_a_column_that_goes(self, spark: Any, project: Any) -> None:
        schema = project.test_schema
        spark.sql(f"create table {schema}.src (k string, v int) using iceberg")
        spark.sql(f"insert into {schema}.src values ('x', 1)")
        run_dbt(["run"])
        spark.sql(f"insert into {schema}.src values ('y', 2)")
        renamed = ["--vars", "renamed: true"]
        for said in (result.message for result in run_dbt(["run", *renamed], expect_pass=False)):
            assert "he table is partitioned by k, wh" in said and "append_new_columns" in said
        assert spark.table(f"{schema}.streamed").columns == ["v", "k"]
        (result,) = run_dbt(["run", "--full-refresh", "--select", "streamed", *renamed], expect_pass=False)
        assert "names k, which isn't a column of the query; its columns are v, c." in result.message
        # The refused rebuild has dropped nothing.
        run_dbt(["run", "--select", "streamed"])
        rows = spark.sql(f"select k, v from {schema}.streamed order by v").collect()
        assert [tuple(row) for row in rows] == [("x", 1), ("y", 2)]
