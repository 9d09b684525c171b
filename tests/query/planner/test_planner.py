"""State of operators is bounded, or the query is refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import pytest

from dbt.adapters.spark_streaming.query.errors import UnboundedStateError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.operators.changelog_normalize import ChangelogNormalize
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.planned import tree_of
from tests.query.auctions import AUCTIONS, BEST, A, B, auction_flow, auction_plan, keeping, top
from tests.query.trees import GROUPS, KNOWN, OTHER, STREAM, flow


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"select k, v, median(v) over (partition by k order by ts) as s from {STREAM}",
            "it keeps every row that ever comes",
        ),
        (f"select a.v from {STREAM} as a join {OTHER} as b on a.v = b.v", "it keeps every row of both sides"),
        (
            f"select a.v from {STREAM} as a join {OTHER} as b on a.v = b.v",
            "or bound the time between them on both sides",
        ),
        (
            f"select v, count(*) as n from ({GROUPS.replace(' k', ' v')}) group by v",
            "constant_domains: ['v']",
        ),
        (f"select v from {STREAM} except select v from {OTHER}", "it keeps every different row"),
        (
            f"select *, row_number() over (partition by k order by v) as rn from {STREAM}",
            "say how many are asked for: WHERE rn <= 10 in the query around it. To have the query as it is: The state "
            "of this query grows without bound: it keeps every row that ever comes. Set state_ttl",
        ),
    ],
)
def test_state_without_a_bound_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UnboundedStateError, match="grows without bound") as problem:
        flow(text, ttl=None, domains=())
    assert sentence in str(problem.value)


@pytest.mark.parametrize("plan_it", [plan_query.plan, tree_of])
def test_keys_with_few_values_need_no_bound(plan_it: Callable[..., Plan]) -> None:
    kinds_of = f"(select *, case when v > 9 then 'much' when v is null then 'none' end as much from {STREAM})"
    few = f"select much, k is null as missing, v % 7, count(*) as n from {kinds_of} group by much, k is null, v % 7"
    plan_it(few, KNOWN)
    with pytest.raises(UnboundedStateError) as problem:
        plan_it(few.replace("k is null", "k"), KNOWN)
    assert "constant_domains: ['missing'] if" in str(problem.value)


@pytest.mark.parametrize(
    ("text", "domains", "found"),
    [
        (f"select city, count(*) from {B} group by city", [], "for every value of city"),
        (
            f"select city, item, count(*) from {B} group by 1, 2",
            ["city"],
            "constant_domains: ['city', 'item']",
        ),
        (f"select upper(city) as c, count(*) from {B} group by 1", [], "constant_domains: ['c']"),
        (top("ts", of=B), [], "for every value of item"),
        (top("n desc"), ["item"], "constant_domains: ['bidder', 'item']"),
        (f"select b.x from {B} b join {A} a on a.x = b.x", ["x"], "keeps every row of both sides"),
        (f"select percentile(x, 0.5) as p from {B}", [], "keeps every row that ever comes"),
    ],
)
def test_state_that_grows_for_ever_is_refused(text: str, domains: list[str], found: str) -> None:
    with pytest.raises(UnboundedStateError) as refusal:
        plan_query.plan(text, AUCTIONS, None, domains)
    assert found in str(refusal.value)
    assert "state_ttl" in str(refusal.value)
    if "join" not in text:
        assert "WHERE ts >= CURRENT_TIMESTAMP() - INTERVAL '7' DAY" in str(refusal.value)
    plan_query.plan(text, AUCTIONS, DAY, domains)
    auction_plan(text)


@pytest.mark.parametrize(
    ("text", "domains"),
    [
        (f"select city, count(distinct x) from {B} group by city", ["CITY"]),
        (f"select upper(city) as c, count(*) from {B} group by 1", ["city"]),
        (f"select upper(city) as c, count(*) from {B} group by 1", ["c"]),
        (f"select count(*) from {B}", []),
        (f"select * from {B} order by price desc limit 3", []),
        (f"select x, count(*) from {BEST} group by x", []),
    ],
)
def test_state_that_is_bounded(text: str, domains: list[str]) -> None:
    plan_query.plan(text, AUCTIONS, None, domains)


@pytest.mark.parametrize("given", [[], ["city"], ["item"], ["upper"], ["x"], ["Item", "x"]])
def test_the_domains_that_are_proposed_are_the_whole_list(given: list[str]) -> None:
    text = f"select city, count(*) as n, x + y from {B} group by city, item, upper, x + y"
    with pytest.raises(UnboundedStateError) as refusal:
        plan_query.plan(text, AUCTIONS, None, given)
    proposed = re.search(r"constant_domains: (\[[^]]*\])", str(refusal.value))
    assert proposed
    assert ast.literal_eval(proposed[1]) == ["city", "item", "upper", "x", "y"]
    plan_query.plan(text, AUCTIONS, None, ast.literal_eval(proposed[1]))


@pytest.mark.parametrize(
    ("text", "domains", "proposed"),
    [
        (f"select city, count(*) as n from {B} group by city", ["Ctiy"], ["city"]),
        (
            f"with w as (select city, x from {B}) select city, x, count(*) from w group by 1, 2",
            ["Ctiy", "x"],
            ["city", "x"],
        ),
    ],
)
def test_a_domain_that_no_column_is_called_is_named(
    text: str, domains: list[str], proposed: list[str]
) -> None:
    with pytest.raises(UnboundedStateError) as refusal:
        plan_query.plan(text, AUCTIONS, None, domains)
    assert str(refusal.value).startswith(
        "config 'constant_domains' names 'Ctiy', and no column of this query is called so. The state of this query grows"
    )
    assert f"constant_domains: {proposed} if" in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        (f"select upper(city) as c, item, count(*) from {B} group by 1, 2", "City"),
        (f"select upper(city) as C, item, count(*) from {B} group by 1, 2", "c"),
        (
            f"with w(place, item) as (select city, item from {B}) select place, item from w group by 1, 2",
            "place",
        ),
        # It may be one of those, or what Spark calls one.
        (f"select item, count(*) as n from (select * from {B}) group by item", "city"),
        (f"select upper(city), item, count(*) from {B} group by 1, 2", "upper(city)"),
        (f"select m, item, count(*) from {B} lateral view explode(xs) t as m group by 1, 2", "m"),
    ],
)
def test_a_domain_that_a_column_may_be_called_is_not(text: str, domain: str) -> None:
    with pytest.raises(UnboundedStateError, match=r"^The state of this query grows"):
        plan_query.plan(text, AUCTIONS, None, [domain])
    plan_query.plan(text, AUCTIONS, None, [domain, "item"])


def test_the_last_rows_of_keys_grow_with_these() -> None:
    known = {"raw.bid": RelationInfo("ts", ("id", "at"))}
    text = f"select x, count(*) from {B} group by x"
    assert keeping(auction_flow(text, known=known)) == [ChangelogNormalize, GroupAggregate]
    with pytest.raises(UnboundedStateError, match=r"constant_domains: \['at', 'id', 'x'\]"):
        plan_query.plan(text, known, None, ["x"])
    plan_query.plan(text, known, None, ["id", "at"])
