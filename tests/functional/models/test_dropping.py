"""What a DROP deletes is ours: also in a catalog that is a folder (type: hadoop), where it deletes a table's folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main
from tests.functional.models.test_replaced_tables import files_of

CATALOG = "spark.sql.catalog.folder"
SCHEMA = "{% macro generate_schema_name(custom, node) %}{{ custom or target.schema }}{% endmacro %}"
TABLE = "{{ config(materialized='table', schema='folder.db') }} select id as k from range(3)"
STREAM = """{{ config(materialized='streaming_table', schema='folder.db', constant_domains=['k']) }}
select k, count(*) as n from {{ stream(ref('events')) }} group by k"""


class TestCatalogFolders:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        events = "{{ config(materialized='table') }} select 1 as k"
        return {"ours.sql": TABLE, "theirs.sql": TABLE, "counted.sql": STREAM, "events.sql": events}

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"schemas.sql": SCHEMA}

    @pytest.fixture(scope="class", autouse=True)
    def warehouse(self, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
        folder = tmp_path_factory.mktemp("warehouse")
        settings = {
            CATALOG: "org.apache.iceberg.spark.SparkCatalog",
            f"{CATALOG}.type": "hadoop",
            f"{CATALOG}.warehouse": str(folder),
        }
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield folder
        for name in settings:
            spark.conf.unset(name)

    def refused(self, *options: str) -> str:
        (found,) = run_dbt(["run", "--full-refresh", *options], expect_pass=False)
        return str(found.message)

    def test_files_of_others_stay(self, project: Any, spark: Any, warehouse: Path) -> None:
        spark.sql("create table folder.db.theirs using iceberg as select 7L as k")
        run_dbt(["run", "--exclude", "theirs"])
        run_dbt(["run", "--full-refresh", "--select", "ours", "counted"])
        for name in ("ours", "counted__state"):
            mine = warehouse / "db" / name / "data" / "mine.csv"
            mine.write_text("mine")
            model = name.removesuffix("__state")
            said = self.refused("--select", model)
            assert f"folder.db.{name} isn't dropped, since" in said and "mine.csv is in its folder" in said
            assert mine.exists() and spark.table(f"folder.db.{model}").count() > 0
            if model == "counted":
                options = [
                    "--project-dir",
                    str(project.project_root),
                    "--profiles-dir",
                    str(project.profiles_dir),
                ]
                done = CliRunner().invoke(main, [*options, "reset", "counted", "--yes"])
                assert (done.exit_code, "isn't dropped" in done.stderr) == (2, True), done.output
            mine.unlink()
            run_dbt(["run", "--full-refresh", "--select", model])
        assert "this package didn't make it" in self.refused("--select", "theirs")
        assert spark.table("folder.db.theirs").collect() == [(7,)]


class TestFilesThatAreKept:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        events = "{{ config(materialized='table') }} select 1 as k"
        counted = STREAM.replace(" schema='folder.db',", "")
        return {"branched.sql": counted, "protected.sql": counted, "plain.sql": counted, "events.sql": events}

    def test_branches_and_properties_keep_files(self, project: Any, spark: Any) -> None:
        run_dbt(["run"])
        schema = project.test_schema
        spark.sql(f"alter table {schema}.branched create branch audit")
        spark.sql(f"alter table {schema}.protected set tblproperties ('gc.enabled' = 'false')")
        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        for name in ("branched", "protected", "plain"):
            files = files_of(spark, f"{schema}.{name}")
            done = CliRunner().invoke(main, [*options, "reset", name, "--yes"])
            assert done.exit_code == 0, done.output
            assert not spark.catalog.tableExists(f"{schema}.{name}")
            assert [file.exists() for file in files] == [name != "plain"] * len(files)
