"""Names in messages are those of the author."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.generation import generate
from tests.planned import plan_of
from tests.query.trees import STREAM, flow


def test_what_names_are_marked_with_is_refused() -> None:
    with pytest.raises(QueryError) as problem:
        flow(f"select __of_author0x as k from {STREAM}")
    assert str(problem.value) == (
        "'__of_author0x' begins with a prefix that is reserved for the planning of queries; give the column another name."
    )


def test_a_message_has_the_names_of_the_author() -> None:
    with pytest.raises(QueryError, match="__row_time") as problem:
        flow(f"select __row_time, count(*) as n from {STREAM} group by __row_time", ttl=None)
    assert "of_author" not in str(problem.value)


def test_an_unnamed_column_is_called_like_its_text_with_the_names_of_the_author() -> None:
    text = "select k, max(__row_time) from (select /*+ STREAM */ k, __row_time from t) group by k"
    made = generate.generate_program(plan_of(text))
    assert "`max(__row_time)`" in made.output and made.upsert is not None
    assert "of_author" not in f"{made.output} {made.upsert} {made.items}"
