"""A catalog that is a folder has no schemas before the folder is there."""

from __future__ import annotations

from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.impl import SparkStreamingAdapter


class _Adapter(SparkStreamingAdapter):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def execute_macro(self, *arguments: Any, **named: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_schemas() -> None:
    missing = _Adapter(DbtRuntimeError("Namespace does not exist: "))
    assert missing.list_schemas("") == [] and not missing.check_schema_exists("", "shop")
    there = _Adapter([("shop",)])
    assert there.check_schema_exists("", "shop") and not there.check_schema_exists("", "dev")
    with pytest.raises(DbtRuntimeError, match="Forbidden"):
        _Adapter(DbtRuntimeError("Forbidden")).list_schemas("")
