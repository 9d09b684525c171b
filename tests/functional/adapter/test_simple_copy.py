"""dbt's own suite: a project of many models."""

from typing import Any

import pytest
from dbt.tests.adapter.simple_copy.test_copy_uppercase import BaseSimpleCopyUppercase
from dbt.tests.adapter.simple_copy.test_simple_copy import EmptyModelsArentRunBase, SimpleCopyBase
from dbt.tests.util import run_dbt

# dbt's own, of what dbt-spark does and this adapter leaves as it is.
pytestmark = pytest.mark.thorough


class TestSimpleCopyUppercase(BaseSimpleCopyUppercase):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, spark_target: dict[str, Any]) -> dict[str, Any]:
        return dict(spark_target)


class TestSimpleCopyBase(SimpleCopyBase):
    @pytest.mark.skip(reason="Spark has no materialized views")
    def test_simple_copy_with_materialized_views(self, project: Any) -> None: ...


class TestEmptyModelsArentRunBase(EmptyModelsArentRunBase):
    def test_dbt_doesnt_run_empty_models(self, project: Any) -> None:
        """As the base, which looks into Postgres' information schema."""
        assert len(run_dbt(["seed"])) == 1
        assert len(run_dbt()) == 7
        tables = {row[1] for row in project.run_sql(f"show tables in {project.test_schema}", fetch="all")}
        assert tables
        assert not tables & {"empty", "disabled"}
