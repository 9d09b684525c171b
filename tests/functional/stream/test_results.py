"""Early results, late updates, and the tables and change feeds they go to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import comparing, whole_query
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql import intervals
from dbt.adapters.spark_streaming.query.windows import emission, expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.lifecycle import verifying
from dbt.adapters.spark_streaming.stream.sink.upsert import UpsertSink
from tests.planned import plan_of
from tests.thorough import mostly_thorough

from .harness import Stream, replayed, sorted_rows

MINUTE = 60_000
TEN = 10 * 60 * MINUTE
TUMBLE = "window_start timestamp, window_end timestamp, k string, n bigint, d bigint"


def select(window: Any, having: str = "") -> str:
    from_ = expansion.expand_window("events", window)
    return (
        "select window_start, window_end, k, count(*) as n, count(distinct x) as d "
        f"from {from_} group by window_start, window_end, k {having}"
    )


def made(spark: Any, root: Path, text: str, delay: int = 0, **configs: Any) -> Stream:
    """A stream whose changes are kept."""
    program = generate.generate_program(plan_of(text), emission.emission_from_configs(configs), upsert=True)
    return Stream(spark, root, program, TUMBLE, delay, changelog=True)


def fed(stream: Stream, *pieces: list[tuple[Any, ...]]) -> None:
    """Each piece as a micro-batch of its own."""
    for piece in pieces:
        stream.add(*piece)
        stream.run()


def at(minutes: float, key: str = "a", x: int = 1) -> tuple[Any, ...]:
    """An event some minutes after ten."""
    return (round(TEN + minutes * MINUTE), key, 1, x)


def changes(stream: Stream) -> list[tuple[Any, ...]]:
    """What changed, as (batch, type, window end in minutes after ten, key, n)."""
    rows = stream.spark.table(stream.model.changes).collect()
    plain = sorted_rows(
        (row["_batch_id"] // 1000, row["_change_type"], row["window_end"], row.k, row.n) for row in rows
    )
    return [(batch, kind, (end - TEN) / MINUTE, key, n) for batch, kind, end, key, n in plain]


@pytest.mark.thorough
def test_the_timeline_of_the_dynamic_table_paper(spark: Any, storage_root: Path) -> None:
    window = window_arguments.make_window("tumble", "ts", "30 minutes")
    stream = made(
        spark,
        storage_root,
        select(window),
        first_result_offset="-15 minutes",
        update_rate="5 minutes",
        complete_result_offset="2 minutes",
    )
    fed(stream, [at(minute) for minute in range(14)])
    # Then a row each minute: the watermark is where it is, so each batch is at one logical time.
    for minute in range(14, 34):
        fed(stream, [at(minute)])
    when = [(batch, n) for batch, kind, end, _, n in changes(stream) if end == 30 and kind != "update_before"]
    # Batches are numbered from the 13th minute on. Rows from 10:30 on are of the next window.
    assert sorted((13 + batch, n) for batch, n in when) == [(15, 16), (20, 21), (25, 26), (30, 30)]
    # At 10:32 nothing is new, so nothing is written; the result is complete.
    assert sorted_rows(replayed(stream.spark, stream.model)) == stream.rows()


@pytest.mark.thorough
def test_complete_results_wait_and_count_what_comes_meanwhile(spark: Any, storage_root: Path) -> None:
    window = window_arguments.make_window("tumble", "ts", "10 minutes")
    stream = made(spark, storage_root, select(window), complete_result_offset="2 minutes")
    fed(stream, [at(1)], [at(11)], [at(9)], [at(12)], [at(8)])
    assert changes(stream) == [(3, "insert", 10.0, "a", 2)]
    assert stream.run().late_rows == 0
    assert stream.spark.table(stream.model.state).count() > 0


@pytest.mark.thorough
def test_late_rows_update_until_the_last_result(spark: Any, storage_root: Path) -> None:
    window = window_arguments.make_window("cumulate", "ts", "5 minutes", "10 minutes")
    stream = made(spark, storage_root, select(window), late_updates=True, last_result_offset="5 minutes")
    late = 0
    for piece in ([at(1)], [at(11)], [at(2, x=2)], [at(12, "b")], [at(14.5)], [at(15)], [at(3), at(16)]):
        stream.add(*piece)
        late += stream.run().late_rows
    assert [change for change in changes(stream) if change[3] == "a" and change[2] <= 10] == [
        (1, "insert", 5.0, "a", 1),
        (1, "insert", 10.0, "a", 1),
        # The first step's last result was due at 10:10, a minute before.
        (2, "update_after", 10.0, "a", 2),
        (2, "update_before", 10.0, "a", 1),
    ]
    assert late == 1
    assert sorted_rows(replayed(stream.spark, stream.model)) == stream.rows()


@pytest.mark.thorough
def test_a_result_that_no_longer_passes_having_is_deleted(spark: Any, storage_root: Path) -> None:
    window = window_arguments.make_window("tumble", "ts", "10 minutes")
    text = select(window, "having count(*) < 3")
    stream = made(spark, storage_root, text, first_result_offset="-9 minutes", update_rate="1 minute")
    fed(stream, [at(1), at(2)], [at(3), at(4)], [at(5)])
    assert changes(stream) == [(0, "insert", 10.0, "a", 2), (1, "delete", 10.0, "a", 2)]
    assert stream.rows() == []


@pytest.mark.thorough
def test_early_results_of_a_session_that_goes_on(spark: Any, storage_root: Path) -> None:
    window = window_arguments.make_window("session", "ts", "10 minutes", partition_by=["k"])
    stream = made(
        spark, storage_root, select(window), first_result_offset="-9 minutes", update_rate="2 minutes"
    )
    fed(stream, [at(0)], [at(2, "b")], [at(8)], [at(11, "b")], [at(40, "c")])
    found = [(kind, end, key, n) for _, kind, end, key, n in changes(stream)]
    assert ("insert", 10.0, "a", 1) in found
    assert ("delete", 10.0, "a", 1) in found
    assert sorted_rows(replayed(stream.spark, stream.model)) == stream.rows()
    assert [row for row in stream.rows() if row[2] in "ab"] == [
        (TEN, TEN + 18 * MINUTE, "a", 2, 1),
        (TEN + 2 * MINUTE, TEN + 21 * MINUTE, "b", 2, 1),
    ]


OF_SESSIONS = "select window_start, window_end, k, {} from {} group by window_start, window_end, k"


def in_operators(spark: Any, root: Path, text: str, columns: str, **configs: Any) -> Stream:
    """A stream of what leaves its windows."""
    when = emission.emission_from_configs(configs)
    ttl = 30 * intervals.DAY
    plan = plan_query.plan(text, {"events": RelationInfo(event_time="ts")}, ttl, emission=when)
    return Stream(spark, root, generate.generate_program(plan, when, ttl=ttl), columns, changelog=True)


@pytest.mark.thorough
def test_early_results_of_sessions_that_are_joined_and_go_on(spark: Any, storage_root: Path) -> None:
    session = expansion.expand_window(
        "events", window_arguments.make_window("session", "ts", "10 minutes", partition_by=["k"])
    )
    text = f"""select l.window_start, l.window_end, l.k, l.n, r.d from ({OF_SESSIONS.format("count(*) as n", session)}) as l
        join ({OF_SESSIONS.format("count(distinct x) as d", f"(select * from {session} where x > 0)")}) as r
        on l.window_start = r.window_start and l.window_end = r.window_end and l.k = r.k"""
    stream = in_operators(
        spark, storage_root, text, TUMBLE, first_result_offset="-9 minutes", update_rate="2 minutes"
    )
    fed(stream, [at(0)], [at(2, "b")], [at(8, x=2)], [at(11, "b")], [at(40, "c")])
    found = [(kind, end, key, n) for _, kind, end, key, n in changes(stream)]
    assert ("insert", 10.0, "a", 1) in found
    assert ("delete", 10.0, "a", 1) in found
    assert sorted_rows(replayed(stream.spark, stream.model)) == stream.rows()
    assert [row for row in stream.rows() if row[2] in "ab"] == [
        (TEN, TEN + 18 * MINUTE, "a", 2, 2),
        (TEN + 2 * MINUTE, TEN + 21 * MINUTE, "b", 2, 1),
    ]


@pytest.mark.thorough
def test_early_and_late_results_of_windows_of_windows(spark: Any, storage_root: Path) -> None:
    small = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "5 minutes"))
    sums = f"""(select window_time as ts, k, count(*) as n from {small}
        group by window_start, window_end, window_time, k)"""
    large = expansion.expand_window(sums, window_arguments.make_window("tumble", "ts", "10 minutes"))
    text = f"""select window_start, window_end, k, sum(n) as n, max(n) as d from {large}
        group by window_start, window_end, k"""
    stream = in_operators(
        spark,
        storage_root,
        text,
        TUMBLE,
        first_result_offset="-5 minutes",
        late_updates=True,
        last_result_offset="4 minutes",
    )
    late = 0
    for piece in ([at(1)], [at(6), at(2)], [at(7)], [at(12)], [at(9)], [at(15)], [at(8), at(16)]):
        stream.add(*piece)
        late += stream.run().late_rows
    assert [change for change in changes(stream) if change[2] == 10 and change[1] != "update_before"] == [
        (1, "insert", 10.0, "a", 3),
        # At the end of the window, and for a row that comes late; the next one comes too late.
        (3, "update_after", 10.0, "a", 4),
        (4, "update_after", 10.0, "a", 5),
    ]
    assert late == 1
    assert sorted_rows(replayed(stream.spark, stream.model)) == stream.rows()


@pytest.mark.parametrize("point", mostly_thorough(["before the merge", "after the merge"], []))
def test_a_crash_between_change_feed_and_table(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    window = window_arguments.make_window("tumble", "ts", "10 minutes")
    stream = made(
        spark, storage_root, select(window), first_result_offset="-9 minutes", update_rate="1 minute"
    )
    fed(stream, [at(1)])
    write = UpsertSink._write

    def crash(self: UpsertSink, *arguments: Any) -> None:
        if point == "after the merge":
            write(self, *arguments)
        raise RuntimeError("power cut")

    monkeypatch.setattr(UpsertSink, "_write", crash)
    with pytest.raises(StreamError, match="power cut"):
        fed(stream, [at(3)])
    monkeypatch.undo()
    fed(stream, [at(12)])
    assert sorted_rows(replayed(stream.spark, stream.model)) == stream.rows()
    assert Counter((kind, end, n) for _, kind, end, _, n in changes(stream) if end == 10) == {
        ("insert", 10.0, 1): 1,
        ("update_before", 10.0, 1): 1,
        ("update_after", 10.0, 2): 1,
    }


@pytest.mark.thorough
def test_a_flush_that_changes_nothing_is_over(spark: Any, storage_root: Path) -> None:
    """The early results were complete, so no commit to the table says that the flush was; `verify` asks."""
    window = window_arguments.make_window("tumble", "ts", "10 minutes")
    text = select(window)
    when: dict[str, Any] = {"first_result_offset": "-8 minutes"}
    stream = made(spark, storage_root, text, **when)
    fed(stream, [at(1), at(5, "b")])
    early = stream.rows()
    assert len(early) == 2
    assert stream.flush().rows_out == 0
    plan = plan_of(text)
    asked = verifying.VerifyRequest(
        lambda views: comparing.replace_tables_by_views(whole_query.batch_sql(plan), views),
        comparing.columns_of_final_rows(plan),
        emission.emission_from_configs(when),
        has_windows=True,
        is_append=False,
        state_ttl=False,
        static=(),
    )
    found = verifying.verify(spark, stream.model, stream.program, asked)
    assert found.is_equal and found.difference.equal == 2 and found.until is None
    commits = len(stream.snapshots(stream.model.state))
    assert (stream.run().batches, stream.flush().batches) == (0, 0)
    assert len(stream.snapshots(stream.model.state)) == commits
    fed(stream, [at(21)])
    assert stream.flush().rows_out == 1
    assert [row for row in stream.rows() if row in early] == early
