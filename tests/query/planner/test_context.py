"""What the rules of the planner share: each query is planned once, and what reads no stream isn't."""

from __future__ import annotations

from tests.query.trees import STREAM, flow, kinds


def test_a_query_that_stands_in_several_places_is_planned_once() -> None:
    groups = f"(select k, count(*) as n from {STREAM} group by k)"
    found = kinds(flow(f"select a.k, b.n from {groups} as a join {groups} as b on a.n = b.n"))
    assert found.count("GroupAggregate") == 1


def test_a_ranking_is_another_one_where_another_filter_ends_it() -> None:
    ranks = f"(select k, v, row_number() over (partition by k order by v, ts) as rn from {STREAM})"
    one, other = f"select k, v from {ranks} where rn <= 1", f"select k, v from {ranks} where rn <= 3"
    assert kinds(flow(f"{one} union all {other}")).count("TopN") == 2


def test_a_recomputed_ranking_is_another_one_where_other_columns_tell_its_rows_apart() -> None:
    ranks = f"""(select k, v, row_number() over (partition by k order by v, ts) as rn,
        lag(v) over (partition by k order by v, ts) as w from {STREAM})"""
    text = "select k, v from {0} where rn <= {1} union all select k, v from {0} where rn <= {2}"
    assert kinds(flow(text.format(ranks, 1, 3))).count("Recompute") == 2
    assert kinds(flow(text.format(ranks, 2, 3))).count("Recompute") == 1


def test_a_table_is_no_operator() -> None:
    found = kinds(flow(f"select a.k, t.name from {STREAM} as a join db.names as t on t.k = a.k"))
    assert found.count("Source") == 1
