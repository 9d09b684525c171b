"""`dbt-stream verify`: a table beside a batch run, and the one row that somebody changed is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main

from .conftest import sources, write_events

EVENTS = """{{ config(materialized='incremental', incremental_strategy='append', event_time='ts') }}
select timestamp(ts) as ts, page, device, price from values
{% if is_incremental() %} {{ var('rows') }} {% else %}
('2024-03-04 00:10:00', 'p1', 'd1', 0.1D), ('2024-03-04 01:10:00', 'p1', 'd2', 0.2D),
('2024-03-04 01:20:00', 'p2', 'd1', 0.3D), ('2024-03-04 05:10:00', 'p2', 'd3', -0.0D)
{% endif %} as t(ts, page, device, price)"""
CURVE = """
select window_start, window_end, page, count(*) as views, count(distinct device) as devices, sum(price) as paid,
    map(page, count(*)) as by_page
from {{ cumulate(ref('events'), 'ts', '1 hour', '4 hours') }}
group by window_start, window_end, page"""


class Verify:
    """A project with some of the models, which have run."""

    NAMES: tuple[str, ...] = ()

    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        every = {
            "sources.yml": sources(events),
            "files.sql": "{{ config(materialized='window_aggregate') }}"
            "select window_start, window_end, page, count(*) as views, sum(amount) as paid "
            "from {{ tumble(source('raw', 'events'), 'ts', '1 hour') }} group by window_start, window_end, page",
            "firsts.sql": "{{ config(materialized='topn', constant_domains=['page', 'device']) }}"
            "select ts, page, device from (select *, row_number() over (partition by page, device order by ts) as rn "
            "from {{ stream(ref('events')) }}) where rn = 1",
            "days.sql": "{{ config(materialized='streaming_table', first_result_offset='-20 hours') }}"
            "select window_start, window_end, page, sum(price) as paid "
            "from {{ tumble(ref('events'), 'ts', '30 minutes', time_zone='Asia/Kolkata') }} "
            "group by window_start, window_end, page",
            "events.sql": EVENTS,
            "curve.sql": "{{ config(materialized='cumulate') }}" + CURVE,
            "totals.sql": "{{ config(materialized='streaming_table', constant_domains=['page']) }}"
            "select page, count(*) as views, sum(price) as paid "
            "from {{ stream(ref('events')) }} group by page",
            "no_ends.sql": "{{ config(materialized='streaming_table') }}"
            f"select page, max(views) as most from ({CURVE}) group by window_start, window_end, page",
            "on_clock.sql": "{{ config(materialized='streaming_table') }}"
            "select *, current_timestamp() as seen from {{ stream(ref('events')) }}",
            "fresh.sql": "{{ config(materialized='streaming_table') }} select * from {{ stream(ref('events')) }}",
            "totals_read.sql": "{{ config(materialized='streaming_table', constant_domains=['views']) }}"
            "select views, count(*) as pages from {{ stream(ref('totals')) }} group by views",
        }
        return {name: text for name, text in every.items() if not self.NAMES or name in self.NAMES}

    @pytest.fixture(scope="class", autouse=True)
    def ran(self, project: Any) -> None:
        run_dbt(["run", *([] if self.NAMES else ["--exclude", "fresh"])])

    def verify(self, project: Any, model: str, *options: str) -> Any:
        folders = ["--project-dir", project.project_root, "--profiles-dir", project.profiles_dir]
        return CliRunner().invoke(main, [*folders, "verify", model, *options])

    def found(self, project: Any, model: str, code: int = 0) -> dict[str, Any]:
        result = self.verify(project, model, "--json")
        assert result.exit_code == code, result.output
        return dict(json.loads(result.stdout))


class TestVerify(Verify):
    NAMES = ("events.sql", "curve.sql")

    @pytest.mark.thorough
    def test_windows_that_have_closed(self, project: Any) -> None:
        found = self.found(project, "curve")
        assert found["equal"] and found["rows"]["table"] == found["rows"]["batch"] == 7
        assert found["windows_until"] == "2024-03-04T05:10:00.000000Z"
        assert "Windows that end after 2024-03-04 05:10:00 (UTC) aren't compared" in found["notes"][0]
        result = self.verify(project, "curve")
        assert result.exit_code == 0
        assert "curve: its table has the 7 rows that a batch run gives." in result.stdout

    def test_a_row_that_somebody_changed(self, project: Any) -> None:
        table = f"{project.test_schema}.curve"
        project.run_sql(f"update {table} set views = 7 where page = 'p2' and hour(window_end) = 3")
        found = self.found(project, "curve", code=1)
        assert found["rows"] == {
            "table": 7,
            "batch": 7,
            "in_both": 6,
            "only_in_table": 1,
            "only_in_batch": 1,
        }
        assert [row["views"] for row in found["only_in_table"]] == ["7"]
        assert [(row["views"], row["page"]) for row in found["only_in_batch"]] == [("1", "p2")]
        (hint,) = found["hints"]
        assert "1 commit to the table is not the stream's" in hint
        result = self.verify(project, "curve")
        assert result.exit_code == 1
        assert "6 rows are in both, 1 only in the table, 1 only in batch" in result.stdout
        assert "Only in the table (1 row)" in result.stdout
        project.run_sql(f"update {table} set views = 1 where views = 7")
        assert self.found(project, "curve")["equal"]


@pytest.mark.thorough
class TestVerifyOthers(Verify):
    def test_first_rows_that_may_come_yet(self, project: Any) -> None:
        found = self.found(project, "firsts")
        assert found["equal"] and found["may_come_yet"]
        assert found["rows"] == {
            "table": 3,
            "batch": 4,
            "in_both": 3,
            "only_in_table": 0,
            "only_in_batch": 1,
        }
        assert "may come yet" in self.verify(project, "firsts").stdout

    def test_early_results_on_a_zones_clock(self, project: Any) -> None:
        everything = project.run_sql(f"select count(*) from {project.test_schema}.days", fetch="all")[0][0]
        found = self.found(project, "days")
        assert found["equal"]
        assert (everything, found["rows"]["table"], found["rows"]["batch"]) == (4, 3, 3)

    def test_a_folder(self, project: Any, spark: Any, events: Path) -> None:
        found = self.found(project, "files")
        assert found["equal"] and found["rows"]["table"] == 2
        write_events(spark, events, "d", "('2024-03-04 03:05:00', 'p1', 'd1', 4)")
        unread = self.verify(project, "files")
        assert unread.exit_code == 2
        assert "has not read 1 file of" in unread.output
        assert "dbt run --select files" in unread.output
        run_dbt(["run", "--select", "files"])
        assert self.found(project, "files")["rows"]["table"] == 3

    def test_rows_that_are_replaced(self, project: Any) -> None:
        found = self.found(project, "totals")
        assert found["equal"] and found["rows"]["in_both"] == 2 and found["notes"] == []
        assert self.found(project, "totals_read")["rows"]["in_both"] == 1

    def test_a_row_that_is_there_twice_or_is_missing(self, project: Any) -> None:
        """Either is as wrong."""
        table = f"{project.test_schema}.curve"
        assert self.found(project, "curve")["equal"]
        project.run_sql(
            f"insert into {table} select * from {table} where page = 'p2' and hour(window_end) = 3"
        )
        twice = self.found(project, "curve", code=1)["rows"]
        assert (twice["only_in_table"], twice["only_in_batch"]) == (1, 0)
        project.run_sql(f"delete from {table} where page = 'p2' and hour(window_end) = 3")
        missing = self.found(project, "curve", code=1)["rows"]
        assert (missing["only_in_table"], missing["only_in_batch"]) == (0, 1)

    def test_what_cant_be_compared(self, project: Any) -> None:
        for model, sentence in (
            ("no_ends", "dbt-stream flush no_ends"),
            ("on_clock", "it reads CURRENT_TIMESTAMP()"),
            ("fresh", "has read nothing yet"),
        ):
            result = self.verify(project, model)
            assert result.exit_code == 2, result.output
            assert sentence in result.output
        run_dbt(["run", "--select", "no_ends", "--vars", "{flush: true}"])
        assert self.found(project, "no_ends")["equal"]

    def test_rows_that_came_since(self, project: Any) -> None:
        rows = "('2024-03-04 09:10:00', 'p1', 'd1', 1D), ('2024-03-04 00:15:00', 'p3', 'd1', 1D)"
        run_dbt(["run", "--select", "events", "--vars", f'{{rows: "{rows}"}}'])
        found = self.found(project, "totals")
        assert found["equal"] and found["rows"]["batch"] == 2
        assert "2 rows came to" in found["notes"][0]
        assert self.found(project, "totals_read")["equal"]
        run_dbt(["run", "--select", "totals"])
        assert self.found(project, "totals")["rows"]["in_both"] == 3
        unread = self.verify(project, "totals_read")
        assert unread.exit_code == 2
        assert "has not read all changes" in unread.output
        run_dbt(["run", "--select", "curve", "--full-refresh"])
        assert self.found(project, "curve")["equal"]

    def test_rows_that_were_dropped_as_late(self, project: Any) -> None:
        rows = "('2024-03-04 00:30:00', 'p4', 'd1', 1D)"
        run_dbt(["run", "--select", "events", "--vars", f'{{rows: "{rows}"}}'])
        run_dbt(["run", "--select", "curve"])
        found = self.found(project, "curve", code=1)
        assert found["rows"]["only_in_table"] == 0
        assert {row["page"] for row in found["only_in_batch"]} == {"p4"}
        (hint,) = found["hints"]
        assert "1 row came after all windows of that time had closed" in hint

    def test_a_row_that_somebody_changed_in_a_model_that_is_read(self, project: Any) -> None:
        """Its changelog follows when it is run, though nothing new came to it."""
        run_dbt(["run", "--select", "totals", "totals_read"])
        assert self.found(project, "totals_read")["equal"]
        project.run_sql(f"delete from {project.test_schema}.totals where page = 'p2'")
        ahead = self.verify(project, "totals_read")
        assert ahead.exit_code == 2
        assert (
            "somebody changed the table since. Run both models first: `dbt run --select 1+totals_read`"
            in (" ".join(ahead.output.split()))
        )
        run_dbt(["run", "--select", "1+totals_read"])
        assert self.found(project, "totals_read")["equal"]


@pytest.mark.thorough
class TestVerifyEdited(Verify):
    """What was emitted before an edit is an explanation only where there was one."""

    NAMES = ("sources.yml", "events.sql", "fresh.sql", "files.sql")

    def test_queries_that_were_edited(self, project: Any) -> None:
        assert self.found(project, "files")["equal"] and self.found(project, "fresh")["equal"]
        models = Path(project.project_root) / "models"
        for name, before, after in (
            ("files", "sum(amount) as paid", "sum(amount) as paid, max(amount) as most"),
            ("fresh", "select *", "select page, price + 1 as price"),
        ):
            text = (models / f"{name}.sql").read_text()
            (models / f"{name}.sql").write_text(text.replace(before, after))
            run_dbt(["run", "--select", name])
            (hint,) = self.found(project, name, code=1)["hints"]
            assert hint.startswith("Its query or its state was edited since the stream began.")
