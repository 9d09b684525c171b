"""One text as a stream, as a table, and by ranges: `window_overwrite` in pieces, and dbt's microbatches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

KINDS = {
    "tumble": "tumble({}, 'ts', '2 hours')",
    "hop": "hop({}, 'ts', '1 hour', '3 hours')",
    "cumulate": "cumulate({}, 'ts', '2 hours', '1 day')",
    "session": "session({}, 'ts', '90 minutes', partition_by=['k'])",
    "steps": "dynamic_cumulate({}, 'ts', '1 hour', '90 minutes', partition_by=['k'])",
}
SOURCE = "source('raw', 'events')"
SOURCES = """
sources:
  - name: raw
    schema: "{{ target.schema }}"
    tables:
      - name: events
        config: {event_time: ts}
"""
OVERWRITE = "materialized='incremental', incremental_strategy='window_overwrite'"
MICROBATCH = (
    "materialized='incremental', incremental_strategy='microbatch', event_time='window_start', batch_size='day', "
    "begin='2024-03-04'"
)


def counted(window: str, kind: str = "") -> str:
    named = f"'{kind}' as kind, " if kind else ""
    return f"""select {named}window_start, window_end, k, count(*) as n, count(distinct x) as xs
from {{{{ {window.format(SOURCE)} }}}}
group by window_start, window_end, k"""


def model(config: str, window: str) -> str:
    return f"{{{{ config({config}) }}}}\n{counted(window)}"


def model_of_all(config: str) -> str:
    """One model with the windows of all kinds."""
    texts = [counted(window, kind) for kind, window in KINDS.items()]
    return f"{{{{ config({config}) }}}}\n" + "\nunion all\n".join(texts)


def add_events(project: Any, days: str = "sequence(4, 6)", only: str = "true") -> None:
    """Rows of some days of March, one in about half an hour, over midnight too."""
    project.run_sql(
        f"""insert into {project.test_schema}.events
        select timestamp'2024-03-01 00:00:00' + make_dt_interval(day - 1, 0, minute + pmod(hash(day, minute), 30)) as ts,
          pmod(hash(minute, day), 3) as k, pmod(hash(minute), 7) as x
        from (select explode({days}) as day) lateral view explode(sequence(0, 1410, 30)) m as minute
        where {only}"""
    )


def make_events(project: Any) -> None:
    project.run_sql(f"drop table if exists {project.test_schema}.events")
    project.run_sql(
        f"create table {project.test_schema}.events (ts timestamp, k int, x int) using iceberg"
        " partitioned by (days(ts))"
    )
    add_events(project)


def rows(
    project: Any, table: str, columns: str = "window_start, window_end, k, n, xs"
) -> Counter[tuple[Any, ...]]:
    found = project.run_sql(f"select {columns} from {project.test_schema}.{table}", fetch="all")
    return Counter(tuple(row) for row in found)


def snapshots(project: Any, table: str) -> int:
    return int(
        project.run_sql(f"select count(*) from {project.test_schema}.{table}.snapshots", fetch="one")[0]
    )


def between(start: str, end: str) -> list[str]:
    return ["--event-time-start", f"2024-03-{start}", "--event-time-end", f"2024-03-{end}"]


@pytest.mark.thorough
class TestTheSameRows:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "stream.sql": model_of_all("materialized='streaming_table', watermark='1 hour'"),
            "whole.sql": model_of_all("materialized='table'"),
            "ranges.sql": model_of_all(OVERWRITE),
            "batches.sql": model_of_all(MICROBATCH),
        }

    def test_stream_table_ranges_and_batches(self, project: Any) -> None:
        make_events(project)
        run_dbt(["run", "--select", "stream", "whole", "--vars", "{flush: true}"])
        # Whatever the cut and the order, and some of it twice.
        run_dbt(["run", "--select", "ranges", *between("05 03:20:00", "08")])
        run_dbt(["run", "--select", "ranges", *between("03", "05 14:00:00")])
        run_dbt(["run", "--select", "batches", *between("04", "08")])
        columns = "kind, window_start, window_end, k, n, xs"
        expected = rows(project, "whole", columns)
        assert {row[0] for row in expected} == set(KINDS)
        for name in ("stream", "ranges", "batches"):
            assert rows(project, name, columns) == expected, name


class TestWindowOverwrite:
    """From `lookback` windows before the newest one on."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "expected.sql": model("materialized='view'", KINDS["hop"]),
            "hours.sql": model(OVERWRITE, KINDS["hop"]),
            "few.sql": model(f"{OVERWRITE}, lookback=0", KINDS["tumble"]),
            "by_day.sql": model(f"{OVERWRITE}, partition_by=['days(window_start)']", KINDS["cumulate"]),
            "expected_by_day.sql": model("materialized='view'", KINDS["cumulate"]),
        }

    def test_new_rows_come_in_one_commit(self, project: Any) -> None:
        make_events(project)
        run_dbt(["run", "--select", "hours", "expected"])
        assert rows(project, "hours") == rows(project, "expected")
        add_events(project, "array(7)")
        before = snapshots(project, "hours")
        run_dbt(["run", "--select", "hours"])
        assert rows(project, "hours") == rows(project, "expected")
        assert snapshots(project, "hours") == before + 1

    @pytest.mark.thorough
    def test_rows_further_back_are_left_to_a_range(self, project: Any) -> None:
        make_events(project)
        run_dbt(["run", "--full-refresh", "--select", "hours", "expected"])
        before = rows(project, "hours")
        add_events(project, "array(5)", "minute between 600 and 660")
        run_dbt(["run", "--select", "hours"])
        assert rows(project, "hours") == before
        run_dbt(["run", "--select", "hours", *between("05 10:00:00", "05 12:00:00")])
        assert rows(project, "hours") == rows(project, "expected") != before

    def test_files_of_other_windows_are_left_alone(self, project: Any) -> None:
        def files() -> dict[str, set[str]]:
            table = f"{project.test_schema}.by_day.files"
            found = project.run_sql(
                f"select string(partition.window_start_day), file_path from {table}", fetch="all"
            )
            return {day: {path for other, path in found if other == day} for day, _ in found}

        make_events(project)
        run_dbt(["run", "--full-refresh", "--select", "by_day", "expected_by_day"])
        before = files()
        add_events(project, "array(5)", "minute between 600 and 660")
        run_dbt(["run", "--select", "by_day", *between("05", "06")])
        after = files()
        assert rows(project, "by_day") == rows(project, "expected_by_day")
        assert sorted(before) == sorted(after) == ["2024-03-04", "2024-03-05", "2024-03-06"]
        unchanged = sorted(day for day in before if before[day] == after[day])
        assert unchanged == ["2024-03-04", "2024-03-06"]
        statement = Path(project.project_root, "target/run/test/models/by_day.sql").read_text()
        assert "replace where `window_end` > timestamp'2024-03-05T00:00:00Z'" in statement

    def test_empty_leaves_the_windows_that_are_there(self, project: Any) -> None:
        make_events(project)
        run_dbt(["run", "--full-refresh", "--select", "few"])
        before = rows(project, "few")
        run_dbt(["run", "--select", "few", "--empty"])
        assert rows(project, "few") == before
        assert before

    def test_what_the_source_has_no_more_is_kept(self, project: Any) -> None:
        make_events(project)
        run_dbt(["run", "--full-refresh", "--select", "few"])
        before = rows(project, "few")
        project.run_sql(f"delete from {project.test_schema}.events where ts < timestamp'2024-03-05'")
        (result,) = run_dbt(["run", "--select", "few", *between("04", "07")], expect_pass=False)
        assert "events has no row before 2024-03-05 00:" in result.message
        assert "the table has windows that end from 2024-03-04 02:00:00 on" in result.message
        assert rows(project, "few") == before


