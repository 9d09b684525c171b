"""dbt's own suite: the catalog of one relation."""

from dbt.tests.adapter.basic.test_get_catalog_for_single_relation import BaseGetCatalogForSingleRelation


class TestGetCatalogForSingleRelation(BaseGetCatalogForSingleRelation):
    pass
