"""Walks of trees."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.sql.dialect import parse
from dbt.adapters.spark_streaming.query.sql.nodes import every

TEXT = """
select t.* except (a, b), builtin.sum(v) filter (where w > 1) as s, c.d.e,
    sum(x) over (partition by t.k order by u[1].f) as o
from t join (select * from u where exists (select 1 from v where v.k = t.k)) as u on t.k = u.k
"""


@pytest.mark.parametrize(
    "kind", [exp.Column, exp.Select, exp.Star, exp.Identifier, exp.Expr, exp.Filter, exp.AggFunc]
)
def test_a_walk_finds_what_sqlglots_finds(kind: type[exp.Expr]) -> None:
    tree = parse(TEXT)
    found = [id(each) for each in every(tree, kind)]
    assert found == [id(each) for each in tree.find_all(kind)]
    assert len(found) > 0
