"""A streaming model as a user meets it: run, run again, refresh, document, and the same text in batch."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.models.conftest import sources, write_events

QUERY = """
select window_start, window_end, page, count(*) as views, count(distinct device) as devices, sum(amount) as amount
from {{ cumulate(source('raw', 'events'), 'ts', '10 minutes', '1 hour') }}
group by window_start, window_end, page
"""


def model(materialized: str, **config: Any) -> str:
    settings = "".join(f", {key}={value!r}" for key, value in config.items())
    return f"{{{{ config(materialized='{materialized}'{settings}) }}}}\n{QUERY}"


SCHEMA = """
models:
  - name: curve
    description: Views since the hour began.
    config:
      contract: {enforced: true}
      persist_docs: {relation: true, columns: true}
      tags: [curves]
    columns:
      - {name: window_start, data_type: timestamp}
      - {name: window_end, data_type: timestamp}
      - {name: page, data_type: string, description: The page that was seen.}
      - {name: views, data_type: bigint}
      - {name: devices, data_type: bigint}
      - {name: amount, data_type: bigint}
"""


def rows(project: Any, table: str) -> list[tuple[Any, ...]]:
    columns = "page, minute(window_end) as m, views, devices, amount"
    query = f"select {columns} from {project.test_schema}.{table} where day(window_end) = 4"
    return sorted(tuple(row) for row in project.run_sql(query, fetch="all"))


class TestCumulateModel:
    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        return {
            "curve.sql": model(
                "cumulate", post_hook="create table if not exists {{ this }}_hooked as select 1 as one"
            ),
            "table_of_it.sql": model("table"),
            "view_of_it.sql": model("view"),
            "sources.yml": sources(events),
            "schema.yml": SCHEMA,
        }

    def test_the_life_of_a_model(self, project: Any, spark: Any, events: Path) -> None:
        results = run_dbt(["run", "--select", "curve"])
        # The last file's oldest row is late for its first windows, and counts from the next on.
        response = results[0].adapter_response
        assert (response["batches"], response["rows_in"], response["late_rows"]) == (3, 6, 0)
        assert response["null_time_rows"] == 1
        assert response["watermark"].startswith("2024-03-04 01:05:00")
        # The longest window that is open is the hour's; its next step is due when the watermark is there.
        assert response["windows"] == {
            "open": 1,
            "closes_at": "2024-03-04T01:10:00.000000Z",
            "after_event": "2024-03-04T01:10:00.000000Z",
            "waits_for": [],
        }
        slices, values = response["state"]
        assert slices["operator"] == "WindowAggregate cumulate(ts, 10 minutes, 1 hour) by page"
        assert values["part"] == slices["part"].replace("slices", "distinct_device")
        assert values["rows"] == values["run"]["rows_written"]
        assert values["run"]["lookups"] == values["run"]["hits"] + values["run"]["misses"] > 0
        closed = rows(project, "curve")
        assert closed == [
            ("p1", 0, 3, 3, 9),
            ("p1", 10, 1, 1, 1),
            ("p1", 20, 3, 3, 9),
            ("p1", 30, 3, 3, 9),
            ("p1", 40, 3, 3, 9),
            ("p1", 50, 3, 3, 9),
            ("p2", 0, 1, 1, 2),
            ("p2", 10, 1, 1, 2),
            ("p2", 20, 1, 1, 2),
            ("p2", 30, 1, 1, 2),
            ("p2", 40, 1, 1, 2),
            ("p2", 50, 1, 1, 2),
        ]

        # A second run finds nothing new, and changes nothing.
        results = run_dbt(["run", "--select", "curve"])
        assert results[0].adapter_response["rows_in"] == 0
        assert rows(project, "curve") == closed

        # New rows go on from there; a flush closes what is open.
        write_events(spark, events, "d", "('2024-03-04 01:06:00', 'p2', 'd5', 7)")
        run_dbt(["run", "--select", "curve", "--vars", "{flush: true}"])
        flushed = rows(project, "curve")
        assert ("p1", 10, 1, 1, 4) in flushed
        assert ("p2", 0, 1, 1, 7) in flushed

        # Batch sees all rows in order, so the late one counts from its own step on.
        run_dbt(["run", "--select", "table_of_it", "view_of_it"])
        assert rows(project, "table_of_it") == rows(project, "view_of_it")
        assert ("p1", 10, 2, 2, 6) in rows(project, "table_of_it")

        # So does a full refresh: all pieces at once, though the source says one file per micro-batch.
        (result,) = run_dbt(["run", "--select", "curve", "--full-refresh", "--vars", "{flush: true}"])
        assert result.adapter_response["rows_in"] == 7
        assert rows(project, "curve") == rows(project, "table_of_it")

    def test_docs_and_state_are_tables_to_look_at(self, project: Any) -> None:
        run_dbt(["run", "--select", "curve"])
        described = {
            r[0]: r[2] for r in project.run_sql(f"describe {project.test_schema}.curve", fetch="all")
        }
        assert described["page"] == "The page that was seen."
        state = project.run_sql(f"select distinct part from {project.test_schema}.curve__state", fetch="all")
        assert {re.sub("^window_[0-9a-f]{10}_", "", row[0]) for row in state} <= {"slices", "distinct_device"}
        assert project.run_sql(f"select one from {project.test_schema}.curve_hooked", fetch="one")[0] == 1

    def test_empty_makes_a_table_without_rows(self, project: Any) -> None:
        project.run_sql(f"drop table if exists {project.test_schema}.curve_hooked")
        run_dbt(["run", "--select", "curve", "--full-refresh", "--empty"])
        assert rows(project, "curve") == []


class TestPlainRows:
    """A window function alone, with a join to a table that stands still."""

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"pages.csv": "page,title\np1,Home\n"}

    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        return {
            "named.sql": """{{ config(materialized='streaming_table') }}
                select w.window_end, p.title, w.amount
                from {{ tumble(source('raw', 'events'), 'ts', '10 minutes') }} w
                left join {{ ref('pages') }} p on w.page = p.page""",
            "sources.yml": sources(events),
        }

    def test_rows_are_passed_on(self, project: Any) -> None:
        run_dbt(["seed"])
        run_dbt(["run"])
        found = project.run_sql(f"select title, amount from {project.test_schema}.named", fetch="all")
        assert sorted((title or "", amount) for title, amount in found) == [
            ("", 2),
            ("Home", 1),
            ("Home", 3),
            ("Home", 4),
            ("Home", 5),
        ]


TOP = """
select window_start, window_end, page, amount, rn from (
  select *, row_number() over (partition by window_start, window_end order by amount desc) as rn
  from {{ tumble(source('raw', 'events'), 'ts', '1 hour') }}
) where rn <= 2
"""
SESSIONS = """
select window_start, window_end, device, count(*) as n
from {{ session(source('raw', 'events'), 'ts', '10 minutes', partition_by=['device']) }}
group by window_start, window_end, device
"""


@pytest.mark.thorough
class TestOtherWindows:
    """TopN, sessions, and results that change, through dbt."""

    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        changing = "first_result_offset='-50 minutes', update_rate='10 minutes', changelog=true"
        return {
            "top.sql": "{{ config(materialized='topn', watermark='2 hours') }}" + TOP,
            "top_in_batch.sql": "{{ config(materialized='table') }}" + TOP,
            "sessions.sql": "{{ config(materialized='window_aggregate', watermark='2 hours') }}" + SESSIONS,
            "sessions_as_view.sql": "{{ config(materialized='view') }}" + SESSIONS,
            "changing.sql": "{{ config(materialized='cumulate', watermark='2 hours', "
            + changing
            + ") }}"
            + QUERY,
            "sources.yml": sources(events),
        }

    def test_the_same_rows(self, project: Any, spark: Any) -> None:
        results = run_dbt(["run", "--vars", "{flush: true}"])
        assert all(result.status == "success" for result in results)

        def found(name: str) -> list[tuple[Any, ...]]:
            return sorted(tuple(row) for row in spark.table(f"{project.test_schema}.{name}").collect())

        assert found("top") == found("top_in_batch")
        assert found("sessions") == found("sessions_as_view")
        fed: Counter[tuple[Any, ...]] = Counter()
        for *row, kind, _ in found("changing__changes"):
            fed[tuple(row)] += 1 if kind in ("insert", "update_after") else -1
        assert sorted(row for row, count in fed.items() if count) == found("changing")

    def test_a_full_refresh_forgets_the_changes(self, project: Any, spark: Any) -> None:
        before = spark.table(f"{project.test_schema}.changing__changes").count()
        run_dbt(["run", "--full-refresh", "--select", "changing", "--vars", "{flush: true}"])
        assert spark.table(f"{project.test_schema}.changing__changes").count() == before


@pytest.mark.thorough
class TestStreamOverATable:
    """A table that dbt made is a stream like any other, from its first row on."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        rows = "(timestamp'2024-03-04 00:01:00', 'p1'), (timestamp'2024-03-04 02:01:00', 'p2')"
        return {
            "views.sql": f"{{{{ config(materialized='table') }}}} select * from values {rows} as v(ts, page)",
            "hours.sql": (
                "{{ config(materialized='streaming_table') }} select window_start, window_end, count(*) as n "
                "from {{ tumble(ref('views'), 'ts', '1 hour') }} group by window_start, window_end"
            ),
        }

    def test_its_first_rows_are_read_and_a_rebuilt_one_is_not(self, project: Any) -> None:
        def hours() -> Any:
            return project.run_sql("select sum(n) from {schema}.hours", fetch="one")[0]

        def problem(*arguments: str) -> str:
            results = run_dbt(["run", *arguments], expect_pass=False)
            return str({result.node.name: result.message for result in results}["hours"])

        assert len(run_dbt(["run"])) == 2
        assert hours() == 1
        again = problem()
        assert "that it streams from was rebuilt" in again
        assert "Rebuild both, the table from scratch: `dbt run --full-refresh --select views+`." in again
        assert "an incremental one that appends, or a streaming one, is not" in again
        alone = problem("--full-refresh", "--select", "hours")
        assert "begins with an Iceberg overwrite snapshot, as CREATE OR REPLACE" in alone
        assert "`dbt run --full-refresh --select views+`" in alone
        assert hours() == 1, "what was there is there"
        run_dbt(["run", "--full-refresh", "--select", "views+"])
        assert hours() == 1


