"""Streams of a few rows."""

from collections.abc import Iterator

import pytest

from dbt.adapters.spark_streaming.stream.common import failpoints
from tests.functional.quick import few_rows

__all__ = ["few_rows"]


@pytest.fixture(autouse=True)
def failing() -> Iterator[None]:
    """Gives back what a test arms."""
    yield
    failpoints.arm(None)
