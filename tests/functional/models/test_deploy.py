"""`dbt-stream deploy`: a model's group keys are changed, and its table is there all the time."""

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

VIEWS = """
{{{{ config(materialized='streaming_table', constant_domains=['page', 'device'], post_hook="{hook}") }}}}
select {key}, count(*) as views from {{{{ stream(source('raw', 'events')) }}}} as e group by {key}
"""
HOOK = "alter table {{ this }} set tblproperties ('hooked' = '{{ this.identifier }}')"
BY_PAGE, BY_DEVICE = VIEWS.format(key="page", hook=HOOK), VIEWS.format(key="device", hook=HOOK)
TOTAL = """
{{ config(materialized='streaming_table', constant_domains=['page']) }}
select sum(views) as views from {{ stream(ref('views')) }}
"""


class TestDeploy(Commands):
    group, about = "deploy", ("views",)

    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        return {"views.sql": BY_PAGE, "total.sql": TOTAL, "sources.yml": sources(events)}

    def status(self, project: Any) -> dict[str, Any]:
        return dict(json.loads(self.done(project, "status", "--json")))

    @staticmethod
    def rows(project: Any, spark: Any, table: str = "views") -> dict[str, int]:
        return {row[0]: row["views"] for row in spark.table(f"{project.test_schema}.{table}").collect()}

    @pytest.mark.thorough
    def test_a_key_is_changed_without_a_gap(self, project: Any, spark: Any, events: Path) -> None:
        run_dbt(["run"])
        by_page = {"p1": 5, "p2": 1}
        assert self.rows(project, spark) == by_page
        assert "no new version of it was begun" in self.refused(project, "promote")
        write_file(BY_DEVICE, project.project_root, "models", "views.sql")
        _, said = run_dbt_and_capture(["run", "--select", "views"], expect_pass=False)
        assert "`dbt-stream deploy init views`" in said
        told = self.done(project, "init")
        assert "It has caught up: `dbt-stream deploy promote views` gives it the name." in told
        found = self.status(project)
        assert (found["phase"], found["caught_up"], found["behind"]) == ("staged", True, [])
        assert (found["old"]["rows_in"], found["new"]["rows_in"]) == (6, 6)
        new = found["new"]["table"].rpartition(".")[2]
        by_device = {"d1": 3, "d2": 1, "d3": 1, "d9": 1}
        assert (self.rows(project, spark), self.rows(project, spark, new)) == (by_page, by_device)
        hooked = spark.sql(f"show tblproperties {project.test_schema}.{new} ('hooked')").collect()
        assert hooked[0]["value"] == new, "hooks are about the table that is built"

        # The old query, as another checkout still has it, goes on.
        write_events(spark, events, "d", "('2024-03-04 01:06:00', 'p2', 'd5', 7)")
        write_file(BY_PAGE, project.project_root, "models", "views.sql")
        run_dbt(["run"])
        # With it the new version can't go on.
        for said in (self.done(project, "status"), self.refused(project, "promote")):
            assert (
                "more, and the new one can't read them: its query no longer returns device, part of the key"
                in said
            )
            assert "`dbt-stream deploy init --full-refresh views`" in said and "deploy await" not in said
        write_file(BY_DEVICE, project.project_root, "models", "views.sql")
        assert "has read 1 file of " in self.done(project, "status")
        assert "`dbt-stream deploy await views`" in self.refused(project, "promote")
        assert "It has caught up" in self.done(project, "await")
        told = self.done(project, "promote")
        assert f"{project.test_schema}.views__previous_" in told
        assert ".total has read rows of the other version" in told
        assert self.rows(project, spark) == by_device | {"d5": 1}
        results = run_dbt(["run"], expect_pass=False)
        messages = {result.node.name: str(result.message) for result in results}
        assert "0 rows in" in messages["views"], "it goes on from where the new version was"
        assert (
            "belongs to another version of views since `dbt-stream deploy promote views`" in messages["total"]
        )
        assert "its new version has its name" in self.done(project, "status")
        assert "nothing to wait for" in self.refused(project, "await")
        assert "is still kept" in self.refused(project, "init")

    @pytest.mark.thorough
    def test_killed_on_the_way_back(self, project: Any, spark: Any) -> None:
        done = subprocess.run(
            [DBT_STREAM, *self.options(project), "deploy", "rollback", "views"],
            capture_output=True,
            timeout=200,
            env={**os.environ, failpoints.ENVIRONMENT: "kill-both deploy.table.gives:after"},
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        # There is no table of the name now. A run would take it for a new model.
        for more in ([], ["--full-refresh"]):
            (result,) = run_dbt(["run", "--select", "views", *more], expect_pass=False)
            assert "`dbt-stream deploy rollback views` was interrupted" in str(result.message)
        assert "To undo it: `dbt-stream deploy promote views`" in self.refused(project, "status")
        assert "Put the query back to what it was" in self.done(project, "rollback")
        assert self.rows(project, spark) == {"p1": 5, "p2": 2}
        write_file(BY_PAGE, project.project_root, "models", "views.sql")
        run_dbt(["run"])
        assert sum(self.rows(project, spark).values()) == 7
        # What reads it goes on as if nothing had been.
        ((total,),) = project.run_sql(f"select views from {project.test_schema}.total", fetch="all")
        assert total == 7
        assert self.done(project, "cleanup", "--yes").startswith("views: ")
        tables = {row["tableName"] for row in spark.sql(f"show tables in {project.test_schema}").collect()}
        assert not {each for each in tables if "__deploy" in each or "__previous" in each}
        assert "nothing to clean up" in self.refused(project, "cleanup", "--yes")
