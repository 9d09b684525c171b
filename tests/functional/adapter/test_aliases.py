"""dbt's own suite: names of their own."""

import pytest
from dbt.tests.adapter.aliases import fixtures
from dbt.tests.adapter.aliases.test_aliases import BaseAliasErrors, BaseAliases, BaseSameAliasDifferentSchemas

# The fixture's own casts to Postgres' type text.
MACROS = {
    "cast.sql": "{% macro string_literal(s) %}cast('{{ s }}' as string){% endmacro %}",
    "expect_value.sql": fixtures.MACROS__EXPECT_VALUE_SQL,
}


@pytest.mark.thorough
class TestAliases(BaseAliases):
    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return MACROS


@pytest.mark.thorough
class TestAliasErrors(BaseAliasErrors):
    pass


@pytest.mark.thorough
class TestSameAliasDifferentSchemas(BaseSameAliasDifferentSchemas):
    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return MACROS
