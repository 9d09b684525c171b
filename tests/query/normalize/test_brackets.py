"""Brackets around relations in FROM: those that can be left out are, and the others are refused."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.normalize import brackets
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from tests.query.trees import OTHER, STREAM, flow, kinds


def removed(text: str) -> str:
    """A query without its brackets."""
    tree = parse(text)
    brackets.remove_brackets(tree)
    return sql(tree)


@pytest.mark.parametrize(
    "written, plain",
    [
        ("(t as a)", "t AS a"),
        ("(((t as a)))", "t AS a"),
        ("((t as a) cross join u)", "t AS a CROSS JOIN u"),
        ("((t as a join u using (k)) left join v using (k)) cross join w",
         "t AS a JOIN u USING (k) LEFT JOIN v USING (k) CROSS JOIN w"),
        ("t cross join (u as b)", "t CROSS JOIN u AS b"),
        ("((select 1 as x) as a cross join u) as z", "(SELECT * FROM (SELECT 1 AS x) AS a CROSS JOIN u) AS z"),
        ("t left join (u join v using (k)) using (k)", "t LEFT JOIN (u JOIN v USING (k)) USING (k)"),
    ],
)  # fmt: skip
def test_brackets_are_left_out_where_that_means_the_same(written: str, plain: str) -> None:
    assert removed(f"select 1 as one from {written}") == f"SELECT 1 AS one FROM {plain}"


def test_a_query_in_brackets_is_no_relation_in_brackets() -> None:
    text = "SELECT (SELECT (SELECT 1)) AS a FROM (SELECT 1 AS x) AS b"
    assert removed(text) == text


def test_streams_that_are_joined_in_brackets_are_joined() -> None:
    text = f"select a.k from ({STREAM} as a join {OTHER} as b on a.k = b.k)"
    assert kinds(flow(text)).count("Join") == 1


@pytest.mark.parametrize(
    "inner", [f"{STREAM} as b join db.names as d on d.k = b.k", f"db.names as d join {STREAM} as b using (k)"]
)
def test_a_join_in_brackets_behind_another_relation_is_refused(inner: str) -> None:
    with pytest.raises(
        QueryError, match="joins a stream in brackets; write the joins one after another, or those in"
    ):
        flow(f"select a.k from {OTHER} as a left join ({inner}) on a.k = b.k")


def test_a_sample_of_a_stream_in_brackets_is_refused() -> None:
    with pytest.raises(QueryError, match="is a stream in brackets; leave the brackets out"):
        flow(f"select b.k from ({STREAM} as b) tablesample (50 percent)")
