"""A catalog that is a folder has no schemas before the folder is there."""

from __future__ import annotations

from typing import Any

import pytest
from dbt_common.contracts.metadata import ColumnMetadata
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.impl import SparkStreamingAdapter
from dbt.adapters.spark_streaming.methods.catalog import Description
from dbt.adapters.spark_streaming.relation import SparkStreamingRelation


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


class _Catalog(SparkStreamingAdapter):
    """An adapter that can't read topics, nor tables called 'broken'."""

    def __init__(self) -> None:
        pass

    def _describe(self, relation: Any) -> Description | None:
        if relation.source_table or relation.identifier == "broken":
            raise DbtRuntimeError("No broker answers.")
        return Description((ColumnMetadata("bigint", 1, "id"),), {})

    def _progress_of(self, relation: Any) -> None:
        return None


def test_a_source_that_is_away_leaves_the_docs_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("dbt.adapters.spark_streaming.impl.logger.warning", said.append)
    model, topic, broken = (
        SparkStreamingRelation.create(schema="shop", identifier=name)
        for name in ("totals", "topic", "broken")
    )
    topic = topic.replace(source_table="spark_catalog.raw.topic")
    table = _Catalog()._catalog_table([topic, model])
    assert [row["table_name"] for row in table.rows] == ["totals"]
    assert said == ["dbt docs has no columns of topic: No broker answers."]
    with pytest.raises(DbtRuntimeError, match="No broker"):
        _Catalog()._catalog_table([broken])
