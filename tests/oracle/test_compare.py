"""The comparison must be able to fail."""

from __future__ import annotations

from datetime import datetime

from tests.oracle.compare import difference

HEADER = ["window_end", "window_time", "key", "a"]
EXPECTED = [["2024-03-04 00:00:00.000", "2024-03-03 23:59:59.999", "\\N", "2"]]
ROW = (datetime(2024, 3, 4), datetime(2024, 3, 3, 23, 59, 59, 999999), None, 2.9)


def test_the_same_rows_have_no_difference() -> None:
    assert difference(HEADER, [ROW], HEADER, EXPECTED) is None


def test_columns_may_stand_in_another_order() -> None:
    assert difference(HEADER[::-1], [ROW[::-1]], HEADER, EXPECTED) is None


def test_a_row_too_often_is_a_difference() -> None:
    found = difference(HEADER, [ROW, ROW], HEADER, EXPECTED)
    assert found is not None
    assert "2 rows, Flink has 1" in found
    assert "too much: 1\n  2024-03-04 00:00:00.000000 | \\N | 2" in found


def test_a_missing_row_is_a_difference() -> None:
    found = difference(HEADER, [], HEADER, EXPECTED)
    assert found is not None
    assert "missing: 1" in found


def test_a_wrong_value_is_a_difference() -> None:
    assert difference(HEADER, [(*ROW[:3], 3.0)], HEADER, EXPECTED) is not None


def test_null_is_not_the_empty_string() -> None:
    assert difference(HEADER, [(*ROW[:2], "", 2.0)], HEADER, EXPECTED) is not None


def test_other_columns_are_a_difference() -> None:
    assert difference(["x"], [], HEADER, EXPECTED) == (
        "columns are x; Flink's are window_end, window_time, key, a"
    )
