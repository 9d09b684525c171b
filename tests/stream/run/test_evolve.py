"""What keeps an edited query from going on is found before anything is written."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.state_signature import BufferState, Signature, WindowOperatorState
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.common.table_rows import Columns
from dbt.adapters.spark_streaming.stream.progress.position import Position
from dbt.adapters.spark_streaming.stream.run import evolve

MODEL = StreamModel("curves", "db.curves", "db.curves__state", Storage("/root", lambda: None), ())


def prepared(
    monkeypatch: pytest.MonkeyPatch, had: Signature, signature: Signature, table_gets_fields: bool = False
) -> Any:
    def planned(*_: object) -> None:
        raise StreamError("window_1_row of its state is a STRUCT<price: INT> and would be a STRUCT<fee: INT>")

    monkeypatch.setattr(evolve._Edit, "plan_migration", planned)
    fields = SimpleNamespace(fields=table_gets_fields)
    monkeypatch.setattr(evolve, "widenings", lambda *_: fields)
    program, state = (
        SimpleNamespace(signature=signature, upsert=None),
        SimpleNamespace(physical_types=lambda _: {}),
    )
    work: Any = SimpleNamespace(model=MODEL, program=program, state=state)
    none: Any = None
    return evolve.plan_state_change(
        none, work, had, Position("curves", "q1", batch=7, rows_out=100), False, {}
    )


def test_the_types_of_kept_rows_are_looked_at_after_any_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    had = Signature((WindowOperatorState("window_1", buffer=BufferState("window_1_row")),), text="1")
    assert prepared(monkeypatch, had, had) is None
    with pytest.raises(StreamError, match="would be a STRUCT<fee"):
        prepared(monkeypatch, had, replace(had, text="2"))


def test_they_are_looked_at_before_the_table_gets_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source's declared schema is no part of the query's text."""
    had = Signature((WindowOperatorState("window_1", buffer=BufferState("window_1_row")),), text="1")
    with pytest.raises(StreamError, match="would be a STRUCT<fee"):
        prepared(monkeypatch, had, had, table_gets_fields=True)


def test_other_fields_in_a_column_of_the_state() -> None:
    def rows(field: str) -> StructType:
        return StructType([StructField("row", StructType([StructField(field, StringType())]))])

    spark: Any = SimpleNamespace(sql=lambda _: SimpleNamespace(schema=rows("fee")))
    with pytest.raises(ValueError) as raised:
        Columns(rows("price"), rebuild=MODEL.rebuild).select(spark, "select 1")
    assert str(raised.value) == (
        "column row has other fields in it than it had. To rebuild it: `dbt run --full-refresh --select curves`."
    )
