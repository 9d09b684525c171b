"""What a contract enforces doesn't depend on whether dbt is to warn of its constraints."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.project import contract
from dbt.adapters.spark_streaming.stream.common.model import Constraint


def node(**said: Any) -> dict[str, Any]:
    return {
        "config": {"materialized": "streaming_table", "contract": {"enforced": True}},
        "columns": {"k": {"constraints": [{"type": "not_null", **said}, {"type": "unique", **said}]}},
        "constraints": [
            {"type": "check", "name": "few", "expression": "v < 3", **said},
            {"type": "not_null", "columns": ["v"], **said},
        ],
    }


@pytest.mark.parametrize(
    "said", [{}, {"warn_unsupported": False}, {"warn_unsupported": True, "warn_unenforced": False}]
)
def test_constraints_are_enforced_whatever_dbt_warns_of(said: dict[str, bool]) -> None:
    assert contract.enforced_constraints(node(**said)) == (
        Constraint("k is null", "Column k must not be null"),
        Constraint("not (v < 3\n)", "Constraint few is broken: v < 3"),
        Constraint("v is null", "Column v must not be null"),
    )


def test_without_an_enforced_contract_there_are_none() -> None:
    assert contract.enforced_constraints({**node(), "config": {"contract": {"enforced": False}}}) == ()
