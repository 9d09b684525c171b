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


@pytest.mark.thorough
class TestTableOfNewRows:
    """The rows of a run are a table, which is replaced and dropped: somebody else's isn't."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "rows.py": "def model(dbt, session):\n"
            "    dbt.config(materialized='incremental')\n"
            "    return session.sql('select 1 as x')\n"
        }

    def test_others_tables_stay(self, project: Any) -> None:
        project.run_sql("create table {schema}.rows__dbt_tmp using iceberg as select 'mine' as x")
        for _ in range(2):
            run_dbt(["run"])
        assert project.run_sql("select * from {schema}.rows__dbt_tmp", fetch="one") == ("mine",)
        assert project.run_sql("select count(*) from {schema}.rows", fetch="one") == (2,)
        tables = {row[1] for row in project.run_sql("show tables in {schema}", fetch="all")}
        assert tables == {"rows", "rows__dbt_tmp"}


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
