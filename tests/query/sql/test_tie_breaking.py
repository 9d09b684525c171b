"""What ties of ROW_NUMBER go by."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from dbt.adapters.spark_streaming.query.sql.tie_breaking import fields_of, note_types, tie_breaker

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
