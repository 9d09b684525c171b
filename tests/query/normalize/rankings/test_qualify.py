"""QUALIFY as a filter over a subquery."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.normalize.rankings import qualify
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql


@pytest.mark.parametrize(
    "item",
    ["count(*)", "count(1)", "sum(1)", "-1", "upper('x')", "cast(count(*) as int)", "a[0]", "interval 1 day"],
)
def test_items_without_a_name_are_no_stars_and_no_literals(item: str) -> None:
    made = qualify.rewrite_qualify(
        parse(f"select k, {item} from t group by k qualify row_number() over (order by k) < 3")
    )
    printed = sql(parse(f"select {item}").expressions[0])
    assert sql(made) == (
        f"SELECT k, _c FROM (SELECT k, {printed} AS _c, ROW_NUMBER() OVER (ORDER BY k) AS _w FROM t GROUP BY k) AS _t "
        "WHERE _w < 3"
    )


@pytest.mark.parametrize("item", ["v", "t.v", "1", "x as y", "cast(v as int)", "*"])
def test_other_items_keep_their_names(item: str) -> None:
    made = sql(
        qualify.rewrite_qualify(parse(f"select {item} from t qualify row_number() over (order by k) < 3"))
    )
    assert "_c" not in made
