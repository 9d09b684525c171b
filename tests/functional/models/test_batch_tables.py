"""A model that becomes another kind of model: a stream that becomes a table, a table that becomes a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner
from dbt.tests.util import run_dbt, write_file

from dbt.adapters.spark_streaming.stream.iceberg import maintenance
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable
from tests.functional.models.conftest import sources, write_events
from tests.functional.models.test_replaced_tables import files_of

QUERY = "select page, count(*) as n from {{ stream(source('raw', 'events')) }} group by page"
STREAM = f"{{{{ config(materialized='streaming_table', constant_domains=['page']) }}}}\n{QUERY}"
READER = """{{ config(materialized='streaming_table', constant_domains=['n']) }}
select n, count(*) as pages from {{ stream(ref('m')) }} group by n"""


def batch(kind: str) -> str:
    return f"{{{{ config(materialized='{kind}') }}}}\n{QUERY}"


def run(*options: str) -> dict[str, str]:
    """What `dbt run` says of each model."""
    done = dbtRunner().invoke(["run", *options])
    return {each.node.name: str(each.message) for each in done.result or ()}  # type: ignore[union-attr]


@pytest.mark.thorough
class TestStreamsThatBecomeBatchModels:
    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        return {"sources.yml": sources(events), "m.sql": STREAM, "reader.sql": READER}

    def test_nothing_goes_on_with_what_was_left(self, spark: Any, project: Any, events: Path) -> None:
        schema = project.test_schema

        def becomes(text: str) -> None:
            write_file(text, project.project_root, "models", "m.sql")

        def rows(name: str) -> set[tuple[Any, ...]]:
            return {tuple(row) for row in spark.table(f"{schema}.{name}").collect()}

        def is_left() -> list[str]:
            return [
                each for each in ("m__state", "m__changes") if spark.catalog.tableExists(f"{schema}.{each}")
            ]

        run()
        assert is_left() == ["m__state", "m__changes"]
        # One that fails has replaced nothing.
        becomes(batch("table").replace("count(*)", "count(nothing)"))
        assert "nothing" in run("--select", "m")["m"]
        assert is_left() == ["m__state", "m__changes"]
        becomes(batch("table"))
        said = run()
        assert said["m"] == "OK" and is_left() == []
        # Its query is what it was: the changelog that it read is gone.
        assert "Model reader: it has read the changes of" in said["reader"]
        assert (
            "make it a streaming model again and rebuild both: `dbt run --full-refresh --select m+`"
            in said["reader"]
        )
        assert not any(each.startswith("stream.") for each in properties(spark, f"{schema}.m"))
        # Back: the rows that a table has aren't a stream's.
        becomes(STREAM)
        assert "has 2 rows, and none of its commits is a stream's" in run()["m"]
        write_events(spark, events, "more", "('2024-03-04 02:00:00', 'p1', 'd1', 1)")
        run("--full-refresh")
        assert rows("m") == {("p1", 6), ("p2", 1)} and rows("reader") == {(6, 1), (1, 1)}
        # One that puts its rows beside those of the stream.
        becomes(batch("incremental"))
        said = run()
        assert said["m"] == "OK"
        assert "m was a streaming model, and an incremental run has since added rows" in said["reader"]
        run("--full-refresh")
        assert is_left() == [] and rows("m") == {("p1", 6), ("p2", 1)} and rows("reader") == {(6, 1), (1, 1)}


def properties(spark: Any, name: str) -> list[str]:
    return IcebergTable(spark, name).property_names()


@pytest.mark.usefixtures("project")
class TestTablesOfOthers:
    """A table of a model's name that this package didn't make is replaced, as dbt does; its files stay."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "whole.sql": "{{ config(materialized='table') }} select 1 as k",
            "more.sql": "{{ config(materialized='incremental') }} select 1 as k",
        }

    def test_their_files_stay(self, project: Any, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(maintenance, "MAX_SNAPSHOT_AGE", 0)
        schema = project.test_schema
        for name in ("whole", "more"):
            spark.sql(f"create table {schema}.{name} using iceberg as select 7 as k")
        theirs = {name: files_of(spark, f"{schema}.{name}") for name in ("whole", "more")}
        for _ in range(2):
            run_dbt(["run"])
        assert spark.table(f"{schema}.whole.snapshots").count() == 3
        run_dbt(["run", "--full-refresh"])
        for name, files in theirs.items():
            assert {*files} <= {*files_of(spark, f"{schema}.{name}")}
            assert spark.table(f"{schema}.{name}").count() == 1
        # From then on the tables are ours.
        made = {name: files_of(spark, f"{schema}.{name}") for name in theirs}
        run_dbt(["run", "--full-refresh"])
        for name, files in made.items():
            assert len(files_of(spark, f"{schema}.{name}")) == len(files)
        current = {
            Path(str(row.file_path).removeprefix("file:"))
            for name in theirs
            for row in spark.table(f"{schema}.{name}.files").collect()
        }
        assert current and all(file.exists() for file in current)
        for name in theirs:
            write_file("select 1 as k", project.project_root, "models", f"{name}.sql")
        run_dbt(["run"])
        assert not any(file.exists() for file in current)
        assert all(file.exists() for files in theirs.values() for file in files)
