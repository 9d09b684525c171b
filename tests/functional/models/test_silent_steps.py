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


RANKED = f"""
select * from (
  select *, row_number() over (partition by window_start, window_end order by n desc) as place from ({COUNTED})
) where place <= 1"""
SESSIONS = """
select window_start, window_end, k, count(*) as n from {{ session(ref('base'), 'ts', '5 minutes', partition_by=['k']) }}
group by window_start, window_end, k"""


def unit_test(of: str, given: str, rows: str) -> str:
    return f"""
  - name: of_{of}
    model: {of}
    given: [{{input: ref('base'), rows: [{given}]}}]
    expect: {{rows: [{rows}]}}"""


def at(minute: str, k: str) -> str:
    return f'{{ts: "2024-03-04 00:{minute}:00", k: {k}}}'


def result(minute: str, k: str, n: int, **more: int) -> str:
    row = {"window_end": f"2024-03-04 00:{minute}:00", "k": k, "n": n, **more}
    return json.dumps(row)


GIVEN = ", ".join([at("01", "a"), at("12", "a"), at("13", "b"), at("13", "b"), at("22", "b")])
UNIT_TESTS = "unit_tests:" + "".join(
    [
        unit_test(
            name,
            GIVEN,
            ", ".join(
                [result("05", "a", 1), result("15", "a", 2), result("15", "b", 2), result("25", "b", 1)]
            ),
        )
        for name in ("streamed", "early", "as_view")
    ]
    + [
        unit_test(
            "ranked",
            GIVEN,
            ", ".join(
                [result("05", "a", 1, place=1), result("15", "a", 2, place=1), result("25", "b", 1, place=1)]
            ),
        ),
        unit_test(
            "sessions",
            GIVEN,
            ", ".join(
                [result("06", "a", 1), result("17", "a", 1), result("18", "b", 2), result("27", "b", 1)]
            ),
        ),
        unit_test("nothing", "", "").replace("of_nothing", "of_no_rows").replace("nothing", "streamed"),
    ]
)


class OfBase:
    """A project over a few rows."""

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"base.csv": ROWS, "seeds.yml": TYPES}


@pytest.mark.thorough
class TestUnitTests(OfBase):
    """They give rows in the place of a table."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "streamed.sql": model("cumulate"),
            "early.sql": model("cumulate', first_result_offset='-4 minutes', update_rate='1 minute"),
            "as_view.sql": model("view"),
            "ranked.sql": model("topn", RANKED),
            "sessions.sql": model("window_aggregate", SESSIONS),
            "unit.yml": UNIT_TESTS,
        }

    def test_they_pass_with_the_rows_of_a_stream(self, project: Any) -> None:
        run_dbt(["seed"])
        assert len(run_dbt(["test", "--select", "test_type:unit"])) == 6


class TestWhereverItRuns(OfBase):
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
