"""Plans of queries without windows: strategies, bounds of state, and what is refused."""

from __future__ import annotations

import ast
import re

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError, Unbounded
from dbt.adapters.spark_streaming.query.frontend.streams import Known
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.dataflow import Dataflow
from dbt.adapters.spark_streaming.query.plan.operator import Operator
from dbt.adapters.spark_streaming.query.plan.operators.changelog_normalize import ChangelogNormalize
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.plan.operators.join import Join
from dbt.adapters.spark_streaming.query.plan.operators.late_rows import LateRows
from dbt.adapters.spark_streaming.query.plan.operators.materialized_project import MaterializedProject
from dbt.adapters.spark_streaming.query.plan.operators.outer_interval_join import OuterIntervalJoin
from dbt.adapters.spark_streaming.query.plan.operators.over_aggregate import OverAggregate
from dbt.adapters.spark_streaming.query.plan.operators.project import Project
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.query.plan.operators.set_operation import SetOperation
from dbt.adapters.spark_streaming.query.plan.operators.source import Source
from dbt.adapters.spark_streaming.query.plan.operators.temporal_filter import TemporalFilter
from dbt.adapters.spark_streaming.query.plan.operators.top_n import TopN
from dbt.adapters.spark_streaming.query.plan.operators.union_all import UnionAll
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY, HOUR, MINUTE
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of

B, A = "(select /*+ STREAM */ * from raw.bid)", "(select /*+ STREAM */ * from raw.ask)"
KNOWN = {"raw.bid": Known("ts"), "raw.ask": Known("ts"), "raw.best": Known("ts", ("id",), changes=True)}
BEST = "(select /*+ STREAM */ * from raw.best)"
METRICS = "count(*) as n, sum(price) as s, max(price) as hi, min(price) as lo"
GROUPS = f"select item, bidder, {METRICS} from {B} group by item, bidder"
COUNTS = f"select item, count(*) as n, max(price) as hi from {B} group by item"


def plan(text: str, ttl: int | None = None) -> Plan:
    return plan_of(text, KNOWN, ttl)


def flow(text: str, ttl: int | None = None, known: dict[str, Known] = KNOWN) -> Dataflow:
    found = plan_of(text, known, ttl)
    assert found.dataflow.windowed == ()
    return found.dataflow


def keeping(found: Dataflow) -> list[type[Operator]]:
    """The kinds of its operators that aren't row by row, inputs first."""
    stateless = (Source, Project, UnionAll, LateRows)
    return [type(each) for each in found.operators if not isinstance(each, stateless)]


def ranking(text: str, ttl: int | None = None) -> TopN:
    (found,) = (each for each in flow(text, ttl).operators if isinstance(each, TopN))
    return found


def strategy(found: TopN) -> str:
    """What Flink calls how it is kept up to date."""
    if not found.inputs[0].relation.changes:
        return "AppendOnlyTopN"
    return "UpdatableTopN" if found.improves else "RetractableTopN"


def top(order: str, of: str = f"({GROUPS})", rank: str = "row_number", where: str = "rn <= 3") -> str:
    return f"select * from (select *, {rank}() over (partition by item order by {order}) as rn from {of}) where {where}"


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
        (top("n desc", of=f"(select s as least, * from ({GROUPS}))"), "RetractableTopN"),
        (top("n desc", of=f"(select * from ({GROUPS}) where hi < 10)"), "RetractableTopN"),
        (f"{GROUPS} order by n desc limit 10", "UpdatableTopN"),
    ],
)
def test_which_operator_a_ranking_is(text: str, operator: str) -> None:
    assert strategy(ranking(text)) == operator


