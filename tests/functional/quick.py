"""Spark as it costs least for tests that feed a few rows many times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

_SETTINGS = {
    # Code of whole stages would be compiled for rows that never come. In tests/functional/query, the oracle's, the
    # differential and the property tests it is compiled, as it is for users.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}


@pytest.fixture(autouse=True, scope="module")
def few_rows(spark: Any) -> Iterator[None]:
    """Sets the session, and sets it back."""
    before = {name: spark.conf.get(name) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)
