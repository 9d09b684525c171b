"""Columns that don't say whose they are: what is planned is what it is with the names of their relations."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.plan.operators.join import Join
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.query.plan.operators.top_n import TopN
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.dialect import parse
from tests.planned import queries_of

DAY = 86_400_000_000
COLUMNS = {
    "e": ("ts", "k", "v", "w"),
    "o": ("ts", "ok", "ov", "v"),
    "x": ("ts", "xk", "xv"),
    "d": ("dk", "name"),
}
KNOWN = {name: RelationInfo(event_time="ts") for name in ("e", "o", "x")}
EVENTS, ORDERS, OTHERS = (f"(select /*+ STREAM */ * from {name}) as {name}" for name in "eox")


def ask(query: str) -> Sequence[object]:
    """A session that has the tables, and knows of a sum that it is a BIGINT."""
    tree = parse(query)
    asked, *_ = tree.args["joins"][0].this.this.expressions
    if "struct(*)" not in asked.sql(dialect="spark").lower():
        return ["bigint"] * len(tree.expressions)
    (table,) = {each.name for each in tree.find_all(type(parse("select 1 from t").args["from_"].this))} - {
        "one"
    }
    return [f"struct<{','.join(f'{name}:bigint' for name in COLUMNS[table])}>"]


def plan(text: str, ask: plan_query.QueryRunner | None = ask) -> Plan:
    return plan_query.plan(text, KNOWN, DAY, ask=ask)


BOTH, ALL = (
    f"{EVENTS} join {ORDERS} on e.k = o.ok",
    f"{EVENTS} join {ORDERS} on e.k = o.ok join {OTHERS} on x.xk = o.ok",
)
WRITTEN = [
    f"select e.k, o.ov from {BOTH} and e.w > 1 and o.ov > 2",
    f"select e.k, count(*) as n from {ALL} where x.xv > e.w group by e.k",
    f"select e.k from {EVENTS} where exists (select 1 from {ORDERS} where o.ok = e.k and o.ov > e.w)",
    f"select e.k from {EVENTS} where e.w = (select min(o.ov) from {ORDERS} where o.ok = e.k)",
    f"select e.k, e.w from {EVENTS} where e.k in (select o.ok from {ORDERS} where o.ov > 2) and not exists "
    f"(select 1 from {OTHERS} where x.xk = e.k)",
    f"select e.k, o.ov, d.name from {BOTH} join d on d.dk = o.ov where e.w > 1",
    f"select e.k as a, sum(o.ov) as s from {BOTH} group by e.k having sum(o.ov) > 3",
    f"select e.k, o.ov from {EVENTS} left join {ORDERS} on e.k = o.ok order by o.ov desc, e.k limit 3",
    f"select e.k from {EVENTS} left semi join {ORDERS} on e.k = o.ok and o.ov > e.w",
    f"select e.w from {BOTH} where e.w > (select avg(x.xv) from {OTHERS} where x.xk = o.ok)",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_column_is_that_of_the_relation_that_has_it(text: str) -> None:
    bare = re.sub(r"\b[eoxd]\.(\w+)", r"\1", text)
    assert bare != text
    found, expected = plan(bare), plan(text)
    assert [each.name for each in found.dataflow.operators] == [
        each.name for each in expected.dataflow.operators
    ]
    assert found.unclear_columns == ()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        # Both relations have it: Spark says so.
        (f"select v from {EVENTS} join {ORDERS} on k = ok", "SELECT v"),
        # An item of the select list comes first behind it.
        (f"select -w as ov, k from {EVENTS} join {ORDERS} on k = ok order by ov limit 2", "SELECT ov, k"),
        (
            f"select k, col from {EVENTS} join {ORDERS} on k = ok lateral view explode(array(1)) c as col",
            ", col",
        ),
    ],
)
def test_what_else_a_name_may_be_stays(text: str, left: str) -> None:
    found = plan(text)
    assert found.unclear_columns == ()
    assert left in queries_of(found)
    assert not re.search(r"\w\.`?(v|col)\b", queries_of(found))


def test_without_a_session_it_is_said_what_isnt_known() -> None:
    assert plan(f"select k, ov from {EVENTS} join {ORDERS} on k = ok", None).unclear_columns == (
        "k",
        "ok",
        "ov",
    )
    derived = f"(select k, w from {EVENTS}) as a join (select ok, ov from {ORDERS}) as b"
    assert plan(f"select k, ov from {derived} on k = ok and w > ov", None).unclear_columns == ()


def test_a_relation_without_a_name_is_given_one() -> None:
    bare = "(select /*+ STREAM */ * from {})"
    found = plan(f"select k, ov from {bare.format('e')} join {bare.format('o')} on k = ok")
    assert any(isinstance(each, Join) for each in found.dataflow.operators)


def test_a_table_that_spark_cant_read_is_left_to_who_plans_it() -> None:
    def cant(query: str) -> Sequence[object]:
        raise QueryError("There is no table o.")

    found = plan(f"select k from {EVENTS} join {ORDERS} on k = ok", cant)
    assert found.unclear_columns == ("k", "ok")


def kinds(text: str) -> list[str]:
    found = plan(text).dataflow.operators
    return [
        type(each).__name__ for each in found if isinstance(each, GroupAggregate | Join | Recompute | TopN)
    ]


def whole(text: str) -> list[str]:
    return [
        each.label
        for each in plan(text).dataflow.operators
        if isinstance(each, Recompute) and each.recomputes_everything
    ]


def test_the_first_groups_are_ranked_from_changes_though_they_are_forgotten() -> None:
    text = f"select k, sum(w) as s from {EVENTS} group by k order by s desc limit 10"
    assert kinds(text) == ["GroupAggregate", "TopN"]


IN = f"select k from {EVENTS} where k in"


@pytest.mark.parametrize(
    "text",
    [
        f"{IN} (select ok from {ORDERS} group by ok having count(*) > 2)",
        f"{IN} (select ok from {ORDERS} where ov in (select xv from {OTHERS} where xk > 2))",
        f"{IN} (select ok from {ORDERS} union select xk from {OTHERS})",
        f"{IN} (select distinct ok from {ORDERS})",
        f"select k from {EVENTS} where exists (select 1 from {ORDERS} where ok = k) "
        f"and not exists (select 1 from {OTHERS} where xv = w)",
        f"select k from {EVENTS} join {OTHERS} on xk = k "
        f"where exists (select 1 from {ORDERS} join (select xk as yk from {OTHERS}) on yk = ok where ok = k)",
    ],
)
def test_rows_that_ask_meet_those_that_they_are_compared_with(text: str) -> None:
    assert whole(text) == []


LEAST = f"(select min(ov) from {ORDERS} where ok = k)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"select k from {EVENTS} where w > {LEAST}", ["GroupAggregate", "Join"]),
        (f"select * from {EVENTS} where w > 2 * {LEAST} + 1", ["GroupAggregate", "Join"]),
        (f"select k, {LEAST} as least from {EVENTS}", ["GroupAggregate", "Recompute"]),
        # A row without any is among them.
        (f"select k from {EVENTS} where w > {LEAST} or w > 3", ["GroupAggregate", "Recompute"]),
        (f"select k from {EVENTS} where w > coalesce({LEAST}, 3)", ["GroupAggregate", "Recompute"]),
        # Of each row.
        (
            f"select k from {EVENTS} where w > (select min(ov) from {ORDERS} where ok = k and ov > w)",
            ["Recompute"],
        ),
        (f"select k from {EVENTS} where w > (select min(ov + w) from {ORDERS} where ok = k)", ["Recompute"]),
        # Of other aggregates it isn't known what they are over nothing.
        (
            f"select k from {EVENTS} where w > (select count_if(ov > 1) from {ORDERS} where ok = k)",
            ["Recompute"],
        ),
    ],
)
def test_an_aggregate_of_what_equals_a_row_is_one_of_groups(text: str, found: list[str]) -> None:
    assert kinds(text) == found


def test_columns_of_two_types_may_be_equal_in_several_groups() -> None:
    """'1' and '01' are 1."""

    def told(query: str) -> Sequence[object]:
        return [str(each).replace("ok:bigint", "ok:string") for each in ask(query)]

    text = f"select k from {EVENTS} where w > {LEAST}"
    assert any(isinstance(each, Recompute) for each in plan(text, told).dataflow.operators)


@pytest.mark.parametrize(
    "text",
    [
        f"select e.k, o.ov from {EVENTS} left join {ORDERS} on e.k = o.ok",
        f"select e.k, o.ov from {EVENTS} left join (select ok as k, ov from {ORDERS}) as o using (k)",
        f"select k from {EVENTS} where k in (select ok from {ORDERS} where ov > 2)",
        f"select k from {EVENTS} where k in (select ok from {ORDERS} group by ok having count(*) > 2)",
        f"select k from {EVENTS} where exists (select 1 from {ORDERS} where upper(ok) = k)",
    ],
)
def test_a_text_and_a_number_have_no_key_in_common(text: str) -> None:
    def told(query: str) -> Sequence[object]:
        answer = ask(query)
        return (
            ["string"]
            if "UPPER" in query
            else [str(each).replace("ok:bigint", "ok:string") for each in answer]
        )

    def told_of_groups(query: str) -> Sequence[object]:
        answer = told(query)
        return ["struct<k:string,ov:bigint>"] if "AS k, ov" in query else answer

    (found,) = (each for each in plan(text, told_of_groups).dataflow.operators if isinstance(each, Recompute))
    (before,) = (each for each in plan(text, ask).dataflow.operators if isinstance(each, Recompute))
    assert found.recomputes_everything and found.name != before.name


LAST = f"(select ov from {ORDERS} where ok = k order by o.ts desc limit 1)"


@pytest.mark.parametrize(
    "text",
    [
        f"select k, {LAST} as last from {EVENTS}",
        f"select k from {EVENTS} where w > {LAST}",
        f"select k from {EVENTS} where w in (select ov from {ORDERS} where ok = k order by ov limit 3)",
    ],
)
def test_rows_that_are_cut_off_for_each_row_are_a_ranking(text: str) -> None:
    assert kinds(text) == ["TopN", "Recompute"] and whole(text) == []
    # Without a session it is planned to be looked at.
    said = text.replace("ok = k", "o.ok = e.k")
    assert any(isinstance(each, TopN) for each in plan(said, None).dataflow.operators)


@pytest.mark.parametrize(
    "text",
    [
        f"select k from {EVENTS} where w > (select ov from {ORDERS} where ok > k order by o.ts limit 1)",
        f"select k from {EVENTS} where w > (select ov from {ORDERS} where ok = k order by o.ts limit 2)",
        f"select k from {EVENTS} where w > (select ov from {ORDERS} where ok = k order by o.ts - e.w limit 1)",
        f"select k from {EVENTS} where w > (select ov + e.w from {ORDERS} where ok = k order by o.ts limit 1)",
        f"select k from {EVENTS} where w > (select max(ov) from {ORDERS} where ok = k group by o.v order by o.v limit 1)",
    ],
)
def test_others_that_are_cut_off_for_each_row_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match="cuts off rows of a correlated subquery"):
        plan(text)
