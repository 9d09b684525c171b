"""Tests of Python models: what can be seen without Spark."""

import importlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any, cast

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.methods import python_models


@pytest.fixture
def unfit_pandas(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A pandas that Spark's API can't be imported with; returns the imports that were tried."""
    tried: list[str] = []

    def fail(name: str) -> Any:
        tried.append(name)
        raise ImportError("cannot import name 'DateOffset'", name="pandas.tseries")

    monkeypatch.setattr(importlib, "import_module", fail)
    monkeypatch.delitem(sys.modules, "pyspark.pandas", raising=False)
    python_models._import_pandas_api.cache_clear()
    yield tried
    python_models._import_pandas_api.cache_clear()
    sys.modules.pop("pyspark.pandas", None)


WRITING = """
try:
    import pyspark.pandas
    spark.append("there")
except ImportError:
    spark.append("missing")
"""


def test_a_pandas_api_that_cannot_be_imported_is_tried_once(unfit_pandas: list[str]) -> None:
    found = cast(Any, [])
    for _ in range(2):
        python_models.run_python_model("m", WRITING, found)
    assert found == ["missing", "missing"]
    assert unfit_pandas == ["pyspark.pandas"]


def test_a_model_that_imports_it_gets_the_reason(unfit_pandas: list[str]) -> None:
    for code in ("import pyspark.pandas as ps", "from pyspark.pandas.frame import DataFrame"):
        with pytest.raises(DbtRuntimeError, match=r"pandas that is installed: .*DateOffset"):
            python_models.run_python_model("m", code, cast(Any, None))


def test_the_pandas_api_says_nothing_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(name: str) -> None:
        warnings.warn("'PYARROW_IGNORE_TIMEZONE' environment variable was not set.", stacklevel=2)

    monkeypatch.setattr(importlib, "import_module", warn)
    python_models._import_pandas_api.cache_clear()
    with warnings.catch_warnings(record=True) as said:
        assert python_models._import_pandas_api() is None
    python_models._import_pandas_api.cache_clear()
    assert not said
