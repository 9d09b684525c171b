"""dbt's own suite: cross-database macros."""

from types import ModuleType
from typing import Any

import pytest
from dbt.tests.adapter.utils import (
    fixture_any_value,
    fixture_bool_or,
    fixture_cast,
    fixture_cast_bool_to_text,
    fixture_concat,
    fixture_date,
    fixture_date_spine,
    fixture_date_trunc,
    fixture_dateadd,
    fixture_datediff,
    fixture_escape_single_quotes,
    fixture_generate_series,
    fixture_get_intervals_between,
    fixture_get_powers_of_two,
    fixture_hash,
    fixture_last_day,
    fixture_length,
    fixture_listagg,
    fixture_position,
    fixture_replace,
    fixture_right,
    fixture_safe_cast,
    fixture_split_part,
    fixture_string_literal,
)
from dbt.tests.adapter.utils.base_utils import BaseUtils
from dbt.tests.adapter.utils.test_array_append import BaseArrayAppend
from dbt.tests.adapter.utils.test_array_concat import BaseArrayConcat
from dbt.tests.adapter.utils.test_array_construct import BaseArrayConstruct
from dbt.tests.adapter.utils.test_current_timestamp import BaseCurrentTimestampNaive
from dbt.tests.adapter.utils.test_equals import BaseEquals
from dbt.tests.adapter.utils.test_except import BaseExcept
from dbt.tests.adapter.utils.test_intersect import BaseIntersect
from dbt.tests.adapter.utils.test_null_compare import BaseMixedNullCompare, BaseNullCompare
from dbt.tests.adapter.utils.test_source_freshness_custom_info import BaseCalculateFreshnessMethod
from dbt.tests.adapter.utils.test_timestamps import BaseCurrentTimestamps
from dbt.tests.adapter.utils.test_validate_sql import BaseValidateSqlMethod

# dbt's own, of what dbt-spark does and this adapter leaves as it is.
pytestmark = pytest.mark.thorough

MODULES = [
    fixture_any_value,
    fixture_bool_or,
    fixture_cast,
    fixture_cast_bool_to_text,
    fixture_concat,
    fixture_date,
    fixture_date_spine,
    fixture_date_trunc,
    fixture_dateadd,
    fixture_datediff,
    fixture_escape_single_quotes,
    fixture_generate_series,
    fixture_get_intervals_between,
    fixture_get_powers_of_two,
    fixture_hash,
    fixture_last_day,
    fixture_length,
    fixture_listagg,
    fixture_position,
    fixture_replace,
    fixture_right,
    fixture_safe_cast,
    fixture_split_part,
    fixture_string_literal,
]
"""Of the macros whose test asks that what it builds passes, and nothing else."""


def files(module: ModuleType, kind: str) -> dict[str, str]:
    """The seeds or models of a module, by their files: `seeds__data_hash_csv` is data_hash.csv."""
    start = f"{kind}__"
    return {
        ".".join(name.removeprefix(start).rsplit("_", 1)): text
        for name, text in vars(module).items()
        if name.startswith(start)
    }


class TestMacros(BaseUtils):
    """What dbt has as a class and a project for each macro, as one project."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        types = {"from_time": "timestamp", "result": "timestamp"}
        return {"seeds": {"test": {"data_dateadd": {"+column_types": types}}}}

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {name: text for module in MODULES for name, text in files(module, "seeds").items()}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        found = {name: text for module in MODULES for name, text in files(module, "models").items()}
        # Of the two ways to escape a quote Spark has this one.
        del found["test_escape_single_quotes_quote.sql"]
        found["test_escape_single_quotes.sql"] = found.pop("test_escape_single_quotes_backslash.sql")
        # With dates in the one form that Spark reads.
        intervals = found["test_get_intervals_between.sql"]
        found["test_get_intervals_between.sql"] = intervals.replace("09/01/2023", "2023-09-01").replace(
            "09/12/2023", "2023-09-12"
        )
        return found


class TestArrayAppend(BaseArrayAppend):
    pass


class TestArrayConcat(BaseArrayConcat):
    pass


class TestArrayConstruct(BaseArrayConstruct):
    pass


class TestCurrentTimestampNaive(BaseCurrentTimestampNaive):
    pass


class TestEquals(BaseEquals):
    pass


class TestExcept(BaseExcept):
    pass


class TestIntersect(BaseIntersect):
    pass


class TestMixedNullCompare(BaseMixedNullCompare):
    pass


class TestNullCompare(BaseNullCompare):
    pass


class TestCalculateFreshnessMethod(BaseCalculateFreshnessMethod):
    pass


class TestCurrentTimestamps(BaseCurrentTimestamps):
    @pytest.fixture(scope="class")
    def expected_schema(self) -> dict[str, str]:
        return dict.fromkeys(
            ("current_timestamp", "current_timestamp_in_utc_backcompat", "current_timestamp_backcompat"),
            "timestamp",
        )

    @pytest.fixture(scope="class")
    def expected_sql(self) -> None:
        return None


class TestValidateSqlMethod(BaseValidateSqlMethod):
    pass
