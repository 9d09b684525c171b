"""A file with timestamps in nanoseconds, which Spark can't read, is told as that."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.sources.file_types import explain_file_error

_MISMATCH = "reading file file:/d/p.parquet. Data type mismatches when reading Parquet column [{}]. Expected Spark type {}, "


@pytest.mark.parametrize(
    ("said", "found"),
    [
        # Columns that Spark finds; declared ones, at the top and in a struct; a number, which looks the same.
        ("Illegal Parquet type: INT64 (TIMESTAMP(NANOS,true)).", "a file has a timestamp in nanoseconds."),
        (
            _MISMATCH.format("at", "timestamp") + "actual Parquet type INT64.",
            "the column at as a number or a timestamp in nanoseconds (INT64), and it is to be read as TIMESTAMP.",
        ),
        (
            _MISMATCH.format("m, at", "timestamp_ntz") + "actual Parquet type INT64.",
            "the column m.at as a number or a timestamp in nanoseconds (INT64), and it is to be read as TIMESTAMP_NTZ.",
        ),
    ],
)
def test_nanoseconds(said: str, found: str) -> None:
    told = explain_file_error(said)
    assert told is not None and found in told and "Write the files with microseconds" in told


def test_another_type_is_named() -> None:
    told = explain_file_error(_MISMATCH.format("s, list, element", "int") + "actual Parquet type BINARY.")
    assert told is not None and "the column s.list.element as STRING or BINARY" in told
    assert "nanoseconds" not in told
