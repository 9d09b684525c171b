"""A row that has met none comes when it can meet none any more."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.plan.operators.outer_interval_join import OuterIntervalJoin
from tests.query.trees import IN_TIME, OTHER, STREAM, flow


@pytest.mark.parametrize(
    ("join", "alone"),
    [
        ("left", (True, False)),
        ("right", (False, True)),
        ("full", (True, True)),
        ("left anti", (False, False)),
    ],
)
def test_what_is_alone_comes_when_it_can_meet_none_any_more(join: str, alone: tuple[bool, bool]) -> None:
    items = "l.k, l.v" if "anti" in join else "l.k, r.v"
    made = flow(f"select {items} from {STREAM} as l {join} join {OTHER} as r on {IN_TIME}", None, ()).root
    assert isinstance(made, OuterIntervalJoin)
    assert not made.relation.changes
    assert (made.pairs_sql is None) == ("anti" in join)
    assert tuple(each is not None for each in made.unmatched_rows_sql) == alone
