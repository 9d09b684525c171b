"""A SELECT is split into steps that do one thing each, whatever it says at once."""

from __future__ import annotations

import pytest

from tests.query.trees import OTHER, STREAM, flow, kinds

JOINED = f"{STREAM} as a join {OTHER} as b on a.k = b.k"


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (f"select k, v + 1 as w from {STREAM} where v > 0", ["Source", "Project"]),
        (f"select distinct k from {STREAM}", ["Source", "GroupAggregate"]),
        (f"select a.k, count(*) as n from {JOINED} group by a.k", ["Join", "GroupAggregate"]),
        (
            f"select * from (select a.k, b.v, row_number() over (partition by a.k order by b.v, a.ts, b.ts) as rn "
            f"from {JOINED}) where rn <= 2",
            ["Join", "TopN"],
        ),
        (f"select k, n from (select k, count(*) as n from {STREAM} group by k) order by n limit 3", ["TopN"]),
    ],
)
def test_steps_are_operators_in_the_order_in_which_they_are_computed(text: str, steps: list[str]) -> None:
    found = kinds(flow(text))
    places = [found.index(step) for step in steps]
    assert places == sorted(places)


def test_how_rows_are_laid_out_is_no_step() -> None:
    plain = kinds(flow(f"select k, v from {STREAM}"))
    assert kinds(flow(f"select k, v from {STREAM} distribute by k sort by v")) == plain
