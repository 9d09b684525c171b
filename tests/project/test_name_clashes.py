"""A table that a model keeps beside its own is nobody else's: names that clash are refused when the project is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.project import name_clashes


def node(name: str, materialized: str, relation: str | None = None, **more: Any) -> Any:
    relation_name = None if materialized == "ephemeral" else relation or f"shop.{name}"
    config = SimpleNamespace(materialized=materialized)
    return SimpleNamespace(
        **{"name": name, "resource_type": "model", "relation_name": relation_name, "config": config, **more}
    )


HIST = node("hist", "streaming_table")


@pytest.mark.parametrize(
    "other",
    [
        node("hist__state", "table"),
        node("hist__changes", "view"),
        node("HIST__State", "table"),
        node("hist__state", "streaming_table"),
        node("hist__state", "seed", resource_type="seed"),
        node("hist__changes", "snapshot", resource_type="snapshot"),
        node("other", "incremental", "shop.hist__state"),
        node("quoted", "table", "`shop`.`hist__STATE`"),
    ],
)
def test_refused(other: Any) -> None:
    with pytest.raises(DbtRuntimeError) as refused:
        name_clashes.check_name_clashes([other, HIST])
    kind = str(other.resource_type).capitalize()
    assert (
        str(refused.value)
        .strip()
        .endswith("Give one of the two another name, or another 'alias' or 'schema'.")
    )
    assert f"{kind} {other.name} would be built as {other.relation_name}, and Model hist keeps its" in str(
        refused.value
    )


@pytest.mark.parametrize(
    "other",
    [
        node("hist__state", "ephemeral"),
        node("hist__state", "table", "dev.hist__state"),
        node("hist_state", "table"),
        node("stg_x__state", "streaming_table"),
        node("hist__states", "table"),
    ],
)
def test_taken(other: Any) -> None:
    name_clashes.check_name_clashes([other, HIST])


def test_by_alias() -> None:
    aliased = node("history", "cumulate", "shop.hist")
    with pytest.raises(DbtRuntimeError, match=r"Model history keeps its changelog in shop\.hist__changes"):
        name_clashes.check_name_clashes([aliased, node("hist__changes", "table")])
    name_clashes.check_name_clashes([node("hist", "table"), node("hist__state", "table")])
