"""What a run says of windows that are open: their number, when the next one closes, and what closes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.models.conftest import sources, write_events

WINDOWS = {
    "tumbles": ("tumble({}, 'ts', '10 minutes', time_zone='Europe/Berlin')", 2, "00:10:00"),
    "hops": ("hop({}, 'ts', '5 minutes', '15 minutes')", 5, "00:05:00"),
    "grows": ("cumulate({}, 'ts', '30 minutes', '1 day')", 1, "00:30:00"),
    "visits": ("session({}, 'ts', '5 minutes', partition_by=['page'])", 3, "00:06:00"),
    "curves": ("dynamic_cumulate({}, 'ts', '1 minute', '5 minutes', partition_by=['page'])", 3, "00:02:00"),
}
"""Model → its windows, how many are open after the rows below, and the next end."""


@pytest.mark.thorough
class TestOpenWindows:
    @pytest.fixture(scope="class")
    def models(self, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        folder: Path = tmp_path_factory.mktemp("few")
        rows = "('2024-03-04 00:01:00', 'p', 'd', 1), ('2024-03-04 00:02:00', 'q', 'd', 1)"
        write_events(spark, folder, "a", f"{rows}, ('2024-03-04 00:11:00', 'r', 'd', 1)")
        text = (
            "{{{{ config(materialized='window_aggregate', watermark='15 minutes') }}}} "
            "select window_start, window_end, page, "
            "count(*) as n from {{{{ {} }}}} group by window_start, window_end, page"
        )
        found = {
            f"{name}.sql": text.format(over.format("source('raw', 'events')"))
            for name, (over, *_) in WINDOWS.items()
        }
        return {**found, "sources.yml": sources(folder)}

    def test_each_kind_is_counted(self, project: Any) -> None:
        results = run_dbt(["run"])
        found = {each.node.name: each.adapter_response["windows"] for each in results}
        assert {name: each["open"] for name, each in found.items()} == {
            name: each[1] for name, each in WINDOWS.items()
        }
        day = "2024-03-04T"
        assert {name: each["closes_at"].removeprefix(day)[:8] for name, each in found.items()} == {
            name: each[2] for name, each in WINDOWS.items()
        }

    def test_none_is_open_after_a_flush(self, project: Any) -> None:
        results = run_dbt(["run", "--vars", "{flush: true}"])
        assert [each.adapter_response["windows"]["open"] for each in results] == [0] * len(WINDOWS)
