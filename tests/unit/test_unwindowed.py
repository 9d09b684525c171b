"""Plans of queries without windows: strategies, bounds of state, and what is refused."""

from __future__ import annotations

import re

import pytest

from dbt.adapters.spark_streaming.query import expansion, generate, planner, window_arguments
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.intervals import DAY, HOUR, MINUTE
from dbt.adapters.spark_streaming.query.operators.base import Join
from dbt.adapters.spark_streaming.query.plan import JoinStage, KeptStage, Plan, TopStage
from dbt.adapters.spark_streaming.query.streams import Known
from dbt.adapters.spark_streaming.query.unwindowed import unbounded_state

B, A = "(select /*+ STREAM */ * from raw.bid)", "(select /*+ STREAM */ * from raw.ask)"
KNOWN = {"raw.bid": Known("ts"), "raw.ask": Known("ts"), "raw.best": Known("ts", ("id",), changes=True)}
BEST = "(select /*+ STREAM */ * from raw.best)"
METRICS = "count(*) as n, sum(price) as s, max(price) as hi, min(price) as lo"
GROUPS = f"select item, bidder, {METRICS} from {B} group by item, bidder"


def plan(text: str, ttl: int | None = None) -> Plan:
    return planner.plan(text, KNOWN, ttl)


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
    (found,) = [stage for stage in plan(text).stages if isinstance(stage, TopStage)]
    assert found.operator == operator


@pytest.mark.parametrize("rank", ["rank", "row_number", "dense_rank"])
def test_rows_of_a_ranking_are_not_compared(rank: str) -> None:
    """One may hold a MAP, and Spark can't."""
    found = generate.program(plan(top("s desc", rank=rank)))
    texts = [step.sql for level in found.levels for step in level.ingest]
    assert any("_row" in text for text in texts)
    assert not any(re.search(r"_row`? <=> ", text) for text in texts)


def test_forgotten_groups_come_back_worse() -> None:
    (found,) = [stage for stage in plan(top("n desc"), ttl=DAY).stages if isinstance(stage, TopStage)]
    assert found.operator == "RetractableTopN"


@pytest.mark.parametrize(
    ("condition", "lasts"),
    [
        ("a.ts between b.ts - interval '5' minute and b.ts + interval 1 hour", (HOUR + 1, 5 * MINUTE + 1)),
        (
            "a.ts between b.ts - interval 1 hour 5 minutes and b.ts + interval 1 hour",
            (HOUR + 1, HOUR + 5 * MINUTE + 1),
        ),
        ("a.ts >= b.ts and a.ts < b.ts + interval '10 minutes'", (10 * MINUTE + 1, 1)),
        ("b.ts <= a.ts + interval 2 minutes and b.ts > a.ts - interval 1 day", (DAY + 1, 2 * MINUTE + 1)),
        ("a.ts = b.ts", (1, 1)),
    ],
)
def test_how_long_rows_are_kept_for_a_join_in_time(condition: str, lasts: tuple[int, int]) -> None:
    (found,) = plan(f"select b.x from {B} as b join {A} as a on a.x = b.x and {condition}").stages
    assert isinstance(found, JoinStage)
    assert tuple(side.lasts for side in found.sides) == lasts
    assert found.growth is None


def test_a_left_join_keeps_what_may_be_missing_until_it_is() -> None:
    text = f"select b.x from {B} as b left join {A} as a on a.x = b.x and a.ts between b.ts - interval 1 hour and b.ts"
    (found,) = plan(text).stages
    assert isinstance(found, JoinStage)
    assert [side.lasts for side in found.sides] == [1, HOUR + 1]
    assert found.unmatched is not None


def test_what_a_row_must_have_is_asked_before_it_is_kept() -> None:
    (found,) = plan(
        f"select b.x from {B} as b join {A} as a on a.x = b.x where a.c = 10 and b.y > a.y", DAY
    ).stages
    assert isinstance(found, JoinStage)
    assert [side.rows.endswith("WHERE a.c = 10") for side in found.sides] == [False, True]


def test_rows_leave_by_a_predicate_on_time() -> None:
    (found,) = plan(
        f"select x, count(*) from {B} where ts > now() - interval 1 day and x > 0 group by x"
    ).stages
    assert isinstance(found, KeptStage)
    assert (found.lasts, found.growth) == (DAY, None)


