"""A run that overwrites partitions replaces those that its model says, or stops."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.project.partitioning import (
    check_partition_columns,
    check_table_partitioning,
)
from dbt.adapters.spark_streaming.query.errors import QueryError


def test_a_query_has_the_columns_of_its_partitions() -> None:
    for partition_by in ("day", ["days(ts)", "bucket(16, `id`)"], "truncate(4, Name)", "meta.at", None):
        check_partition_columns(partition_by, ["id", "day", "ts", "name", "meta"])
    with pytest.raises(
        QueryError, match=r"^config 'partition_by' names at, which isn't a column of the query; its"
    ):
        check_partition_columns(["id", "hours(at)"], ["id", "day"])


@pytest.mark.parametrize(
    ("partition_by", "fields"),
    [
        (["k", "days(ts)", "bucket(4, `a b`)"], ["a b_bucket", "K", "ts_day"]),
        ("a, bucket(4, b)", ["b_bucket", "a"]),
        ("`a, b`", ["a, b"]),
        ("/p", ["/p"]),
        ("months(meta.at)", ["meta.at_month"]),
        ("truncate(4, name)", ["name_trunc"]),
        ("of_my_own(k)", ["anything"]),
        (None, []),
    ],
)
def test_a_table_that_is_partitioned_as_its_model_says(partition_by: Any, fields: list[str]) -> None:
    check_table_partitioning(partition_by, fields)


@pytest.mark.parametrize(
    ("partition_by", "fields", "said"),
    [
        ("day", [], "is day, and the table is partitioned by nothing"),
        (None, ["day"], "is not set, and the table is partitioned by day"),
        ("hours(ts)", ["ts_day"], r"is hours\(ts\), and the table is partitioned by ts_day"),
        (["a"], ["a", "b"], "is a, and the table is partitioned by a, b"),
    ],
)
def test_a_config_that_was_edited_since(partition_by: Any, fields: list[str], said: str) -> None:
    with pytest.raises(QueryError, match=f"^config 'partition_by' {said}, so its rows would replace others"):
        check_table_partitioning(partition_by, fields)
