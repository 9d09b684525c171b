"""`dbt-stream state clone`: a copy of a model to try something on, in the same target or another one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt, write_file

from dbt.adapters.spark_streaming.cli.commands import main
from tests.functional.models.conftest import sources, write_events

VIEWS = """
{{{{ config(materialized='streaming_table', constant_domains=['page', 'device']) }}}}
select {key}, count(*) as views from {{{{ stream(source('raw', 'events')) }}}} as e group by {key}
"""


class TestClone:
    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        by_page = VIEWS.format(key="page")
        return {"views.sql": by_page, "again.sql": by_page, "sources.yml": sources(events)}

    @pytest.fixture(scope="class")
    def profiles_config_update(
        self, dbt_profile_target: dict[str, Any], unique_schema: str
    ) -> dict[str, Any]:
        default = {**dbt_profile_target, "schema": unique_schema}
        outputs = {
            "default": default,
            "dev": {**default, "schema": f"{unique_schema}_dev"},
            "far": {**default, "storage_root": f"{default['storage_root']}/far"},
        }
        return {"test": {"outputs": outputs, "target": "default"}}

    @staticmethod
    def clone(project: Any, *arguments: str, target: str = "default") -> tuple[int, str]:
        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        done = CliRunner().invoke(
            main, [*options, "-t", target, "state", "clone", *arguments], catch_exceptions=False
        )
        return done.exit_code, done.stdout + done.stderr

    @pytest.mark.thorough
    def test_in_a_process_of_its_own(self, project: Any) -> None:
        """dbt has read nothing there before."""
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("dbt-stream")),
                *("--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)),
                *("state", "clone", "again", "--from", "none"),
            ],
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert "There is no streaming model 'none'" in done.stderr, done

    @staticmethod
    def rows(spark: Any, table: str) -> dict[str, int]:
        return {row[0]: row["views"] for row in spark.table(table).collect()}

    @pytest.mark.thorough
    def test_a_copy_to_try_something_on(self, project: Any, spark: Any, events: Path) -> None:
        run_dbt(["run", "--select", "views"])
        schema = project.test_schema
        assert "Say what again is to be a clone of" in self.clone(project, "again")[1]
        assert "There is no streaming model 'none'" in self.clone(project, "again", "--from", "none")[1]
        code, said = self.clone(project, "again", "--from", "views", "--savepoint", "x")
        assert (code, "there is no savepoint 'x' of it" in said) == (2, True)
        code, said = self.clone(project, "again", "--from-target", "far")
        assert (code, "The tables of target 'far' are in another catalog" in said) == (2, True)
        # The query isn't one that the state is of: as `state diff` says it.
        write_file(VIEWS.format(key="device"), project.project_root, "models", "again.sql")
        code, said = self.clone(project, "again", "--from", "views")
        assert (code, "the state of model views isn't one of its query" in said) == (2, True)
        assert not spark.catalog.tableExists(f"{schema}.again"), "nothing was made"
        write_file(VIEWS.format(key="page"), project.project_root, "models", "again.sql")

        code, said = self.clone(project, "again", "--from", "views")
        assert (code, "again: continues from views, at micro-batch" in said) == (0, True), said
        code, said = self.clone(project, "views", "--from-target", "default", target="dev")
        assert (code, "views: continues from views in target default" in said) == (0, True), said
        write_events(spark, events, "d", "('2024-03-04 01:06:00', 'p2', 'd5', 7)")
        results = run_dbt(["run"])
        assert [result.adapter_response["rows_in"] for result in results] == [1, 1]
        (result,) = run_dbt(["run", "-t", "dev", "--select", "views"])
        assert result.adapter_response["rows_in"] == 1
        for table in (f"{schema}.views", f"{schema}.again", f"{schema}_dev.views"):
            assert self.rows(spark, table) == {"p1": 5, "p2": 2}
        code, said = self.clone(project, "again", "--from", "views")
        assert (code, "`dbt-stream reset again` forgets what it has" in said) == (2, True)