@pytest.mark.thorough
class TestSessionsThatGrow:
    """Sessions that rows which came later have lengthened, over the edges of what is computed anew."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "expected.sql": model("materialized='view'", KINDS["session"]),
            "visits.sql": model(OVERWRITE, KINDS["session"]),
        }

    def add(self, project: Any, *times: str) -> None:
        listed = ", ".join(f"(timestamp'2024-03-05 {at[:5]}:00', {at[6:]}, 1)" for at in times)
        project.run_sql(f"insert into {project.test_schema}.events values {listed}")

    @pytest.mark.parametrize(
        ("before", "later", "until"),
        [
            # The old end of key 1 is in the range, and the new one is not.
            (["09:00 1", "10:00 2", "20:00 1"], ["10:15 1", "11:40 1"], "05 10:05:00"),
            # The old end isn't, and the new one is.
            pytest.param(
                ["08:00 1", "10:00 2", "20:00 1"], ["09:20 1"], "05 12:05:00", marks=pytest.mark.thorough
            ),
        ],
        ids=["the end", "the start"],
    )
    def test_over_an_edge(self, project: Any, before: list[str], later: list[str], until: str) -> None:
        make_events(project)
        project.run_sql(f"delete from {project.test_schema}.events")
        self.add(project, *before)
        run_dbt(["run", "--full-refresh"])
        self.add(project, *later)
        run_dbt(["run", "--select", "visits", *between("05 09:55:00", until)])
        assert rows(project, "visits") == rows(project, "expected")


@pytest.mark.thorough
class TestSamples:
    """dbt's --sample cuts what is read in the middle of windows."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "expected.sql": model("materialized='view'", KINDS["cumulate"]),
            "days.sql": model(OVERWRITE, KINDS["cumulate"]),
            "stream.sql": model("materialized='streaming_table'", KINDS["tumble"]),
        }

    def test_whole_windows_or_none(self, project: Any) -> None:
        make_events(project)
        run_dbt(["run"])
        before = rows(project, "days"), rows(project, "stream")
        sample = ["--sample", "{'start': '2024-03-05 05:00:00', 'end': '2024-03-05 06:00:00'}"]
        (result,) = run_dbt(["run", "--select", "days", *sample])
        assert rows(project, "days") == rows(project, "expected") == before[0]
        (result,) = run_dbt(["run", "--select", "stream", *sample], expect_pass=False)
        assert "Model stream: --sample would leave rows out of it for good" in result.message
        assert rows(project, "stream") == before[1]


