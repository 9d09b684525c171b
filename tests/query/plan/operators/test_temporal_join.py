"""A row is joined with the version of its time: it comes once, in order, and the key bounds the state."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.planner import plan_query
from tests.query.planner.test_temporal_joins import KNOWN, ORDERS, joins, query, rates


def test_its_rows_come_once_and_in_order() -> None:
    (join,) = joins(query().replace("o.id", "o.id, o.at"))
    assert not join.relation.changes and dict(join.relation.complete_by) == {"at": "event_time"}
    assert join.keys == ("o.currency",) and not join.rows_arrive_in_order


def test_a_second_join_reads_the_rows_in_order() -> None:
    first, second = joins(
        f"select o.id, r.rate, s.rate as other from {ORDERS} join {rates()} as r on r.currency = o.currency "
        f"left join {rates()} as s on s.currency = o.to_currency"
    )
    assert not first.rows_arrive_in_order and second.rows_arrive_in_order


def test_names_do_not_matter_to_the_operator() -> None:
    other = query().replace(" o.", " p.").replace("as o", "as p").replace("`o`", "`p`")
    assert joins(query())[0].version_key == joins(other)[0].version_key == ("currency",)


def test_the_key_bounds_the_state() -> None:
    with pytest.raises(QueryError) as refused:
        plan_query.plan(query(), KNOWN)
    assert "a version for every value of currency" in str(refused.value)
    assert "state_ttl" not in str(refused.value), "it would be refused"
    with pytest.raises(QueryError) as refused:
        plan_query.plan(query(), KNOWN, ttl=60_000_000)
    assert "constant_domains: ['currency']" in str(refused.value)
