"""Names of relations in SQL: quoted where SQL couldn't read them otherwise."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.relation import SparkStreamingRelation


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


def test_as_the_project_says() -> None:
    relation = SparkStreamingRelation.create(schema="dbt", identifier="orders")
    assert relation.quote(identifier=True).render() == "dbt.`orders`"
    assert relation.without_identifier().render() == "dbt"


def test_ephemeral_models() -> None:
    assert SparkStreamingRelation.add_ephemeral_prefix("orders") == "__dbt__cte__orders"
    assert SparkStreamingRelation.add_ephemeral_prefix("my-model") == "`__dbt__cte__my-model`"
