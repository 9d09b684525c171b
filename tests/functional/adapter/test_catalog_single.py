"""dbt's own suite: the catalog of one relation."""

from typing import Any

import pytest
from dbt.tests.adapter.basic.test_get_catalog_for_single_relation import BaseGetCatalogForSingleRelation
from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, StatsItem, TableMetadata

COLUMNS = {
    "id": "bigint",
    "first_name": "string",
    "email": "string",
    "ip_address": "string",
    "updated_at": "timestamp",
}


def expected(project: Any, name: str, kind: str, owner: str | None, rows: int | None) -> CatalogTable:
    return CatalogTable(
        metadata=TableMetadata(type=kind, schema=project.test_schema, name=name, owner=owner),
        columns={
            column: ColumnMetadata(type=type_, index=index, name=column)
            for index, (column, type_) in enumerate(COLUMNS.items(), 1)
        },
        stats={}
        if rows is None
        else {
            "bytes": StatsItem("bytes", "bytes", AnyBytes(), True, ""),
            "rows": StatsItem("rows", "rows", rows, True, ""),
        },
    )


class AnyBytes(int):
    """Equal to any number."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and other > 0


@pytest.mark.thorough
class TestGetCatalogForSingleRelation(BaseGetCatalogForSingleRelation):
    @pytest.fixture(scope="class")
    def expected_catalog_my_seed(self, project: Any, profile_user: str) -> CatalogTable:
        return expected(project, "my_seed", "table", profile_user, 1)

    @pytest.fixture(scope="class")
    def expected_catalog_my_view_model(self, project: Any) -> CatalogTable:
        return expected(project, "my_view_model", "view", None, None)
