"""`dbt-stream state savepoint`, `restore` and `undo`, as the author of a model uses them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from dbt.adapters.spark_streaming.stream.common import failpoints
from tests.functional.models.commands import Commands
from tests.functional.models.conftest import sources, write_events

DBT_STREAM = str(Path(sys.executable).with_name("dbt-stream"))

PAGES = """
{{{{ config(materialized='streaming_table', constant_domains=['page']) }}}}
select page, {items} from {{{{ stream(source('raw', 'events')) }}}} as e group by page
"""
TOTAL = """
{{ config(materialized='streaming_table', constant_domains=['page']) }}
select sum(views) as views from {{ stream(ref('pages')) }}
"""
VIEWS, EDITED = "count(*) as views, sum(amount) as amount", "count(*) as views, max(amount) as largest"


class TestSavepoints(Commands):
    group = "state"

    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        return {"pages.sql": PAGES.format(items=VIEWS), "total.sql": TOTAL, "sources.yml": sources(events)}

    @staticmethod
    def pages(project: Any, spark: Any) -> dict[str, dict[str, Any]]:
        rows = spark.sql(f"select * from {project.test_schema}.pages").collect()
        return {row["page"]: row.asDict() for row in rows}

    def test_a_copy_before_a_deploy_and_back(self, project: Any, spark: Any, events: Path) -> None:
        run_dbt(["run"])
        assert self.done(project, "savepoint", "pages") == "pages has no savepoints.\n"
        assert "pages: savepoint 'deploy' is of micro-batch" in self.done(
            project, "savepoint", "pages", "deploy"
        )
        self.done(project, "savepoint", "total", "deploy")
        assert "is no savepoint 'x'" in self.refused(project, "restore", "pages", "x").replace("there ", "")
        assert "give one of them" in self.refused(project, "savepoint", "pages", "x", "--list")
        assert "There is no streaming model 'nothing'" in self.refused(project, "savepoint", "nothing", "x")
        before = self.pages(project, spark)

        write_file(PAGES.format(items=EDITED), project.project_root, "models", "pages.sql")
        write_events(spark, events, "d", "('2024-03-04 01:06:00', 'p2', 'd5', 7)")
        _, log = run_dbt_and_capture(["run"])
        assert "To undo this: `dbt-stream state undo pages`" in log
        assert self.pages(project, spark)["p2"] == {"page": "p2", "views": 2, "amount": None, "largest": 7}
        found = json.loads(self.done(project, "savepoint", "pages", "--json"))
        assert [(each["name"], each["taken_before"]) for each in found] == [
            ("deploy", None),
            ("before-migration-1", "migration"),
        ]
        listed = self.done(project, "savepoint", "pages", "--list")
        assert "before a migration, kept until" in listed and "on request" in listed

        # The old query asks for what the savepoint has.
        write_file(PAGES.format(items=VIEWS), project.project_root, "models", "pages.sql")
        assert "`dbt-stream state undo pages` restores it (savepoint before-migration-1)" in self.done(
            project, "diff", "pages"
        )
        told = self.done(project, "undo", "pages")
        assert "pages: back at savepoint 'before-migration-1'" in told
        assert "The next run reads the rows that came since." in told
        assert ".total has read rows that are gone now" in told
        assert self.pages(project, spark) == before
        results = run_dbt(["run"], expect_pass=False)
        (problem,) = (str(each.message) for each in results if each.status == "error")
        assert "was put back" in problem and "`dbt-stream state restore total deploy`" in problem
        assert self.pages(project, spark)["p2"] == {"page": "p2", "views": 2, "amount": 9}
        self.done(project, "restore", "total", "deploy")
        run_dbt(["run"])
        ((views,),) = project.run_sql(f"select views from {project.test_schema}.total", fetch="all")
        assert views == 7

    def test_a_correction(self, project: Any, spark: Any, tmp_path: Path) -> None:
        before = self.pages(project, spark)
        assert "Say what to change" in self.refused(project, "edit", "pages")
        assert "the state is called state here" in self.refused(
            project, "edit", "pages", "--sql", "delete from x where 1"
        )
        file = tmp_path / "more.csv"
        (part,) = (
            row.part
            for row in spark.table(f"{project.test_schema}.pages__state").select("part").distinct().collect()
        )
        file.write_text(f"part,page,count_all,sum_amount\n{part},p1,2,many\n")
        told = self.refused(project, "edit", "pages", "--from", str(file))
        assert "'many' in column sum_amount of " in told and "is no BIGINT" in told
        file.write_text(f"part,page,count_all,sum_amount\n{part},p1,2,40\n{part},p3,1,\n")
        dry = self.done(project, "edit", "pages", "--from", str(file), "--dry-run")
        assert f"rows of its state that would be removed and added:\n  {part}: 0 removed, 2 added" in dry
        assert self.pages(project, spark) == before
        assert "is savepoint 'before-edit-" in self.done(project, "edit", "pages", "--from", str(file))
        after = self.pages(project, spark)
        assert after["p1"] == {
            **before["p1"],
            "views": before["p1"]["views"] + 2,
            "amount": before["p1"]["amount"] + 40,
        }
        assert after["p3"] == {"page": "p3", "views": 1, "amount": None}
        assert "back at savepoint 'before-edit-" in self.done(project, "undo", "pages")
        assert self.pages(project, spark) == before

    @pytest.mark.thorough
    def test_a_restore_that_is_killed(self, project: Any, spark: Any) -> None:
        rows = self.pages(project, spark)
        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        done = subprocess.run(
            [DBT_STREAM, *options, "state", "restore", "pages", "deploy"],
            capture_output=True,
            timeout=200,
            env={**os.environ, failpoints.ENVIRONMENT: "kill-both restore.state:after"},
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        (result,) = run_dbt(["run", "--select", "pages"], expect_pass=False)
        assert "the restore of its savepoint 'deploy' was interrupted" in str(result.message)
        assert "`dbt-stream state restore pages deploy`" in str(result.message)
        found = json.loads(self.done(project, "diff", "pages", "--json"))
        assert (found["verdict"], "was interrupted" in found["reason"]) == ("refused", True)
        self.done(project, "restore", "pages", "deploy")
        assert self.pages(project, spark) != rows
        run_dbt(["run", "--select", "pages"])
        assert self.pages(project, spark) == rows

    @pytest.mark.thorough
    def test_there_and_back_and_built_anew(self, project: Any, spark: Any) -> None:
        self.done(project, "savepoint", "pages", "again")
        rows = self.pages(project, spark)
        assert "What was there is savepoint 'before-restore-" in self.done(
            project, "restore", "pages", "deploy"
        )
        assert self.pages(project, spark) != rows
        self.done(project, "undo", "pages")
        assert self.pages(project, spark) == rows
        assert "is deleted" in self.done(project, "savepoint", "pages", "--delete", "again")
        # What is built from the beginning has none.
        run_dbt(["run", "--full-refresh"])
        assert self.done(project, "savepoint", "pages") == "pages has no savepoints.\n"
        assert self.pages(project, spark) == rows

    @pytest.mark.thorough
    def test_begun_with_a_table(self, project: Any, spark: Any, events: Path) -> None:
        write_file(PAGES.format(items=VIEWS), project.project_root, "models", "pages.sql")
        spark.sql(
            f"create table {project.test_schema}.warehouse as "
            f"select *, 'old' as more from parquet.`{events}/*` union all "
            "select timestamp'2020-01-01', 'ancient', 'd', 100, 'old'"
        )
        table = f"{project.test_schema}.warehouse"
        before = self.pages(project, spark)
        assert "nothing.at_all to bootstrap it from doesn't exist" in self.refused(
            project, "bootstrap", "pages", "--from", "nothing.at_all", "--yes"
        )
        narrow = f"{project.test_schema}.narrow"
        spark.sql(f"create table {narrow} as select ts, page from {table}")
        assert f"its stream has amount as INT, and lakehouse.{narrow}" in self.refused(
            project, "bootstrap", "pages", "--from", narrow, "--yes"
        )
        assert "pages is a table of the model itself, which a rebuild drops" in self.refused(
            project, "bootstrap", "pages", "--from", "pages", "--yes"
        )
        assert self.pages(project, spark) == before, "nothing was changed"
        _, said = run_dbt_and_capture(
            ["run", "--vars", f"{{bootstrap: {{page: {table}}}}}"], expect_pass=False
        )
        assert "The variable bootstrap names 'page', and there is no such model" in said
        assert f"begun with the rows of {table}" in self.done(
            project, "bootstrap", "pages", "--from", table, "--yes"
        )
        write_events(spark, events, "z", "('2024-03-04 02:06:00', 'p9', 'd5', 9)")
        run_dbt(["run", "--select", "pages"])
        ancient = {"page": "ancient", "views": 1, "amount": 100}
        p9 = {"page": "p9", "views": 1, "amount": 9}
        assert self.pages(project, spark) == {**before, "ancient": ancient, "p9": p9}
