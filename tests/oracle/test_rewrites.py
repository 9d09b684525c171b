"""Rewritten, a query gives the rows that Apache Flink gives for it: the cases without windows, in batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.rewrites import rewriting
from tests.oracle.cases import NO_ORACLE, ORACLE
from tests.oracle.compare import difference, read_expected

pytestmark = pytest.mark.skipif(ORACLE is None, reason=NO_ORACLE)

CASES = [
    ("enum_distinct", "enum_distinct", {}),
    ("distinct_split", "split_distinct", {"buckets": 64}),
    ("enum_distinct", "split_distinct", {"buckets": 16}),
    ("group_topn", "split_topn", {"buckets": 16}),
    ("group_topn_raw", "split_topn", {"buckets": 16}),
]


@pytest.fixture(scope="module")
def tables(spark: Any) -> Iterator[None]:
    """The tables of the oracle as temporary views."""
    assert ORACLE is not None
    paths = list((ORACLE / "data" / "small").glob("*.parquet"))
    for path in paths:
        spark.read.parquet(str(path)).createOrReplaceTempView(path.stem)
    yield
    for path in paths:
        spark.catalog.dropTempView(path.stem)


@pytest.mark.parametrize(("case", "name", "options"), CASES)
def test_rows_are_those_of_flink(spark: Any, tables: None, case: str, name: str, options: Any) -> None:
    assert ORACLE is not None
    lines = (ORACLE / "cases" / f"{case}.sql").read_text().splitlines()
    statements = "\n".join(line for line in lines if not line.startswith("--")).split(";")
    (text,) = [each for each in statements if "SELECT" in each]
    table = spark.sql(rewriting.rewrite(name, text, **options))
    header, expected = read_expected(ORACLE / "expected" / case / "small.csv")
    assert difference(table.columns, [tuple(row) for row in table.collect()], header, expected) is None
