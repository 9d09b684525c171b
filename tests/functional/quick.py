"""Spark as it costs least for tests of a few rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from dbt.adapters.spark_streaming.stream.common import session

_OF_FEW_ROWS = {
    # As micro-batches of few rows are computed by themselves; here also what tests ask of tables.
    "spark.sql.codegen.wholeStage": "false",
    # Nor does other code pay that every test has compiled anew: a twentieth of the time.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}


@contextmanager
def session_set(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Sets the session, and sets it back."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture(autouse=True, scope="module")
def many_rows() -> Iterator[None]:
    """Micro-batches are computed and written as those of many rows are: by code for whole stages, in several tasks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "_FEW_ROWS", -1)
        yield


@pytest.fixture(autouse=True, scope="module")
def few_rows(spark: Any) -> Iterator[None]:
    """For streams that are fed a few rows many times."""
    with session_set(spark, _OF_FEW_ROWS):
        yield
