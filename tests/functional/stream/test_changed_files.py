"""Spark's log of files and its listings say when a file that was read is written again."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from dbt.adapters.spark_streaming.stream.sources.changed_files import list_files
from dbt.adapters.spark_streaming.stream.sources.cleaned_files import cleaned_folders
from tests.thorough import mostly_thorough

from . import programs
from .harness import EVENTS, Stream, made_for

ROWS = "ts timestamp, k string, doubled bigint"


def put(path: Path, *rows: tuple[str, int]) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = (f'{{"ts": "2024-01-01 00:00:00", "k": "{k}", "v": {v}, "x": 1}}' for k, v in rows)
    path.write_text("\n".join(lines))


def keys(s: Stream) -> list[str]:
    return [row[1] for row in s.rows()]


@pytest.mark.parametrize("pattern", mostly_thorough([False, True], [False]), ids=["folder", "pattern"])
def test_a_file_that_is_written_again(spark: Any, storage_root: Path, tmp_path: Path, pattern: bool) -> None:
    s, folder = Stream(spark, storage_root, programs.pass_through(), ROWS), tmp_path / "in"
    path, other = folder / "a b%.json", folder / "b.json"
    put(path, ("a", 1))
    put(other, ("b", 1))
    s.reads(StreamSource("events", f"{folder}{'*' if pattern else ''}", "json", EVENTS))
    assert s.run().rows_in == 2
    assert s.run().rows_in == 0

    put(path, ("c", 1))
    put(folder / "c.json", ("d", 1))
    for _ in range(2):
        with pytest.raises(
            StreamError, match=r"the file .*/in/a b%\.json of its source events was written again"
        ):
            s.run()
    assert keys(s) == ["a", "b"]

    # The rows of a file with another name come beside the others.
    path.rename(folder / "e.json")
    assert s.run().rows_in == 2
    os.utime(other)
    s.model = replace(s.model, keep_state=True)
    assert s.run().rows_in == 0
    s.model = replace(s.model, keep_state=False)
    assert s.run().rows_in == 0
    assert sorted(keys(s)) == ["a", "b", "c", "d"]

    # Spark's listing and the one of this machine say the same.
    located = f"{folder}/"
    here = list_files(spark, s.model.storage, StreamSource("events", located, "json"))
    assert here == list_files(spark, s.model.storage, StreamSource("events", f"{folder}*", "json"))
    assert len(here) == 3


def test_a_file_is_put_right_before_it_was_read(spark: Any, storage_root: Path, tmp_path: Path) -> None:
    s, folder = Stream(spark, storage_root, programs.pass_through(), ROWS), tmp_path / "in"
    put(folder / "a.json", ("a", 1))
    s.reads(StreamSource("events", str(folder), "json", EVENTS, on_error="fail"))
    s.run()
    (folder / "b.json").write_text("{no json")
    with pytest.raises(StreamError):
        s.run()
    put(folder / "b.json", ("b", 1))
    assert s.run().rows_in == 1
    assert s.run().rows_in == 0
    assert keys(s) == ["a", "b"]


def test_files_that_are_cleaned_are_noted(spark: Any, storage_root: Path, tmp_path: Path) -> None:
    """Also beyond a reset, after which the model would begin without them."""
    s, folder = Stream(spark, storage_root, programs.pass_through(), ROWS), tmp_path / "in"
    put(folder / "a.json", ("a", 1))
    s.reads(StreamSource("events", str(folder), "json", EVENTS, {"cleanSource": "delete"}))
    s.run()
    s.reset()
    assert cleaned_folders(s.model) == {str(folder)}
    target = s.model.target
    spark.sql(f"create or replace table {target} ({ROWS}) using iceberg {made_for(target)}")
    s.reads(StreamSource("events", str(folder), "json", EVENTS))
    assert s.run().rows_in == 1
    assert cleaned_folders(s.model) == set()
