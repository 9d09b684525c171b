"""How a row-by-row query explains itself."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.plan.explanation import Context
from dbt.adapters.spark_streaming.query.plan.operators.project import Project
from tests.planned import tree_of
from tests.query.plan.test_operator import KNOWN, S


def shown(text: str) -> list[tuple[str, str]]:
    """The name and description of each `Project` that computes something."""
    operators = tree_of(text, KNOWN, None, ("k",)).dataflow.operators
    found = (each.explain(Context()) for each in operators if isinstance(each, Project))
    return [(each.operator, each.description) for each in found if each is not None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"select k, v from {S}", []),
        (f"select upper(k) as k from {S} where v > 1", [("Project", "UPPER(k) AS k WHERE v > 1")]),
        (f"select s.k, d.name from {S} join d on d.k = s.k", [("LookupJoin", "INNER JOIN d ON d.k = s.k")]),
        (
            f"select k, count(*) + 1 as n from {S} group by k having count(*) > 2",
            [("Project", "k, COUNT(*) + 1 AS n HAVING COUNT(*) > 2")],
        ),
    ],
)
def test_it_is_described_in_the_authors_words(text: str, expected: list[tuple[str, str]]) -> None:
    assert shown(text) == expected
