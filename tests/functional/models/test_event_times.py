"""What an event time may be, and what is said of one that can't be."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt

ROW = '{"id": %d, "text": "%s", "micros": %d, "at": "%s", "meta": {"at": "%s"}}'
TIMES = ("2024-03-04 00:01:00", "2024-03-04 00:07:00")
JSON = "\n".join(ROW % (number, time, number * 1_000_000, time, time) for number, time in enumerate(TIMES))
STREAM = "{{ config(materialized='streaming_table') }} "
WINDOW = (
    STREAM
    + "select window_start, window_end, count(*) as n from {{ tumble(RELATION, 'TIME', '5 minutes') }} group by 1, 2"
)


def window(relation: str, time: str) -> str:
    return WINDOW.replace("RELATION", relation).replace("TIME", time)


MODELS = {
    "text_passed_on": STREAM + "select id, text from {{ stream(source('raw', 'of_text')) }}",
    "text_counted": STREAM + "select count(*) as n from {{ stream(source('raw', 'of_text')) }}",
}
REFUSED = {
    "text_windowed": (
        window("source('raw', 'of_text')", "text"),
        ["event time text is a STRING and must be a TIMESTAMP"],
    ),
    "number_windowed": (
        window("source('raw', 'of_text')", "micros"),
        ["event time micros is a BIGINT"],
    ),
    "missing": (window("source('raw', 'of_text')", "nope"), ["nope"]),
    "missing_window": (window("source('raw', 'of_text')", "window_start"), ["no column window_start"]),
    "text_grouped": (
        STREAM.replace("')", "', state_ttl='1 day')")
        + "select id, count(*) as n from {{ stream(source('raw', 'of_text')) }} group by id",
        ["text", "STRING"],
    ),
    "number_grouped": (
        STREAM.replace("')", "', state_ttl='1 day')")
        + "select id, count(*) as n from {{ stream(source('raw', 'of_number')) }} group by id",
        ["micros", "BIGINT"],
    ),
}


class TestEventTimes:
    @pytest.fixture(scope="class")
    def models(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("times")
        (folder / "a.json").write_text(JSON)
        schema = "id bigint, text string, micros bigint, at timestamp, meta struct<at: timestamp>"
        tables = "".join(
            f"""
      - name: {name}
        config:
          event_time: {time}
          meta: {{stream: {{format: json, options: {{path: "{folder}"}}, schema: "{schema}"}}}}"""
            for name, time in {"of_text": "text", "of_number": "micros"}.items()
        )
        models = {**MODELS, **{name: text for name, (text, _) in REFUSED.items()}}
        return {
            **{f"{name}.sql": text for name, text in models.items()},
            "sources.yml": f"sources:\n  - name: raw\n    tables:{tables}",
        }

    @pytest.fixture(scope="class")
    def results(self, project: Any) -> dict[str, Any]:
        return {result.node.name: result for result in run_dbt(["run"], expect_pass=False)}

    @pytest.mark.parametrize("name", MODELS)
    def test_it_runs(self, results: dict[str, Any], name: str) -> None:
        assert str(results[name].status) == "success", results[name].message

    @pytest.mark.parametrize("name", REFUSED)
    def test_it_is_refused_in_a_sentence(self, results: dict[str, Any], name: str) -> None:
        message = str(results[name].message)
        for part in REFUSED[name][1]:
            assert part in message
        for internal in ("`rows`", "`input`", "VOID", "\tat "):
            assert internal not in message
