"""Columns that sources and models get between two runs of dbt in one process are there in the second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.tests.util import run_dbt, write_file

STREAM = "{{ config(materialized='streaming_table') }}\nselect * from {{ stream(…) }}"
TABLE = "{{ config(materialized='table') }}\nselect * from …"


def of(relation: str, text: str = STREAM) -> str:
    return text.replace("…", relation if text is STREAM else f"{{{{ {relation} }}}}")


@pytest.mark.thorough
class TestColumnsThatCome:
    """Two runs, between which everything that is read has got a column."""

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("columns")

    def sources(self, folder: Path, schema: str, declared: str) -> str:
        def files(name: str, format: str, **more: Any) -> dict[str, Any]:
            stream = {"format": format, **more}
            stream["options"] = {"path": str(folder / name), **more.get("options", {})}
            return {"name": name, "config": {"meta": {"stream": stream}}}

        tables = [
            files("found", "json"),
            files("merged", "parquet", options={"mergeSchema": True}),
            files("declared", "json", schema=declared),
            {"name": "lake"},
        ]
        return yaml.safe_dump({"sources": [{"name": "raw", "schema": schema, "tables": tables}]})

    @pytest.fixture(scope="class")
    def models(self, folder: Path, unique_schema: str) -> dict[str, str]:
        names = ("found", "merged", "declared", "lake")
        made = {f"{name}_rows.sql": of(f"source('raw', '{name}')") for name in names}
        made |= {f"{name}_table.sql": of(f"source('raw', '{name}')", TABLE) for name in names}
        return {
            **made,
            "sources.yml": self.sources(folder, unique_schema, "k string, v bigint"),
            "reader.sql": of("ref('found_rows')"),
            "table_reader.sql": of("ref('lake_table')", TABLE),
        }

    def put(self, spark: Any, folder: Path, number: int, **values: Any) -> None:
        for name in ("found", "declared"):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / f"{number}.json").write_text(json.dumps(values))
        rows = spark.createDataFrame([tuple(values.values())], [*values])
        rows.coalesce(1).write.mode("append").parquet(str(folder / "merged"))

    def test_it(self, spark: Any, project: Any, folder: Path) -> None:
        schema = project.test_schema
        self.put(spark, folder, 1, k="a", v=1)
        spark.sql(f"create table {schema}.lake (k string, v bigint) using iceberg")
        spark.sql(f"insert into {schema}.lake values ('a', 1)")
        run_dbt(["run"])

        self.put(spark, folder, 2, k="b", v=2, note="here")
        spark.sql(f"alter table {schema}.lake add column note string")
        spark.sql(f"insert into {schema}.lake values ('b', 2, 'here')")
        write_file(
            self.sources(folder, schema, "k string, v bigint, note string"),
            project.project_root,
            "models",
            "sources.yml",
        )
        run_dbt(["run"])
        names = ("found", "merged", "declared", "lake")
        tables = [f"{name}_{kind}" for name in names for kind in ("rows", "table")]
        found = {
            name: sorted(tuple(row) for row in spark.table(f"{schema}.{name}").select("k", "note").collect())
            for name in [*tables, "reader", "table_reader"]
        }
        assert found == {name: [("a", None), ("b", "here")] for name in found}
