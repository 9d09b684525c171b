"""JSON records that are parsed as they are written have the rows that records get which are looked at in full."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from dbt.adapters.spark_streaming.sources.unreadable import Records
from dbt.adapters.spark_streaming.stream.sources import records as source_records
from tests.thorough import mostly_thorough

VALUES = [
    *("1", "-1", "10.5", "2.50", "1e2", "1E400", "-1e39", "128", "200", "-7", "0", "00", "1.", "+1", "1_0", "9" * 25),
    *("true", "null", "NaN", "Infinity", "-INF", '""', '"a lot"', '"1"', '" 1"', '"-5"', '"2.50"', '"Infinity"'),
    *('"2025-06-01"', '"2025-6-1"', '"365"', '"2025-06-01 10:00:00"', '"2025-06-01T10:00:00Z"', '"10:00"', '"T10:00"'),
    *('"2025-06-01T23:59"', '"12025-01-01"', '"2025-06-01x"', '"\\u0031\\u0030:00"', "1748772000000", '"}"', '"{"'),
    *('"a\\"}"', '"\\\\"', "'x'", "{}", "[]", '{"v": 1}', '{"v": 2.50}', '{"v":"10:00"}', '{"v": {"w": [1, 2.0]}}'),
    *("[1, 2.50]", '["10:00", "2025-06-01"]', '[{"v": 200}]', '"ä}"', "/* x */ 1", '"{\\"v\\": 2.50}"', '"[1]"', "1 2"),
]  # fmt: skip
AROUND = [
    *('{{"id": 1, "v": {}}}', '{{"v": {}, "id": 1}}', '{{"id":1,"v":{}}}', ' {{"id": 1, "v": {}}} ', '{{"v": {}}}'),
    *('{{"id": 1, "v": {}}}}}', '{{"id": 1, "v": {}}} x', '{{"id": 1, "v": {}}}{{"id": 2}}', '{{"id": 1, "v": {}}},'),
    *('[{{"id": 1, "v": {}}}]', '[{{"id": 1, "v": {}}}, {{"id": 2.5}}]', '{{"id": 1, "v": {}', '{{"id": {0}, "v": {0}}}'),
    *('{{"id": 1, "w": {}}}', '{{"id": 1, "V": {}}}', '{{"id": 1, "v": 1, "v": {}}}', '{{"id": "x", "v": {}}}', "{}"),
    *('{{"m": {{"v": {}}}, "id": 1}}', '{{"id": 1, "v": "x", "m": {{"v": {}}}}}'),
]  # fmt: skip
TYPES = [
    *("string", "timestamp", "bigint", "tinyint", "double", "float", "decimal(10,2)", "boolean", "date"),
    *("timestamp_ntz", "binary", "array<tinyint>", "array<string>", "map<string,timestamp>"),
    *("struct<v: date>", "struct<v: string>", "array<struct<v: timestamp>>"),
]
BYTES = [
    b'{"id": 1, "v": "\xff"}',
    b'\xef\xbb\xbf{"id": 1, "v": 1}',
    b'{"id": 1, "v": "\x00"}',
    b"",
    b"  ",
    b"\xff",
]


def texts() -> list[bytes]:
    every = [around.format(value).encode() for around, value in itertools.product(AROUND, VALUES)]
    return random.Random(7).sample(every, 500) + BYTES


@pytest.fixture(scope="module")
def lines(spark: Any) -> Any:
    rows = [(number, text) for number, text in enumerate(texts())]
    return spark.createDataFrame(rows, "number int, bytes binary").cache()


def rows_of(found: Any, records: Records, plain: bool) -> list[str]:
    """The rows and their unreadable values, as texts."""
    number = "number" if records.are_messages else "input_file"
    found = found.selectExpr(
        *(
            ["bytes as value", "'t' as topic", "0 as partition", "number as offset"]
            if records.are_messages
            else ["cast(bytes as string) as __line"]
        ),
        f"number as {number}",
    )
    for selected in records.select_lists():
        own = [
            "false as __plain" if each.endswith(" as __plain") and not plain else each for each in selected
        ]
        found = found.selectExpr(*own, *([] if "*" in own else [number]))
    names = ", ".join(f"`{name}`" for name in records.names)
    shown = found.selectExpr(
        f"to_json(struct({number}, {names})) as row", f"string({records.unreadable_values_sql()}) as bad"
    )
    return sorted(f"{each.row} {each.bad}" for each in shown.collect())


@pytest.mark.parametrize("kind", mostly_thorough(TYPES, ["string", "timestamp"]))
def test_a_plain_record_has_the_same_row(lines: Any, kind: str) -> None:
    fields = [("id", "bigint"), ("v", kind), ("m", f"struct<v: {kind}>")]
    for are_messages in (False, True):
        records = Records("raw.events", "json", fields, are_messages=are_messages)
        assert rows_of(lines, records, True) == rows_of(lines, records, False)


def test_most_records_are_plain(lines: Any) -> None:
    """Else the test above compares nothing."""
    records = Records("raw.events", "json", [("id", "bigint"), ("v", "string")])
    text, parsed, plain, *_ = records.select_lists()
    found = lines.selectExpr("cast(bytes as string) as __line").selectExpr(*text).selectExpr(*parsed)
    count = found.selectExpr(*plain).where("__plain").count()
    assert 100 < count < 450


def test_only_nested_values_are_checked(spark: Any) -> None:
    """No column of the record itself is compared with its text."""
    records = Records("raw.events", "json", [("id", "bigint"), ("meta", "struct<at: timestamp>")])
    rows = [json.dumps({"id": 1, "meta": {"at": at}}) for at in ("2025-06-01 10:00:00", "10:00")]
    found = spark.createDataFrame([(each,) for each in rows], "__line string")
    assert [row.id for row in source_records.rows_of(found, records, None, False).collect()] == [1, 1]
