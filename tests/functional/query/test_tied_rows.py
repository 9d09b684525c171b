"""Texts for batch in which ties of OVER are broken: Spark takes them, and has one order for tied rows."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch.whole_query import batch_text
from tests.spark_rows import asks

S = "(select /*+ STREAM */ * from tied)"
L = "over (partition by k order by ts)"
QUERIES = [
    f"select *, lag(v) {L} as p from {S}",
    f"select t.*, lag(v) {L} as p from {S} as t",
    f"select * except (v, m, j), v * 2 as v, lag(v) {L} as p from {S}",
    f"select upper(k) as k, lag(v) {L} as p from {S}",
    f"select k, lag(m) {L} as p, row_number() {L} as n from {S}",
    f"select k, j, lag(v) {L} as p from {S}",
    f"select k, explode(a) as x, lag(v) {L} as p from {S}",
    f"select k, x, lag(v) {L} as p from {S} lateral view explode(a) as x",
    f"select a.k, b.v, lag(a.v) over (partition by a.k order by b.ts) as p from {S} as a join tied as b on a.k = b.k",
    f"select case when lag(v) {L} > 1 then ts when v > 2 then ts end as c, rand() as r from {S}",
    f"select k, first_value(v) {L} as f, ntile(2) {L} as n, sum(v) over (order by ts rows 2 preceding) as s from {S}",
    f"select k, nth_value(v, 2) {L} as f, last_value(v) {L} as l, sum(v) {L} as s from {S}",
    f"select first_value(v) over (order by ts range between unbounded preceding and interval 1 day following) from {S}",
    f"select k, count(*) as n, lag(k) over (order by count(*)) as p from {S} group by k",
    f"select k, count(*) over (order by k rows unbounded preceding) as n from {S} group by k",
    f"select date_trunc('day', ts) as d, lag(date_trunc('day', ts)) over (order by count(*)) as p from {S} "
    "group by date_trunc('day', ts)",
    f"select k, sum(v) filter (where v > 1) - lag(sum(v) filter (where v > 1)) over (order by k) as d from {S} group by k",
    f"select upper(k) as k, max(v), lag(max(v)) over (order by max(v)) as p from {S} group by 1",
    f"select k, v, grouping_id() as g, lag(sum(v)) over (order by sum(v)) as p from {S} group by cube (k, v)",
    f"select distinct k, lag(v) {L} as p from {S}",
    f"select a + 1 as b, b as c, lag(v) over (order by ts) as p from (select v as a, * except (a) from {S})",
    f"select lag(v) {L} as p, p as q from {S}",
    f"select (select max(v) from tied as d where d.k = s.k) as m, lag(v) {L} as p from {S} as s",
    f"select k, lag(v) over w as p, sum(v) over (w rows 1 preceding) as s from {S} window w as "
    "(partition by k order by ts)",
    f"select k from {S} qualify lag(v) {L} > 0 and row_number() {L} < 9",
    f"select k, lag(v) ignore nulls {L} as p, lead(i, 2, i) {L} as l from {S}",
    f"select t.k, o.p from {S} as t join (select k, lag(v) {L} as p from tied) as o on o.k = t.k",
    f"select listagg(k, ',') within group (order by k) as l, lag(count(*)) over (order by i) as p from {S} group by i",
]


@pytest.mark.parametrize("text", QUERIES)
def test_spark_takes_what_breaks_ties(spark: Any, text: str) -> None:
    spark.sql(
        "select timestamp'2024-01-01 00:00:00' as ts, 'a' as k, 1L as v, map('a', 1) as m, array(1, 2) as a, "
        "interval '1' day as i, parse_json('{}') as j"
    ).createOrReplaceTempView("tied")
    made = batch_text(text, asks(spark))
    assert spark.sql(made).columns, made
