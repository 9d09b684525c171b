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
    fields_of,
    note_term_types,
    note_types,
    tie_breaker,
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
    note_types(select, row)
    found = tie_breaker(select)
    assert found is not None
    assert sql(found).replace("ARRAY_SORT", "SORT_ARRAY") == by


def test_without_maps_nothing_is_noted() -> None:
    select = parse(f"select *, {RANK} from t")
    assert isinstance(select, exp.Select)
    note_types(select, "struct<k:string,v:array<int>>")
    assert fields_of(select) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "select * from (select k, max_by(m, ts) as m, row_number() over (order by count(*)) as rn from {S} group by k) "
            "where rn <= 3",
            r"ROW_NUMBER\(\) and GROUP BY are in one SELECT. Its column m is or holds a MAP.*put the GROUP BY into a query",
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
        ("lag(v) over (partition by k order by ts)", "ts, STRUCT(a, v, k, ts)"),
        ("lead(v, 2, w) over (order by ts desc)", "ts DESC, STRUCT(a, v, w, ts)"),
        ("ntile(3) over (order by ts)", "ts, STRUCT(a, ts)"),
        ("first_value(v) over (order by ts)", "ts, STRUCT(a, v, ts)"),
        ("sum(v) over (order by ts rows 2 preceding)", "ts, STRUCT(a, v, ts)"),
        ("nth_value(v, 2) over (order by ts rows 2 preceding)", "ts, STRUCT(a, v, ts)"),
        # The frame ends with all tied rows, so a longer order would change it.
        ("sum(v) over (order by ts)", "ts"),
        ("nth_value(v, 2) over (order by ts)", "ts"),
        ("first_value(v) over (order by ts range between interval 1 hour preceding and current row)", "ts"),
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
    assert "ROW_NUMBER() OVER (ORDER BY ts, STRUCT(a, ts, v))" in sql(select)


def test_what_has_no_order_breaks_ties_in_another_form_or_not_at_all() -> None:
    select = parse("select k, lag(m) over (order by ts) as p from t")
    assert isinstance(select, exp.Select)
    for row, by in {
        "struct<k:string,m:map<string,int>,ts:timestamp>": ", STRUCT(k, ARRAY_SORT(MAP_ENTRIES(m)), ts)",
        "struct<k:string,m:variant,ts:timestamp>": "",
        "struct<k:string,m:interval day to second,ts:timestamp>": ", STRUCT(k, m, ts)",
    }.items():
        copy = select.copy()
        note_term_types(copy, row)
        break_ties(copy)
        assert sql(copy) == f"SELECT k, LAG(m) OVER (ORDER BY ts{by}) AS p FROM t"
