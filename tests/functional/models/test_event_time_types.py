"""Ranges of event time give the rows that a plain table of the same text has, whatever the column's type and the session's
time zone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main
from tests.functional.quick import session_set

ZONE = "spark.sql.session.timeZone"
TYPES = {"instant": "timestamp", "clock": "timestamp_ntz", "day": "date"}
FIRST = "2024-03-09"
"""New York's clocks go forward on the 10th."""

SOURCES = "sources:\n  - name: raw\n    schema: '{{ target.schema }}'\n    tables:\n" + "".join(
    f"      - name: {name}\n        config: {{event_time: ts}}\n" for name in TYPES
)
BATCHES = "materialized='incremental', incremental_strategy='microbatch', begin='2024-03-08'"
OVERWRITE = "materialized='incremental', incremental_strategy='window_overwrite'"


def rows_of(name: str, config: str) -> str:
    return f"{{{{ config({config}) }}}} select ts, k from {{{{ source('raw', '{name}') }}}}"


def windows_of(name: str, config: str, size: str = "6 hours", zone: str = "") -> str:
    over = f"tumble(source('raw', '{name}'), 'ts', '{size}'{zone})"
    return (
        f"{{{{ config({config}) }}}} select window_start, window_end, k, count(*) as n from {{{{ {over} }}}} "
        "group by window_start, window_end, k"
    )


def models_of(name: str) -> dict[str, str]:
    by_window = f"{BATCHES}, event_time='window_start', batch_size='day'"
    paris = ", time_zone='Europe/Paris'"
    return {
        f"{name}_plain": rows_of(name, "materialized='table'"),
        f"{name}_days": rows_of(name, f"{BATCHES}, event_time='ts', batch_size='day', lookback=2"),
        f"{name}_windows": windows_of(name, "materialized='table'"),
        f"{name}_window_days": windows_of(name, by_window),
        f"{name}_ranges": windows_of(name, OVERWRITE),
        f"{name}_in_paris": windows_of(name, "materialized='table'", "1 day", paris),
        f"{name}_ranges_in_paris": windows_of(name, OVERWRITE, "1 day", paris),
    } | ({} if name == "day" else {f"{name}_stream": windows_of(name, "materialized='streaming_table'")})


@pytest.fixture(
    scope="class",
    params=[
        "America/New_York",
        pytest.param("UTC", marks=pytest.mark.thorough),
        pytest.param("Asia/Kolkata", marks=pytest.mark.thorough),
    ],
)
def zone(request: pytest.FixtureRequest, spark: Any) -> Iterator[str]:
    with session_set(spark, {ZONE: request.param}):
        yield request.param


def make_sources(project: Any) -> None:
    """The same rows, three days of a row in 47 minutes, in a table of each type."""
    for name, kind in TYPES.items():
        table = f"{project.test_schema}.{name}"
        project.run_sql(f"drop table if exists {table}")
        project.run_sql(f"create table {table} (ts {kind}, k int) using iceberg partitioned by (ts)")
        project.run_sql(
            f"insert into {table} select cast(timestamp_ntz'{FIRST} 00:00:00' + make_dt_interval(0, 0, m) as {kind}), "
            f"m % 2 from (select explode(sequence(0, 4319, 47)) as m)"
        )


def rows(project: Any, table: str) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, project.run_sql(f"select * from {project.test_schema}.{table}", fetch="all")))


