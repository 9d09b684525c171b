"""Sources that are one folder or table, and tables that are no streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.tests.util import run_dbt

UNION = """
{{{{ config(materialized='streaming_table', watermark='0 seconds') }}}}
select 'a' as of, window_start, count(*) as n from {{{{ tumble({a}, 'ts', '1 hour') }}}} group by window_start, window_end
union all
select 'b' as of, window_start, count(*) as n from {{{{ tumble({b}, 'at', '1 hour') }}}} group by window_start, window_end
"""
STREAM = (
    "{{{{ config(materialized='streaming_table') }}}} select * from {{{{ stream(source('raw', '{}')) }}}}"
)


@pytest.mark.thorough
class TestSourcesOfOneTable:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("one")

    @pytest.fixture(scope="class")
    def models(self, folder: Path, unique_schema: str) -> dict[str, str]:
        def files(name: str, time: str | None, **more: Any) -> dict[str, Any]:
            stream = {"format": "json", "options": {"path": str(folder / "in")}} | more
            if stream["format"] == "json":
                stream["schema"] = "ts timestamp, at timestamp"
            return {"name": name, "config": {"event_time": time, "meta": {"stream": stream}}}

        def table(time: str) -> dict[str, Any]:
            return {"name": "lake", "config": {"event_time": time}}

        sources = [
            {
                "name": "raw",
                "schema": unique_schema,
                "tables": [
                    files("by_ts", "ts"),
                    files("by_at", "at"),
                    table("ts"),
                    files("a_delta_table", None, format="parquet", options={"path": str(folder / "delta")}),
                ],
            },
            {"name": "other", "schema": unique_schema, "tables": [table("at")]},
            {
                "name": "builtin",
                "schema": f"spark_catalog.{unique_schema}",
                "tables": [{"name": "plain"}],
            },
        ]
        lake, other = "source('raw', 'lake')", "source('other', 'lake')"
        return {
            "sources.yml": yaml.safe_dump({"sources": sources}),
            "of_folder.sql": UNION.format(a="source('raw', 'by_ts')", b="source('raw', 'by_at')"),
            "of_windows.sql": UNION.format(a=lake, b=other),
            "of_table.sql": "{{ config(materialized='streaming_table') }} "
            f"select ts from {{{{ stream({lake}) }}}} union all select at as ts from {{{{ stream({other}) }}}}",
            "of_one.sql": STREAM.format("lake").replace("select *", "select ts"),
            "a_delta_table.sql": STREAM.format("a_delta_table"),
            "plain.sql": STREAM.replace("raw", "builtin").format("plain"),
        }

    def test_it(self, spark: Any, project: Any, folder: Path) -> None:
        schema = project.test_schema
        (folder / "in").mkdir()
        for number in range(4):
            row = {"ts": f"2024-01-01 0{number}:00:00", "at": f"2025-01-01 0{number // 2}:30:00"}
            (folder / "in" / f"{number}.json").write_text(json.dumps(row))
        (folder / "delta" / "_delta_log").mkdir(parents=True)
        spark.range(3).write.mode("append").parquet(str(folder / "delta"))
        spark.sql(f"create table {schema}.lake (ts timestamp, at timestamp) using iceberg")
        spark.sql(
            f"insert into {schema}.lake select cast(ts as timestamp), cast(at as timestamp) from json.`{folder / 'in'}`"
        )
        spark.sql(f"create namespace if not exists spark_catalog.{schema}")
        spark.sql(f"create table spark_catalog.{schema}.plain (id bigint) using parquet")

        results = {each.node.name: each for each in run_dbt(["run"], expect_pass=False)}
        failed = {name: str(each.message) for name, each in results.items() if each.status != "success"}
        assert sorted(failed) == ["a_delta_table", "of_table", "plain"]
        assert "the folder" in failed["a_delta_table"]
        assert "is a Delta table, for it has _delta_log" in failed["a_delta_table"]
        assert "raw.lake and other.lake are the same table" in failed["of_table"]
        assert "can't be read as a stream" in failed["plain"]

        # The windows say which time is theirs.
        run_dbt(["run", "--select", "of_folder", "of_windows", "--vars", "flush: true"])
        for name in ("of_folder", "of_windows"):
            rows = spark.sql(
                f"select of, sum(n), count(*) from {schema}.{name} group by of order by of"
            ).collect()
            assert [tuple(each) for each in rows] == [("a", 4, 4), ("b", 4, 2)]
