"""Lookup joins in a dbt project: the same text as a stream, as a table and as a view; and micro-batches by hint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main
from tests.functional.models.conftest import sources

LOOKUP = """
  - name: crm
    tables:
      - name: pages
        config:
          meta:
            lookup:
              url: "jdbc:sqlite:{{{{ env_var('CRM_FILE') }}}}"
              cache_ttl: 1 hour
"""
NAMED = """select e.ts, e.page, e.amount, p.title from {rows} as e
left join {{{{ source('crm', 'pages') }}}} as p on p.page = e.page"""
STREAM = "{{ stream(source('raw', 'events')) }}"


@pytest.fixture(scope="class")
def crm(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("crm") / "crm.db"
    connection = spark._jvm.java.sql.DriverManager.getConnection(f"jdbc:sqlite:{file}")
    for text in (
        "create table pages (page text primary key, title text)",
        "insert into pages values ('p1', 'Home'), ('p3', 'Shop')",
    ):
        connection.createStatement().execute(text)
    connection.close()
    return file


@pytest.mark.thorough
class TestLookups:
    @pytest.fixture(scope="class")
    def models(self, events: Path, crm: Path) -> dict[str, str]:
        without_limit = sources(events).replace(", maxFilesPerTrigger: 1", "")
        streaming = "{{ config(materialized='streaming_table') }}\n"
        return {
            "sources.yml": without_limit + LOOKUP.format(),
            "named.sql": streaming
            + NAMED.format(rows=STREAM).replace("select", "select /*+ MINI_BATCH(2) */", 1),
            "by_title.sql": "{{ config(materialized='streaming_table', constant_domains=['title']) }}\n"
            f"select title, sum(amount) as total from ({NAMED.format(rows=STREAM)}) group by title",
            "in_pieces.sql": streaming + "select /*+ MINI_BATCH(1) */ * from {{ stream(ref('named')) }}",
            "at_once.sql": streaming + "select * from {{ stream(ref('named')) }}",
            "as_table.sql": "{{ config(materialized='table') }}\n" + NAMED.format(rows=STREAM),
            "as_view.sql": "{{ config(materialized='view') }}\n" + NAMED.format(rows=STREAM),
        }

    def test_a_stream_has_the_rows_of_batch(
        self, project: Any, crm: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CRM_FILE", str(crm))
        results = {result.node.name: result for result in run_dbt(["run"])}

        def rows(text: str) -> list[tuple[Any, ...]]:
            return sorted(map(tuple, project.run_sql(text, fetch="all")), key=repr)

        schema = project.test_schema
        named = rows(f"select * from {schema}.named")
        assert len(named) == 6 and {row[3] for row in named} == {"Home", None}
        assert named == rows(f"select * from {schema}.as_table") == rows(f"select * from {schema}.as_view")
        assert rows(f"select * from {schema}.by_title") == rows(
            f"select title, sum(amount) from {schema}.named group by title"
        )
        said = results["named"].adapter_response
        # Folders are cut between files, of which there are three; two keys, each asked for once.
        assert (said["batches"], said["lookup_requests"], said["lookup_keys"]) == (3, 1, 2)
        assert "3 batches, 1 lookup of 2 keys" in said["_message"]
        batches = {
            name: results[name].adapter_response["batches"] for name in ("by_title", "at_once", "in_pieces")
        }
        # Three commits of an Iceberg table, which is read up to the file that reaches the limit.
        assert batches["by_title"] == batches["at_once"] == 1 and batches["in_pieces"] >= 3
        assert rows(f"select * from {schema}.in_pieces") == named

        profiles = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        shown = CliRunner().invoke(main, [*profiles, "status", "--select", "named", "--json"])
        (status,) = json.loads(shown.stdout)
        assert status["progress"]["lookups"]["total"] == {"requests": 1, "keys": 2}
        printed = CliRunner().invoke(main, [*profiles, "status"]).stdout
        assert "lookups" in printed and "1 requests" in printed
