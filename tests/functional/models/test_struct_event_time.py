"""An event time that is a field of a struct: a source's, a window's and a model's own, in a stream and in batch; and rows
without one, which batch leaves out where a stream drops them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from dbt.tests.util import run_dbt

SOURCES = """
sources:
  - name: raw
    schema: "{{ target.schema }}"
    tables:
      - {name: events, config: {event_time: meta.at}}
      - {name: odd, config: {event_time: "meta.`at - utc`"}}
      - {name: plain, config: {event_time: at}}
"""
WINDOWS = (
    "select window_start, window_end, k, count(*) as n, max(meta.at) as newest "
    "from {{ tumble(source('raw', 'events'), 'meta.at', '6 hours') }} group by window_start, window_end, k"
)
STAR = "select * from {{ tumble(source('raw', 'events'), 'meta.at', '6 hours') }}"
GROUPS = "select k, count(*) as n from {{ stream(source('raw', 'events')) }} group by k"
ODD = (
    WINDOWS.replace("'events'", "'odd'")
    .replace("'meta.at'", "'meta.`at - utc`'")
    .replace("meta.at", "meta.`at - utc`")
)
JOINED = """select window_start, window_end, e.k, count(*) as n
    from {{ tumble(source('raw', 'events'), 'meta.at', '6 hours') }} e
    join (select 0 as k, 'x' as name) d on d.k = e.k group by window_start, window_end, e.k"""
ROWS = "select meta, k from {{ source('raw', 'events') }}"
BEFORE = "select at, k, lag(at) over (partition by k order by at) as before from {{ stream(source('raw', 'plain')) }}"
FIRST = "select * from {{ stream(source('raw', 'plain')) }} qualify row_number() over (partition by k order by at) = 1"
BATCHES = "incremental_strategy='microbatch', begin='2024-03-09', batch_size='day'"


def model(query: str, materialized: str, more: str = "") -> str:
    return f"{{{{ config(materialized='{materialized}'{more and ', '}{more}) }}}}\n{query}"


PAIRS = {"windows": WINDOWS, "star": STAR, "odd": ODD, "joined": JOINED, "before": BEFORE, "first": FIRST}


@pytest.mark.thorough
class TestFieldsOfStructs:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        domains = dict.fromkeys(["before", "first"], "constant_domains=['k']")
        streams = {
            f"{name}_stream.sql": model(text, "streaming_table", domains.get(name, ""))
            for name, text in PAIRS.items()
        }
        tables = {f"{name}_table.sql": model(text, "table") for name, text in PAIRS.items()}
        return {
            "sources.yml": SOURCES,
            **streams,
            **tables,
            "before_view.sql": model(BEFORE, "view"),
            "first_view.sql": model(FIRST, "view"),
            "groups_stream.sql": model(GROUPS, "streaming_table", "state_ttl='30 days'"),
            "groups_table.sql": model(GROUPS, "table"),
            "rows_days.sql": model(ROWS, "incremental", f"{BATCHES}, event_time='meta.at'"),
            "windows_days.sql": model(WINDOWS, "incremental", f"{BATCHES}, event_time='window_start'"),
            "windows_ranges.sql": model(WINDOWS, "incremental", "incremental_strategy='window_overwrite'"),
        }

    @pytest.fixture(scope="class", autouse=True)
    def built(self, project: Any) -> None:
        at = "timestamp'2024-03-09 00:00:00' + make_dt_interval(0, 0, m)"
        meta = "named_struct('at', at, 'at - utc', at + interval 1 minute)"
        minutes = f"(select {at} as at, m from (select explode(sequence(0, 4300, 47)) as m))"
        for name, columns in {"events": f"{meta} as meta", "odd": f"{meta} as meta", "plain": "at"}.items():
            project.run_sql(
                f"create table {project.test_schema}.{name} using iceberg as select {columns}, m % 2 as k from {minutes}"
            )
        for name, row in {
            "events": "(null, 0)",
            "plain": "(null, 0), (timestamp'+12000-01-01 00:00:00', 1)",
        }.items():
            project.run_sql(f"insert into {project.test_schema}.{name} values {row}")
        span = ["--event-time-start", "2024-03-09", "--event-time-end", "2024-03-13"]
        run_dbt(["run", *span, "--vars", "{flush: true}"])

    def rows(self, project: Any, name: str) -> Counter[str]:
        columns = project.run_sql(f"select * from {project.test_schema}.{name}", fetch="all")
        return Counter(map(repr, map(tuple, columns)))

    @pytest.mark.parametrize("name", [*PAIRS])
    def test_a_stream_has_the_rows_of_a_table(self, project: Any, name: str) -> None:
        found = self.rows(project, f"{name}_table")
        assert found.total() > 0
        assert self.rows(project, f"{name}_stream") == found

    @pytest.mark.parametrize("name", ["before", "first"])
    def test_a_view_leaves_out_what_a_stream_drops(self, project: Any, name: str) -> None:
        assert self.rows(project, f"{name}_view") == self.rows(project, f"{name}_stream")

    def test_groups_that_expire_by_it(self, project: Any) -> None:
        assert self.rows(project, "groups_stream").total() == 2

    @pytest.mark.thorough
    def test_batches_and_ranges_are_the_table(self, project: Any) -> None:
        for start, end in (("2024-03-10", "2024-03-11"), ("2024-03-09", "2024-03-10")):
            span = ["--event-time-start", start, "--event-time-end", end]
            run_dbt(["run", "--select", "rows_days", "windows_days", "windows_ranges", *span])
        assert self.rows(project, "rows_days").total() == 92
        assert self.rows(project, "windows_days") == self.rows(project, "windows_table")
        run_dbt(["run", "--select", "windows_ranges"])
        assert self.rows(project, "windows_ranges") == self.rows(project, "windows_table")