@pytest.mark.thorough
class TestIncrementalAmidTheStream:
    """A stream's table that an incremental run put rows into: they would stand beside those of the stream."""

    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        return {"sources.yml": sources(events), **self.all("streaming_table")}

    def all(self, kind: str) -> dict[str, str]:
        return {
            "pages.sql": f"{{{{ config(materialized='{kind}') }}}} "
            "select page, ts from {{ stream(source('raw', 'events')) }}",
            "counts.sql": f"{{{{ config(materialized='{kind}'"
            + (", constant_domains=['page']" if kind == "streaming_table" else "")
            + ") }} select page, count(*) as n from {{ stream(source('raw', 'events')) }} group by page",
        }

    def write(self, project: Any, kind: str) -> None:
        for name, text in self.all(kind).items():
            (Path(project.project_root) / "models" / name).write_text(text)

    def test_the_stream_stops(self, project: Any, spark: Any) -> None:
        run_dbt(["run"])
        # Rows that are changed by hand are nobody's business.
        spark.sql(f"update {project.test_schema}.counts set n = n where page = 'p1'")
        assert len(run_dbt(["run"])) == 2
        self.write(project, "incremental")
        run_dbt(["run"])
        self.write(project, "streaming_table")
        for result in run_dbt(["run"], expect_pass=False):
            assert "an incremental run has added rows" in str(result.message), result.message
            assert f"`dbt run --full-refresh --select {result.node.name}`" in str(result.message)
        run_dbt(["run", "--full-refresh"])
        run_dbt(["run"])
        assert project.run_sql(f"select count(*) from {project.test_schema}.pages", fetch="one")[0] == 6

    def test_put_back_to_before(self, project: Any, spark: Any) -> None:
        """Rows that are gone again are no reason to stop."""
        snapshot = f"{project.test_schema}.pages.snapshots"
        (last,) = project.run_sql(f"select max_by(snapshot_id, committed_at) from {snapshot}", fetch="one")
        self.write(project, "incremental")
        run_dbt(["run", "--select", "pages"])
        self.write(project, "streaming_table")
        run_dbt(["run", "--select", "pages"], expect_pass=False)
        spark.sql(f"call lakehouse.system.rollback_to_snapshot('{project.test_schema}.pages', {last})")
        run_dbt(["run", "--select", "pages"])

    def test_it_writes_nothing(self, project: Any) -> None:
        """That is no reason to stop, and none for what is changed by hand later on."""
        run_dbt(["run", "--full-refresh", "--select", "pages"])
        self.write(project, "incremental")
        text = Path(project.project_root) / "models" / "pages.sql"
        text.write_text(text.read_text() + " where page = 'nobody'")
        run_dbt(["run", "--select", "pages"])
        self.write(project, "streaming_table")
        run_dbt(["run", "--select", "pages"])
        project.run_sql(f"update {project.test_schema}.pages set page = page where page = 'p1'")
        run_dbt(["run", "--select", "pages"])

    def test_it_fails_after_it_has_written(self, project: Any) -> None:
        run_dbt(["run", "--full-refresh", "--select", "pages"])
        self.write(project, "incremental")
        text = Path(project.project_root) / "models" / "pages.sql"
        text.write_text("{{ config(post_hook='select * from nowhere') }}" + text.read_text())
        run_dbt(["run", "--select", "pages"], expect_pass=False)
        self.write(project, "streaming_table")
        (result,) = run_dbt(["run", "--select", "pages"], expect_pass=False)
        assert "an incremental run has added rows" in str(result.message), result.message

    def test_the_snapshot_it_found_is_expired(self, project: Any, spark: Any) -> None:
        run_dbt(["run", "--full-refresh", "--select", "pages"])
        self.write(project, "incremental")
        run_dbt(["run", "--select", "pages"])
        spark.sql(f"delete from {project.test_schema}.pages where page = 'p1'")
        spark.sql(
            f"call lakehouse.system.expire_snapshots(table => '{project.test_schema}.pages', "
            "older_than => timestamp '2999-01-01 00:00:00', retain_last => 1)"
        )
        run_dbt(["run", "--select", "pages"])
        self.write(project, "streaming_table")
        (result,) = run_dbt(["run", "--select", "pages"], expect_pass=False)
        assert "an incremental run has added rows" in str(result.message), result.message

    def test_the_snapshots_of_the_stream_are_expired(self, project: Any, spark: Any) -> None:
        run_dbt(["run", "--full-refresh", "--select", "pages"])
        spark.sql(f"delete from {project.test_schema}.pages where page = 'p1'")
        spark.sql(
            f"call lakehouse.system.expire_snapshots(table => '{project.test_schema}.pages', "
            "older_than => timestamp '2999-01-01 00:00:00', retain_last => 1)"
        )
        self.write(project, "incremental")
        run_dbt(["run", "--select", "pages"])
        self.write(project, "streaming_table")
        (result,) = run_dbt(["run", "--select", "pages"], expect_pass=False)
        assert "an incremental run has added rows" in str(result.message), result.message
