"""When results come: configs that say so, and which contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.windows import emission

EARLY = {"first_result_offset": "-5 minutes"}


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            {"complete_result_offset": "-1 minute"},
            "complete_result_offset '-1 minute' is before the window's end",
        ),
        (
            {"first_result_offset": "1 minute"},
            "first_result_offset '1 minute' is not before complete_result_offset",
        ),
        ({"update_rate": "1 minute"}, "update_rate '1 minute' without first_result_offset"),
        ({**EARLY, "update_rate": "0 seconds"}, "update_rate '0 seconds' must be longer than zero"),
        ({"late_updates": True}, "'late_updates' needs last_result_offset"),
        ({"late_updates": "yes"}, "'late_updates' is 'yes'"),
        (
            {"complete_result_offset": "5 minutes", "last_result_offset": "1 minute"},
            "last_result_offset '1 minute' is before complete_result_offset '5 minutes'",
        ),
        ({"last_result_offset": "1 minute"}, "but late_updates is false"),
        (
            {
                "late_updates": True,
                "complete_result_offset": "1 minute",
                "last_result_offset": "60 seconds",
            },
            "last_result_offset '60 seconds' is the time of on-time firing, so no row can update its result",
        ),
        ({"first_result_offset": "soon"}, "config 'first_result_offset': 'soon' is not an interval"),
    ],
)
def test_contradictions_are_named(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(QueryError) as refusal:
        emission.emission_from_configs(config)
    assert sentence in str(refusal.value)


def test_only_early_and_late_results_change() -> None:
    assert not emission.emission_from_configs({}).may_update_results
    assert not emission.emission_from_configs({"complete_result_offset": "1 minute"}).may_update_results
    assert emission.emission_from_configs(EARLY).may_update_results
    assert emission.emission_from_configs(
        {"late_updates": True, "last_result_offset": "1 hour"}
    ).may_update_results
