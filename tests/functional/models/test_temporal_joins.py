"""The macro ``as_of()``: in a stream, a table, a view and a unit test, rows get the version that was valid at their time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main

SOURCES = """
sources:
  - name: raw
    schema: "{{ target.schema }}"
    tables:
      - {name: orders, config: {event_time: at}}
      - name: rates
        config:
          event_time: since
          meta:
            stream:
              format: json
              schema: since timestamp, currency string, rate double
              unique_key: currency
              options: {path: "%s"}
      - {name: plain, config: {event_time: since}}
"""
JOINED = """select o.id, o.at, o.currency, r.rate, r.since
from {{ stream(source('raw', 'orders')) }} as o
left join {{ as_of(%s, 'o.at'%s) }} as r on r.currency = o.currency"""
VERSIONS = JOINED % ("source('raw', 'rates')", "")
APPENDED = JOINED % ("source('raw', 'plain')", ", key=['currency']")
GROUPED = """select window_start, window_end, currency, count(rate) as n, sum(rate) as s
from {{ tumble(ref('joined_stream'), 'at', '1 hour') }} group by window_start, window_end, currency"""
WITHOUT_KEY = JOINED.replace("r.currency = o.currency", "r.rate > 1") % ("source('raw', 'rates')", "")
HOURS = """{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at', begin='2024-01-01',
    batch_size='hour') }}
"""
UNIT = """
unit_tests:
  - name: rates_of_their_time
    model: joined_stream
    given:
      - input: source('raw', 'orders')
        rows:
          - {id: 1, at: "2024-01-01 10:00:00", currency: EUR}
          - {id: 2, at: "2024-01-01 12:00:00", currency: EUR}
          - {id: 3, at: "2024-01-01 12:00:00", currency: USD}
      - input: source('raw', 'rates')
        rows:
          - {since: "2024-01-01 09:00:00", currency: EUR, rate: 1.0}
          - {since: "2024-01-01 12:00:00", currency: EUR, rate: 2.0}
    expect:
      rows:
        - {id: 1, rate: 1.0}
        - {id: 2, rate: 2.0}
        - {id: 3, rate: null}
