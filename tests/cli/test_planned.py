"""A query that was edited since the last run must fit its table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from dbt.adapters.spark_streaming.cli.planned import check_column_types
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel

SCHEMA = StructType([StructField("k", StringType()), StructField("n", IntegerType())])


def session(exists: bool) -> Any:
    return SimpleNamespace(
        catalog=SimpleNamespace(tableExists=lambda name: exists),
        table=lambda name: SimpleNamespace(schema=SCHEMA),
    )


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("m", "lake.db.m", "lake.db.m__state", Storage(str(tmp_path), lambda: None), ())


def test_a_column_that_became_wider_than_the_tables(model: StreamModel) -> None:
    check_column_types(session(True), model, {"k": "string", "n": "int"})
    with pytest.raises(StreamError) as refused:
        check_column_types(session(True), model, {"k": "string", "n": "string"})
    assert "Model m: " in str(refused.value.msg) and "n" in str(refused.value.msg)


def test_a_table_that_does_not_exist_takes_any(model: StreamModel) -> None:
    check_column_types(session(False), model, {"k": "string", "n": "string"})
