"""What `current_timestamp()` is: the watermark in a predicate on event time, with and without windows."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.errors import QueryError, UnboundedStateError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.normalize import event_clock
from dbt.adapters.spark_streaming.query.plan.operator import Operator, inputs_first
from dbt.adapters.spark_streaming.query.plan.operators.project import Project
from dbt.adapters.spark_streaming.query.plan.operators.source import Source
from dbt.adapters.spark_streaming.query.plan.operators.temporal_filter import TemporalFilter
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.dialect import parse
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of, signature_of, tree_of, windows_of

BIDS, ASKS = "(select /*+ STREAM */ * from bids)", "(select /*+ STREAM */ * from asks)"
KNOWN = {"bids": RelationInfo("ts"), "asks": RelationInfo("ts")}
AGO = "current_timestamp() - interval '1' hour"
COUNTED = "select window_start, window_end, {} as n from {} group by window_start, window_end"
NOW = "(SELECT STRUCT(*) FROM clock).now_before"
THE_WATERMARK = f"COALESCE({NOW}, TIMESTAMP_MICROS(-62135596800000000)) - INTERVAL '1' HOUR"


def window(of: str = "bids", time: str = "ts", kind: str = "tumble") -> str:
    return expansion.expand_window(of, window_arguments.make_window(kind, time, "10 minutes"))


def windows(
    where: str = "", below: str = "select * from bids", time: str = "ts", items: str = "count(*)"
) -> Plan:
    return plan_of(COUNTED.format(items, f"{window(f'({below})', time)} {where}"), KNOWN)


def groups(text: str) -> Plan:
    return plan_of(text, KNOWN, 10**12)


@pytest.mark.parametrize(
    ("below", "time"),
    [
        (f"select * from bids where ts > {AGO}", "ts"),
        (f"select * from bids where price > 0 and {AGO} < ts", "ts"),
        (f"select * from bids where ts > {AGO.replace('current_timestamp', 'now')}", "ts"),
        (f"select * from (select ts as t, price from bids) where t > {AGO}", "t"),
        (f"select * from (select timestamp_millis(ms) as t, price from bids) where t > {AGO}", "t"),
        (
            f"select * from (select ts, item from {BIDS} union all select ts, x from {ASKS}) where ts > {AGO}",
            "ts",
        ),
    ],
)
def test_below_a_window_it_is_the_watermark_before_the_micro_batch(below: str, time: str) -> None:
    plan = windows(below=below, time=time)
    assert THE_WATERMARK in plan.dataflow.window_specs[0].rows
    assert "CURRENT_TIMESTAMP" not in plan.dataflow.window_specs[0].rows
    # Where closed windows are computed again, all rows come in at once; and the state knows what the author wrote.
    assert "clock as (\n  select cast(null as timestamp) as now_before\n)" in whole_query.batch_sql(plan)
    assert "now_before" not in str(signature_of(plan))


def test_rows_far_ahead_are_left_out_by_a_time_that_stands_there() -> None:
    """As the page on time advises; the watermark would be no bound from above."""
    plan = windows(below="select * from bids where ts < timestamp'2050-01-01'")
    assert "2050-01-01" in plan.dataflow.window_specs[0].rows
    assert THE_WATERMARK not in plan.dataflow.window_specs[0].rows


def test_and_right_above_it() -> None:
    assert THE_WATERMARK in windows(f"where ts > {AGO}").dataflow.window_specs[0].rows
    assert THE_WATERMARK in windows_of(f"select * from {window()} where ts > {AGO}").sql


def test_in_batch_it_is_the_clock_of_the_machine() -> None:
    for where in (f"ts > {AGO}", "ts <= now()", "date(ts) = current_date()"):
        text = COUNTED.format("count(*)", f"{window()} where {where}")
        made = whole_query.batch_sql(plan_query.plan_windows(text, batch=True))
        assert "clock" not in made
        assert "CURRENT_" in made or "NOW()" in made


def test_without_windows_rows_leave_again() -> None:
    for text in (
        f"select item, count(*) as n from {BIDS} where ts > {AGO} group by item",
        f"select b.item from {BIDS} as b join dims as d on b.item = d.item where b.ts > {AGO}",
        f"select item, count(*) as n from {BIDS} where TS > {AGO} group by item",
        f"select item, count(*) as n from (select item, ts as T from {BIDS}) where t > {AGO} group by item",
    ):
        flow = groups(text).dataflow
        assert flow is not None and flow.root.relation.changes
        (recent,) = (each for each in flow.operators if isinstance(each, TemporalFilter))
        assert recent.lasts == 3_600_000_000
        # Of what is right over the stream, before anything is made of it.
        assert all(isinstance(each, Source | Project) for each in inputs_first(recent.inputs[0]))
        assert not any("CURRENT_TIMESTAMP" in getattr(each, "sql", "") for each in flow.operators)


@pytest.mark.parametrize(
    ("where", "clock"),
    [
        ("date(ts) = current_date()", "CURRENT_DATE"),
        ("ts > localtimestamp() - interval 1 hour", "LOCALTIMESTAMP()"),
        ("ts > localtimestamp - interval 1 hour", "localtimestamp"),
        ("unix_timestamp(ts) > unix_timestamp() - 3600", "CURRENT_TIMESTAMP()"),
        ("ts <= now()", "NOW()"),
        (f"ts between {AGO} and current_timestamp()", "CURRENT_TIMESTAMP()"),
        (f"(ts > {AGO} or price > 3)", "CURRENT_TIMESTAMP()"),
        (f"date_trunc('hour', ts) > {AGO}", "CURRENT_TIMESTAMP()"),
        (f"window_end > {AGO}", "CURRENT_TIMESTAMP()"),
        ("ts > timestamp 'now' - interval 1 day", "CAST('now' AS TIMESTAMP)"),
        ("ts > cast(' Today UTC' as timestamp)", "CAST(' Today UTC' AS TIMESTAMP)"),
        ("date(ts) = date 'yesterday'", "CAST('yesterday' AS DATE)"),
        ("date(ts) < to_date('tomorrow')", "TO_DATE('tomorrow')"),
    ],
)
def test_what_no_row_can_be_judged_by(where: str, clock: str) -> None:
    sentence = f"compares event time with {clock}. In a streaming model that clock is the watermark"
    with pytest.raises(QueryError) as refusal:
        windows(f"where {where}")
    assert sentence in str(refusal.value)
    assert "write ts > current_timestamp() - INTERVAL '1' DAY" in str(refusal.value)
    if "window_end" not in where:
        with pytest.raises(QueryError) as refusal:
            groups(f"select item, count(*) as n from {BIDS} where {where} group by item")
        assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    "text",
    [
        f"select item, max(ts) as m from {BIDS} group by item having m > {AGO}",
        f"select * from (select item, max(ts) as m from {BIDS} group by item) where m > {AGO}",
        f"select * from (select *, row_number() over (partition by item order by ts) as rn from {BIDS}) "
        f"where rn = 1 and ts > {AGO}",
        f"select item, case when ts > {AGO} then 1 end as c from {BIDS}",
        f"select item, count(*) filter (where ts > {AGO}) as n from {BIDS} group by item",
        f"select b.item from {BIDS} as b join dims as d on b.item = d.item and b.ts > {AGO}",
        f"select a.item, b.x from {BIDS} as b join {ASKS} as a on a.item = b.item where a.ts > {AGO}",
        f"select * from (select * from {BIDS} where ts > {AGO}) where ts > now() - interval 2 minutes",
        f"select * from (select ts from {BIDS} union all select ts from {ASKS}) where ts > {AGO}",
        f"select window_end, n from ({COUNTED.format('max(ts)', window())}) where n > {AGO}",
    ],
)
def test_nor_where_rows_are_no_longer_the_streams(text: str) -> None:
    with pytest.raises(QueryError, match="compares event time with"):
        groups(text)


RECENT_BIDS = f"(select * from {BIDS} where ts > {AGO})"


def operators(
    text: str, ttl: int | None = None, known: dict[str, RelationInfo] = KNOWN
) -> dict[str, Operator]:
    flow = tree_of(text, known, ttl).dataflow
    assert flow is not None
    return {type(each).__name__: each for each in flow.operators}


def test_in_a_tree_of_operators_rows_come_and_leave() -> None:
    joined = operators(f"select b.item, a.x from {RECENT_BIDS} as b join (select * from {ASKS} where ts >= {AGO}) as a "
        "on a.item = b.item")  # fmt: skip
    assert "TemporalFilter" in joined
    assert joined["Join"].growth is None  # both sides are bounded
    with pytest.raises(UnboundedStateError, match="every row of both sides"):
        operators(f"select b.item, a.x from {RECENT_BIDS} as b join {ASKS} as a on a.item = b.item")


def test_what_a_row_is_computed_from_is_kept_with_it() -> None:
    made = operators(
        f"select item, n from (select b.item, d.n, b.price from {BIDS} as b join dims as d on b.item = d.item "
        f"where b.ts > {AGO} and b.price > 3) where n > 2"
    )
    assert list(made) == ["Source", "Project", "TemporalFilter"]
    program = generate.generate_program(tree_of(f"select distinct item from {RECENT_BIDS}", KNOWN))
    (part,) = (each for each in program.parts if each.name.startswith("recent_"))
    assert part.closes is None  # the end of the input isn't the end of time
    assert part.forgets == 3_600_000_000


def test_what_keeps_rows_for_longer_than_state_ttl() -> None:
    text = f"select item from {RECENT_BIDS} except select item from {ASKS}"
    assert "TemporalFilter" in operators(text, 3_600_000_000)
    with pytest.raises(
        QueryError, match=r"keeps rows for longer than config 'state_ttl' does \(59 minutes\)"
    ):
        operators(text, 59 * 60_000_000)


def test_rows_that_change_do_not_leave() -> None:
    known = {"bids": RelationInfo("ts", ("item",), changes=True), "asks": RelationInfo("ts")}
    with pytest.raises(
        QueryError, match="over an updating input is not supported; put it into the model that"
    ):
        operators(f"select item from {RECENT_BIDS} union all select item from {ASKS}", None, known)


def test_with_windows_a_tree_of_operators_judges_a_row_when_it_comes() -> None:
    placed = f"select *, row_number() over (partition by item order by ts) as rn from {RECENT_BIDS}"
    of_first = window(f"(select * from ({placed}) where rn = 1)")
    text = f"select window_end, count(*) as n from {of_first} group by window_end"
    assert "TemporalFilter" not in operators(text, 10**12)
    flow = tree_of(text, KNOWN, 10**12).dataflow
    assert flow is not None
    (judging,) = (each for each in flow.operators if "now_before" in getattr(each, "sql", ""))
    # Right over the stream: what is kept above isn't judged again.
    assert isinstance(judging, Project)
    assert all(isinstance(each, Source | Project) for each in inputs_first(judging))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"select w.n, b.item from ({COUNTED.format('count(*)', window())}) as w "
            f"left join {BIDS} as b on b.ts = w.window_end where b.ts > {AGO}",
            "is next to a join, and rows are filtered .* before they are joined; write it in a query in FROM",
        ),
        (
            f"select window_end, stddev(price) as d from {window(kind='session')} where ts > {AGO} group by window_end",
            "would filter rows when their windows close",
        ),
    ],
)
def test_where_a_tree_of_operators_can_not_judge_rows(text: str, sentence: str) -> None:
    with pytest.raises(QueryError, match=sentence):
        operators(text, 10**12)


def test_nor_of_rows_that_are_kept() -> None:
    for text in (COUNTED.format("percentile(price, 0.5)", "{}"), COUNTED.format("count(*)", "{}")):
        kind = "tumble" if "percentile" in text else "session"
        with pytest.raises(QueryError, match=r"'ts > .*' would filter rows when .* into a CTE"):
            plan_query.plan_windows(text.format(f"{window(kind=kind)} where ts > {AGO}"))


@pytest.mark.parametrize("above", ["count(*) as n", "percentile(n, 0.5) as p"])
def test_nor_where_other_windows_stand_over_them(above: str) -> None:
    """Of windows over windows the upper ones' rows come when the lower ones close."""
    kept = f"{window(kind='session')} where ts > {AGO}"
    keys = "window_start, window_end, window_time"
    lower = f"select window_time as at, percentile(price, 0.5) as n from {kept} group by {keys}"
    text = f"select window_end, {above} from {window(f'({lower})', 'at')} group by window_start, window_end"
    with pytest.raises(QueryError, match=r"'ts > .*' would filter rows when .* into a CTE"):
        plan_query.plan(text, KNOWN)


