"""Rankings: which Top-N each is, and what it keeps."""

from __future__ import annotations

import re

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.top_n import TopN
from dbt.adapters.spark_streaming.query.program import Step
from tests.query.auctions import GROUPED_BIDS, B, auction_plan, bid_ranking, strategy, top
from tests.query.trees import PAIRS, STREAM, flow, kinds, only, tops_of


def ranked_pairs(
    order: str, items: str = "*", rank: str = "row_number", by: str = "k", of: str = PAIRS
) -> str:
    ranked = f"select {items}, {rank}() over (partition by {by} order by {order}) as rn from ({of}) as p"
    return f"select k, count(*) as n from ({ranked}) where rn <= 3 group by k"


@pytest.mark.parametrize(
    ("text", "improves", "of_groups"),
    [
        (ranked_pairs("n desc"), True, ("k",)),
        (ranked_pairs("n desc", items="s, k, v, n"), False, ("k",)),
        (ranked_pairs("n desc", items="s, k, v, n", rank="rank"), True, ("k",)),
        (ranked_pairs("n desc", rank="dense_rank"), False, ("k",)),
        (ranked_pairs("n desc", of=f"select * from ({PAIRS}) where n > 2"), False, ("k",)),
        (ranked_pairs("s desc"), False, ("k",)),
        (ranked_pairs("s desc", by="n % 2"), False, None),
        (ranked_pairs("n desc", by="n % 2"), False, None),
        (ranked_pairs("n desc, k", by="v, k"), True, ("v", "k")),
    ],
)
def test_a_ranking_over_groups_keeps_its_members(
    text: str, improves: bool, of_groups: tuple[str, ...] | None
) -> None:
    made = only(flow(text, ttl=None, domains=("k", "v")), TopN)
    assert isinstance(made, TopN)
    assert (made.improves, made.of_groups, made.top.rows) == (improves, of_groups, 3)


OF_GROUPS = f"select n, k, count(*) as v, count(distinct s) as d from ({PAIRS}) group by n, k"


@pytest.mark.parametrize(
    "text",
    [
        ranked_pairs(
            "n", of=f"select a.k, a.n, b.v from ({PAIRS}) as a join ({PAIRS}) as b on a.k = b.k and a.n > b.n"
        ),
        # Values of rows that come and go are counted when a group is read.
        ranked_pairs("d", of=OF_GROUPS),
    ],
)
def test_a_ranking_over_other_rows_that_change_keeps_these(text: str) -> None:
    found = kinds(flow(text, ttl=None, domains=("k", "v", "n", "s")))
    assert "TopN" not in found and "Recompute" in found


def test_a_ranking_below_others_asks_no_table() -> None:
    """It may have another answer when a row goes."""
    with pytest.raises(QueryError, match="reads a table, and is computed again when its rows change"):
        flow(ranked_pairs("n", items="*, exists(select 1 from db.levels as l where l.u = n) as x"), ttl=None)


def test_under_a_ttl_a_ranking_over_groups_keeps_its_members_too() -> None:
    (made,) = tops_of(flow(ranked_pairs("n desc"), ttl=None, domains=("k", "v")))
    assert made.improves
    # Below others its rows are kept, and live by themselves.
    assert not tops_of(flow(ranked_pairs("n desc")))
    ranked = f"select *, row_number() over (partition by k order by n desc) as rn from ({PAIRS}) as p"
    (made,) = tops_of(flow(f"select * from ({ranked}) where rn <= 3"))
    assert not made.improves  # a group that was forgotten begins anew


def test_a_ranking_of_rows_that_only_come_keeps_its_first_rows() -> None:
    ranked = f"select *, row_number() over (partition by k order by v desc) as rn from {STREAM}"
    made = only(flow(f"select * from ({ranked}) where rn <= 3", ttl=None), TopN)
    assert isinstance(made, TopN)
    assert made.top.rows == 3 and not made.final
    first = ranked.replace("v desc", "ts")
    (made,) = tops_of(flow(f"select k, v from ({first}) where rn = 1", ttl=None))
    assert made.final and not made.relation.changes
    # What stands above it asks for what is known so far.
    (made,) = tops_of(flow(f"select k, count(*) as n from ({first}) where rn = 1 group by k", ttl=None))
    assert not made.final


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        (top("ts", of=B), "AppendOnlyTopN"),
        (top("n desc"), "UpdatableTopN"),
        (top("n desc, bidder"), "UpdatableTopN"),
        (top("hi desc nulls last"), "UpdatableTopN"),
        (top("lo nulls last"), "UpdatableTopN"),
        (top("hi desc nulls first"), "RetractableTopN"),  # NULL is the best place there is
        (top("lo"), "RetractableTopN"),
        (top("n"), "RetractableTopN"),
        (top("s desc"), "RetractableTopN"),  # a price may be negative
        (top("n desc", rank="rank"), "UpdatableTopN"),
        (top("n desc", rank="dense_rank"), "RetractableTopN"),
        # Of equal counts the sum tells who is first, and it may grow where a count with a FILTER doesn't.
        (top("n desc").replace("select *, row", "select s, item, bidder, n, row"), "RetractableTopN"),
        (top("n desc").replace("select *, row", "select item, bidder, s, row"), "UpdatableTopN"),
        (top("n desc", of=f"(select s as least, * from ({GROUPED_BIDS}))"), "RetractableTopN"),
        (top("n desc", of=f"(select * from ({GROUPED_BIDS}) where hi < 10)"), "RetractableTopN"),
        (f"{GROUPED_BIDS} order by n desc limit 10", "UpdatableTopN"),
    ],
)
def test_which_operator_a_ranking_is(text: str, operator: str) -> None:
    assert strategy(bid_ranking(text)) == operator


@pytest.mark.parametrize("rank", ["rank", "row_number", "dense_rank"])
def test_rows_of_a_ranking_are_not_compared(rank: str) -> None:
    """One may hold a MAP, and Spark can't."""
    found = generate.generate_program(auction_plan(top("s desc", rank=rank)))
    texts = [step.sql for step in found.items_of_kind(Step) if step.name.startswith("top_")]
    texts += [step.sql for step in found.output_steps if step.name.startswith("top_")]
    assert any("__ranked" in text for text in texts)
    assert not any(re.search(r"(_row|__ranked)`? <=> ", text) for text in texts)