"""
LATEST = """{{ config(materialized='streaming_table', constant_domains=['currency'], event_time='since') }}
select since, currency, rate from (
    select *, row_number() over (partition by currency order by since desc) as place
    from {{ stream(source('raw', 'plain')) }}
) where place = 1"""
OF_LATEST = JOINED % ("ref('latest')", ", key=['currency']")
STREAM = "{{ config(materialized='streaming_table', constant_domains=['currency']) }}\n"


class TestTemporalJoins:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("rates")

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        return {
            "sources.yml": SOURCES % folder,
            "joined_stream.sql": STREAM + VERSIONS,
            "joined_table.sql": "{{ config(materialized='table') }}\n" + VERSIONS,
            "joined_hours.sql": HOURS + VERSIONS,
            "joined_view.sql": "{{ config(materialized='view') }}\n" + VERSIONS,
            "appended_stream.sql": STREAM + APPENDED,
            "latest.sql": LATEST,
            "of_latest_stream.sql": "{{ config(materialized='streaming_table') }}\n" + OF_LATEST,
            "of_latest_table.sql": "{{ config(materialized='table') }}\n" + OF_LATEST,
            "grouped.sql": "{{ config(materialized='window_aggregate') }}\n" + GROUPED,
            "without_key.sql": STREAM + WITHOUT_KEY,
            "unit.yml": UNIT,
        }

    def rates(self, folder: Path, name: str, *rows: tuple[str, str, float]) -> None:
        lines = [json.dumps(dict(zip(("since", "currency", "rate"), row, strict=True))) for row in rows]
        (folder / f"{name}.json").write_text("\n".join(lines))

    def orders(self, project: Any, *rows: tuple[int, str, str]) -> None:
        values = ", ".join(f"({n}, timestamp'{at}', '{currency}')" for n, at, currency in rows)
        project.run_sql(f"insert into {project.test_schema}.orders values {values}")

    def of(self, project: Any, name: str, columns: str = "id, rate") -> list[Any]:
        query = f"select {columns} from {project.test_schema}.{name} where at < '2024-01-02' order by 1"
        return [tuple(row) for row in project.run_sql(query, fetch="all")]

    def test_rows_get_the_version_of_their_time(self, project: Any, folder: Path) -> None:
        schema = project.test_schema
        project.run_sql(f"create table {schema}.orders (id int, at timestamp, currency string) using iceberg")
        project.run_sql(
            f"create table {schema}.plain (since timestamp, currency string, rate double, m map<string, string>) "
            "using iceberg"
        )
        select = [
            "--select",
            "joined_stream",
            "appended_stream",
            "joined_table",
            "joined_view",
            "grouped",
            "latest+",
        ]
        run = ["run", "--select", "joined_stream", "latest", "of_latest_stream"]
        self.rates(folder, "one", ("2024-01-01 09:00:00", "EUR", 1.0), ("2024-01-01 09:30:00", "USD", 5.0))
        self.orders(project, (1, "2024-01-01 10:00:00", "EUR"), (2, "2024-01-01 08:00:00", "EUR"))
        project.run_sql(
            f"insert into {schema}.plain values (timestamp'2024-01-01 09:00:00', 'EUR', 1.0, map('a', 'b'))"
        )
        run_dbt(run)
        # No version can be known to be the last before the watermark has passed the rows' time.
        assert self.of(project, "joined_stream") == [(2, None)]
        # The version of 09:59 is later, and valid for a row that came before it.
        self.rates(folder, "two", ("2024-01-01 11:00:00", "EUR", 3.0), ("2024-01-01 09:59:00", "EUR", 2.0))
        self.orders(project, (3, "2024-01-01 11:00:00", "EUR"), (4, "2024-01-01 12:00:00", "USD"))
        project.run_sql(
            f"insert into {schema}.plain values (timestamp'2024-01-01 11:00:00', 'EUR', 3.0, map('a', 'b')), "
            "(timestamp'2024-01-01 11:00:00', 'EUR', 3.0, map('b', 'b')), "
            "(timestamp'2024-01-01 09:59:00', 'EUR', 2.0, null), (timestamp'2024-01-01 09:30:00', 'USD', 5.0, null)"
        )
        run_dbt(run)
        assert self.of(project, "joined_stream") == [(1, 2.0), (2, None)]
        self.rates(folder, "three", ("2024-01-03 00:00:00", "JPY", 9.0))
        self.orders(project, (5, "2024-01-01 23:00:00", "CHF"), (6, "2024-01-03 00:00:00", "EUR"))
        project.run_sql(
            f"insert into {schema}.plain values (timestamp'2024-01-03 00:00:00', 'JPY', 9.0, null)"
        )
        run_dbt(["run", *select])
        expected = [(1, 2.0), (2, None), (3, 3.0), (4, 5.0), (5, None)]
        for name in ("joined_stream", "joined_table", "joined_view", "appended_stream"):
            assert self.of(project, name) == expected, name
        # A version that was replaced within a micro-batch of its model isn't in the changelog.
        for name in ("of_latest_stream", "of_latest_table"):
            assert self.of(project, name) == [(1, 1.0), *expected[1:]], name
        # Versions from before a microbatch or a sample are valid in it.
        run_dbt(
            [
                "run",
                "--select",
                "joined_hours",
                "--event-time-start",
                "2024-01-01 11:00:00",
                "--event-time-end",
                "2024-01-01 13:00:00",
            ]
        )
        assert self.of(project, "joined_hours") == [(3, 3.0), (4, 5.0)]
        run_dbt(
            [
                "run",
                "--select",
                "joined_table",
                "--sample",
                "{'start': '2024-01-01 12:00:00', 'end': '2024-01-01 13:00:00'}",
            ]
        )
        assert self.of(project, "joined_table") == [(4, 5.0)]
        run_dbt(["run", "--select", "joined_table"])
        folders = ["--project-dir", project.project_root, "--profiles-dir", project.profiles_dir]
        for name in ("joined_stream", "of_latest_stream"):
            result = CliRunner().invoke(main, [*folders, "verify", name])
            assert "a batch run gives the 5 rows of its table too" in result.stdout, result.output
        columns = "id, cast(since as string)"
        assert self.of(project, "joined_stream", columns) == self.of(project, "joined_table", columns)
        hours = project.run_sql(
            f"select currency, n, s from {schema}.grouped order by window_start, currency", fetch="all"
        )
        assert [tuple(row) for row in hours][:2] == [("EUR", 0, None), ("EUR", 1, 2.0)]

    def test_a_unit_test_and_a_message(self, project: Any) -> None:
        results = run_dbt(["test", "--select", "joined_stream"])
        assert [str(each.status) for each in results] == ["pass"]
        (found,) = run_dbt(["run", "--select", "without_key"], expect_pass=False)
        assert "ON doesn't say which: add r.currency = …" in found.message
