"""`emit='on_change'` wherever a model's text is run as it is: a view, `dbt show`, a test."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.project import streaming
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments


def steps(relation: str, emit: str = "on_change") -> str:
    return expansion.expand(
        relation, window_arguments.make("cumulate", "ts", "5 minutes", "20 minutes", emit=emit)
    )


def counted(over: str) -> str:
    return (
        f"select window_start, window_end, k, count(*) as n from {over} group by window_start, window_end, k"
    )


def test_a_text_that_is_run_as_it_is_leaves_silent_steps_out() -> None:
    text = counted(steps("shop.bids"))
    assert streaming.standing_text(text) == streaming.batch_text(text) != text


@pytest.mark.parametrize(
    "text",
    [
        "select k from shop.bids -- 'emit on_change'",
        "not even SQL",
        counted(steps("shop.bids", "every_step")),
        counted("shop.bids"),
    ],
)
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert streaming.standing_text(text) == text


def test_steps_of_which_nothing_says_whose_they_are_are_refused() -> None:
    with pytest.raises(QueryError, match="group them by window_start, window_end, or leave emit out"):
        streaming.standing_text(f"select * from {steps('shop.bids')}")


@pytest.mark.parametrize(
    "text",
    [
        counted(steps("base")),
        f"select *, row_number() over (partition by window_end order by n) as place from ({counted(steps('base'))})",
        f"select * from ({counted(steps('base'))}) order by n desc limit 2",
    ],
)
def test_rows_may_stand_in_the_place_of_a_table(text: str) -> None:
    """As dbt's unit tests have them."""
    given = f"with base as (select timestamp'2024-03-04 00:01:00' as ts, 'a' as k, 1 as v) {text}"
    planned = streaming.batch_text(given)
    assert "HAVING COUNT(CASE WHEN" in planned
    if "limit" in text:
        assert "LIMIT" not in planned  # a rank with its ties broken, as over a table


def test_a_mix_of_tables_that_says_not_which_is_the_stream_is_refused_as_before() -> None:
    with pytest.raises(QueryError, match=r"cumulate\(\) has shop.bids, shop.users under it; mark the one"):
        streaming.batch_text(
            f"with base as (select ts, k from shop.bids join shop.users using (k)) {counted(steps('base'))}"
        )


URL = "jdbc:postgresql://me:secret@db/shop"


def test_the_graph_says_which_relations_are_lookup_tables() -> None:
    graph = {
        "sources": {
            "a": {"relation_name": "crm.a", "config": {"meta": {"lookup": {"url": URL}}}},
            "b": {"relation_name": "crm.b", "config": {}},
        }
    }
    assert {name: known.lookup for name, known in streaming.known(graph).items()} == {
        "crm.a": True,
        "crm.b": False,
    }
