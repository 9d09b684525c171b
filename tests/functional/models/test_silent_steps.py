"""`cumulate(…, emit='on_change')` gives the same rows wherever dbt runs it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

ROWS = """ts,k,v
2024-03-04 00:01:00,a,1
2024-03-04 00:12:00,a,2
2024-03-04 00:13:00,b,4
2024-03-04 00:22:00,b,1
2024-03-04 00:37:00,a,5
"""
TYPES = "seeds: [{name: base, config: {column_types: {ts: timestamp, k: string, v: int}}}]"
STEPS = "cumulate(ref('base'), 'ts', '5 minutes', '20 minutes', emit='on_change')"
COUNTED = f"""
select window_start, window_end, k, count(*) as n from {{{{ {STEPS} }}}} group by window_start, window_end, k"""
NEW_STEPS = [
    ("00:05:00", "a", 1),
    ("00:15:00", "a", 2),
    ("00:15:00", "b", 1),
    ("00:25:00", "b", 1),
    ("00:40:00", "a", 1),
]


def model(materialized: str, text: str = COUNTED) -> str:
    return f"{{{{ config(materialized='{materialized}') }}}}\n{text}"


class TestWhereverItRuns:
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"base.csv": ROWS, "seeds.yml": TYPES}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "as_table.sql": model("table"),
            "as_view.sql": model("view"),
            "inside.sql": model("ephemeral"),
            "of_ephemeral.sql": model("view", "select * from {{ ref('inside') }}"),
        }

    @pytest.fixture(scope="class")
    def tests(self) -> dict[str, str]:
        return {"silent.sql": f"select * from ({COUNTED}) where window_end = timestamp'2024-03-04 00:10:00'"}

    @pytest.fixture(scope="class", autouse=True)
    def built(self, project: Any) -> None:
        run_dbt(["build"])  # with its test, which finds a silent step where there is one

    @pytest.mark.parametrize("name", ["as_table", "as_view", "of_ephemeral"])
    def test_what_dbt_makes(self, project: Any, name: str) -> None:
        found = project.run_sql(
            f"select date_format(window_end, 'HH:mm:ss'), k, n from {{schema}}.{name}", fetch="all"
        )
        assert sorted(map(tuple, found)) == NEW_STEPS

    def test_what_dbt_shows(self, project: Any) -> None:
        inline = f"select date_format(window_end, 'HH:mm:ss') as ended, k, n from ({COUNTED})"
        _, said = run_dbt_and_capture(
            ["show", "--inline", inline, "--output", "json", "--log-format", "json", "--limit", "20"]
        )
        events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        (shown,) = [json.loads(e["data"]["preview"]) for e in events if e["info"]["name"] == "ShowNode"]
        assert sorted((row["ended"], row["k"], row["n"]) for row in shown) == NEW_STEPS
