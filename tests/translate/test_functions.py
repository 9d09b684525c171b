# ruff: noqa: E501
"""Functions and operators that mean something else in Spark."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.translate.project import translate

TABLE = """CREATE TABLE t (n INT, d DOUBLE, s STRING, a ARRAY<INT>, m MAP<INT, STRING>, r ROW<x INT>, ts TIMESTAMP(3),
WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');"""


@pytest.mark.parametrize(
    ("flink", "spark"),
    [
        ("n / 2", "n DIV 2"),
        ("n / 2.0", "n / 2.0"),
        ("d / n", "d / n"),
        ("r.x / n", "r.x DIV n"),
        ("a[1]", "TRY_ELEMENT_AT(a, 1)"),
        ("m[1]", "m[1]"),
        ("REGEXP_EXTRACT(s, 'a(b)')", "GET(REGEXP_EXTRACT_ALL(s, 'a(b)', 0), 0)"),
        ("SPLIT_INDEX(s, '|', n)", "GET(SPLIT(s, '\\\\Q|\\\\E'), n)"),
        ("GREATEST(n, 1)", "IF(n IS NULL OR 1 IS NULL, NULL, GREATEST(n, 1))"),
        ("FLOOR(ts TO HOUR)", "DATE_TRUNC('HOUR', ts)"),
        ("FLOOR(d)", "FLOOR(d)"),
        ("CAST(s AS VARCHAR(3))", "LEFT(CAST(s AS STRING), 3)"),
        ("CAST(s AS VARCHAR(2147483647))", "CAST(s AS STRING)"),
        ("CEIL(ts TO DAY)", "DATE_TRUNC('DAY', ts + INTERVAL '1' DAY - INTERVAL '1' MICROSECOND)"),
        ("TO_TIMESTAMP_LTZ(n, 3)", "TIMESTAMP_MILLIS(n)"),
        ("TO_TIMESTAMP(s, 'yyyy')", "TRY_TO_TIMESTAMP(s, 'yyyy')"),
        ("CAST(s AS ROW<x INT, y ARRAY<BIGINT NOT NULL>>)", "CAST(s AS STRUCT<x: INT, y: ARRAY<BIGINT>>)"),
        ("CAST(ts AS TIMESTAMP_LTZ(3))", "CAST(ts AS TIMESTAMP)"),
        ("JSON_VALUE(s, '$.a' RETURNING INT)", "CAST(GET_JSON_OBJECT(s, '$.a') AS INT)"),
        ("ARRAY[1, 2][2]", "TRY_ELEMENT_AT(ARRAY(1, 2), 2)"),
        ("MAP['a', ROW(1, 'b')]", "MAP('a', STRUCT(1, 'b'))"),
        ("SHA256(s)", "SHA2(s, 256)"),
        (
            "SPLIT_INDEX(REGEXP_EXTRACT(s, 'x', 1), '/', 0)",
            "GET(SPLIT(GET(REGEXP_EXTRACT_ALL(s, 'x', 1), 0), '\\\\Q/\\\\E'), 0)",
        ),
        ("TIMESTAMPDIFF(SECOND, ts, ts)", "TIMESTAMPDIFF(SECOND, ts, ts)"),
        ("s SIMILAR TO '5[0-9]_.%'", "s RLIKE '(?s)^(?:5[0-9].[.].*)$'"),
        ("s NOT SIMILAR TO 'a|b'", "NOT s RLIKE '(?s)^(?:a|b)$'"),
        ("'a\\b'", "'a\\\\b'"),
        ("EXTRACT(SECOND FROM ts)", "SECOND(ts)"),
        ("EXTRACT(DOW FROM ts)", "EXTRACT(DOW FROM ts)"),
        ("JSON_VALUE(s, 'lax $.a')", "GET_JSON_OBJECT(s, '$.a')"),
        ("JSON_QUERY(s, 'strict $.a')", "GET_JSON_OBJECT(s, '$.a')"),
        ("NOT JSON_EXISTS(s, 'lax $.a')", "NOT (\n    NOT GET_JSON_OBJECT(s, '$.a') IS NULL\n  )"),
        ("ARRAY_SORT(a)", "SORT_ARRAY(a)"),
        ("ARRAY_SORT(a, FALSE)", "SORT_ARRAY(a, FALSE)"),
    ],
)
def test_functions(flink: str, spark: str) -> None:
    made = translate(f"{TABLE} SELECT {flink} AS v FROM t;", "x")
    text = made.files["models/query_1.sql"]
    assert f"SELECT\n  {spark} AS v\n" in text
    assert not made.notes


@pytest.mark.parametrize(
    ("flink", "spark", "said"),
    [
        ("LISTAGG(s)", "LISTAGG(s, ',')", ""),
        ("LISTAGG(DISTINCT s)", "LISTAGG(DISTINCT s, ',')", ""),
        ("LISTAGG(DISTINCT s, ';')", "LISTAGG(DISTINCT s, ';')", ""),
        ("AVG(n)", "CAST(AVG(n) AS BIGINT)", ""),
        ("AVG(n) FILTER (WHERE d > 1)", "CAST(AVG(n) FILTER(WHERE d > 1) AS BIGINT)", ""),
        ("AVG(DISTINCT n)", "CAST(AVG(DISTINCT n) AS BIGINT)", ""),
        ("AVG(d)", "AVG(d)", ""),
        ("AVG(y)", "AVG(y)", "'AVG(y)': if it is of integers"),
        ("COLLECT(s)", "COLLECT_LIST(s)", "COLLECT() gives a MULTISET"),
        ("LAST_VALUE(s)", "LAST_VALUE(s)", "max_by(value, time)"),
        ("SUM(x / y)", "SUM(x / y)", "'x / y': if both are integers"),
    ],
)
def test_aggregates(flink: str, spark: str, said: str) -> None:
    made = translate(
        f"{TABLE} SELECT {flink} AS v FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;",
        "x",
    )
    assert f"  {spark} AS v\n" in made.files["models/query_1.sql"]
    assert (said in str(made.notes[0])) if said else not made.notes


@pytest.mark.parametrize(
    ("flink", "said"),
    [
        ("CURRENT_WATERMARK(ts)", "no value of a row"),
        ("EXTRACT(EPOCH FROM ts)", "EXTRACT(EPOCH FROM …) has no counterpart"),
        ("ARRAY_SORT(a, TRUE, FALSE)", "ARRAY_SORT() with a place for NULL"),
        ("s SIMILAR TO 'a!%' ESCAPE '!'", "SIMILAR TO with ESCAPE"),
        ("s IS JSON", "IS JSON"),
        ("SPLIT_INDEX(s)", "SPLIT_INDEX() has too few arguments"),
        ("SHA256()", "SHA256() has too few arguments"),
        ("JSON_EXISTS(s)", "JSON_EXISTS() has too few arguments"),
        ("JSON_VALUE(s)", "Expecting a path"),
    ],
)
def test_what_spark_reads_otherwise_is_refused(flink: str, said: str) -> None:
    made = translate(f"{TABLE} SELECT {flink} AS v FROM t;", "x")
    text = made.files["models/query_1.sql"]
    assert text.startswith("{{ config(enabled=false) }}") and said in text


@pytest.mark.parametrize("clock", ["CURRENT_TIMESTAMP", "NOW()", "LOCALTIMESTAMP", "CURRENT_ROW_TIMESTAMP()"])
def test_a_filter_by_the_clock_is_said(clock: str) -> None:
    made = translate(f"{TABLE} SELECT n FROM t WHERE ts > {clock} - INTERVAL '1' HOUR;", "x")
    assert [note.line for note in made.notes if "filter by the current time" in note.text] == [2]
    assert not translate(f"{TABLE} SELECT {clock} AS seen_at FROM t;", "x").notes
