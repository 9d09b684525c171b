"""dbt's own suite: several threads."""

import pytest
from dbt.tests.adapter.concurrency.test_concurrency import BaseConcurrency


@pytest.mark.thorough
class TestConcurrency(BaseConcurrency):
    pass