@pytest.mark.parametrize(
    ("text", "domains", "found"),
    [
        (f"select city, count(*) from {B} group by city", [], "for every value of city"),
        (f"select city, item, count(*) from {B} group by 1, 2", ["city"], "constant_domains: ['item']"),
        (f"select upper(city) as c, count(*) from {B} group by 1", [], "constant_domains: ['c']"),
        (top("ts", of=B), [], "for every value of item"),
        (top("n desc"), ["item"], "constant_domains: ['bidder']"),
        (f"select b.x from {B} b join {A} a on a.x = b.x", ["x"], "for every row"),
        (f"select percentile(x, 0.5) as p from {B}", [], "for every row"),
    ],
)
def test_state_that_grows_for_ever_is_refused(text: str, domains: list[str], found: str) -> None:
    with pytest.raises(QueryError) as refusal:
        unbounded_state.check(plan(text), None, domains)
    assert found in str(refusal.value)
    assert "state_ttl" in str(refusal.value)
    if "join" not in text:
        assert "WHERE ts >= CURRENT_TIMESTAMP() - INTERVAL '7' DAY" in str(refusal.value)
    unbounded_state.check(plan(text, DAY), DAY, domains)


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
    unbounded_state.check(plan(text), None, domains)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"select * from (select *, row_number() over (partition by x order by y) as rn from {B})",
            "ranks all rows that ever come; say how many are asked for: WHERE rn <= 10",
        ),
        (
            f"select * from (select *, row_number() over (partition by x) as rn from {B}) where rn <= 3",
            "has no ORDER BY, so any row could come first",
        ),
        (
            f"select * from (select *, rank() over (order by n) as r from ({GROUPS})) where n > 3",
            "say how many are asked for",
        ),
        (f"select * from {B} limit 10", "'LIMIT 10' over a stream without ORDER BY"),
        (f"select * from {B} order by x offset 3", "sets no upper bound; write LIMIT and a number"),
        (
            f"select x, lag(y) over (partition by x order by ts) from {B}",
            "looks at other rows of a whole stream",
        ),
        (
            f"select * from (select *, rank() over (order by x) as a, rank() over (order by y) as b from {B}) where a < 3",
            "rank one stream in two ways",
        ),
        (f"select distinct * from {B}", "name the columns of a SELECT DISTINCT over a stream"),
        (
            f"select b.x from {B} b left join {A} a on a.x = b.x",
            "A LEFT JOIN of two streams puts a row out alone when no match can come any more",
        ),
        (
            f"select b.x from {B} b full join {A} a on a.x = b.x",
            "FULL JOIN of streams, with 'a', is not supported",
        ),
        (
            f"select b.x from {B} b join (select x, count(*) as n from {A} group by x) a on a.x = b.x",
            "'b' is a stream joined with rows that change",
        ),
        (f"select x from {B} union select x from {A}", "must be UNION ALL of streams"),
        (f"select percentile(x, 0.5) from {BEST}", "and the stream's rows change"),
        (
            f"select b.x from {B} b join {BEST} a on a.x = b.x",
            "A join of streams with raw.best, whose rows change",
        ),
        (f"select x from {B} union all select x from {BEST}", "UNION ALL with raw.best, whose rows change"),
        (
            f"select x from {BEST} where ts > now() - interval 1 day",
            "goes by over raw.best, whose rows change",
        ),
        (f"select * from {B} order by all limit 3", "name the columns to order by"),
        (
            f"with r as (select *, uuid() as id from {B}) select a.x from r a join r b on a.id = b.id",
            "WITH r holds a function that gives another value each time, and is read twice",
        ),
    ],
)
def test_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(QueryError) as refusal:
        plan(text)
    assert sentence in str(refusal.value)


def test_what_is_random_and_read_twice_is_one_operator() -> None:
    made = f"with r as (select *, uuid() as id from {B}) select x, id from r union all select price as x, id from r"
    flow = planner.plan_any(made, KNOWN, DAY).dataflow
    assert flow is not None
    assert sum("UUID()" in str(getattr(each, "sql", "")) for each in flow.operators) == 1


def test_a_group_has_to_be_found_again() -> None:
    with pytest.raises(QueryError, match="put x into the select list"):
        generate.program(plan(f"select count(*) as n from {B} group by x"))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("select item, median(price) as m from {} group by item", ("item",)),
        ("select item, median(price) as m from {} as t group by t.item", ("item",)),
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
def test_a_row_that_becomes_several_is_looked_for(rows: str) -> None:
    upsert = generate.program(plan(f"select item, bidder, n, {rows} from ({GROUPS})", DAY), ttl=DAY).upsert
    assert upsert is not None
    assert not upsert.certain


def test_how_long_is_measured_in_event_time() -> None:
    with pytest.raises(QueryError, match=r"raw\.bid doesn't say which column that is"):
        planner.plan(f"select x, count(*) from {B} group by x", {}, DAY)


@pytest.mark.parametrize(
    "text",
    [
        f"select d.c, sum(b.y) as s from {BEST} as b join dims as d on d.x = b.x group by d.c",
        f"select pmod(hash(uuid()), 8) as bucket, sum(y) as s from {BEST} group by 1",
        f"select date(current_timestamp()) as day, sum(y) as s from {BEST} group by 1",
    ],
)
def test_what_is_taken_away_must_be_what_was_added(text: str) -> None:
    """Else groups are computed from the rows that keys have."""
    found = plan(text)
    assert (found.whole, [type(stage).__name__ for stage in found.stages]) == (True, ["KeyedStage"])
    constant = plan(
        f"select d.c, sum(b.y) as s from {BEST} as b join values (1, 2) as d(x, c) on d.x = b.x group by d.c"
    )
    assert not constant.whole


