from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.normalize.static_sides import nest_joins
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql

STREAMS = {"l", "r", "s"}


def nested(text: str, whole: bool = False) -> str | None:
    """A query over streams l, r and s, and tables d and e; what it becomes."""
    select = parse(text)
    aliases = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    if not nest_joins(select, [each.alias_or_name in STREAMS for each in aliases], whole):
        return None
    return sql(select).replace("`", "")


def test_a_table_at_the_end_is_joined_with_all_before() -> None:
    assert nested("select l.k from l left join r on l.k = r.k join d on d.k = r.v join e on e.k = d.k") == (
        "SELECT joined.k AS k FROM (SELECT l.k AS k, d.k AS __c_1 FROM l LEFT JOIN r ON l.k = r.k "
        "JOIN d ON d.k = r.v) AS joined JOIN e ON e.k = joined.__c_1"
    )


def test_a_stream_at_the_end_is_joined_with_rows_that_have_their_tables() -> None:
    assert nested("select d.n, r.v from d join l on l.k = d.k left join r on r.k = l.k") == (
        "SELECT joined.n AS n, r.v FROM (SELECT d.n AS n, l.k AS k FROM d JOIN l ON l.k = d.k) AS joined "
        "LEFT JOIN r ON r.k = joined.k"
    )


def test_stars() -> None:
    assert nested("select l.*, d.* from l left join r on l.k = r.k join d on d.k = r.k") == (
        "SELECT joined.* EXCEPT (__c_0), d.* FROM (SELECT l.*, r.k AS __c_0 FROM l LEFT JOIN r ON l.k = r.k) AS joined "
        "JOIN d ON d.k = joined.__c_0"
    )
    assert nested(
        "select * from l left join r on l.k = r.k left semi join e on e.k = l.k join d on true"
    ) == (
        "SELECT joined.*, d.* FROM (SELECT * FROM l LEFT JOIN r ON l.k = r.k LEFT SEMI JOIN e ON e.k = l.k) AS joined "
        "JOIN d ON TRUE"
    )
    assert nested("select l.* except (v), d.n from l left join r on l.k = r.k join d on d.k = l.k") == (
        "SELECT joined.* EXCEPT (__c_0), d.n FROM (SELECT l.* EXCEPT (v), l.k AS __c_0 FROM l LEFT JOIN r ON l.k = r.k) "
        "AS joined JOIN d ON d.k = joined.__c_0"
    )


def test_conditions_go_below_where_every_row_is_judged_there() -> None:
    assert nested(
        "select l.k from l join r on l.k = r.k left join d on d.k = r.k where l.v > r.v and d.n > 0"
    ) == (
        "SELECT joined.k AS k FROM (SELECT l.k AS k, r.k AS __c_1 FROM l JOIN r ON l.k = r.k WHERE l.v > r.v) "
        "AS joined LEFT JOIN d ON d.k = joined.__c_1 WHERE d.n > 0"
    )
    found = nested("select l.k from l join d on l.k = d.k right join r on d.k = r.k where l.v > 0")
    assert found is not None and found.endswith("WHERE joined.v > 0")


def test_queries_inside_see_the_joined_rows_where_they_mean_them() -> None:
    text = (
        "select l.k from l join d on d.k = l.k where exists (select 1 from r where r.k = l.k) "
        "and exists (select 1 from l where l.k > 7)"
    )
    assert nested(text) == (
        "SELECT joined.k AS k FROM (SELECT l.k AS k FROM l JOIN d ON d.k = l.k) AS joined "
        "WHERE EXISTS(SELECT 1 FROM r WHERE r.k = joined.k) AND EXISTS(SELECT 1 FROM l WHERE l.k > 7)"
    )


def test_fields_of_structs_and_names_that_are_taken() -> None:
    found = nested(
        "select l.rec.x, l.`__c_0` as joined from l left join r on l.k = r.k join d on d.k = l.rec.y"
    )
    assert found == (
        "SELECT joined_2.x AS x, joined_2.__c_0 AS joined FROM (SELECT l.rec.x AS x, l.__c_0 AS __c_0, "
        "l.rec.y AS y FROM l LEFT JOIN r ON l.k = r.k) AS joined_2 JOIN d ON d.k = joined_2.y"
    )


@pytest.mark.parametrize(
    "text",
    [
        "select k from l left join r on l.k = r.k join d on d.k = l.k",
        "select l.k from l left join r using (k) join d on d.k = l.k",
        "select l.k from l natural left join r join d on d.k = l.k",
        "select l.*, r.* from l left join r on l.k = r.k join d on d.k = l.k",
        "select l.k from l left join r on l.k = r.k",
        "select * from l left join r on l.k = r.k cross join (select max(v) as v from d)",
    ],
)
def test_what_stays_as_it_is(text: str) -> None:
    assert nested(text) is None


def test_tables_that_conditions_ask() -> None:
    assert nested("select l.k from l join r on l.k = r.k where l.k in (select k from d)", whole=True) == (
        "SELECT joined.k AS k FROM (SELECT l.k AS k FROM l JOIN r ON l.k = r.k) AS joined "
        "WHERE joined.k IN (SELECT k FROM d)"
    )