class TestBadRanges:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        plain = "select k, x from {{ source('raw', 'events') }}"
        return {
            "sources.yml": SOURCES,
            "no_windows.sql": f"{{{{ config({OVERWRITE}) }}}} {plain}",
            "no_strategy.sql": "{{ config(materialized='incremental', incremental_strategy='window_overwrit') }} "
            + plain,
            "files.sql": model(f"{OVERWRITE}, file_format='parquet'", KINDS["tumble"]),
            "no_lookback.sql": model(f"{OVERWRITE}, lookback=-1", KINDS["tumble"]),
            "odd_batches.sql": model(MICROBATCH, "tumble({}, 'ts', '7 hours')"),
        }

    def test_sentences(self, project: Any) -> None:
        make_events(project)
        results = run_dbt(["run", *between("04", "05")], expect_pass=False)
        messages = {result.node.name: str(result.message) for result in results}
        assert (
            "Model no_windows: Only whole windows are recomputed, and this query has rows without a window"
            in messages["no_windows"]
        )
        assert (
            "Model no_strategy: incremental_strategy 'window_overwrit' is unknown." in messages["no_strategy"]
        )
        assert (
            "Model files: incremental_strategy 'window_overwrite' changes rows in place" in messages["files"]
        )
        assert "Model no_lookback: config 'lookback' is -1" in messages["no_lookback"]


class TestMicrobatches:
    """dbt's own ways with batches: lookback, at once, and again where one failed."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        guarded = model(f"{MICROBATCH}, concurrent_batches=true", KINDS["hop"]).replace(
            "count(*) as n", "sum(if(k < 9, 1, raise_error('a bad row'))) as n"
        )
        return {
            "sources.yml": SOURCES,
            "expected.sql": model("materialized='view'", KINDS["hop"]),
            "at_once.sql": model(f"{MICROBATCH}, concurrent_batches=true", KINDS["hop"]),
            "guarded.sql": guarded,
            "odd_batches.sql": model(MICROBATCH, "tumble({}, 'ts', '7 hours')"),
        }

    @pytest.mark.thorough
    def test_batches_at_once_and_again(self, project: Any) -> None:
        make_events(project)
        run_dbt(["run", "--select", "expected"])
        run = ["run", "--select", "at_once"]
        run_dbt([*run, *between("04", "08")])
        run_dbt([*run, *between("04", "08")])
        assert rows(project, "at_once") == rows(project, "expected")

    @pytest.mark.thorough
    def test_retry_runs_the_batches_that_failed(self, project: Any) -> None:
        make_events(project)
        project.run_sql(
            f"insert into {project.test_schema}.events values (timestamp'2024-03-05 10:00:00', 9, 1)"
        )
        (result,) = run_dbt(
            ["--write-json", "run", "--select", "guarded", *between("04", "08")], expect_pass=False
        )
        assert (len(result.batch_results.successful), len(result.batch_results.failed)) == (3, 1)
        project.run_sql(f"delete from {project.test_schema}.events where k = 9")
        (result,) = run_dbt(["retry"])
        run_dbt(["run", "--select", "expected"])
        assert rows(project, "guarded") == rows(project, "expected")

    def test_a_window_in_two_batches_is_refused(self, project: Any) -> None:
        _, log = run_dbt_and_capture(
            ["run", "--select", "odd_batches", *between("04", "05")], expect_pass=False
        )
        assert "Model odd_batches: batch_size 'day' is not a multiple of tumble(ts, 7 hours)" in log