def test_one_bound_is_enough() -> None:
    with pytest.raises(QueryError, match="both bound event time from below; keep the narrower one"):
        groups(f"select item from {BIDS} where ts > {AGO} and ts > now() - interval 2 hours")


def test_which_column_is_event_time_must_be_known() -> None:
    with pytest.raises(
        QueryError, match=r"nothing says which column of .* that is; give it its event_time in YAML"
    ):
        plan_of(f"select item from {BIDS} where ts > {AGO}")


def test_elsewhere_it_is_the_clock_of_the_machine() -> None:
    text = f"select item, now() - ts as age from {BIDS} where expires > {AGO}"
    output = generate.generate_program(groups(text), ttl=10**12).output
    assert output.endswith("WHERE expires > CURRENT_TIMESTAMP() - INTERVAL '1' HOUR")
    assert "NOW() - ts AS age" in output
    dims = "(select * from dims where valid > current_date())"
    assert (
        "CURRENT_DATE" in windows(f"as w join {dims} as d on w.item = d.item").dataflow.window_specs[0].rows
    )


def test_a_word_that_is_no_time_is_no_clock() -> None:
    for word in ("cast('now' as string)", "timestamp '2024-03-04 00:00:00'", "date 'epoch'", "date ''"):
        assert not any(map(event_clock.is_clock, parse(f"select {word} as x").walk()))


def test_an_interval_of_several_parts_is_their_sum() -> None:
    where = parse("select * from t where ts > current_timestamp() - interval 1 hour 5 minutes").args["where"]
    bound = event_clock.lower_bound(where.this)
    assert bound is not None
    assert bound[2] == 65 * 60 * 1_000_000


@pytest.mark.parametrize("call", ["datediff(ts)", "date_diff()"])
def test_a_call_without_its_arguments_is_left_to_spark(call: str) -> None:
    assert plan_of(f"select {call} as d from {BIDS}", KNOWN)
