"""Commands that take a model take a version of it; a name of several versions is refused, and nothing is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main
from tests.functional.models.conftest import sources

BY_PAGE = """{{ config(materialized='streaming_table', constant_domains=['page']) }}
select page, count(*) as n from {{ stream(source('raw', 'events')) }} group by page"""
VERSIONS = """
models:
  - name: m
    latest_version: 2
    versions:
      - v: 1
      - v: 2
        config: {alias: current}
"""


@pytest.mark.thorough
class TestVersions:
    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        return {"sources.yml": sources(events), "m.yml": VERSIONS, "m_v1.sql": BY_PAGE, "m_v2.sql": BY_PAGE}

    def test_each_command_names_one(self, spark: Any, project: Any) -> None:
        schema = project.test_schema
        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]

        def said(*arguments: str, answer: str = "") -> Any:
            return CliRunner().invoke(main, [*options, *arguments], input=answer, catch_exceptions=False)

        run_dbt(["run"])
        for command in (
            ("reset", "--yes"),
            ("explain",),
            ("flush",),
            ("state", "show"),
            ("verify",),
            ("deploy", "init"),
        ):
            refused = said(*command, "m")
            assert refused.exit_code == 2, command
            assert (
                f"'m' is the name of 2 models: m.v1 (table {schema}.m_v1), m.v2 (table {schema}.current)"
                in refused.stderr
            )
        asked = said("reset", "m.v2", answer="n\n")
        assert f"Drop lakehouse.{schema}.current, the table of m.v2" in asked.stdout and asked.exit_code == 1
        assert spark.table(f"{schema}.current").count() == 2
        assert said("explain", "m.v1").exit_code == 0
        assert "m.v2" in said("status").stdout
        assert said("flush", "m.v2").exit_code == 0
        assert said("state", "savepoint", "test.m.v2", "kept").exit_code == 0
        assert "kept" in said("state", "savepoint", "m.v2").stdout
        assert "kept" not in said("state", "savepoint", "m.v1").stdout
        done = said("deploy", "init", "m.v1")
        assert done.exit_code == 0, done.output
        assert said("deploy", "promote", "m.v1").exit_code == 0
        assert (
            f"Drop lakehouse.{schema}.m_v1__previous_"
            in said("deploy", "cleanup", "m.v1", answer="y\n").stdout
        )
        assert said("reset", "--yes", "m.v2").exit_code == 0
        assert not spark.catalog.tableExists(f"{schema}.current")
        assert dict(map(tuple, spark.table(f"{schema}.m_v1").collect())) == {"p1": 5, "p2": 1}
