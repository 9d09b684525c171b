"""Column names that a WITH or an alias gives to a query."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.normalize.names import ctes
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql

_UNNAMED = [
    "count(*)",
    "count(1)",
    "-1",
    "upper('x')",
    "interval 1 day",
    "m['a']",
    "cast(cast(v as int) as string)",
]


@pytest.mark.parametrize("item", _UNNAMED)
@pytest.mark.parametrize("text", ["with t(a, b) as ({}) select b from t", "select b from ({}) as t(a, b)"])
def test_columns_are_renamed_whatever_names_spark_gives_them(text: str, item: str) -> None:
    tree = parse(text.format(f"select {item}, count(1) from s"))
    item = sql(parse(f"select {item}").expressions[0])
    assert sql(ctes.inline_ctes(tree)) == (
        "SELECT b FROM (SELECT `column_0` AS `a`, `column_1` AS `b` FROM "
        f"(SELECT {item} AS column_0, COUNT(1) AS column_1 FROM s) AS named) AS t"
    )


def test_columns_keep_the_names_that_they_have() -> None:
    tree = parse("select b from (select v, s.w, k as u from s) as t(a, b, c)")
    assert sql(ctes.inline_ctes(tree)) == (
        "SELECT b FROM (SELECT `v` AS `a`, `w` AS `b`, `u` AS `c` FROM (SELECT v, s.w, k AS u FROM s) AS named) AS t"
    )
