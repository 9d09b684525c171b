"""What is said of the state of a GROUP BY: what a row of it is, and what clears it."""

from __future__ import annotations

from typing import Any

from dbt.adapters.spark_streaming.cli import explain
from tests.query.explain.test_build import BEST, BIDS, KNOWN, node, nodes

DISTINCT = "select bidder, count(distinct item) as items, sum(price) as total from {} group by bidder"


def group(rows: str, **config: Any) -> dict[str, Any]:
    tree = explain.plan_as_json(
        explain.explain_node(node(DISTINCT.format(rows), constant_domains=["bidder"], **config), KNOWN)
    )["tree"]
    (found,) = (each for each in nodes(tree) if each["operator"] == "GroupAggregate")
    return found


def test_of_rows_that_only_come_a_value_is_kept_once() -> None:
    groups, values = group(BIDS)["state"]
    assert groups["rows"] == "partial aggregates per key"
    assert (values["rows"], values["clears"]) == (
        "a value of item, once per key",
        "nothing: as many as there are values",
    )


def test_of_rows_that_change_it_is_counted_how_often_a_value_is_there() -> None:
    _, values = group(BEST)["state"]
    assert (values["rows"], values["clears"]) == (
        "how often a value of item is there per key",
        "when it isn't there any more",
    )


def test_each_aggregate_names_the_columns_that_store_it() -> None:
    distinct, total = group(BIDS)["metrics"]
    assert (distinct["function"], distinct["how"]) == ("count distinct", "first occurrences per key")
    assert (total["columns"], total["how"]) == (["sum_price"], "partial aggregate per key")
