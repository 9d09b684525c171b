"""A materialization that doesn't exist is refused when the project is read, with the nearest one there is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.project import materializations

MACROS = [
    SimpleNamespace(name=f"materialization_{name}")
    for name in (
        "table_spark_streaming",
        "view_default",
        "seed_default",
        "incremental_spark",
        "window_aggregate_spark_streaming",
        "topn_spark_streaming",
        "upsert_postgres",
    )
]


def node(materialized: str, kind: str = "model") -> SimpleNamespace:
    return SimpleNamespace(name="m", resource_type=kind, config=SimpleNamespace(materialized=materialized))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("window_agregate", "; did you mean 'window_aggregate'?"),
        ("top_n", "; did you mean 'topn'?"),
        ("upsert", ". Models"),
    ],
)
def test_refused(written: str, meant: str) -> None:
    with pytest.raises(DbtRuntimeError) as refused:
        materializations.check_materializations([node(written)], MACROS)
    assert f"Model m: there is no materialization '{written}'{meant}" in str(refused.value)
    assert "others as ephemeral, incremental, table and view." in str(refused.value)


def test_what_a_macro_builds_is_accepted_and_other_nodes_are_not_looked_at() -> None:
    fine = ("table", "view", "incremental", "ephemeral", "topn")
    materializations.check_materializations(
        [*map(node, fine), node("test", "test"), node("unit", "unit_test")], MACROS
    )
