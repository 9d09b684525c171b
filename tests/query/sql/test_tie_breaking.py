"""What ties of ROW_NUMBER, LAG and the like go by."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from dbt.adapters.spark_streaming.query.sql.tie_breaking import (
    break_ties,
    note_item_types,
    note_term_types,
    noted_tie_breakers,
    tie_breaker,
    tie_breaking_values,
)

RANK = "row_number() over (partition by k order by ts) as n"


@pytest.mark.parametrize(
    ("items", "row", "by"),
    [
        ("k, v", "struct<k:string,v:bigint>", "STRUCT(k, v)"),
        ("k, m", "struct<k:string,m:map<string,int>>", "STRUCT(k, SORT_ARRAY(MAP_ENTRIES(m)))"),
        ("*", "struct<k:string,m:map<string,int>>", "STRUCT(`k`, SORT_ARRAY(MAP_ENTRIES(`m`)))"),
        (
            "upper(k) as u, *, m as again",
            "struct<col1:string,a b:int,m:map<string,decimal(10,2)>,m:map<string,decimal(10,2)>>",
            "STRUCT(UPPER(k), `a b`, SORT_ARRAY(MAP_ENTRIES(`m`)), SORT_ARRAY(MAP_ENTRIES(m)))",
        ),
        (
            "k, a",
            "struct<k:string,a:array<map<string,int>>>",
            "STRUCT(k, TRANSFORM(a, __e0 -> SORT_ARRAY(MAP_ENTRIES(__e0))))",
        ),
        ("e.*", "struct<m:map<string,int>>", "STRUCT(SORT_ARRAY(MAP_ENTRIES(`e`.`m`)))"),
        # Which star a column is of isn't known.
        ("a.*, b.*", "struct<k:string,m:map<string,int>>", "STRUCT(a.*, b.*)"),
    ],
)
def test_maps_are_ordered_by_their_entries(items: str, row: str, by: str) -> None:
    select = parse(f"select {items}, {RANK} from t")
    assert isinstance(select, exp.Select)
    note_item_types(select, row)
    found = tie_breaker(select)
    assert found is not None
    assert sql(found).replace("ARRAY_SORT", "SORT_ARRAY") == by


def test_without_maps_nothing_is_noted() -> None:
    select = parse(f"select *, {RANK} from t")
    assert isinstance(select, exp.Select)
    note_item_types(select, "struct<k:string,v:array<int>>")
    assert noted_tie_breakers(select) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "select * from (select k, max_by(m, ts) as m, row_number() over (order by count(*)) as rn from {S} group by k) "
            "where rn <= 3",
            r"ROW_NUMBER\(\) and GROUP BY are in one SELECT. Its column m is or holds a MAP.*the GROUP BY into a subquery",
        ),
        (
            "select /*+ SPLIT_TOPN(8) */ * from (select k, m, rank() over (order by v) as r from {S}) where r <= 3",
            r"split_topn puts rows into buckets by a hash of them, and Spark has none of a MAP, which m is or holds",
        ),
    ],
)
def test_maps_where_ties_cannot_go_by_their_entries(text: str, sentence: str) -> None:
    def ask(query: str) -> Sequence[object]:
        if "struct(*)" in query.lower():
            return ("struct<k:string,m:map<string,int>>",)
        raise QueryError("not asked for")

    with pytest.raises(QueryError, match=sentence):
        plan_query.plan(text.format(S="(select /*+ STREAM */ * from s)"), {}, None, ("k",), ask)


@pytest.mark.parametrize(
    ("call", "by"),
    [
        ("lag(v) over (partition by k order by ts)", "ts, a, v, k"),
        ("lead(v, 2, w) over (order by ts desc)", "ts DESC, a, v, w"),
        ("ntile(3) over (order by ts)", "ts, a"),
        ("first_value(v) over (order by ts)", "ts, a, v"),
        ("sum(v) over (order by ts rows 2 preceding)", "ts, a, v"),
        ("nth_value(v, 2) over (order by ts rows 2 preceding)", "ts, a, v"),
        # The frame ends with all tied rows, so a longer order would change it.
        ("sum(v) over (order by ts)", "ts"),
        ("nth_value(v, 2) over (order by ts)", "ts"),
        ("first_value(v) over (order by ts range between interval 1 hour preceding and current row)", "ts"),
        (
            "first_value(v) over (order by ts range between unbounded preceding and interval 1 hour following)",
            "ts",
        ),
        ("rank() over (order by ts)", "ts"),
        # Its author ordered all there is.
        ("lag(v) over (order by ts, struct(*))", "ts, STRUCT(*)"),
        ("lag(v) over (order by ts, struct(t.*))", "ts, STRUCT(t.*)"),
    ],
)
def test_ties_of_functions_that_see_rows_go_by_all_that_is_read(call: str, by: str) -> None:
    select = parse(f"select a, {call} as x from t")
    assert isinstance(select, exp.Select)
    break_ties(select)
    (over,) = select.find_all(exp.Window)
    assert sql(over.args["order"]).strip() == f"ORDER BY {by}"


def test_row_number_beside_another_over_goes_by_what_that_reads() -> None:
    """Rows that are equal in the select list get other sums, so a number must be of one of them for certain."""
    select = parse("select a, row_number() over (order by ts) as n, sum(v) over (order by v) as s from t")
    assert isinstance(select, exp.Select)
    break_ties(select)
    assert "ROW_NUMBER() OVER (ORDER BY ts, a, v)" in sql(select)


@pytest.mark.parametrize(
    ("text", "by"),
    [
        # An item that is called like its column, as in stream's and batch's usual queries.
        ("select upper(k) as k, lag(v) over (order by ts) as p from t", "UPPER(k), v, ts"),
        (
            "select * except (v), v * 2 as v, lag(w) over (order by ts) as p from t",
            "* EXCEPT (v), v * 2, w, ts",
        ),
        ("select a.*, b.x, lag(v) over (order by ts) as p from t as a join u as b", "a.*, b.x, v, ts"),
        (
            "select case when lag(v) over (order by ts) > 1 then w when z > 2 then y end as c from t",
            "v, ts, w, y, z",
        ),
        ("select explode(a) as x, lag(v) over (order by ts) as p, rand() as r from t", "v, ts, a"),
        # Groups: only what is grouped or aggregated can be ordered by.
        (
            "select d, datediff(upper(d), lag(upper(d)) over (order by upper(d))) as g from t group by d, upper(d)",
            "d, UPPER(d)",
        ),
        (
            "select k, sum(v) filter (where ok) - lag(sum(v) filter (where ok)) over (order by k) as d from t group by k",
            "k, SUM(v) FILTER(WHERE ok)",
        ),
        ("select k, count(*) over (order by k rows unbounded preceding) as n from t group by k", "k"),
        (
            "select upper(k) as k, lag(count(*)) over (order by 1) as p from t group by 1",
            "UPPER(k), COUNT(*)",
        ),
        # What the values are isn't known.
        ("select a + 1 as b, b as c, lag(v) over (order by ts) as p from t", ""),
        ("select lag(v) over (order by ts) as p, p as q from t", ""),
        ("select (select max(x) from d where d.k = t.k) as m, lag(v) over (order by ts) as p from t", ""),
    ],
)
def test_terms_are_expressions_that_over_can_be_ordered_by(text: str, by: str) -> None:
    select = parse(text)
    assert isinstance(select, exp.Select)
    assert ", ".join(map(sql, tie_breaking_values(select))) == by


def test_row_number_has_its_select_list_where_nothing_else_has_an_order() -> None:
    select = parse("select j, row_number() over (order by ts) as n, lag(x) over (order by ts) as p from t")
    assert isinstance(select, exp.Select)
    note_term_types(select, "struct<j:variant,x:int,ts:timestamp>")
    break_ties(select)
    assert "ROW_NUMBER() OVER (ORDER BY ts, STRUCT(j))" in sql(select)
    assert "LAG(x) OVER (ORDER BY ts)" in sql(select)


def test_what_has_no_order_breaks_ties_in_another_form_or_not_at_all() -> None:
    select = parse("select k, lag(m) over (order by ts) as p from t")
    assert isinstance(select, exp.Select)
    for row, by in {
        "struct<k:string,m:map<string,int>,ts:timestamp>": ", k, ARRAY_SORT(MAP_ENTRIES(m))",
        "struct<k:string,m:variant,ts:timestamp>": "",
        "struct<k:string,m:interval day to second,ts:timestamp>": ", k, m",
    }.items():
        copy = select.copy()
        note_term_types(copy, row)
        break_ties(copy)
        assert sql(copy) == f"SELECT k, LAG(m) OVER (ORDER BY ts{by}) AS p FROM t"