@pytest.mark.parametrize("rank", ["rank", "row_number", "dense_rank"])
def test_rows_of_a_ranking_are_not_compared(rank: str) -> None:
    """One may hold a MAP, and Spark can't."""
    found = generate.program(plan(top("s desc", rank=rank)))
    texts = [step.sql for level in found.levels for step in level.ingest if step.name.startswith("top_")]
    texts += [step.sql for step in found.again if step.name.startswith("top_")]
    assert any("__ranked" in text for text in texts)
    assert not any(re.search(r"(_row|__ranked)`? <=> ", text) for text in texts)


def test_forgotten_groups_come_back_worse() -> None:
    assert strategy(ranking(top("n desc"), DAY)) == "RetractableTopN"


@pytest.mark.parametrize(
    ("over", "ttl", "descends"),
    [
        ("row_number() over (partition by item order by s desc, n)", None, True),
        ("rank() over (partition by item order by lo)", None, False),
        ("row_number() over (order by s desc)", None, True),
        # As many rows may be as many values, or fewer.
        ("dense_rank() over (partition by item order by s desc)", None, None),
        # Which rankings are touched isn't known by the keys of the groups.
        ("rank() over (partition by n order by s desc)", None, None),
        # A ranking that rows are behind in isn't touched: its members may be forgotten.
        ("rank() over (partition by item order by s desc)", DAY, None),
    ],
)
def test_which_rows_are_behind_the_last_of_a_full_ranking(
    over: str, ttl: int | None, descends: bool | None
) -> None:
    text = f"select * from (select *, {over} as place from ({GROUPS})) where place <= 3"
    assert ranking(text, ttl).descends is descends
    steps = generate.program(plan(text, ttl), ttl=ttl).levels[0].ingest
    (candidates,) = (step for step in steps if step.name.endswith("_candidates"))
    assert ("__last_first" in candidates.sql) is (descends is not None)
    # Of an empty state there is no last one.
    assert "__last_first" not in (candidates.initial or "")


@pytest.mark.parametrize(
    ("text", "ttl", "rewritten"),
    [
        (f"select n, count(*) as c from ({COUNTS}) group by n", None, [True, False]),
        (f"select n, count(*) as c from ({COUNTS}) group by n", DAY, [False, False]),
        # A sum of doubles is taken back as it was given.
        (f"select n, sum(s) as s from ({GROUPS}) group by n", None, [False, False]),
        (f"select sum(n) as c from (select count(*) as n from {B}) where n > 2", None, [False, False]),
        (
            f"select d, count(*) as c from (select item, count(distinct bidder) as d from {B} group by item) group by d",
            None,
            [False, False],
        ),
        # The result: its rows are put out from the state.
        (GROUPS, None, [False]),
    ],
)
def test_which_groups_may_be_written_as_a_whole(text: str, ttl: int | None, rewritten: list[bool]) -> None:
    (level,) = generate.program(plan(text, ttl), ttl=ttl).levels
    parts = [part for part in level.parts if part.name.endswith("_groups")]
    assert [part.rewrite is not None for part in parts] == rewritten
    for part in parts:
        whole = [
            step.name for step in level.ingest if step.whole is not None and step.whole.part == part.name
        ]
        assert bool(whole) is (part.rewrite is not None)
        if part.rewrite is not None:
            assert whole[0] in part.rewrite.sql
            assert part.rewrite.grows_by in {step.name for step in level.ingest}


@pytest.mark.parametrize(
    ("condition", "lasts"),
    [
        ("a.ts between b.ts - interval '5' minute and b.ts + interval 1 hour", (HOUR, 5 * MINUTE)),
        (
            "a.ts between b.ts - interval 1 hour 5 minutes and b.ts + interval 1 hour",
            (HOUR, HOUR + 5 * MINUTE),
        ),
        ("a.ts >= b.ts and a.ts < b.ts + interval '10 minutes'", (10 * MINUTE, 0)),
        ("b.ts <= a.ts + interval 2 minutes and b.ts > a.ts - interval 1 day", (DAY, 2 * MINUTE)),
        ("a.ts = b.ts", (0, 0)),
    ],
)
def test_how_long_rows_are_kept_for_a_join_in_time(condition: str, lasts: tuple[int, int]) -> None:
    found = flow(f"select b.x from {B} as b join {A} as a on a.x = b.x and {condition}").root
    assert isinstance(found, Join)
    assert found.until == tuple((("ts", each),) for each in lasts)
    assert found.growth is None


