"""`dbt-stream clean`: what killed runs and dropped models leave behind goes, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.run.lock import model_lock
from tests.functional.models.conftest import sources, write_events

MODEL = """{{ config(materialized='streaming_table', changelog=true) }}
select page, count(*) as n from {{ stream(source('raw', 'events')) }} group by page"""


UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


class TestClean:
    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        pages = MODEL.replace("true)", "true, constant_domains=['page'])")
        return {"sources.yml": sources(events), "pages.sql": pages, "gone.sql": pages}

    @pytest.mark.thorough
    def test_nothing_else(self, spark: Any, project: Any, events: Path, storage_root: Path) -> None:
        # Models of other tests are gone too, hundreds of them.
        for folder in ("checkpoints", "savepoints", "tables"):
            shutil.rmtree(storage_root / folder, ignore_errors=True)
        run_dbt(["run"])
        schema = project.test_schema
        tables = storage_root / "warehouse" / schema
        (checkpoint,) = (storage_root / "checkpoints").glob(f"*{schema}.pages")
        planted = [
            *(
                tables / name / "data" / f"00000-4-{UUID}-0-00001.parquet"
                for name in ("pages", "pages__state")
            ),
            tables / "pages__changes" / "metadata" / f"00009-{UUID}.metadata.json",
            checkpoint / "offsets" / ".9.0f6b.TID1.tmp",
            storage_root / "progress" / f"{schema}.json.{'ab12' * 8}.partial",
            storage_root / f".probe-{'ab12' * 8}",
        ]
        # Others' files in a folder of ours: named as Spark and pandas name them, or those of a table below.
        others_files = [
            tables / "pages" / name
            for name in (
                "in.json",
                "data/mine.csv",
                f"data/part-00000-{UUID}-c000.parquet",
                f"sub/data/0-4-{UUID}-0-1.orc",
            )
        ]
        for file in [*planted, *others_files]:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("half")
        # Of a model whose name isn't that of its files.
        other = storage_root / "checkpoints" / f"lakehouse.{schema}.my_model-0badcafe" / "metadata"
        other.parent.mkdir()
        other.write_text("{}")
        spark.sql(f"create view {schema}.own__changes as select 1 as one")
        spark.sql(f"create table {schema}.own__state (one int) using iceberg")
        spark.sql(f"drop table {schema}.gone purge")
        before = {path for path in storage_root.rglob("*") if path.is_file()}

        def clean(*options: str) -> str:
            profiles = [
                "--project-dir",
                str(project.project_root),
                "--profiles-dir",
                str(project.profiles_dir),
            ]
            done = CliRunner().invoke(main, [*profiles, "clean", "--select", "pages", *options])
            assert done.exit_code == 0, done.output
            return done.stdout

        def removed() -> set[Path]:
            return before - {path for path in storage_root.rglob("*") if path.is_file()}

        told = clean("--older-than", "1 millisecond", "--dry-run", "--dropped")
        assert not [file.name for file in planted if file.name not in told], told
        assert "would be removed" in told
        assert f"lakehouse.{schema}.gone: there is no such table" in told
        assert f"{schema}.own" not in told
        assert removed() == set()
        # Young files of tables stay, for they may be those of a commit that is going on; so does what is left of models.
        assert "--dropped lists what" in clean()
        assert "Run the command again with --yes" in clean("--dropped")
        assert {path.name for path in removed()} == {planted[3].name}
        model = StreamModel(
            name="pages",
            target=f"lakehouse.{schema}.pages",
            state="",
            storage=Storage(str(storage_root), lambda: spark),
            sources=(),
        )
        with model_lock(spark, model):
            assert "another run of it is in progress" in clean("--older-than", "1 millisecond")
        assert planted[0].exists()
        clean("--older-than", "1 millisecond", "--dropped", "--yes")
        others = {
            path for path in removed() - set(planted) if schema in str(path) and "gone" not in str(path)
        }
        assert set(planted) <= removed()
        assert not others and all(file.exists() for file in others_files)
        assert not spark.catalog.tableExists(f"{schema}.gone__state")
        assert not list((storage_root / "checkpoints").glob(f"*{schema}.gone"))
        write_events(spark, events, "later", "('2024-03-04 02:00:00', 'p1', 'd1', 1)")
        run_dbt(["run"])
        for name in ("pages", "gone"):
            found = dict(map(tuple, spark.table(f"{schema}.{name}").collect()))
            assert found == {"p1": 6, "p2": 1}
