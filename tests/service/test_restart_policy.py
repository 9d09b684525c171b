"""When a model that failed is started again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbt.adapters.spark_streaming.service.restart_policy import RestartPolicy


@given(
    first=st.floats(0.1, 10),
    factor=st.floats(1, 4),
    longest=st.floats(10, 1000),
    jitter=st.floats(0, 0.5),
    chances=st.lists(st.floats(0, 1), min_size=2, max_size=60),
)
def test_pauses_grow_to_a_limit_and_never_vanish(
    first: float, factor: float, longest: float, jitter: float, chances: list[float]
) -> None:
    policy = RestartPolicy(first=first, factor=factor, longest=longest, jitter=jitter)
    plain = RestartPolicy(first=first, factor=factor, longest=longest, jitter=0)
    before = 0.0
    for number, chance in enumerate(chances):
        pause, middle = policy.pause(number, lambda chance=chance: chance), plain.pause(number)
        assert pause is not None and middle is not None
        assert before <= middle <= longest
        assert middle * (1 - jitter) - 1e-9 <= pause <= middle * (1 + jitter) + 1e-9
        assert pause > 0
        before = middle


@given(limit=st.integers(0, 20), restarts=st.integers(0, 40))
def test_a_limit_is_how_many_restarts_there_are(limit: int, restarts: int) -> None:
    assert (RestartPolicy(max_restarts=limit).pause(restarts) is None) == (restarts >= limit)


@pytest.mark.parametrize("restarts", [0, 100, 10**9])
def test_there_is_no_end_without_a_limit(restarts: int) -> None:
    assert RestartPolicy().pause(restarts) is not None
