"""dbt's own suite: Python models."""

from typing import Any

import pytest
from dbt.tests.adapter.python_model.test_python_model import (
    BasePythonEmptyTests,
    BasePythonIncrementalTests,
    BasePythonMetaGetTests,
    BasePythonModelTests,
    BasePythonSampleTests,
)
from dbt.tests.adapter.python_model.test_spark import PANDAS_MODEL, PYSPARK_MODEL, BasePySparkTests
from dbt.tests.util import run_dbt


class TestPythonModelTests(BasePythonModelTests):
    pass


@pytest.mark.thorough
class TestPythonIncrementalTests(BasePythonIncrementalTests):
    pass


class TestPythonMetaGetTests(BasePythonMetaGetTests):
    pass


@pytest.mark.thorough
class TestPythonEmptyTests(BasePythonEmptyTests):
    pass


@pytest.mark.thorough
class TestPythonSampleTests(BasePythonSampleTests):
    pass


class TestPySparkTests(BasePySparkTests):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        """Without Koalas, which is Databricks' of old, and pandas on Spark, which has no pandas 3."""
        return {"pandas_df.py": PANDAS_MODEL, "pyspark_df.py": PYSPARK_MODEL}

    def test_different_dataframes(self, project: Any) -> None:
        """Both become tables."""
        assert len(run_dbt(["run"])) == 2
        rows = project.run_sql("select Country from {schema}.pandas_df where City = 'Bogota'", fetch="all")
        assert [row[0] for row in rows] == ["Colombia"]
