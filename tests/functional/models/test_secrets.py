"""A password is nowhere: not on the terminal, not in dbt's log at debug level, not in what is kept of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt_and_capture

from dbt.adapters.spark_streaming.cli.commands import main
from tests.functional.models.conftest import sources

SECRET = "q7R@zz"
FORMS = {
    "user": f"jdbc:postgresql://me:{SECRET}0@db/shop",
    "oracle": f"jdbc:oracle:thin:scott/{SECRET}1@//db:1521/shop",
    "semicolon": f"jdbc:derby:/no/such/database;user=me;password={SECRET}2",
    "question": f"jdbc:sqlite:/no/such/folder/shop.db?mode=ro&password={SECRET}3",
    "ampersand": f"jdbc:mysql://db/shop?user=me&pwd={SECRET}4",
    "address": f"jdbc:mysql://address=(host=db)(user=me)(password={SECRET}5)/shop",
    "option": "jdbc:derby:/no/such/database",
}


def source(name: str, url: str) -> str:
    options = f"\n              options: {{password: '{SECRET}6'}}" if name == "option" else ""
    return f"""
      - name: {name}
        config:
          meta:
            lookup:
              retries: 0
              url: "{url}"{options}
"""


class TestConnections:
    """Of what the profile says nothing is written down."""

    SECRET = "tr0ub4dor+zz"

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{self.SECRET}";'
        connections = {
            "crm": {"url": "jdbc:derby:/no/such/database", "user": "me", "password": self.SECRET},
            "broker": {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.sasl.jaas.config": jaas},
        }
        return {**dbt_profile_target, "connections": connections}

    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        others = """
      - name: views
        config: {meta: {stream: {format: kafka, connection: broker, options: {subscribe: views}}}}
  - name: crm
    tables:
      - name: pages
        config: {meta: {lookup: {retries: 0, connection: crm}}}
"""
        joined = """select e.ts, p.title from {{ stream(source('raw', 'events')) }} as e
            left join {{ source('crm', 'pages') }} as p on p.page = e.page"""
        return {
            "sources.yml": sources(events) + others,
            "looked_up.sql": "{{ config(materialized='streaming_table') }} " + joined,
            "of_topic.sql": "select * from {{ source('raw', 'views') }}",
            "of_table.sql": "select * from {{ source('crm', 'pages') }}",
        }

    def test_they_are_nowhere(self, project: Any, logs_dir: str) -> None:
        results, printed = run_dbt_and_capture(["--debug", "--write-json", "run"], expect_pass=False)
        told = {result.node.name: str(result.message) for result in results}
        assert "/no/such/database" in told["looked_up"] and "kafka" in told["of_topic"]
        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        for command in (["explain", "looked_up", "--json"], ["explain", "looked_up"]):
            printed += CliRunner().invoke(main, [*options, *command]).output
        assert "tr0ub4dor" not in printed
        root = Path(project.project_root)
        files = [path for folder in (root, Path(logs_dir)) for path in folder.rglob("*") if path.is_file()]
        written = {path.name for path in files}
        assert {"manifest.json", "partial_parse.msgpack", "graph.gpickle"} <= written
        # The profile is the test's own file.
        found = [path for path in files if b"tr0ub4dor" in path.read_bytes() and path.name != "profiles.yml"]
        assert found == []


class TestSecrets:
    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        lookups = "  - name: crm\n    tables:" + "".join(source(name, url) for name, url in FORMS.items())
        text = """{{{{ config(materialized='{kind}') }}}}
            select e.ts, p.title from {{{{ stream(source('raw', 'events')) }}}} as e
            left join {{{{ source('crm', '{name}') }}}} as p on p.page = e.page"""
        streams = {f"{name}.sql": text.format(kind="streaming_table", name=name) for name in FORMS}
        tables = {f"{name}_table.sql": text.format(kind="table", name=name) for name in FORMS}
        return {"sources.yml": sources(events) + lookups, **streams, **tables}

    def test_nobody_reads_it(self, project: Any, logs_dir: str) -> None:
        results, printed = run_dbt_and_capture(["--debug", "--write-json", "run"], expect_pass=False)
        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        commands = (["explain", "user"], ["explain", "option", "--json"], ["status"], ["flush", "semicolon"])
        told = [CliRunner().invoke(main, [*options, *command]).output for command in commands]
        logs = [path.read_text() for path in Path(project.project_root).rglob("*.log*") if path.is_file()]
        logs += [path.read_text() for path in Path(logs_dir).rglob("*.log*") if path.is_file()]
        kept = [path.read_text() for path in Path(project.project_root).rglob("run_results.json")]
        assert logs and kept and len(results) == 2 * len(FORMS)
        # Nor does anyone read the stack traces that Spark has for each glob and for each table named by its schema alone.
        assert not any("metadata directory" in text or "Failed to load catalog" in text for text in logs)
        for text in (printed, *told, *logs, *kept):
            where = text.find("zz")
            assert "q7R" not in text and where < 0, text[max(0, where - 300) : where + 100]
        messages = {result.node.name: str(result.message) for result in results}
        assert "Source crm.user can't be read, because there is no JDBC driver" in messages["user"]
        assert "/no/such/database" in messages["semicolon"]