def test_rows_that_come_and_go_are_undone_or_counted_by_value() -> None:
    found = plan(f"select x, count(*), sum(y), avg(y), max(y), count(distinct z) from {BEST} group by x")
    keyed, group = found.stages
    assert (keyed.feed, keyed.stored, group.signed) == (True, False, True)
    assert [metric.distinct_set for metric in group.metrics] == [None, None, None, "distinct_y", "distinct_z"]


def test_the_last_rows_of_keys_grow_with_these() -> None:
    known = {"raw.bid": Known("ts", ("id", "at"))}
    found = planner.plan(f"select x, count(*) from {B} group by x", known)
    with pytest.raises(QueryError, match=r"constant_domains: \['at', 'id'\]"):
        unbounded_state.check(found, None, ["x"])
    unbounded_state.check(found, None, ["id", "at"])


def test_a_feed_of_one_row_can_be_grouped() -> None:
    known = {"raw.bid": Known(None, (), changes=True)}
    assert len(planner.plan(f"select sum(n) as n from {B}", known).stages) == 2
    with pytest.raises(QueryError, match="No column tells the rows of the stream"):
        planner.plan(f"select n from {B}", known)


def test_windows_over_what_changes_are_refused() -> None:
    over = expansion.expand("raw.best", window_arguments.make("tumble", "ts", "1 hour"))
    with pytest.raises(QueryError, match=r"A window function over raw\.best: rows of that model change"):
        plan(f"select window_start, window_end, count(*) from {over} group by 1, 2")


def test_a_query_row_by_row_has_no_state() -> None:
    assert plan(f"select x + 1 as y from {B} where x > 3").stages == ()


@pytest.mark.parametrize("ttl", [None, 10**12])
@pytest.mark.parametrize(
    "above",
    [
        "select n, count(*) as m from (select x, count(*) as n from {} group by x) group by n",
        "select percentile(y, 0.5) as p from {}",
        "select a.x, a.n from (select x, count(*) as n from {0} group by x) as a join "
        "(select x, max(y) as m from {0} group by x) as b on a.x = b.x",
    ],
)
def test_rows_that_never_change_come_out_once_below_what_is_computed_anew(
    above: str, ttl: int | None
) -> None:
    first = f"(select * from (select *, row_number() over (partition by z order by ts) as rn from {B}) where rn = 1)"
    found = plan(above.format(first), ttl)
    assert found.whole
    lower, upper = generate.program(found, ttl=ttl).levels
    assert "due <= (select struct(*) from clock).watermark_after" in lower.emit[-1].sql
    # What the upper stage measures its keys' idle time on is handed up to it.
    handed = lower.emit[-1].sql.startswith(
        "select * except (`__by_0`, `__order_0`, `__row_time`), __row_time from"
    )
    assert handed == (ttl is not None)
    assert all(("__row_time" in rows.sql) == (ttl is not None) for rows in upper.rows)


def test_rows_that_are_only_added_up_are_not_kept() -> None:
    def read_by(text: str, ttl: int | None = None) -> list[str | None]:
        return [rows.read_by for rows in generate.program(plan(text, ttl), ttl=ttl).levels[0].rows]

    assert read_by(f"select x, sum(y) as s from {B} group by x") == ["stage_1_changed"]
    # Looked up in the state, too; and how long a key is idle is measured on the watermark after them.
    assert read_by(f"select x, count(distinct y) as d from {B} group by x") == [None]
    assert read_by(f"select x, sum(y) as s from {B} group by x", 10**12) == [None]


def test_results_are_made_without_a_look_at_the_state_where_it_was_just_written() -> None:
    groups = f"select x, z, sum(y) as s from {B} group by x, z"
    ranked = f"select * from (select *, row_number() over (partition by x order by s) as n from ({groups})) where n < 4"
    (level,) = generate.program(plan(ranked)).levels
    assert all(step.fresh and "state" not in step.fresh for step in level.emit)
    (level,) = generate.program(plan(groups)).levels
    assert [step.fresh for step in level.emit] == ["select `x`, `z` from stage_1_changed", None, None]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Europe/Berlin"])
def test_a_day_of_the_session_may_have_25_hours(zone: str) -> None:
    """Spark counts days on the session's clock: on 25 October 2026 a row may find one 25 hours later."""
    text = (
        "select a.id, b.x from (select /*+ STREAM */ * from raw.a) as a join (select /*+ STREAM */ * from raw.b) as b "
        "on a.id = b.id and b.ts between a.ts and a.ts + interval '1' day"
    )

    def ask(query: str) -> tuple[str, ...]:
        assert query == "select current_timezone()"
        return (zone,)

    plan = planner.plan_any(text, {"raw.a": Known("ts"), "raw.b": Known("ts")}, ask=ask)
    assert plan.dataflow is not None
    join = plan.dataflow.root
    assert isinstance(join, Join)
    longer = 3 * HOUR if zone == "Europe/Berlin" else 0
    assert [until[-1][1] for until in join.until] == [DAY + longer, 0]