def test_a_left_join_keeps_what_may_be_missing_until_it_is() -> None:
    text = f"select b.x from {B} as b left join {A} as a on a.x = b.x and a.ts between b.ts - interval 1 hour and b.ts"
    found = flow(text).root
    assert isinstance(found, OuterIntervalJoin)
    # Those on the left that have met none come when the watermark is there: they can meet none any more.
    assert found.until == found.due == ((("ts", 0),), (("ts", HOUR),))
    assert [each is not None for each in found.alone] == [True, False]
    assert (found.growth, found.relation.changes) == (None, False)


def test_what_a_row_must_have_is_asked_before_it_is_kept() -> None:
    found = flow(
        f"select b.x from {B} as b join {A} as a on a.x = b.x where a.c = 10 and b.y > a.y", DAY
    ).root
    assert isinstance(found, Join)
    assert found.sql.endswith("WHERE b.y > a.y")
    below = [each.sql for each in found.inputs if isinstance(each, Project)]
    assert [text.endswith("WHERE a.c = 10") for text in below] == [False, True]


def test_rows_leave_by_a_predicate_on_time() -> None:
    text = f"select x, count(*) from {B} where ts > now() - interval 1 day and x > 0 group by x"
    found = plan_query.plan(text, KNOWN).dataflow  # bounded
    assert found is not None and keeping(found) == [TemporalFilter, GroupAggregate]
    (recent,) = (each for each in found.operators if isinstance(each, TemporalFilter))
    assert (recent.lasts, recent.relation.changes) == (DAY, True)


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
    with pytest.raises(Unbounded) as refusal:
        plan_query.plan(text, KNOWN, None, domains)
    assert found in str(refusal.value)
    assert "state_ttl" in str(refusal.value)
    if "join" not in text:
        assert "WHERE ts >= CURRENT_TIMESTAMP() - INTERVAL '7' DAY" in str(refusal.value)
    plan_query.plan(text, KNOWN, DAY, domains)
    plan(text)


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
    plan_query.plan(text, KNOWN, None, domains)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"select * from (select *, row_number() over (partition by x) as rn from {B}) where rn <= 3",
            "has no ORDER BY, so any row could come first",
        ),
        (f"select * from {B} limit 10", "'LIMIT 10' over a stream without ORDER BY"),
        (f"select * from {B} order by x offset 3", "sets no upper bound; write LIMIT and a number"),
        (
            f"select x from {BEST} where ts > now() - interval 1 day",
            "over an updating input is not supported; put it into the model that computes that input",
        ),
        (f"select * from {B} order by all limit 3", "name the columns to order by"),
        (
            f"with r as (select *, uuid() as id from {B}) select a.x from r a join r b on a.id = b.id",
            "joins streams and holds a function that gives another value each time",
        ),
        (
            f"select x, count(*) over (partition by x) * (select max(f) from dims) as n from {B}",
            "asks a table, and is computed again when its rows change: with the table as it is then, not as it was.",
        ),
    ],
)
def test_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(QueryError) as refusal:
        plan(text)
    assert sentence in str(refusal.value)
    with pytest.raises(QueryError) as refusal:
        plan_query.plan(text, KNOWN, DAY)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "kinds", "sentence"),
    [
        (
            f"select * from (select *, row_number() over (partition by x order by y) as rn from {B})",
            [Recompute],
            "'ROW_NUMBER() OVER (PARTITION BY x ORDER BY y)' ranks all rows that ever come; say how many are asked for: "
            "WHERE rn <= 10",
        ),
        (
            f"select * from (select *, rank() over (order by n) as r from ({GROUPS})) where n > 3",
            [GroupAggregate, Recompute],
            "it keeps something for every value of item, bidder",
        ),
        (
            f"select x, lag(y) over (partition by x order by ts) as l from {B}",
            [OverAggregate],
            "it keeps the last row for every value of x",
        ),
        (
            f"select * from (select *, rank() over (order by x) as a, rank() over (order by y) as b from {B}) where a < 3",
            [Recompute],
            "ranks all rows that ever come; say how many are asked for: WHERE a <= 10",
        ),
        (f"select distinct * from {B}", [SetOperation], "it keeps every different row that ever comes"),
        (
            f"select b.x from {B} b left join {A} a on a.x = b.x",
            [Recompute],
            "it keeps every row of both sides that ever comes",
        ),
        (
            f"select b.x from {B} b full join {A} a on a.x = b.x",
            [Recompute],
            "it keeps every row of both sides that ever comes",
        ),
        (
            f"select b.x from {B} b join (select x, count(*) as n from {A} group by x) a on a.x = b.x",
            [GroupAggregate, Join],
            "it keeps something for every value of x that ever comes",
        ),
        (
            f"select x from {B} union select x from {A}",
            [SetOperation],
            "it keeps every different row that ever comes",
        ),
        (
            f"select b.x from {B} b join {BEST} a on a.x = b.x",
            [Join],
            "or bound the time between them on both sides, as in a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR",
        ),
    ],
)
def test_what_keeps_all_rows_needs_only_an_end(text: str, kinds: list[type[Operator]], sentence: str) -> None:
    """Flink's planner has these, too; of whole streams they are refused where nothing bounds what is kept."""
    with pytest.raises(Unbounded) as refusal:
        plan_query.plan(text, KNOWN)
    assert sentence in str(refusal.value)
    assert keeping(flow(text)) == keeping(flow(text, DAY)) == kinds
    plan_query.plan(text, KNOWN, DAY)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (f"select percentile(x, 0.5) from {BEST}", [Recompute]),
        (f"select x from {B} union all select x from {BEST}", []),
    ],
)
def test_what_rows_that_change_bound_needs_no_end(text: str, kinds: list[type[Operator]]) -> None:
    found = plan_query.plan(text, KNOWN).dataflow
    assert found is not None and found.root.relation.changes
    assert keeping(found) == kinds


