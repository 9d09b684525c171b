"""The translator, on each of the places it touches."""

from __future__ import annotations

import pytest

from tests.oracle.translate import model_text

TABLES = frozenset({"bid", "auction"})


@pytest.mark.parametrize(
    ("flink", "ours"),
    [
        (
            "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES))",
            "{{ tumble(source('raw', 'bid'), 'ts', '10 minutes') }}",
        ),
        (
            "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '-4' HOURS))",
            "{{ tumble(source('raw', 'bid'), 'ts', '1 day', offset='-4 hours') }}",
        ),
        (
            "TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '15' MINUTES))",
            "{{ hop(source('raw', 'bid'), 'ts', '5 minutes', '15 minutes') }}",
        ),
        (
            "TABLE(CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' HOURS, INTERVAL '1' DAY))",
            "{{ cumulate(source('raw', 'bid'), 'ts', '2 hours', '1 day') }}",
        ),
        (
            "TABLE(SESSION(TABLE bid PARTITION BY a, b, DESCRIPTOR(ts), INTERVAL '10' MINUTES))",
            "{{ session(source('raw', 'bid'), 'ts', '10 minutes', partition_by=['a', 'b']) }}",
        ),
        (
            "FROM bid b JOIN auction",
            "FROM {{ stream(source('raw', 'bid')) }} b JOIN {{ stream(source('raw', 'auction')) }}",
        ),
        ("SELECT GROUPING_ID(page, channel) AS gid", "SELECT GROUPING_ID() AS gid"),
        ("-- a note\nSET 'x' = 'y';\nSELECT 1;\n", "SELECT 1"),
    ],
)
def test_one_place(flink: str, ours: str) -> None:
    assert model_text(flink, TABLES, "raw") == ours


def test_a_view_becomes_a_cte_that_a_window_function_names() -> None:
    flink = """CREATE TEMPORARY VIEW v AS
SELECT ts FROM bid;
SELECT * FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '1' HOUR));"""
    assert model_text(flink, TABLES, "raw") == (
        "WITH v AS (\nSELECT ts FROM {{ stream(source('raw', 'bid')) }}\n)\n"
        "SELECT * FROM {{ tumble('v', 'ts', '1 hour') }}"
    )


def test_two_queries_are_refused() -> None:
    with pytest.raises(ValueError, match="Only views may stand before the query"):
        model_text("SELECT 1;\nSELECT 2;", TABLES, "raw")
