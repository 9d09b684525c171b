"""A table put together from ranges of windows, in any pieces and order, is the table computed at once."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.batch.window_range import WindowOverwriter
from dbt.adapters.spark_streaming.query.sql.intervals import HOUR, MINUTE
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.query.windows.ranges import TimeRange
from tests.planned import plan_of
from tests.reference import to_micros
from tests.thorough import mostly_thorough

# Across a change of clocks in Berlin.
START = to_micros(datetime(2024, 3, 30, 12, tzinfo=timezone.utc))
HOURS = 30
EVENTS = "default.ranges_events"

Row = tuple[Any, ...]


def window(kind: str, *lengths: str, relation: str = EVENTS, time: str = "ts", **options: Any) -> str:
    return expansion.expand_window(relation, window_arguments.make_window(kind, time, *lengths, **options))


def counted(rows: str) -> str:
    return (
        "select window_start, window_end, window_time, k, count(*) as n, count(distinct x) as xs, sum(x) as s "
        f"from {rows} group by window_start, window_end, window_time, k"
    )


KEYED: Any = {"partition_by": ["k"]}
HOP = counted(window("hop", "20 minutes", "50 minutes", offset="7 minutes"))
SESSION = counted(window("session", "4 minutes", **KEYED))
TOP = f"""select window_start, window_end, k, x from (
  select *, row_number() over (partition by window_start, window_end order by x desc) as rn
  from {window("hop", "30 minutes", "1 hour")}) where rn <= 3"""
TEXTS = {
    "tumble": counted(window("tumble", "1 hour", offset="-4 minutes")),
    "hop": HOP,
    "cumulate": counted(window("cumulate", "20 minutes", "4 hours", offset="10 minutes")),
    "cumulate_on_change": counted(window("cumulate", "20 minutes", "4 hours", emit="on_change")),
    "day_of_a_zone": counted(window("cumulate", "90 minutes", "24 hours", time_zone="Europe/Berlin")),
    "hop_of_a_zone": counted(window("hop", "30 minutes", "45 minutes", time_zone="Europe/Berlin")),
    "session": SESSION,
    "dynamic_cumulate": counted(window("dynamic_cumulate", "2 minutes", "4 minutes", **KEYED)),
    "dynamic_of_a_zone": counted(
        window("dynamic_cumulate", "2 minutes", "4 minutes", time_zone="Europe/Berlin", **KEYED)
    ),
    "kept_rows": TOP,
    "rows": f"select window_start, window_end, k, x from {window('hop', '30 minutes', '1 hour')}",
    "kept_sessions": f"select window_start, window_end, k, x from {window('session', '4 minutes', **KEYED)}",
    "stacked": f"with a as ({HOP}) select window_start, window_end, sum(n) as n, count(*) as c "
    f"from {window('tumble', '90 minutes', relation='a', time='window_time')} group by window_start, window_end",
    "sessions_below": f"with a as ({SESSION}) select window_start, window_end, sum(n) as n "
    f"from {window('tumble', '1 hour', relation='a', time='window_time')} group by window_start, window_end",
    "joined": f"select a.window_start, a.window_end, a.k, a.n, b.s from ({HOP}) as a join ({HOP}) as b "
    "on a.window_start = b.window_start and a.window_end = b.window_end and a.k = b.k and a.xs > 1",
}


@pytest.fixture(scope="module")
def events(spark: Any) -> str:
    """1,200 rows, some minutes with many, some hours with few; a file per day."""
    spark.sql("create namespace if not exists default")
    spark.sql(f"drop table if exists {EVENTS}")
    spark.sql(f"create table {EVENTS} (ts timestamp, k int, x int) using iceberg partitioned by (days(ts)) ")
    insert(spark, 0, 1200)
    return EVENTS


def insert(spark: Any, first: int, after: int) -> None:
    minutes = HOURS * 60
    spark.sql(
        f"""insert into {EVENTS}
        select timestamp_micros({START}L + (pmod(hash(id, 1), {minutes}) * 60L + pmod(hash(id, 2), 5) * 15) * 1000000) as ts,
          nullif(pmod(hash(id, 3), 5), 0) as k, pmod(hash(id, 4), 20) as x
        from range({first}, {after})
        where pmod(hash(id, 1) div 60, 7) <> 2"""
    )


class Table:
    """A table that windows are put into by ranges."""

    def __init__(self, spark: Any, text: str) -> None:
        self.spark = spark
        self.overwriting = WindowOverwriter(text, lambda query: tuple(spark.sql(query).first()))
        self.rows: Counter[Row] = Counter()

    def put(self, span: TimeRange) -> None:
        ends = self.overwriting.touched_windows(span)
        frame = self.spark.sql(self.overwriting.overwrite(ends).sql)
        place = frame.columns.index("window_end")

        def within(row: Row) -> bool:
            end = to_micros(row[place])
            return (ends.after is None or end > ends.after) and (ends.until is None or end <= ends.until)

        new = [tuple(row) for row in frame.collect()]
        assert all(map(within, new))
        self.rows = Counter({row: count for row, count in self.rows.items() if not within(row)}) + Counter(
            new
        )


def at_once(spark: Any, text: str) -> Counter[Row]:
    return Counter(tuple(row) for row in spark.sql(whole_query.batch_sql(plan_of(text))).collect())


def pieces(seed: int) -> list[TimeRange]:
    """The whole time and more, cut anywhere, in any order, a little of it twice."""
    chance = random.Random(seed)
    lowest, highest = START - 6 * HOUR, START + (HOURS + 6) * HOUR
    first, second = sorted(chance.randrange(START, START + HOURS * HOUR) for _ in range(2))
    found = [TimeRange(lowest, first), TimeRange(first, second + 7 * MINUTE), TimeRange(second, highest)]
    chance.shuffle(found)
    return found


_IN_CI = {"cumulate_on_change"}


@pytest.mark.parametrize("name", mostly_thorough(TEXTS, _IN_CI))
def test_any_pieces_in_any_order(spark: Any, events: str, name: str) -> None:
    table = Table(spark, TEXTS[name])
    for piece in pieces(seed=len(name)):
        table.put(piece)
    assert table.rows == at_once(spark, TEXTS[name])


@pytest.mark.thorough
@pytest.mark.parametrize("name", mostly_thorough(["hop", "session", "dynamic_cumulate"], ["session"]))
def test_rows_that_came_later_are_in_once_their_range_was_put_anew(
    spark: Any, events: str, name: str
) -> None:
    late = START + 9 * HOUR + 30 * MINUTE
    table = Table(spark, TEXTS[name])
    table.put(TimeRange())
    # They make one session of what were several.
    spark.sql(
        f"insert into {EVENTS} select timestamp_micros({late}L + id * 60000000L) as ts, 1 as k, 99 as x from range(30)"
    )
    try:
        before = table.rows
        table.put(TimeRange(late, late + 30 * MINUTE))
        assert table.rows != before
        assert table.rows == at_once(spark, TEXTS[name])
    finally:
        spark.sql(f"delete from {EVENTS} where x = 99")


def test_only_the_input_of_the_windows_is_read(spark: Any, events: str) -> None:
    table = Table(spark, TEXTS["tumble"])
    day = TimeRange(START + 14 * HOUR, START + 15 * HOUR)
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        frame = spark.sql(table.overwriting.overwrite(table.overwriting.touched_windows(day)).sql)
        frame.collect()
        plan = frame._jdf.queryExecution().executedPlan()
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert "ts >= " in plan.toString()
    scans = [leaf for leaf in _leaves(plan) if "ranges_events" in leaf.toString()]
    files = spark.table(f"{EVENTS}.files").count()
    assert scans
    for scan in scans:
        assert scan.metrics().get("resultDataFiles").get().value() < files


def _leaves(plan: Any) -> list[Any]:
    leaves = plan.collectLeaves()
    return [leaves.apply(number) for number in range(leaves.size())]


@pytest.mark.thorough
def test_a_day_is_whole_where_clocks_change(spark: Any, events: str) -> None:
    """23 hours of the last day of March: the range is one day of the zone, and not more of the next."""
    table = Table(spark, TEXTS["day_of_a_zone"])
    noon = datetime(2024, 3, 31, 12, tzinfo=timezone.utc)
    table.put(TimeRange(to_micros(noon), to_micros(noon + timedelta(hours=1))))
    starts = {row[0] for row in table.rows}
    assert datetime(2024, 3, 30, 23) in {start.replace(tzinfo=None) for start in starts}