def test_what_is_random_and_read_twice_is_one_operator() -> None:
    made = f"with r as (select *, uuid() as id from {B}) select x, id from r union all select price as x, id from r"
    flow = plan_query.plan(made, KNOWN, DAY).dataflow
    assert flow is not None
    assert sum("UUID()" in str(getattr(each, "sql", "")) for each in flow.operators) == 1


def test_a_group_that_can_not_be_found_again_is_taken_away_as_the_row_it_was() -> None:
    upsert = generate.program(plan(f"select count(*) as n from {B} group by x")).upsert
    assert upsert is not None
    assert (upsert.key, upsert.change) == (None, "result_change")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("select item, median(price) as m from {} group by item", ("item",)),
        ("select item, median(price) as m from {} as t group by t.item", ("item",)),
        (
            "select item, bidder, max(price) as m, grouping_id() as i from {} group by cube (item, bidder)",
            ("bidder", "i", "item"),
        ),
        (
            "select item, bidder, median(price) as m, grouping_id() as i from {} group by cube (item, bidder)",
            ("bidder", "i", "item"),
        ),
        # A subtotal and a group whose key is NULL look alike, and so do groups by a part of their key.
        ("select item, bidder, median(price) as m from {} group by rollup (item, bidder)", None),
        ("select item, median(price) as m from {} group by grouping sets ((item), (item))", None),
        ("select upper(item) as item, median(price) as m from {} group by item", None),
        ("select median(price) as m from {} group by item", None),
        # A rank that isn't selected.
        ("select * from {} order by price limit 5", None),
        (
            "select * except (n) from (select *, row_number() over (order by ts) as n from {}) where n <= 5",
            None,
        ),
        ("select * from (select *, row_number() over (order by ts desc) as n from {}) where n <= 5", ("n",)),
    ],
)
def test_what_tells_groups_apart(text: str, key: tuple[str, ...] | None) -> None:
    upsert = generate.program(plan(text.format(B), DAY), ttl=DAY).upsert
    assert upsert is not None
    assert upsert.key == key


