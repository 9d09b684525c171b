"""What a sink says of its table: how many rows it has, and the position of the last micro-batch in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.progress.position import Position
from dbt.adapters.spark_streaming.stream.sink.append import AppendSink

SPARK: Any = SimpleNamespace(catalog=SimpleNamespace(tableExists=lambda name: False))
POSITION = Position("m", query_id="q", batch=3, signature="s", rows_out=5)


class Table:
    """An Iceberg table with these properties of its newest snapshot."""

    def __init__(self, summary: Mapping[str, str]) -> None:
        self.summary = summary
        self.known = 17

    def summary_count(self, what: str) -> int:
        return int(self.summary.get(what, 0))

    def last_summary(self) -> Mapping[str, str]:
        return self.summary


@pytest.fixture
def sink(tmp_path: Path) -> AppendSink:
    storage = Storage(str(tmp_path), lambda: None)
    return AppendSink(SPARK, StreamModel("m", "lake.db.m", "lake.db.m__state", storage, ()))


def having(sink: AppendSink, **summary: str) -> AppendSink:
    table: Any = Table({name.replace("_", "-"): value for name, value in summary.items()})
    sink._table = table
    return sink


def test_a_table_that_does_not_exist(sink: AppendSink) -> None:
    assert (sink.exists, sink.is_written, sink.rows, sink.position()) == (False, False, 0, None)
    assert sink.changes_ahead() == 0


def test_rows_are_those_that_no_delete_file_names(sink: AppendSink) -> None:
    assert having(sink, total_records="7", total_position_deletes="2").rows == 5
    # After another writer's compaction, deletes of removed rows may remain.
    assert having(sink, total_records="1", total_position_deletes="2").rows == 0


def test_the_position_counts_the_rows_of_its_own_commit(sink: AppendSink) -> None:
    table: Any = Table({**POSITION.properties(), "added-records": "2"})
    sink._table = table
    assert sink.position() == replace(POSITION, rows_out=7)
