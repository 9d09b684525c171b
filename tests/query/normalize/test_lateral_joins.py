"""LATERAL queries over streams, NATURAL JOIN, and what queries inside expressions hold."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from tests.planned import queries_of

S_, O_ = ("(select /*+ STREAM */ * from db.s)", "(select /*+ STREAM */ * from db.o)")
COUNT = f"lateral (select count(*) as c from {O_} as o where o.k = s.k) as l"
KINDS = {
    "db.s": "struct<k:bigint,v:bigint,ts:timestamp>",
    "db.o": "struct<k:bigint,v:bigint,t:string,ts:timestamp>",
}


def ask(query: str) -> Sequence[object]:
    """A session that knows both streams, in which everything is a BIGINT."""
    if "any_value(struct(*))" in query.lower():
        return [next(kind for name, kind in KINDS.items() if name in query)]
    return ["bigint"] * 4 if "sum(" in query.lower() else ["bigint"]


def plan(text: str) -> Plan:
    known = {name: RelationInfo(event_time="ts") for name in KINDS}
    return plan_query.plan(text, known, ttl=10**12, ask=ask)


@pytest.mark.parametrize(
    "text",
    [
        # Where there is no group, a count would have to be 0 in another relation's column of that name, too.
        f"select s.k, l.n from {S_} as s, lateral (select count(l.n) as n from (select k, v as n from {O_} as o) as l "
        "where l.k = s.k) as l",
        f"select s.k, l.k as n from {S_} as s, lateral (select count(*) as k from {O_} as l where l.k = s.k) as l",
        f"select s.k, l.c from {S_} as s, {COUNT} "
        f"where exists (select 1 from (select k as c from {O_} as p) as l where l.c = 0)",
        # It is NULL where another join has no row of these, and 0 where it joins.
        f"select s.k, l.c, p.v from {S_} as s cross join {COUNT} full join {O_} as p on p.k = s.k",
        f"select s.k, l.c from {S_} as s, {COUNT} join (select k, v as c from {O_} as p) as q using (c)",
        f"select l.* from {S_} as s, {COUNT}",
        # One row, or none.
        f"select s.k, l.x from {S_} as s, lateral (select 1 as x from {O_} as o where o.k = s.k having count(*) > 1) as l",
        # The first rows of those that are less, of each.
        f"select s.k, l.v from {S_} as s, lateral (select o.v from {O_} as o where o.k < s.k order by o.v limit 1) as l",
    ],
)
def test_what_is_no_join_is_asked_again(text: str) -> None:
    (made,) = (each for each in plan(text).dataflow.operators if isinstance(each, Recompute))
    assert "LATERAL (SELECT" in made.sql


def test_a_relation_behind_is_named() -> None:
    with pytest.raises(QueryError, match="of a relation that follows it"):
        plan(
            f"select s.k, l.v from {S_} as s, lateral (select o.v from {O_} as o where o.k = p.k) as l, {O_} as p"
        )


def test_exists_is_a_count_where_nothing_is_forgotten() -> None:
    text = (
        f"select true = exists (select 1 from {O_} as o where o.v > 9) as e, (select count(*) from {S_}) as n"
    )
    kept = plan_query.plan(
        text, {name: RelationInfo(event_time="ts") for name in KINDS}, ask=ask
    ).dataflow.operators
    assert not [each for each in kept if isinstance(each, Recompute)]
    assert [each for each in plan(text).dataflow.operators if isinstance(each, Recompute)]


def test_columns_of_both_sides_of_an_equality() -> None:
    found = plan(
        f"select s.k, l.v from {S_} as s, lateral (select o.v from {O_} as o where o.v = s.k + o.k) as l"
    )
    assert "l.`__lateral_0` = s.k + l.`__lateral_1`" in queries_of(found)


def test_the_order_of_equal_rows_in_a_query_inside() -> None:
    """What is computed anew has to take away what it gave before."""
    found = plan(
        "select s.k, (select sum(t.v) from (select o.v, row_number() over (order by o.t) as r, "
        f"lag(o.v) over (order by o.t) as p from {O_} as o where o.k = s.k) as t where t.r <= t.p) as m from {S_} as s"
    )
    (made,) = (each for each in found.dataflow.operators if isinstance(each, Recompute))
    assert "ROW_NUMBER() OVER (ORDER BY o.t, o.v)" in made.sql
    assert "LAG(o.v) OVER (ORDER BY o.t, o.v)" in made.sql


def test_natural_joins_of_what_a_session_knows() -> None:
    found = plan(f"select k, v, ts, t from {S_} as s natural join {O_} as o")
    assert "USING (`k`, `v`, `ts`)" in queries_of(found)
    with pytest.raises(QueryError, match=r"'NATURAL JOIN stream\(db.o\) AS o' over a stream"):
        plan_query.plan(f"select k from {S_} as s natural join {O_} as o", ttl=10**12)


def test_a_percentage_is_no_number_of_rows() -> None:
    with pytest.raises(QueryError, match="sets no upper bound"):
        plan(f"select k from {S_} order by k limit 60 percent")
