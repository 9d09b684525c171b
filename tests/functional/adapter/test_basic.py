"""dbt's own suite: the basics."""

from typing import Any

import pytest
from dbt.tests.adapter.basic import expected_catalog
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_docs_generate import BaseDocsGenerate, BaseDocsGenReferences
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import (
    BaseIncremental,
    BaseIncrementalBadStrategy,
    BaseIncrementalNotSchemaChange,
)
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt.tests.util import run_dbt


class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


@pytest.mark.thorough
class TestSingularTests(BaseSingularTests):
    pass


@pytest.mark.thorough
class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass


class TestEmpty(BaseEmpty):
    pass


@pytest.mark.thorough
class TestEphemeral(BaseEphemeral):
    pass


@pytest.mark.thorough
class TestIncremental(BaseIncremental):
    pass


@pytest.mark.thorough
class TestIncrementalNotSchemaChange(BaseIncrementalNotSchemaChange):
    pass


@pytest.mark.thorough
class TestIncrementalBadStrategy(BaseIncrementalBadStrategy):
    def test_incremental_invalid_strategy(self, project: Any) -> None:
        """In words of our own."""
        run_dbt(["seed"])
        results = run_dbt(["run"], expect_pass=False)
        assert "incremental_strategy 'bad_strategy' is unknown. Built in are" in results.results[0].message


class TestGenericTests(BaseGenericTests):
    pass


@pytest.mark.thorough
class TestSnapshotCheckCols(BaseSnapshotCheckCols):
    pass


@pytest.mark.thorough
class TestSnapshotTimestamp(BaseSnapshotTimestamp):
    pass


@pytest.mark.thorough
class TestAdapterMethod(BaseAdapterMethod):
    pass


class Whatever:
    """Equal to all: the bytes of a table differ from run to run."""

    def __eq__(self, other: object) -> bool:
        return True


def in_our_words(catalog: dict[str, Any]) -> dict[str, Any]:
    """Views have no owner in Iceberg."""
    for node in (*catalog["nodes"].values(), *catalog["sources"].values()):
        if node["metadata"]["type"] == "view":
            node["metadata"]["owner"] = None
    return catalog


@pytest.mark.thorough
class TestDocsGenerate(BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any, profile_user: str) -> dict[str, Any]:
        return in_our_words(
            expected_catalog.base_expected_catalog(
                project,
                role=profile_user,
                id_type="bigint",
                text_type="string",
                time_type="timestamp",
                view_type="view",
                table_type="table",
                model_stats=Whatever(),
            )
        )


@pytest.mark.thorough
class TestDocsGenReferences(BaseDocsGenReferences):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any, profile_user: str) -> dict[str, Any]:
        return in_our_words(
            expected_catalog.expected_references_catalog(
                project,
                role=profile_user,
                id_type="bigint",
                text_type="string",
                time_type="timestamp",
                bigint_type="bigint",
                view_type="view",
                table_type="table",
                model_stats=Whatever(),
            )
        )


class TestValidateConnection(BaseValidateConnection):
    pass


@pytest.mark.thorough
class TestTableMaterialization(BaseTableMaterialization):
    pass
