"""A ranking is called as Flink calls it, and says what clears its state."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.cli import explain
from tests.query.explain.test_build import BIDS, GROUPS, KNOWN, node, nodes, ranked


def shown(text: str, **config: Any) -> dict[str, Any]:
    tree = explain.plan_as_json(
        explain.explain_node(node(text, constant_domains=["bidder"], **config), KNOWN)
    )["tree"]
    (found,) = (
        each for each in nodes(tree) if "TopN" in each["operator"] or each["operator"] == "Deduplicate"
    )
    return found


@pytest.mark.parametrize(
    ("text", "name", "row"),
    [
        (ranked("price desc", BIDS, "bidder"), "AppendOnlyTopN", "a row that is, or was, among the first"),
        (ranked("n desc", GROUPS), "UpdatableTopN", "a member that came, changed or left"),
        (ranked("n", GROUPS), "RetractableTopN", "a member that came, changed or left"),
        (ranked("ts", BIDS, "bidder", "rn = 1"), "Deduplicate", "the first row of a key"),
        (ranked("ts desc", BIDS, "bidder", "rn = 1"), "Deduplicate", "the last row of a key"),
    ],
)
def test_names_and_rows_of_the_state(text: str, name: str, row: str) -> None:
    found = shown(text)
    assert (found["operator"], found["state"][0]["rows"]) == (name, row)


def test_what_is_in_buckets_says_so() -> None:
    found = shown(ranked("price desc", BIDS, "bidder"), split_topn=4)
    assert "New rows are ranked in 4 buckets first." in found["notes"]
