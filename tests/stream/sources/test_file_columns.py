"""Which columns of new files lead to a restart, and which are only reported."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructType

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.program import StreamInput
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.sources import file_columns
from dbt.adapters.spark_streaming.stream.sources.file_columns import FileColumns
from dbt.adapters.spark_streaming.stream.sources.source_schemas import SchemaChanged


def schema(*columns: str, **structs: Sequence[str]) -> StructType:
    found = StructType()
    for name in columns:
        found.add(name, StringType())
    for name, fields in structs.items():
        found.add(name, schema(*fields))
    return found


class Spark:
    """Finds the columns of the new file and, with others, of the folder."""

    def __init__(self, new: StructType, folder: StructType) -> None:
        self._found = {"new.json": new, "folder": folder}
        self.read, self.conf = self, SimpleNamespace(get=lambda *_: "")

    def format(self, _: str) -> Spark:
        return self

    def options(self, **_: str) -> Spark:
        return self

    def load(self, files: list[str]) -> Any:
        return SimpleNamespace(schema=self._found[files[0]])


def check(monkeypatch: pytest.MonkeyPatch, new: StructType, folder: StructType) -> list[str]:
    """Checks a micro-batch of a query that reads k and meta.v. Returns the warnings."""
    told: list[str] = []
    monkeypatch.setattr(file_columns.logger, "warning", told.append)
    monkeypatch.setattr(FileColumns, "_files_of_batch", lambda *_: ["new.json"])
    source = StreamSource("events", "folder", "json")
    model = StreamModel("m", "db.m", "db.m__state", Storage("/", lambda: None), (source,))
    spark: Any = Spark(new, folder)
    FileColumns(spark, model, [StreamInput("events", "events", None, None)], schema("k", meta=["v"])).check(1)
    return told


def test_a_field_that_spark_does_not_find_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    (told,) = check(monkeypatch, schema("k", meta=["v", "w"]), schema("k", meta=["v"]))
    assert "have meta.w, which is none of the columns that Spark finds" in told


def test_a_column_next_to_it_that_spark_finds_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SchemaChanged, match=r"\(note\)"):
        check(monkeypatch, schema("k", "note", meta=["v", "w"]), schema("k", "note", meta=["v"]))