@pytest.mark.thorough
class TestTypesOfEventTime:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        made = {f"{model}.sql": text for name in TYPES for model, text in models_of(name).items()}
        return {
            "sources.yml": SOURCES,
            **made,
        }

    @pytest.fixture(scope="class", autouse=True)
    def built(self, project: Any, zone: str) -> None:
        make_sources(project)
        span = ["--event-time-start", "2024-03-08", "--event-time-end", "2024-03-13"]
        run_dbt(["run", "--full-refresh", *span])

    @pytest.mark.parametrize("name", TYPES)
    def test_batches_and_ranges_are_the_table(self, project: Any, name: str) -> None:
        again = [f"{name}_{model}" for model in ("days", "window_days", "ranges", "ranges_in_paris")]
        for piece in (
            ("2024-03-10", "2024-03-11"),
            ("2024-03-08", "2024-03-10"),
            ("2024-03-11", "2024-03-13"),
        ):
            run_dbt(["run", "--select", *again, "--event-time-start", piece[0], "--event-time-end", piece[1]])
        plain, windows = rows(project, f"{name}_plain"), rows(project, f"{name}_windows")
        assert plain.total() == 92
        assert rows(project, f"{name}_days") == plain
        assert rows(project, f"{name}_window_days") == windows
        assert rows(project, f"{name}_ranges") == windows
        assert rows(project, f"{name}_ranges_in_paris") == rows(project, f"{name}_in_paris")

    @pytest.mark.parametrize("name", ["instant", "clock"])
    def test_a_backfill_repairs_what_is_gone(self, project: Any, name: str) -> None:
        stream = f"{project.test_schema}.{name}_stream"
        expected = rows(project, f"{name}_stream")
        project.run_sql(f"delete from {stream} where window_start < timestamp'2024-03-11 00:00:00Z'")
        options = ["--project-dir", project.project_root, "--profiles-dir", project.profiles_dir]
        found = CliRunner().invoke(
            main, [*options, "backfill", f"{name}_stream", "--start", "2024-03-08", "--end", "2024-03-11"]
        )
        assert found.exit_code == 0, found.output
        assert rows(project, f"{name}_stream") == expected


