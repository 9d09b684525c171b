"""A subquery in WHERE is a join only where the join reads the same columns."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.normalize.semi_joins import rewrite_as_semi_joins
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql


def joined(test: str) -> str | None:
    select = parse(f"select l.k from l where {test}")
    assert isinstance(select, exp.Select)
    made = rewrite_as_semi_joins(select)
    return None if made is None else sql(made).partition(" FROM l ")[2]


def test_subqueries_that_are_joins() -> None:
    assert joined("exists (select 1 from r where r.k = l.k)") == "LEFT SEMI JOIN r ON r.k = l.k"
    assert joined("l.k in (select r.k from r where r.v > 2)") == "LEFT SEMI JOIN r ON r.v > 2 AND l.k = r.k"


@pytest.mark.parametrize(
    "test",
    [
        # Inside, the column is r's; in a join it would be of either side.
        "exists (select 1 from r as k where k = l.k)",
        "exists (select 1 from r where r.k = l.k and v > 2)",
        # NOT IN is empty if there is a NULL.
        "not l.k in (select r.k from r)",
        "exists (select 1 from r)",
        "exists (select 1 from r as l where l.k > 1)",
        "exists (select 1 from r where r.k = m.k)",
        "exists (select count(*) from r where r.k = l.k)",
        "exists (select 1 from r where r.k = l.k group by r.v)",
        "exists (select 1 from r join s on s.k = r.k where r.k = l.k)",
    ],
)
def test_subqueries_that_are_not(test: str) -> None:
    assert joined(test) is None
