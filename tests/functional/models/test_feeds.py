"""Models that read models whose rows change: through the change feed, which is switched on by that."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from dbt.tests.util import run_dbt

from tests.functional.models.conftest import sources, write_events

AMOUNTS = """{{ config(materialized='streaming_table', constant_domains=['page']) }}
select page, count(*) as n, sum(amount) as total, max(ts) as latest
from {{ stream(source('raw', 'events')) }} where page is not null group by page"""

OVER = {
    "all_pages": "select count(*) as pages, sum(total) as total, max(total) as most, min(n) as least, "
    "avg(total) as mean, count(distinct n) as different from {rows}",
    "best_page": "select page, total, place from (select *, row_number() over (order by total desc, page) as place "
    "from {rows}) where place <= 2",
    "worst_page": "select page, total from {rows} order by total, page limit 1",
    "twice": "select page, 2 * total as twice from {rows} where n % 2 = 0",
    "by_count": "select n, count(*) as pages, max(total) as most from {rows} group by n",
}


def streaming(text: str) -> str:
    return "{{ config(materialized='streaming_table') }}\n" + text.format(rows="{{ stream(ref('amounts')) }}")


class TestFeeds:
    """Each reader has the rows that its text gives over the table itself."""

    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        readers = {f"{name}.sql": streaming(text) for name, text in OVER.items()}
        return {"sources.yml": sources(events), "amounts.sql": AMOUNTS, **readers}

    def agree(self, project: Any) -> None:
        for name, text in OVER.items():
            of_table = text.format(rows=f"{project.test_schema}.amounts")
            expected = project.run_sql(of_table, fetch="all")
            found = project.run_sql(f"select * from {project.test_schema}.{name}", fetch="all")
            assert sorted(map(tuple, found), key=repr) == sorted(map(tuple, expected), key=repr), name

    @pytest.mark.thorough
    def test_readers_follow_what_changes(self, project: Any, spark: Any, events: Path) -> None:
        run_dbt(["run"])
        assert spark.catalog.tableExists(f"{project.test_schema}.amounts__changes")
        self.agree(project)
        write_events(
            spark,
            events,
            "d",
            "('2024-03-04 02:00:00', 'p2', 'd1', 50), ('2024-03-04 02:00:00', 'p3', 'd1', 1)",
        )
        write_events(spark, events, "e", "('2024-03-04 02:01:00', 'p1', 'd1', -60)")
        run_dbt(["run"])
        self.agree(project)
        counts = project.run_sql(f"select count(*) from {project.test_schema}.amounts__changes", fetch="one")
        run_dbt(["run"])  # nothing new
        assert (
            project.run_sql(f"select count(*) from {project.test_schema}.amounts__changes", fetch="one")
            == counts
        )


WITHOUT_KEY = {
    "in_all": "select count(*) as pages, sum(n) as n, max(most) as most from {rows}",
    "by_most": "select most, count(*) as pages, percentile(n, 0.5) as middle from {rows} group by most",
    "frequent": "select n, most + 1 as more from {rows} where n > 1",
    "largest": "select n, most from {rows} order by n desc, most limit 2",
    "joined": "select a.n, b.most from {rows} as a join {rows} as b on a.n = b.n",
}


@pytest.mark.thorough
class TestWithoutKey:
    """Rows that no column tells apart, some of them equal, are read as they come and go."""

    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        config = "{{ config(materialized='streaming_table', constant_domains=['page', 'most', 'n']) }}\n"
        rows = "{{ stream(ref('counts')) }}"
        return {
            "sources.yml": sources(events),
            "counts.sql": f"{config}select count(*) as n, max(amount) % 2 as most "
            "from {{ stream(source('raw', 'events')) }} group by page",
            **{f"{name}.sql": config + text.format(rows=rows) for name, text in WITHOUT_KEY.items()},
        }

    def test_readers_follow_what_changes(self, project: Any, spark: Any, events: Path) -> None:
        for name, rows in {"": "", "d": "p2", "e": "p1", "f": "p7"}.items():
            if name:
                write_events(spark, events, name, f"('2024-03-04 02:00:00', '{rows}', 'd1', 51)")
            run_dbt(["run"])
            for each, text in WITHOUT_KEY.items():
                of_table = text.format(rows=f"{project.test_schema}.counts")
                expected = project.run_sql(of_table, fetch="all")
                found = project.run_sql(f"select * from {project.test_schema}.{each}", fetch="all")
                assert expected
                assert sorted(map(tuple, found), key=repr) == sorted(map(tuple, expected), key=repr), each


KEYED = "{{ stream(source('raw', 'events')) }}"


class Upserts:
    """A source with a key is read as upserts: a row takes the place of the one before it."""

    QUERIES: ClassVar[dict[str, str]] = {}

    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        keyed = sources(events).replace(
            "format: parquet", "format: parquet\n              unique_key: device"
        )
        config = "{{ config(materialized='streaming_table', constant_domains=['device', 'page']) }}\n"
        return {
            "sources.yml": keyed,
            **{f"{name}.sql": config + text for name, text in self.QUERIES.items()},
        }

    def rows(self, project: Any, table: str, columns: str) -> list[tuple[Any, ...]]:
        found = project.run_sql(f"select {columns} from {project.test_schema}.{table}", fetch="all")
        return sorted(map(tuple, found))

    def add(self, spark: Any, events: Path) -> None:
        """d1 moves to another page, and into another hour; d8 says when the hours before are over."""
        write_events(
            spark,
            events,
            "d",
            "('2024-03-04 02:10:00', 'p2', 'd1', 7), ('2024-03-04 09:00:00', 'p2', 'd8', 1)",
        )


class TestUpserts(Upserts):
    QUERIES: ClassVar[dict[str, str]] = {
        "pages": f"select page, count(*) as n, sum(amount) as s, max(amount) as m from {KEYED} group by page",
    }

    def test_the_latest_row_of_each_device(self, project: Any, spark: Any, events: Path) -> None:
        run_dbt(["run"])
        # d1 came again at 01:05 with 4.
        assert self.rows(project, "pages", "page, n, s, m") == [("p1", 4, 21, 9)]
        self.add(spark, events)
        run_dbt(["run"])
        assert self.rows(project, "pages", "page, n, s, m") == [("p1", 3, 17, 9), ("p2", 2, 8, 7)]


@pytest.mark.thorough
class TestUpsertsInOtherOperators(Upserts):
    QUERIES: ClassVar[dict[str, str]] = {
        "devices": f"select device, page, amount, ts from {KEYED}",
        "best": f"select device, amount from {KEYED} order by amount desc, device limit 2",
        "beside": f"select d.device, d.amount, p.n from {KEYED} as d join (select page, count(*) as n "
        f"from {KEYED} group by page) as p on p.page = d.page",
        "hours": "select window_end, count(*) as n, sum(amount) as s from "
        "{{ tumble(source('raw', 'events'), 'ts', '1 hour') }} group by window_start, window_end",
    }

    def test_the_latest_row_of_each_device(self, project: Any, spark: Any, events: Path) -> None:
        run_dbt(["run"])
        # d1 came again at 01:05 with 4.
        assert self.rows(project, "devices", "device, page, amount") == [
            ("d1", "p1", 4),
            ("d2", "p1", 3),
            ("d3", "p1", 5),
            ("d9", "p1", 9),
        ]
        assert self.rows(project, "best", "device, amount") == [("d3", 5), ("d9", 9)]
        assert [(amount, n) for _, amount, n in self.rows(project, "beside", "device, amount, n")] == [
            (4, 4),
            (3, 4),
            (5, 4),
            (9, 4),
        ]
        self.add(spark, events)
        run_dbt(["run"])
        assert self.rows(project, "beside", "device, amount, n") == [
            ("d1", 7, 2),
            ("d2", 3, 3),
            ("d3", 5, 3),
            ("d8", 1, 2),
            ("d9", 9, 3),
        ]
        closed = "select timestamp_micros(3600000000 * (unix_micros(ts) div 3600000000 + 1)), count(*), sum(amount)"
        expected = project.run_sql(
            f"{closed} from {project.test_schema}.devices where ts < '2024-03-04 08:00' group by 1",
            fetch="all",
        )
        assert self.rows(project, "hours", "window_end, n, s") == sorted(map(tuple, expected))