class TestBatches:
    """Rows of a model without windows, in New York."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        days = f"{BATCHES}, event_time='ts', batch_size='day'"
        instants = rows_of("clock", days).replace("select ts", "select cast(ts as timestamp) as ts")
        return {
            "sources.yml": SOURCES.replace(
                "{event_time: ts}",
                "{event_time: ts, loaded_at_field: ts, freshness: {warn_after: {count: 9, period: day}}}",
            ),
            "days.sql": rows_of("clock", days),
            "instants.sql": instants,
            "local_days.sql": rows_of("instant", days).replace("select ts", "select cast(ts as date) as ts"),
            "hours.sql": rows_of("day", f"{BATCHES}, event_time='ts', batch_size='hour'"),
            "unfiltered.sql": rows_of("day", days).replace(
                "source('raw', 'day')", "source('raw', 'day').render()"
            ),
            "enumerated.sql": f"{{{{ config({days}, split_distinct=4) }}}} select ts, count(distinct k) as n "
            "from {{ source('raw', 'clock') }} group by ts",
        }

    @pytest.fixture(scope="class", autouse=True)
    def made(self, project: Any, zone: str) -> None:
        make_sources(project)

    def run(self, model: str, start: str, end: str, *more: str, expect_pass: bool = True) -> Any:
        piece = ["--event-time-start", f"2024-03-{start}", "--event-time-end", f"2024-03-{end}"]
        return run_dbt(["run", "--select", model, *piece, *more], expect_pass=expect_pass)

    def test_days_of_a_clock_in_any_order_and_again(self, project: Any) -> None:
        for piece in (("09", "12"), ("10", "11"), ("09", "10"), ("11", "12")):
            self.run("days", *piece)
        assert rows(project, "days") == rows(project, "clock")
        self.run("enumerated", "10", "12")
        self.run("enumerated", "09", "12")
        assert rows(project, "enumerated").total() == rows(project, "clock").total()

    @pytest.mark.thorough
    def test_clock_times_that_the_model_makes_instants(self, project: Any) -> None:
        for piece in (("09", "13"), ("10", "11"), ("12", "13")):
            self.run("instants", *piece)
        expected = project.run_sql(
            f"select cast(ts as timestamp), k from {project.test_schema}.clock", fetch="all"
        )
        assert rows(project, "instants") == Counter(map(tuple, expected))

    @pytest.mark.thorough
    def test_hours_of_a_date_hold_it_once(self, project: Any) -> None:
        for _ in range(2):
            self.run("hours", "09 23:00:00", "10 02:00:00")
        found = rows(project, "hours")
        assert (found.total(), {str(ts) for ts, _ in found}) == (31, {"2024-03-10"})

    def test_a_row_that_another_batch_would_replace(self, project: Any) -> None:
        self.run("local_days", "09", "10")
        # The next one has the evening of the 9th.
        self.run("local_days", "10", "11", expect_pass=False)
        assert {str(ts) for ts, _ in rows(project, "local_days")} == {"2024-03-09"}

    @pytest.mark.thorough
    def test_what_dbt_doesnt_filter_comes_once(self, project: Any) -> None:
        for _ in range(2):
            self.run("unfiltered", "09", "12")
        assert rows(project, "unfiltered") == rows(project, "day")

    def test_freshness_is_told_in_utc(self, project: Any) -> None:
        found = run_dbt(["source", "freshness"])
        times = {result.node.name: str(result.max_loaded_at) for result in found}
        newest = project.run_sql(
            f"select unix_micros(max(ts)) div 1000000 from {project.test_schema}.instant", fetch="one"
        )[0]
        assert times["instant"] == str(datetime.fromtimestamp(newest, timezone.utc))
        assert times["clock"].startswith("2024-03-11 23:")
        assert times["day"] == "2024-03-11 00:00:00+00:00"


@pytest.mark.thorough
class TestFirstDay:
    """Windows over what a clock shows begin with the first hours of the model's begin, which east of UTC are the day before
    in UTC."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        config = f"{BATCHES}, event_time='window_start', batch_size='day'".replace("2024-03-08", FIRST)
        made = {
            f"{name}_windows.sql": windows_of(name, "materialized='table'", "30 minutes") for name in TYPES
        }
        made |= {f"{name}_window_days.sql": windows_of(name, config, "30 minutes") for name in TYPES}
        return {"sources.yml": SOURCES, **made}

    @pytest.fixture(scope="class", autouse=True)
    def made(self, project: Any, spark: Any) -> Iterator[None]:
        with session_set(spark, {ZONE: "Asia/Kolkata"}):
            make_sources(project)
            run_dbt(["run", "--event-time-start", FIRST, "--event-time-end", "2024-03-12"])
            for start, end in (("2024-03-11", "2024-03-12"), (FIRST, "2024-03-10")):
                run_dbt(["run", "--select", "+*_days", "--event-time-start", start, "--event-time-end", end])
            yield

    @pytest.mark.parametrize("name", ["clock", "day"])
    def test_the_first_hours_are_there(self, project: Any, name: str) -> None:
        assert rows(project, f"{name}_window_days") == rows(project, f"{name}_windows")

    def test_instants_begin_in_utc(self, project: Any) -> None:
        found = rows(project, "instant_window_days")
        assert found.total() == rows(project, "instant_windows").total() - 8

    @pytest.mark.parametrize("name", TYPES)
    def test_a_sample_is_of_the_days_that_are_asked_for(self, project: Any, name: str) -> None:
        span = {"start": "2024-03-10", "end": "2024-03-11"}
        run_dbt(["run", "--select", f"{name}_windows", "--sample", str(span)])
        zone = (
            "timestamp'2024-03-10 00:00:00Z'" if name == "instant" else "timestamp_ntz'2024-03-10 00:00:00'"
        )
        (expected,) = project.run_sql(
            f"select count(*) from {project.test_schema}.{name} where ts >= {zone} and ts < {zone} + interval 1 day",
            fetch="one",
        )
        assert sum(n for *_, n in rows(project, f"{name}_windows")) == expected > 0
        run_dbt(["run", "--select", f"{name}_windows", "--empty"])
        assert not rows(project, f"{name}_windows")
