"""Which keys bound a state, and what the message on an unbounded one proposes."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import UnboundedStateError
from tests.query.trees import STREAM, flow


@pytest.mark.parametrize("key", ["uuid()", "rand() * v", "current_timestamp()", "concat(k, uuid())"])
def test_a_key_with_another_value_each_time_bounds_nothing(key: str) -> None:
    with pytest.raises(UnboundedStateError, match="something for every value of"):
        flow(f"select count(*) as n from {STREAM} group by {key}", ttl=None)
    assert flow(f"select count(*) as n from {STREAM} group by {key}").groups


def test_a_constant_key_adds_no_groups() -> None:
    assert flow(f"select k, count(*) as n from {STREAM} group by k, 1 + 1, upper('a')", ttl=None).groups
    with pytest.raises(UnboundedStateError, match=r"every value of v that ever comes.*domains: \['v'\]"):
        flow(f"select v, count(*) as n from {STREAM} group by v, 1 + 1", ttl=None, domains=())


def test_a_query_as_a_key_is_shown_as_written() -> None:
    text = f"select v, (select max(x) from db.dim) as m, count(*) as n from {STREAM} group by 1, 2"
    message = r"every value of `v`, \(SELECT MAX\(x\) FROM db.dim\) that ever.*domains: \['m', 'v'\]"
    with pytest.raises(UnboundedStateError, match=message):
        flow(text, ttl=None, domains=())
    for domains in (("v", "m"), ("v", "x")):
        assert flow(text, ttl=None, domains=domains).groups
