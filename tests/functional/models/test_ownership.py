"""What this package didn't make is never dropped, replaced or written, whatever its name is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt, write_file

from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.stream.iceberg.ownership import OF, ROLE
from tests.functional.models.conftest import sources, write_events

BY_PAGE = """{{ config(materialized='streaming_table', constant_domains=['page'], changelog=true) }}
select page, count(*) as n from {{ stream(source('raw', 'events')) }} group by page"""


def said(project: Any, *arguments: str) -> Any:
    """What a command of dbt-stream says, and its exit code."""
    options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
    return CliRunner().invoke(main, [*options, *arguments], catch_exceptions=False)


def message(arguments: list[str]) -> str:
    """What dbt says of the one node that fails."""
    (entry,) = [each for each in run_dbt(arguments, expect_pass=False) if each.status == "error"]
    return str(entry.message)


class TestOthersTables:
    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        return {
            "sources.yml": sources(events),
            "hist.sql": BY_PAGE,
            "stg_x__state.sql": BY_PAGE,
            "plain.sql": "{{ config(materialized='table') }} select 1 as one",
        }

    def test_others_tables_stay(self, spark: Any, project: Any) -> None:
        schema = project.test_schema
        # Of the state's name: a table, a view, a state of another model.
        spark.sql(f"create table {schema}.hist__state using iceberg as select 42 as answer")
        refused = message(["run", "--select", "hist"])
        assert f"its state goes into lakehouse.{schema}.hist__state" in refused
        assert f"it has no property '{ROLE}'" in refused and "another 'alias'" in refused
        assert spark.table(f"{schema}.hist__state").collect()[0].answer == 42
        refused = message(["run", "--select", "hist", "--full-refresh"])
        assert "It is left alone" in refused
        assert spark.table(f"{schema}.hist__state").count() == 1
        spark.sql(
            f"alter table {schema}.hist__state set tblproperties ('{ROLE}' = 'state', '{OF}' = 'lakehouse.{schema}.other')"
        )
        refused = message(["run", "--select", "hist"])
        assert f"its properties say that it is the state of lakehouse.{schema}.other" in refused
        assert spark.table(f"{schema}.hist__state").count() == 1
        # It is nobody else's to build into either.
        write_file(
            "{{ config(materialized='table', alias='hist__state') }} select 1 as one",
            project.project_root,
            "models",
            "plain.sql",
        )
        write_file(
            BY_PAGE.replace("changelog=true", "alias='gone'"), project.project_root, "models", "hist.sql"
        )
        refused = message(["run", "--select", "plain"])
        assert (
            f"hist__state is the state of the streaming model whose table is lakehouse.{schema}.other"
            in refused
        )
        assert spark.table(f"{schema}.hist__state").count() == 1
        write_file(
            "{{ config(materialized='table') }} select 1 as one", project.project_root, "models", "plain.sql"
        )
        write_file(BY_PAGE, project.project_root, "models", "hist.sql")
        spark.sql(f"drop table {schema}.hist__state purge")
        # Of the changelog's.
        spark.sql(
            f"create table {schema}.hist__changes using iceberg as select 1 as a, '' as _change_type, 1L as _batch_id"
        )
        refused = message(["run", "--select", "hist"])
        assert f"its changelog goes into lakehouse.{schema}.hist__changes" in refused
        assert spark.table(f"{schema}.hist__changes").count() == 1
        spark.sql(f"drop table {schema}.hist__changes purge")
        # Of the model's own: it isn't dropped with the rest.
        spark.sql(f"create table {schema}.hist using iceberg as select 'p9' as page, 7L as n")
        done = said(project, "reset", "--yes", "hist")
        assert (
            done.exit_code == 2
            and f"lakehouse.{schema}.hist isn't a table that this package made" in done.stderr
        )
        assert spark.table(f"{schema}.hist").count() == 1
        # Files in its folder that its snapshots don't know may be its author's.
        data = Path(
            spark.sql(f"select file_path from {schema}.hist.files").first().file_path.removeprefix("file:")
        ).parent
        (data / "mine.parquet").write_text("")
        done = said(project, "clean", "--older-than", "1 millisecond", "--select", "hist")
        assert done.exit_code == 0 and (data / "mine.parquet").exists()
        spark.sql(f"drop table {schema}.hist purge")

    @pytest.mark.thorough
    def test_others_branches_stay(self, spark: Any, project: Any, events: Path) -> None:
        schema = project.test_schema
        # A streaming model may be called as another's state would be.
        assert len(run_dbt(["run"])) == 3
        done = said(project, "clean", "--dropped", "--dry-run")
        assert f"{schema}.stg_x" not in "".join(
            line for line in done.stdout.splitlines() if "there is no such table" in line
        )
        # Its branches are its author's, too.
        spark.sql(f"alter table {schema}.hist create branch savepoint_mine")
        spark.sql(f"alter table {schema}.hist__state create tag `savepoint_before-restore-1`")
        refused = said(project, "state", "savepoint", "hist", "mine")
        assert (
            refused.exit_code == 2
            and "has a branch or a tag savepoint_mine, which no savepoint made" in refused.stderr
        )
        assert said(project, "state", "savepoint", "hist", "other").exit_code == 0
        write_events(spark, events, "later", "('2024-03-04 02:00:00', 'p1', 'd1', 1)")
        run_dbt(["run", "--select", "hist"])
        assert "before-restore-2" in said(project, "state", "restore", "hist", "other").output
        assert said(project, "state", "savepoint", "hist", "--delete", "other").exit_code == 0
        said(project, "clean", "--older-than", "1 millisecond")

        def refs(table: str) -> set[str]:
            return {row.name for row in spark.sql(f"select name from {schema}.{table}.refs").collect()}

        assert refs("hist") == {"main", "savepoint_mine", "savepoint_before-restore-2"}
        assert refs("hist__state") == {"main", "savepoint_before-restore-1", "savepoint_before-restore-2"}
        # A full refresh and a reset forget what is ours.
        run_dbt(["run", "--select", "hist", "--full-refresh"])
        assert refs("hist") == {"main", "savepoint_mine"}
        assert said(project, "reset", "--yes", "hist").exit_code == 0
        assert not any(
            spark.catalog.tableExists(f"{schema}.hist{each}") for each in ("", "__state", "__changes")
        )

    def test_names_that_clash_are_refused_when_the_project_is_read(self, project: Any) -> None:
        write_file("select 1 as one", project.project_root, "models", "hist__state.sql")
        schema = project.test_schema
        done = said(project, "status")
        assert done.exit_code == 2
        assert (
            f"Model hist__state would be built as {schema}.hist__state, and Model hist keeps its state in "
            f"{schema}.hist__state. Give one of the two another name" in done.stderr
        )
        with pytest.raises(Exception, match="Model hist keeps its state in"):
            run_dbt(["parse"])