@pytest.mark.parametrize("rows", ["stack(2, 1, 2)", "inline(array(struct(1)))", "explode(array(1))"])
def test_a_row_that_becomes_several_has_no_key(rows: str) -> None:
    """Nothing tells what it becomes apart: the table and what changes are added up."""
    upsert = generate.program(plan(f"select item, bidder, n, {rows} from ({GROUPS})", DAY), ttl=DAY).upsert
    assert upsert is not None
    assert (upsert.key, upsert.change) == (None, "result_change")


def test_how_long_is_measured_in_event_time() -> None:
    with pytest.raises(
        QueryError, match="no stream of this query says which column that is; give one dbt's config"
    ):
        plan_of(f"select x, count(*) from {B} group by x", {}, DAY)


@pytest.mark.parametrize(
    "text",
    [
        f"select d.c, sum(b.y) as s from {BEST} as b join dims as d on d.x = b.x group by d.c",
        f"select bucket, sum(y) as s from (select pmod(hash(uuid()), 8) as bucket, y from {BEST}) group by 1",
        f"select day, sum(y) as s from (select date(current_timestamp()) as day, y from {BEST}) group by 1",
        f"select day, sum(y) as s from (select date'today' as day, y from {BEST}) group by 1",
    ],
)
def test_what_is_taken_away_must_be_what_was_added(text: str) -> None:
    """So what each row gave is kept."""
    assert keeping(flow(text)) == [MaterializedProject, GroupAggregate]


@pytest.mark.parametrize("key", ["pmod(hash(uuid()), 8)", "date(current_timestamp())"])
def test_a_group_key_is_the_same_each_time(key: str) -> None:
    assert keeping(flow(f"select {key} as k, sum(y) as s from {B} group by 1")) == [GroupAggregate]
    with pytest.raises(QueryError) as refusal:
        plan(f"select {key} as k, sum(y) as s from {BEST} group by 1")
    assert (
        "groups and holds a function that gives another value each time; compute it in a query below"
        in str(refusal.value)
    )


def test_a_list_of_values_has_the_same_rows_each_time() -> None:
    text = (
        f"select d.c, sum(b.y) as s from {BEST} as b join values (1, 2) as d(x, c) on d.x = b.x group by d.c"
    )
    assert keeping(flow(text)) == [GroupAggregate]


def test_rows_that_come_and_go_are_undone_or_counted_by_value() -> None:
    found = flow(f"select x, count(*), sum(y), avg(y), max(y), count(distinct z) from {BEST} group by x")
    # The feed says what goes: nothing of it is kept.
    assert keeping(found) == [GroupAggregate]
    (group,) = found.groups.values()
    assert group.stage.signed
    assert [metric.distinct_set for metric in group.stage.metrics] == [
        None,
        None,
        None,
        "distinct_y",
        "distinct_z",
    ]


@pytest.mark.parametrize("given", [[], ["city"], ["item"], ["upper"], ["x"], ["Item", "x"]])
def test_the_domains_that_are_proposed_are_the_whole_list(given: list[str]) -> None:
    text = f"select city, count(*) as n, x + y from {B} group by city, item, upper, x + y"
    with pytest.raises(Unbounded) as refusal:
        plan_query.plan(text, KNOWN, None, given)
    proposed = re.search(r"constant_domains: (\[[^]]*\])", str(refusal.value))
    assert proposed
    assert ast.literal_eval(proposed[1]) == ["city", "item", "upper", "x", "y"]
    plan_query.plan(text, KNOWN, None, ast.literal_eval(proposed[1]))


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
    with pytest.raises(Unbounded) as refusal:
        plan_query.plan(text, KNOWN, None, domains)
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
    with pytest.raises(Unbounded, match=r"^The state of this query grows"):
        plan_query.plan(text, KNOWN, None, [domain])
    plan_query.plan(text, KNOWN, None, [domain, "item"])


