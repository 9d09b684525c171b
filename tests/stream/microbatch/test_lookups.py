"""Columns of a lookup table that change during a run, without a database."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.program import Lookup
from dbt.adapters.spark_streaming.stream.common.lookup_source import LookupSource
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.microbatch import lookups
from dbt.adapters.spark_streaming.stream.sources.source_schemas import SchemaChanged

NO_SPARK: Any = None
MODEL = StreamModel("m", "db.m", "db.m__state", Storage("/nowhere", lambda: None), ())
LOOKUP = Lookup("customers", "crm.customers", ("id",), None, "select 1 as key_1")


def field(name: str, kind: DataType, **metadata: object) -> StructField:
    return StructField(name, kind, metadata=metadata)


@pytest.mark.parametrize(
    "now, changed",
    [
        ([field("id", LongType()), field("Tier", StringType()), field("since", StringType())], "since"),
        ([field("id", LongType()), field("Tier", LongType())], "Tier"),
        ([field("Tier", StringType()), field("id", LongType())], None),
        ([field("id", LongType()), field("Tier", StringType(), length=20)], None),
    ],
)
def test_only_names_and_types_of_columns_end_a_query(
    monkeypatch: pytest.MonkeyPatch, now: list[StructField], changed: str | None
) -> None:
    schemas = [
        StructType([field("id", LongType()), field("Tier", StringType(), length=10)]),
        StructType(now),
    ]
    monkeypatch.setattr(
        lookups, "JdbcTable", lambda *_: SimpleNamespace(schema=schemas.pop(0), names=["id", "Tier"])
    )
    table = lookups._LookupTable(
        NO_SPARK, MODEL, LookupSource("crm.customers", "c", {"url": "jdbc:x"}), LOOKUP
    )
    table._checks = SimpleNamespace(is_due=True, running=table._checks.running)
    if changed is None:
        table.check_columns(NO_SPARK)
    else:
        with pytest.raises(
            SchemaChanged, match=rf"columns of crm\.customers changed while it ran \({changed}\)"
        ):
            table.check_columns(NO_SPARK)
    assert not schemas
