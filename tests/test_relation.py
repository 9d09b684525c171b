"""Names of relations in SQL: quoted where SQL couldn't read them otherwise."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.relation import (
    SparkStreamingRelation,
    lookup_declaration,
    stream_declaration,
)


@pytest.mark.parametrize(
    ("schema", "identifier", "text"),
    [
        ("dbt", "Orders_2024", "dbt.Orders_2024"),
        ("lakehouse.dbt", "orders", "lakehouse.dbt.orders"),
        ("dbt-dev", "my-model", "`dbt-dev`.`my-model`"),
        ("dbt", "a.b", "dbt.`a.b`"),
        ("größe", "it's `this`", "`größe`.`it's ``this```"),
        ("dbt", "2024", "dbt.`2024`"),
    ],
)
def test_as_needed(schema: str, identifier: str, text: str) -> None:
    assert SparkStreamingRelation.create(schema=schema, identifier=identifier).render() == text


def test_a_database_is_refused_with_what_to_write() -> None:
    with pytest.raises(
        DbtRuntimeError, match="orders has the database 'main', and Spark's tables have only a schema"
    ):
        SparkStreamingRelation.create(database="main", schema="dbt", identifier="orders")
    assert (
        SparkStreamingRelation.create(database="dbt", schema="dbt", identifier="orders").render()
        == "dbt.orders"
    )


def test_as_the_project_says() -> None:
    relation = SparkStreamingRelation.create(schema="dbt", identifier="orders")
    assert relation.quote(identifier=True).render() == "dbt.`orders`"
    assert relation.without_identifier().render() == "dbt"


@pytest.mark.parametrize(
    ("schema", "given", "is_iceberg"),
    [
        ("dbt", {}, True),
        ("lakehouse.dbt", {}, True),
        ("dbt", {"is_delta": True}, False),
        ("spark_catalog.dbt", {}, False),
        ("spark_catalog.dbt", {"is_iceberg": True}, True),
    ],
)
def test_an_unknown_format_is_icebergs_except_in_sparks_catalog(
    schema: str, given: dict[str, bool], is_iceberg: bool
) -> None:
    relation = SparkStreamingRelation.create(schema=schema, identifier="t", type="table", **given)
    assert relation.is_iceberg is is_iceberg


def test_ephemeral_models() -> None:
    assert SparkStreamingRelation.add_ephemeral_prefix("orders") == "__dbt__cte__orders"
    assert SparkStreamingRelation.add_ephemeral_prefix("my-model") == "`__dbt__cte__my-model`"


@pytest.mark.parametrize(("key", "read"), [("stream", stream_declaration), ("lookup", lookup_declaration)])
def test_a_declaration_beside_meta_is_refused(key: str, read: Callable[..., object]) -> None:
    relation = SparkStreamingRelation.create(schema="raw", identifier="orders")

    def source(**config: object) -> SimpleNamespace:
        return SimpleNamespace(
            source_name="raw", name="orders", config=SimpleNamespace(**{"meta": {}, "_extra": {}, **config})
        )

    assert read(source(), relation) is None
    with pytest.raises(
        DbtRuntimeError, match=f"Source raw.orders: '{key}' is directly under 'config'.*config.meta"
    ):
        read(source(_extra={key: {"format": "json"}}), relation)