def test_the_last_rows_of_keys_grow_with_these() -> None:
    known = {"raw.bid": Known("ts", ("id", "at"))}
    text = f"select x, count(*) from {B} group by x"
    assert keeping(flow(text, known=known)) == [ChangelogNormalize, GroupAggregate]
    with pytest.raises(Unbounded, match=r"constant_domains: \['at', 'id', 'x'\]"):
        plan_query.plan(text, known, None, ["x"])
    plan_query.plan(text, known, None, ["id", "at"])


def test_rows_of_a_feed_that_nothing_tells_apart() -> None:
    known = {"raw.bid": Known(None, (), changes=True)}
    assert keeping(flow(f"select sum(n) as n from {B}", known=known)) == [GroupAggregate]
    # One of the equal rows is taken away.
    found = plan_of(f"select n from {B}", known)
    assert keeping(found.dataflow) == []
    upsert = generate.program(found).upsert
    assert upsert is not None
    assert (upsert.key, upsert.change) == (None, "result_change")


def test_windows_over_what_changes_do_not_put_themselves_out() -> None:
    over = expansion.expand("raw.best", window_arguments.make("tumble", "ts", "1 hour"))
    text = f"select window_start, window_end, count(*) as n from {over} group by 1, 2"
    assert plan_query.plan(text, KNOWN).windows is None
    assert plan_query.plan(text.replace("best", "bid"), KNOWN).windows is not None


def test_a_query_row_by_row_has_no_state() -> None:
    found = plan(f"select x + 1 as y from {B} where x > 3")
    assert found.dataflow.is_stateless
    program = generate.program(found)
    assert (program.levels, program.again) == ((), ())


FIRST = (
    f"select * from (select *, row_number() over (partition by z order by ts) as rn from {B}) where rn = 1"
)


def test_first_rows_that_are_the_result_come_once() -> None:
    found = ranking(FIRST)
    assert (found.final, found.relation.changes) == (True, False)
    program = generate.program(plan(FIRST))
    assert program.upsert is None
    assert "due <= (select struct(*) from clock).watermark_after" in program.again[-1].sql
    (part,) = program.levels[0].parts
    assert part.closes == "due"


@pytest.mark.parametrize("ttl", [None, 10**12])
@pytest.mark.parametrize(
    ("above", "kinds"),
    [
        (
            "select n, count(*) as m from (select x, count(*) as n from {} group by x) group by n",
            [TopN, GroupAggregate, GroupAggregate],
        ),
        ("select percentile(y, 0.5) as p from {}", [TopN, Recompute]),
        (
            "select a.x, a.n from (select x, count(*) as n from {0} group by x) as a join "
            "(select x, max(y) as m from {0} group by x) as b on a.x = b.x",
            [TopN, GroupAggregate, GroupAggregate, Join],
        ),
    ],
)
def test_first_rows_below_something_come_at_once_and_are_taken_back(
    above: str, kinds: list[type[Operator]], ttl: int | None
) -> None:
    text = above.format(f"({FIRST})")
    assert keeping(flow(text, ttl)) == kinds  # read twice, they are one operator
    found = ranking(text, ttl)
    assert (found.final, found.relation.changes) == (False, True)
    program = generate.program(plan(text, ttl), ttl=ttl)
    assert program.upsert is not None
    texts = [step.sql for level in program.levels for step in level.ingest]
    assert not any("due" in each for each in texts)
    # How long what stands above is idle is measured on the watermark, since what is taken back has no time of its own.
    assert any("watermark_after as `__row_time`" in each for each in texts) == (ttl is not None)
    assert not any("as timestamp) as `__row_time`" in each for each in texts)


