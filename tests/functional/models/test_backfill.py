"""`dbt-stream backfill`, and a full refresh upstream: a stream's table repaired, its state left alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt, write_file

from dbt.adapters.spark_streaming.cli.commands import main

QUERY = """
select window_start, window_end, page, count(*) as views, count(distinct device) as devices
from {{{{ {window}(ref('events'), 'ts', {lengths}) }}}}
group by window_start, window_end, page"""
HOURS = QUERY.format(window="tumble", lengths="'1 hour'")
CURVE = QUERY.format(window="cumulate", lengths="'1 hour', '4 hours'")
VISITS = """
select window_start, window_end, page, count(*) as views, count(distinct device) as devices
from {{ session(ref('events'), 'ts', '90 minutes', partition_by=['page']) }}
group by window_start, window_end, page"""
EVENTS = """{{ config(materialized='incremental', incremental_strategy='append') }}
select timestamp(ts) as ts, page, device from values
{% if is_incremental() %} {{ var('rows') }} {% else %}
('2024-03-04 00:10:00', 'p1', 'd1'), ('2024-03-04 01:10:00', 'p1', 'd1'), ('2024-03-04 08:10:00', 'p2', 'd1')
{% endif %} as t(ts, page, device)"""


def rows(project: Any, table: str, where: str = "true") -> Counter[tuple[Any, ...]]:
    query = f"select window_end, page, views, devices from {project.test_schema}.{table} where {where}"
    return Counter((str(row[0]), *row[1:]) for row in project.run_sql(query, fetch="all"))


def add(*listed: str) -> None:
    values = ", ".join(
        f"('2024-03-04 {at}:00', '{page}', '{device}')" for at, page, device in map(str.split, listed)
    )
    run_dbt(["run", "--select", "events", "--vars", f'{{rows: "{values}"}}'])


class TestBackfill:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "events.sql": EVENTS,
            "hours.sql": "{{ config(materialized='streaming_table') }}" + HOURS,
            "curve.sql": "{{ config(materialized='cumulate') }}" + CURVE,
            "visits.sql": "{{ config(materialized='streaming_table') }}" + VISITS,
            "visits_in_batch.sql": "{{ config(materialized='view') }}" + VISITS,
            "hours_in_batch.sql": "{{ config(materialized='view') }}" + HOURS,
            "curve_in_batch.sql": "{{ config(materialized='view') }}" + CURVE,
            "fed.sql": "{{ config(materialized='streaming_table', changelog=true) }}" + HOURS,
            "passed_on.sql": "{{ config(materialized='streaming_table') }}"
            "select * from {{ tumble(ref('events'), 'ts', '1 hour') }}",
        }

    def command(self, project: Any, *arguments: str) -> Any:
        options = ["--project-dir", project.project_root, "--profiles-dir", project.profiles_dir]
        return CliRunner().invoke(main, [*options, *arguments])

    def invoke(self, project: Any, *arguments: str) -> Any:
        return self.command(project, "backfill", *arguments)

    def backfill(self, project: Any, model: str, start: str, end: str) -> Any:
        return self.invoke(project, model, "--start", f"2024-03-04 {start}", "--end", f"2024-03-04 {end}")

    @pytest.mark.parametrize(
        "models_", [("hours",), pytest.param(("curve", "fed"), marks=pytest.mark.thorough)], ids=", ".join
    )
    def test_late_rows_are_in_and_the_stream_goes_on(self, project: Any, models_: tuple[str, ...]) -> None:
        batches = {name: f"{'hours' if name == 'fed' else name}_in_batch" for name in models_}
        run_dbt(["run", "--full-refresh", "--select", "events", *models_, *batches.values()])
        add("00:20 p1 d2", "03:30 p3 d1")
        late = {
            result.node.name: result.adapter_response for result in run_dbt(["run", "--select", *models_])
        }
        assert {name: late[name]["late_rows"] for name in models_} == dict.fromkeys(models_, 2)
        closed = "window_end <= timestamp'2024-03-04 08:00:00'"
        for model, batch in batches.items():
            assert rows(project, model) != rows(project, batch, closed)
            found = self.backfill(project, model, "00:00:00", "04:00:00")
            assert found.exit_code == 0, found.output
            assert rows(project, model) == rows(project, batch, closed)
        if "fed" in models_:
            changes = rows(project, "fed__changes", "_change_type = 'insert'")
            changes.subtract(rows(project, "fed__changes", "_change_type = 'delete'"))
            assert +changes == rows(project, "fed")
            numbers = project.run_sql(
                f"select distinct _batch_id from {project.test_schema}.fed__changes", fetch="all"
            )
            assert sorted(row[0] for row in numbers) == [0, 1]
        assert "after 2024-03-04 00:00:00 and until 2024-03-04 04:00:00 (UTC)" in found.output

        # Once more changes nothing, and the state is where it was: the open window has its row.
        again = self.backfill(project, models_[0], "00:00:00", "04:00:00")
        assert again.exit_code == 0, again.output
        add("12:30 p1 d1", "14:10 p1 d1")
        run_dbt(["run", "--select", *models_, "--vars", "{flush: true}"])
        for model, batch in batches.items():
            assert rows(project, model) == rows(project, batch)

    @pytest.mark.thorough
    def test_values_that_the_table_can_not_hold(self, project: Any) -> None:
        """The query was edited since its last run, and the table's column is of another type."""
        run_dbt(["run", "--full-refresh", "--select", "events", "hours"])
        before = rows(project, "hours")
        write_file(
            "{{ config(materialized='streaming_table') }}" + HOURS.replace("count(*) as", "count(*) / 2 as"),
            project.project_root,
            "models",
            "hours.sql",
        )
        for arguments in (
            ["backfill", "hours", "--start", "2024-03-04 00:00:00", "--end", "2024-03-04 04:00:00"],
            ["flush", "hours"],
        ):
            found = self.command(project, *arguments)
            assert found.exit_code == 2
            assert "its query gives views as DOUBLE, and in its table" in found.output
            assert "it is BIGINT, so values would be cut off or lost" in found.output
        assert rows(project, "hours") == before
        write_file(
            "{{ config(materialized='streaming_table') }}" + HOURS,
            project.project_root,
            "models",
            "hours.sql",
        )

    @pytest.mark.thorough
    def test_a_session_that_goes_on_after_what_has_closed(self, project: Any) -> None:
        run_dbt(["run", "--full-refresh", "--select", "events", "visits*"])
        add("02:30 p1 d2", "04:00 p1 d2", "05:30 p1 d2", "07:00 p1 d2")
        run_dbt(["run", "--select", "visits"])
        before = rows(project, "visits")
        assert before
        found = self.backfill(project, "visits", "00:00:00", "04:00:00")
        assert found.exit_code == 2
        assert "a session of this range ends at 2024-03-04 08:30:00" in found.output
        assert rows(project, "visits") == before
        run_dbt(["run", "--select", "visits", "--vars", "{flush: true}"])
        found = self.backfill(project, "visits", "00:00:00", "04:00:00")
        assert found.exit_code == 0, found.output
        assert rows(project, "visits") == rows(project, "visits_in_batch")

    def test_what_cant_be_filled(self, project: Any) -> None:
        def message(*arguments: str) -> str:
            found = self.backfill(project, *arguments)
            assert found.exit_code == 2
            return str(found.output)

        assert "is the wrong way round" in message("hours", "02:00:00", "01:00:00")
        assert "No window of the range has closed" in message("hours", "22:00:00", "23:00:00")
        assert "emits its rows as they arrive" in message("passed_on", "00:00:00", "01:00:00")

    @pytest.mark.thorough
    def test_a_full_refresh_upstream_is_noticed(self, project: Any) -> None:
        run_dbt(["run", "--full-refresh", "--select", "events", "hours"])
        before = rows(project, "hours")
        run_dbt(["run", "--full-refresh", "--select", "events"])
        (result,) = run_dbt(["run", "--select", "hours"], expect_pass=False)
        assert "that it streams from was rebuilt" in result.message
        assert "`dbt run --full-refresh --select hours`" in result.message
        assert "`dbt run --full-refresh --select events+`" in result.message
        assert rows(project, "hours") == before
        run_dbt(["run", "--full-refresh", "--select", "events+", "--exclude", "fed", "passed_on", "curve*"])
        assert rows(project, "hours") == before
