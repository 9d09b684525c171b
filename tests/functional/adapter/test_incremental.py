"""dbt's own suite: incremental models."""

from typing import Any

import pytest
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch, _microbatch_model_sql
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey


class TestMergeExcludeColumns(BaseMergeExcludeColumns):
    pass


class TestMicrobatch(BaseMicrobatch):
    pass


class TestMicrobatchOfFiles(BaseMicrobatch):
    """Parquet's rows don't change, so partitions are overwritten, as in dbt-spark."""

    @pytest.fixture(scope="class")
    def microbatch_model_sql(self) -> str:
        return _microbatch_model_sql.replace(
            "unique_key='id'", "file_format='parquet', partition_by=['days(event_time)']"
        )


class TestIncrementalOnSchemaChange(BaseIncrementalOnSchemaChange):
    pass


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
    pass


@pytest.mark.thorough
class TestIncrementalUniqueKeyDeleteInsert(BaseIncrementalUniqueKey):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+incremental_strategy": "delete+insert"}}