def test_rows_that_are_only_added_up_are_not_kept() -> None:
    (level,) = generate.program(plan(f"select x, sum(y) as s from {B} group by x")).levels
    (rows,) = level.rows
    assert rows.read_by == next(each.name for each in level.ingest if each.name.endswith("_changed"))
    assert not any(each.name == rows.name for each in level.ingest)
    # Looked up in the state, too.
    (level,) = generate.program(plan(f"select x, count(distinct y) as d from {B} group by x")).levels
    (kept,) = (each for each in level.ingest if each.name.endswith("_rows"))
    assert kept.persist and level.rows == ()
    # And how long a key is idle is measured on event time: rows without one are counted.
    text = f"select x, sum(y) as s from {B} group by x"
    (level,) = generate.program(plan(text, 10**12), ttl=10**12).levels
    (rows,) = level.rows
    assert (rows.timed, rows.expires, rows.read_by) == (True, False, None)
    assert not any(each.name == rows.name for each in level.ingest)


def test_results_are_made_without_a_look_at_the_state_where_it_was_just_written() -> None:
    groups = f"select x, z, sum(y) as s from {B} group by x, z"
    ranked = f"select * from (select *, row_number() over (partition by x order by s) as n from ({groups})) where n < 4"
    again = generate.program(plan(ranked)).again
    assert len(again) == 2
    assert all(step.fresh and "state" not in step.fresh for step in again)
    again = generate.program(plan(groups)).again
    changed = again[0].name.replace("_touched", "_changed")
    assert [step.fresh for step in again] == [f"select `x`, `z` from {changed}", None, None]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Europe/Berlin"])
def test_a_day_of_the_session_may_have_25_hours(zone: str) -> None:
    """Spark counts days on the session's clock: on 25 October 2026 a row may find one 25 hours later."""
    text = (
        "select a.id, b.x from (select /*+ STREAM */ * from raw.a) as a join (select /*+ STREAM */ * from raw.b) as b "
        "on a.id = b.id and b.ts between a.ts and a.ts + interval '1' day"
    )

    def ask(query: str) -> tuple[str, ...]:
        return (zone,) if query == "select current_timezone()" else ("struct<id:int,x:int,ts:timestamp>",)

    plan = plan_query.plan(text, {"raw.a": Known("ts"), "raw.b": Known("ts")}, ask=ask)
    join = plan.dataflow.root
    assert isinstance(join, Join)
    longer = 3 * HOUR if zone == "Europe/Berlin" else 0
    assert [until[-1][1] for until in join.until] == [DAY + longer, 0]


@pytest.mark.parametrize(
    ("over", "ttl", "leaves_out"),
    [
        (
            "row_number() over (partition by item order by price desc, ts)",
            None,
            "own.__ranked.`__order_0` < ",
        ),
        ("rank() over (order by price)", None, "own.__ranked.`__order_0` > "),
        ("dense_rank() over (partition by item order by price desc)", None, None),
        ("rank() over (partition by item order by price desc)", DAY, None),
        # Each comes once, when no other can come before it.
        ("row_number() over (partition by item order by ts)", None, None),
    ],
)
def test_which_rows_that_come_are_left_out(over: str, ttl: int | None, leaves_out: str | None) -> None:
    text = f"select item, price, place from (select *, {over} as place from {B}) where place <= 1"
    steps = generate.program(plan(text, ttl), ttl=ttl).levels[0].ingest
    whole = [step.whole for step in steps if step.whole is not None]
    assert len(whole) == (leaves_out is not None)
    assert all(leaves_out in each.sql and each.of_many for each in whole if leaves_out is not None)
