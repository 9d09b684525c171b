"""dbt's own suite: incremental models."""

from typing import Any

import pytest
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch, _microbatch_model_sql
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey
from dbt.tests.util import run_dbt


@pytest.mark.thorough
class TestMergeExcludeColumns(BaseMergeExcludeColumns):
    pass


@pytest.mark.thorough
class TestMicrobatch(BaseMicrobatch):
    pass


@pytest.mark.thorough
class TestMicrobatchOfFiles(BaseMicrobatch):
    """Parquet's rows don't change, so partitions are overwritten, as in dbt-spark."""

    @pytest.fixture(scope="class")
    def microbatch_model_sql(self) -> str:
        return _microbatch_model_sql.replace(
            "unique_key='id'", "file_format='parquet', partition_by=['days(event_time)']"
        )


@pytest.mark.thorough
class TestIncrementalOnSchemaChange(BaseIncrementalOnSchemaChange):
    pass


@pytest.mark.thorough
class TestIncrementalPredicatesDeleteInsert(BaseIncrementalPredicates):
    pass


@pytest.mark.thorough
class TestPredicatesDeleteInsert(BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+predicates": ["id != 2"], "+incremental_strategy": "delete+insert"}}


@pytest.mark.thorough
class TestIncrementalPredicatesMerge(BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {
            "models": {
                "+incremental_predicates": ["DBT_INTERNAL_DEST.id != 2"],
                "+incremental_strategy": "merge",
            }
        }


class TestIncrementalUniqueKey(BaseIncrementalUniqueKey):
    """Of keys, one is in CI."""

    @pytest.mark.thorough
    def test__no_unique_keys(self, project: Any) -> None:
        super().test__no_unique_keys(project)

    @pytest.mark.thorough
    def test__trinary_unique_key_list(self, project: Any) -> None:
        super().test__trinary_unique_key_list(project)

    @pytest.mark.thorough
    def test__bad_unique_key(self, project: Any) -> None:
        super().test__bad_unique_key(project)

    @pytest.mark.thorough
    def test__empty_unique_key_list(self, project: Any) -> None:
        super().test__empty_unique_key_list(project)

    @pytest.mark.thorough
    def test__empty_str_unique_key(self, project: Any) -> None:
        super().test__empty_str_unique_key(project)

    @pytest.mark.thorough
    def test__unary_unique_key_list(self, project: Any) -> None:
        super().test__unary_unique_key_list(project)

    @pytest.mark.thorough
    def test__duplicated_unary_unique_key_list(self, project: Any) -> None:
        super().test__duplicated_unary_unique_key_list(project)

    @pytest.mark.thorough
    def test__trinary_unique_key_list_no_update(self, project: Any) -> None:
        super().test__trinary_unique_key_list_no_update(project)

    @pytest.mark.thorough
    def test__bad_unique_key_list(self, project: Any) -> None:
        super().test__bad_unique_key_list(project)


@pytest.mark.thorough
class TestIncrementalUniqueKeyDeleteInsert(BaseIncrementalUniqueKey):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+incremental_strategy": "delete+insert"}}


NAMED_STRATEGY = """
{% macro get_incremental_named_sql(arguments) %}
  insert into {{ arguments['target_relation'] }} select '{{ arguments['temp_relation'] }}' as named
{% endmacro %}
"""


class TestSameNameInTwoSchemas:
    """All threads share a session: a view of what comes into one model isn't that of another."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        config = "materialized='incremental', incremental_strategy='named', alias='orders'"
        return {
            "here.sql": f"{{{{ config({config}) }}}} select '' as named",
            "there.sql": f"{{{{ config({config}, schema='there') }}}} select '' as named",
        }

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"named.sql": NAMED_STRATEGY}

    def test_each_has_rows_of_its_own(self, project: Any) -> None:
        for _ in range(2):
            run_dbt(["run"])
        schemas = (project.test_schema, f"{project.test_schema}_there")
        text = " union all ".join(
            f"select named from {schema}.orders where named <> ''" for schema in schemas
        )
        named = {name for (name,) in project.run_sql(text, fetch="all")}
        assert len(named) == 2
