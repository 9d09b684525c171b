"""dbt's own suite: the relation cache."""

from typing import Any

import pytest
from dbt.tests.adapter.basic.test_adapter_methods import TestBaseCaching as BaseBaseCaching
from dbt.tests.adapter.caching.test_caching import (
    BaseCachingLowercaseModel,
    BaseCachingSelectedSchemaOnly,
    BaseCachingUppercaseModel,
    BaseNoPopulateCache,
)
from dbt.tests.util import run_dbt

# dbt's own, of what dbt-spark does and this adapter leaves as it is.
pytestmark = pytest.mark.thorough


class WithoutDatabase:
    """The base compares databases too, and Spark has none."""

    def run_and_inspect_cache(self, project: Any, run_args: list[str] | None = None) -> None:
        found = []
        for _ in range(2):
            run_dbt(run_args)
            (relation,) = project.adapter.cache.relations
            assert relation.schema == project.test_schema
            found.append((relation.schema.lower(), relation.identifier.lower()))
        assert found[0] == found[1]


class TestBaseCaching(BaseBaseCaching):
    pass


class TestCachingLowercaseModel(WithoutDatabase, BaseCachingLowercaseModel):
    pass


class TestCachingUppercaseModel(WithoutDatabase, BaseCachingUppercaseModel):
    pass


class TestCachingSelectedSchemaOnly(WithoutDatabase, BaseCachingSelectedSchemaOnly):
    pass


class TestNoPopulateCache(WithoutDatabase, BaseNoPopulateCache):
    pass
