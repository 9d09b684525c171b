"""What a streaming model's configs mean, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming import stream_config
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.stream.model import Retention


def read(**config: Any) -> stream_config.StreamConfig:
    return stream_config.read(config, frozenset())


def test_retention() -> None:
    assert read().retention == Retention(3_600_000_000, 200, 64 << 20)
    found = read(max_snapshot_age="2 days", max_snapshots=1000, target_file_size="128 MB").retention
    assert found == Retention(172_800_000_000, 1000, 128 << 20)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"max_snapshot_age": "0 seconds"}, "'max_snapshot_age' '0 seconds' must be longer than nothing"),
        ({"max_snapshot_age": "a while"}, "'max_snapshot_age': 'a while' is not an interval"),
        ({"max_snapshots": 0}, "'max_snapshots' is 0"),
        ({"max_snapshots": True}, "'max_snapshots' is True"),
        ({"max_snapshots": "many"}, "'max_snapshots' is 'many'"),
        ({"target_file_size": "large"}, "'target_file_size' is 'large'"),
        ({"target_file_size": 0}, "'target_file_size' is 0"),
    ],
)
def test_a_retention_that_means_nothing(config: dict[str, Any], told: str) -> None:
    with pytest.raises(QueryError, match=told):
        read(**config)
