"""Labels are the beginnings of queries, though not all of a query is printed for one."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.planner.projections import short_label
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from dbt.adapters.spark_streaming.query.sql.names import remove_marks


def above(query: str, times: int, width: int) -> str:
    """Queries above each other, with select lists of a width."""
    for number in range(times):
        query = f"select k, {'v' * width} from ({query}) as q{number} where k > {number}"
    return query


QUERIES = [
    *(
        above("select k from (select /*+ STREAM */ * from t)", times, width)
        for times in range(8)
        for width in (1, 20, 70)
    ),
    "select '(…' as mark, k from (select k, '(…' as v from (select * from (select * from t) as c) as a) as b",
    "select k from (select k from t union all select k from (select k from u where v > 1000000) as w) as x join "
    "(select k from y where k in (select z from (select z from tt where z is not null) as ttt)) as yy on yy.k = x.k",
    "select k from (with w as (select k, v from (select k, v from t where v > 1000000000000) as a) select k from w) as b",
    "select k from (select k, row_number() over (order by v) as n from (select k, v from t) as a qualify n = 1) as b",
    "select k from t where v > (select max(v) from (select v from t where k = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') as m)",
]


@pytest.mark.parametrize("text", QUERIES)
def test_a_label_is_the_beginning_of_its_query(text: str) -> None:
    query = parse(text)
    whole = remove_marks(sql(query))
    assert isinstance(query, exp.Select)
    assert short_label(query) == (whole if len(whole) <= 100 else f"{whole[:97]}…")
    assert remove_marks(sql(query)) == whole, "the query is as it was"
