"""dbt's own suite: --empty."""

import pytest
from dbt.tests.adapter.empty.test_empty import (
    BaseTestEmpty,
    BaseTestEmptyInlineSourceRef,
)


class TestEmpty(BaseTestEmpty):
    pass


@pytest.mark.thorough
class TestEmptyInlineSourceRef(BaseTestEmptyInlineSourceRef):
    pass
