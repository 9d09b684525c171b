"""What an incremental run recomputes, and what is wrong with one."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial
from typing import Any

import pytest
from dbt.adapters.base.relation import EventTimeFilter
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.cli.backfill import closed_part_of
from dbt.adapters.spark_streaming.environment.spark_errors import readable_error
from dbt.adapters.spark_streaming.project import batch
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.sql.intervals import DAY, HOUR
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.query.windows.ranges import TimeRange, WindowRange
from dbt.adapters.spark_streaming.relation import SparkStreamingRelation

HOURS = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "1 hour"))
SQL = f"select window_start, window_end, count(*) as n from {HOURS} group by window_start, window_end"


def node(**config: Any) -> dict[str, Any]:
    return {"name": "hours", "language": "sql", "config": config}


class Answers:
    """Answers queries by a word in them."""

    def __init__(self, **answers: int | None) -> None:
        self._answers = answers

    def __call__(self, query: str) -> tuple[int | None, ...]:
        return next((answer,) for word, answer in self._answers.items() if f"{word}(" in query)


def sentence(call: Any) -> str:
    with pytest.raises(QueryError) as raised:
        call()
    return str(raised.value)


# -- configs --------------------------------------------------------------------------------------


def test_a_strategy_that_doesnt_exist() -> None:
    assert str(batch.unknown_strategy_error("window+overwrit")) == (
        "incremental_strategy 'window+overwrit' is unknown. Built in are 'append', 'merge', 'delete+insert', "
        "'insert_overwrite', 'window_overwrite', 'microbatch'; one of your own needs a macro "
        "get_incremental_window_overwrit_sql."
    )


@pytest.mark.parametrize("strategy", ["merge", "delete+insert", "window_overwrite"])
def test_formats_whose_rows_dont_change(strategy: str) -> None:
    assert sentence(lambda: batch.check_strategy(node(), strategy, "parquet")) == (
        f"incremental_strategy '{strategy}' changes rows in place, which file_format 'parquet' can't; use "
        "iceberg, or the strategy 'append' or 'insert_overwrite'."
    )


def test_a_microbatch_of_files_needs_partitions() -> None:
    assert "overwrites partitions: set partition_by" in sentence(
        lambda: batch.check_strategy(node(), "microbatch", "parquet")
    )
    batch.check_strategy(node(partition_by=["day"]), "microbatch", "parquet")


@pytest.mark.parametrize("lookback", [-1, "a while", True])
def test_a_lookback_that_is_no_number(lookback: Any) -> None:
    assert sentence(lambda: batch.check_strategy(node(lookback=lookback), "window_overwrite", "iceberg")) == (
        f"config 'lookback' is {lookback!r}; write how many windows, 0 or more."
    )


def test_python_has_no_windows_to_plan() -> None:
    python = {**node(), "language": "python"}
    assert (
        sentence(lambda: batch.check_strategy(python, "window_overwrite", "iceberg"))
        == "incremental_strategy 'window_overwrite' is for models in SQL."
    )


@pytest.mark.parametrize(
    ("config", "values"),
    [
        ("merge_update_columns", ["", " ", [], {}, 5, False, [""], [None], {"a": 1}]),
        ("merge_exclude_columns", ["", {}, 0, [None]]),
        ("incremental_predicates", ["a = 1", "", {}, 5, [""]]),
        ("predicates", ["a = 1", 0]),
    ],
)
def test_lists_of_columns_and_conditions(config: str, values: list[Any]) -> None:
    for value in values:
        said = sentence(partial(batch.check_strategy, node(**{config: value}), "merge", "iceberg"))
        assert f"config '{config}' is {value!r}; write a " in said
    batch.check_strategy(node(**{config: None}), "merge", "iceberg")
    batch.check_strategy(node(unique_key="a", **{config: ["a"]}), "merge", "iceberg")
    if config != "merge_update_columns":
        batch.check_strategy(node(**{config: []}), "merge", "iceberg")


def test_a_key_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(batch.logger, "warning", warned.append)
    for strategy in ("merge", "delete+insert", "insert_overwrite", "one_of_mine"):
        batch.check_strategy(node(unique_key="a"), strategy, "iceberg")
    batch.check_strategy(node(), "append", "iceberg")
    assert not warned
    batch.check_strategy(node(unique_key="a"), "append", "iceberg")
    assert "'unique_key' has no effect under incremental_strategy 'append'" in warned[0]


@pytest.mark.parametrize("config", ["merge_update_columns", "merge_exclude_columns"])
@pytest.mark.parametrize("strategy", ["default", "append", "delete+insert", "insert_overwrite", "microbatch"])
def test_columns_of_merge_are_for_merge(config: str, strategy: str) -> None:
    shown = "append" if strategy == "default" else strategy
    assert sentence(lambda: batch.check_strategy(node(**{config: "a"}), strategy, "iceberg")) == (
        f"config '{config}' is for incremental_strategy 'merge', and this is '{shown}', which would ignore it; leave it "
        "out, or choose another strategy."
    )
    batch.check_strategy(node(**{config: "a"}), "one_of_mine", "iceberg")


@pytest.mark.parametrize("config", ["incremental_predicates", "predicates"])
def test_predicates_are_for_strategies_that_look_at_rows(config: str) -> None:
    given = {config: ["a = 1"]}
    for strategy, file_format in (
        ("append", "iceberg"),
        ("insert_overwrite", "iceberg"),
        ("microbatch", "parquet"),
    ):
        said = sentence(partial(batch.check_strategy, node(partition_by="d", **given), strategy, file_format))
        assert said.startswith(
            f"config '{config}' is for incremental_strategy 'merge', 'delete+insert', 'window_over"
        )
        assert ("of an Iceberg table" in said) == (file_format == "parquet")
        assert f"and this is '{strategy}'" in said
    for strategy in ("merge", "delete+insert", "window_overwrite", "microbatch", "one_of_mine"):
        batch.check_strategy(node(unique_key="a", **given), strategy, "iceberg")
    both = node(incremental_predicates=["a"], predicates=["b"], unique_key="a")
    assert sentence(lambda: batch.check_strategy(both, "merge", "iceberg")) == (
        "configs 'incremental_predicates' and 'predicates' both have a value, and mean the same; leave out 'predicates'."
    )


@pytest.mark.parametrize(
    "config", ["merge_update_columns", "merge_exclude_columns", "incremental_predicates", "predicates"]
)
def test_merge_without_a_key_only_inserts(config: str) -> None:
    assert sentence(lambda: batch.check_strategy(node(**{config: ["a"]}), "merge", "iceberg")) == (
        f"config '{config}' has no effect without unique_key, with which 'merge' finds the rows to update; add unique_key, "
        "or leave it out."
    )
    batch.check_strategy(node(unique_key="a", **{config: ["a"]}), "merge", "iceberg")


def test_rewrites_are_for_a_text_as_it_stands() -> None:
    found = sentence(lambda: batch.plan_window_overwrite(node(split_distinct=8), SQL, None, None, Answers()))
    assert found.startswith("config 'split_distinct' rewrites a query that is computed as a whole")


# -- ranges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("end", "what"), [(HOUR, "empty"), (0, "the wrong way round")])
def test_a_range_that_holds_nothing(end: int, what: str) -> None:
    start, until = "1970-01-01 01:00:00", f"1970-01-01 0{end // HOUR}:00:00"
    assert sentence(lambda: batch.require_nonempty_range(TimeRange(HOUR, end))) == (
        f"The range from {start} to {until} is {what}; its end must be after its start."
    )


def test_the_range_that_is_asked_for() -> None:
    found = batch.plan_window_overwrite(node(), SQL, TimeRange(HOUR + 1, HOUR + 2), None, Answers())
    assert found.condition == (
        "`window_end` > timestamp'1970-01-01T01:00:00Z' and `window_end` <= timestamp'1970-01-01T02:00:00Z'"
    )


def test_else_from_lookback_windows_before_the_newest_on() -> None:
    answers = Answers(max=10 * HOUR, min=None)
    condition = "`window_end` > timestamp'1970-01-01T0{}:00:00Z'"
    assert batch.plan_window_overwrite(node(), SQL, None, "db.t", answers).condition == condition.format(8)
    found = batch.plan_window_overwrite(node(lookback=0), SQL, None, "db.t", answers)
    assert found.condition == condition.format(9)


def test_else_all() -> None:
    assert batch.plan_window_overwrite(node(), SQL, None, None, Answers()).condition == "true"
    assert (
        batch.plan_window_overwrite(node(), SQL, None, "db.t", Answers(max=None, min=None)).condition
        == "true"
    )


class Reaches:
    """A table with windows that end from `oldest` on, over a stream that begins at `first`."""

    def __init__(self, oldest: int | None, first: int | None) -> None:
        self._oldest, self._first = oldest, first

    def __call__(self, query: str) -> tuple[int | None, ...]:
        return (self._first if "first_time" in query else self._oldest,)


def test_a_stream_that_no_longer_reaches_back() -> None:
    def run(first: int | None, oldest: int | None = HOUR) -> batch.Incremental:
        return batch.plan_window_overwrite(node(), SQL, TimeRange(0, DAY), "db.t", Reaches(oldest, first))

    assert sentence(lambda: run(2 * HOUR)) == (
        "raw.bid has no row before 1970-01-01 02:00:00, but the table has windows that end from 1970-01-01 01:00:00 "
        "on: recomputing them would delete them. Begin the range at '1970-01-01 02:00:00' or later, or rebuild the "
        "table with --full-refresh."
    )
    assert sentence(lambda: run(None)) == (
        "raw.bid has no row, but the table has windows that end from 1970-01-01 01:00:00 on: recomputing them would "
        "delete them. Rebuild the table with --full-refresh."
    )
    run(0)
    run(None, oldest=None)


def test_a_stream_that_has_lost_a_part_of_a_window() -> None:
    """Its first row may be the first there ever was: its snapshots tell."""

    def run(lost: int | None, first: int = HOUR // 2) -> batch.Incremental:
        def ask(query: str) -> tuple[int | None, ...]:
            if "snapshots" not in query:
                return (first if "first_time" in query else HOUR,)
            if lost is None:
                raise DbtRuntimeError("raw.bid is a view")
            return (lost,)

        return batch.plan_window_overwrite(node(), SQL, TimeRange(0, DAY), "db.t", ask)

    assert sentence(partial(run, 1)) == (
        "raw.bid has no row before 1970-01-01 00:30:00, and its snapshots show that it has lost rows; but the table "
        "has windows that begin at 1970-01-01 00:00:00: recomputing them would delete a part of them. Begin the range "
        "at '1970-01-01 01:00:00' or later, or rebuild the table with --full-refresh."
    )
    run(1, first=0)
    run(0)


def test_where_no_snapshots_tell_the_table_does() -> None:
    """A folder, a view, a topic: whose rows once began earlier, the table has windows of."""

    def run(oldest_of_all: int) -> batch.Incremental:
        def ask(query: str) -> tuple[int | None, ...]:
            if "snapshots" in query:
                raise DbtRuntimeError("raw.bid is a folder")
            if "first_time" in query:
                return (10 * HOUR + HOUR // 2,)
            return (oldest_of_all if "where true" in query else 11 * HOUR,)

        return batch.plan_window_overwrite(node(), SQL, TimeRange(10 * HOUR, DAY), "db.t", ask)

    run(11 * HOUR)  # its first window is of the first row there ever was
    assert sentence(lambda: run(10 * HOUR)) == (
        "raw.bid has no row before 1970-01-01 10:30:00, and may have lost rows: it has no snapshots that show it, and "
        "the table has windows that end from 1970-01-01 10:00:00 on. Recomputing windows that begin at 1970-01-01 "
        "10:00:00 may delete a part of them. Begin the range at '1970-01-01 11:00:00' or later, or rebuild the table "
        "with --full-refresh."
    )


def test_a_window_ahead_of_the_clock_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(batch.logger, "warning", told.append)
    batch.plan_window_overwrite(node(), SQL, None, "db.t", Answers(max=10 * HOUR, min=None))
    assert not told
    batch.plan_window_overwrite(node(), SQL, None, "db.t", Answers(max=300 * 365 * DAY, min=None))
    assert "Model" in told[0] and "ends at 2269-" in told[0]


# -- microbatches ---------------------------------------------------------------------------------


def batched(
    sql: str = SQL, whole: bool = True, types: dict[str, str] | None = None, **config: Any
) -> batch.Incremental:
    bounds = {
        "event_time_start": datetime(2024, 3, 4, tzinfo=timezone.utc),
        "event_time_end": "2024-03-05 00:00:00+00:00",
    }
    settings = {"event_time": "window_start", "batch_size": "day", **config}
    answers = {sql: {"at": "timestamp"}, **{query: {"ts": kind} for query, kind in (types or {}).items()}}
    if types and sql in types:
        answers[sql] = {"at": types[sql]}
    return batch.plan_microbatch(
        {**node(**settings), "batch": bounds}, sql, whole, None, Answers(), lambda query: answers[query]
    )


BATCH = "ts >= '2024-03-04 00:00:00+00:00' and ts < '2024-03-05 00:00:00+00:00'"


def test_a_batch_of_windows_is_told_by_their_ends() -> None:
    assert batched().condition == (
        "`window_end` > timestamp'2024-03-04T00:00:00Z' and `window_end` <= timestamp'2024-03-05T00:00:00Z'"
    )


def test_windows_at_the_edges_get_rows_that_dbts_filter_leaves_out() -> None:
    hops = window_arguments.make_window("hop", "ts", "1 hour", "3 hours")
    filtered = expansion.expand_window(f"(select * from raw.bid where {BATCH})", hops)
    sql = f"select window_start, window_end, count(*) as n from {filtered} group by window_start, window_end"
    made = batched(sql).sql
    assert "2024-03-04 00:00:00+00:00" not in made
    assert "`ts` >= timestamp'2024-03-03T22:00:00Z' and `ts` < timestamp'2024-03-05T00:00:00Z'" in made
    # A sample is a sample.
    assert "2024-03-04 00:00:00+00:00" in batched(sql, whole=False).sql


@pytest.mark.parametrize(
    ("kind", "after"), [("timestamp_ntz", "03T18"), ("date", "03T18"), ("timestamp", "04T00")]
)
def test_the_first_batch_begins_with_the_first_day_that_a_clock_shows(kind: str, after: str) -> None:
    first = {"event_time_start": "2024-03-04T00:00:00+00:00", "event_time_end": "2024-03-05T00:00:00+00:00"}
    settings = node(event_time="window_start", batch_size="day", begin="2024-03-04")
    kolkata = Answers(unix_micros=1_709_490_600_000_000)  # half past six in the evening in UTC
    found = batch.plan_microbatch(
        {**settings, "batch": first}, SQL, True, None, kolkata, lambda _: {"ts": kind}
    )
    assert f"`window_end` > timestamp'2024-03-{after}:00:00Z'" in str(found.condition)
    later = {"event_time_start": "2024-03-05T00:00:00+00:00", "event_time_end": "2024-03-06T00:00:00+00:00"}
    found = batch.plan_microbatch(
        {**settings, "batch": later}, SQL, True, None, kolkata, lambda _: {"ts": kind}
    )
    assert "`window_end` > timestamp'2024-03-05T00:00:00Z'" in str(found.condition)


IN_BATCH = BATCH.replace("ts", "`at`")
FILTERED = f"select ts as at from (select * from raw.bid where {BATCH})"
TIMES = "select ts from raw.bid"


def test_a_batch_without_windows_is_told_by_its_event_time() -> None:
    found = batched("select * from raw.bid", event_time="at")
    assert (found.sql, found.condition) == (
        f"select * from (\nselect * from raw.bid\n)\nwhere {IN_BATCH}",
        IN_BATCH,
    )


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_a_batch_is_told_by_the_text_that_filters_its_inputs(kind: str) -> None:
    found = batched(FILTERED, types={FILTERED: kind, TIMES: kind}, event_time="at")
    assert FILTERED in found.sql
    assert found.condition == IN_BATCH


def test_a_row_outside_of_its_batch_ends_it() -> None:
    found = batched(FILTERED, types={FILTERED: "date", TIMES: "date"}, event_time="at")
    assert f"where if({IN_BATCH}, true, raise_error(concat('Model " in found.sql


def test_where_some_times_are_instants_all_are_told_by_the_sessions_clock() -> None:
    for kinds in (("timestamp", "timestamp_ntz"), ("date", "timestamp")):
        found = batched(FILTERED, types=dict(zip((FILTERED, TIMES), kinds, strict=True)), event_time="at")
        assert "CAST(ts AS TIMESTAMP) >= '2024-03-04 00:00:00+00:00'" in found.sql
        assert found.condition == BATCH.replace("ts", "cast(`at` as timestamp)")


def test_an_event_time_that_the_query_lacks() -> None:
    said = sentence(lambda: batched("select * from raw.bid", event_time="when"))
    assert said == "config 'event_time' is 'when', and the query has no column of that name; it has at."


# -- backfill, errors -----------------------------------------------------------------------------


def test_only_closed_windows_are_filled() -> None:
    assert closed_part_of(WindowRange(0, DAY), 5 * HOUR) == WindowRange(0, 5 * HOUR)
    assert closed_part_of(WindowRange(0, DAY), 2 * DAY) == WindowRange(0, DAY)
    assert sentence(lambda: closed_part_of(WindowRange(DAY, 2 * DAY), DAY)) == (
        "No window of the range has closed: those that end until 1970-01-02 00:00:00 have, and later ones are the "
        "stream's to emit."
    )


def test_a_key_that_isnt_unique() -> None:
    found = readable_error(
        RuntimeError("[MERGE_CARDINALITY_VIOLATION] The ON search condition of the MERGE …")
    )
    assert found.startswith("The unique_key isn't unique: several rows of the query have the same key")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("ts", "ts"),
        ("#ts", "`#ts`"),
        ("`#ts`", "`#ts`"),
        ("tab\there", "`tab\there`"),
        ("meta.at", "meta.at"),
    ],
)
def test_dbts_filter_of_a_batch_quotes_the_column(name: str, column: str) -> None:
    found = EventTimeFilter(field_name=name, start=datetime(2024, 3, 4), end=datetime(2024, 3, 5))
    relation = SparkStreamingRelation.create(schema="s", identifier="i", event_time_filter=found)
    assert f"{column} >= '2024-03-04 00:00:00+00:00' and {column} < '" in str(relation)
