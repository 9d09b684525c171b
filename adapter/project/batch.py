"""Plans a batch run of an incremental dbt model from its node, configs and flags."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from ..query.batch.batch_filter import Batch, compare_instants, filtered_relations, remove_batch_filters
from ..query.batch.window_range import StreamExtent, TimesRunner, WindowOverwriter, reads_windows
from ..query.errors import QueryError
from ..query.normalize import model_text
from ..query.rewrites import rewrite_configs, rewriting
from ..query.sql.intervals import DAY
from ..query.windows import ranges
from ..query.windows.ranges import TimeRange, WindowRange
from ..util import event_time
from ..util.quoting import literal, quote_time, split_path, time_name
from . import model_configs
from .model_configs import INCREMENTAL, MICROBATCH, STRATEGIES, WINDOW_OVERWRITE

logger = AdapterLogger("Spark")

_LOOKBACK = next(each for each in INCREMENTAL if each.name == "lookback")

TypesRunner = Callable[[str], Mapping[str, str]]
"""Returns the names and types of a query's columns."""

NOTHING = "false"
"""Condition of a run that replaces no row."""

_IN_PLACE = {"merge": ("iceberg", "delta", "hudi")} | dict.fromkeys(
    ("delete+insert", WINDOW_OVERWRITE), ("iceberg", "delta")
)
"""Strategy → file formats that support its row-level changes."""

_BY_KEY = ("merge", "delete+insert")
"""Strategies that find the rows to change by `unique_key`."""

_READ_BY = dict.fromkeys(("merge_update_columns", "merge_exclude_columns"), ("merge",)) | dict.fromkeys(
    ("incremental_predicates", "predicates"), (*_BY_KEY, WINDOW_OVERWRITE, MICROBATCH)
)
"""Config → the built-in strategies that don't ignore it."""


@dataclass(frozen=True)
class Incremental:
    """The SQL that one run of an incremental model executes."""

    sql: str
    condition: str | None = None
    """SQL condition for the rows of the table that are replaced, for the strategies that replace a time range."""
    divided_files_query: str | None = None
    """A query for the number of table files that hold both replaced and other rows; None if unknown."""


def check_strategy(node: Mapping[str, Any], strategy: str, file_format: str) -> None:
    """Raises unless the strategy goes with the model's other configs. Warns of a key without effect, which dbt-spark
    accepts."""
    model_configs.check_configs((each for each in INCREMENTAL if each is not _LOOKBACK), node["config"])
    allowed = _IN_PLACE.get(strategy)
    if allowed and file_format not in allowed:
        raise QueryError(
            f"incremental_strategy '{strategy}' changes rows in place, which file_format '{file_format}' can't; use "
            "iceberg, or the strategy 'append' or 'insert_overwrite'."
        )
    is_range = file_format in ("iceberg", "delta")
    if strategy == MICROBATCH and not (is_range or node["config"].get("partition_by")):
        raise QueryError(
            f"incremental_strategy 'microbatch' with file_format '{file_format}' overwrites partitions: set partition_by to "
            "a column that has one value per batch, or use iceberg."
        )
    _check_ignored_configs(
        node["config"], strategy, overwrites_partitions=strategy == MICROBATCH and not is_range
    )
    if strategy == "append" and node["config"].get("unique_key"):
        logger.warning(
            f"Model {node['name']}: config 'unique_key' has no effect under incremental_strategy 'append', which adds a row "
            "again if the table has its key; use 'merge' to update it, or leave out unique_key."
        )
    if strategy != WINDOW_OVERWRITE:
        return
    if node.get("language") == "python":
        raise QueryError("incremental_strategy 'window_overwrite' is for models in SQL.")
    if problem := _LOOKBACK.kind.problem(node["config"].get("lookback")):
        raise QueryError(f"config 'lookback' {problem}.")


def _check_ignored_configs(config: Mapping[str, Any], strategy: str, overwrites_partitions: bool) -> None:
    """Raises if a config is given that the strategy would ignore. A strategy of the user's own may read any."""
    shown = "append" if strategy == "default" else strategy
    given = [name for name in _READ_BY if config.get(name)]
    for name in given if shown in STRATEGIES else ():
        if shown not in _READ_BY[name] or overwrites_partitions:
            listed = ", ".join(f"'{each}'" for each in _READ_BY[name])
            where = " of an Iceberg table" if overwrites_partitions else ""
            raise QueryError(
                f"config '{name}' is for incremental_strategy {listed}{where}, and this is '{shown}', which would ignore "
                "it; leave it out, or choose another strategy."
            )
        if shown in _BY_KEY and not config.get("unique_key"):
            raise QueryError(
                f"config '{name}' has no effect without unique_key, with which '{shown}' finds the rows to update; add "
                "unique_key, or leave it out."
            )
    if {"incremental_predicates", "predicates"} <= {*given}:
        raise QueryError(
            "configs 'incremental_predicates' and 'predicates' both have a value, and mean the same; leave out 'predicates'."
        )


def unknown_strategy_error(strategy: str) -> QueryError:
    """Returns the error on a strategy that has no macro."""
    listed = ", ".join(f"'{name}'" for name in STRATEGIES)
    macro = f"get_incremental_{strategy.replace('+', '_')}_sql"
    return QueryError(
        f"incremental_strategy '{strategy}' is unknown. Built in are {listed}; one of your own needs a macro {macro}."
    )


def plan_window_overwrite(
    node: Mapping[str, Any],
    sql: str,
    requested: TimeRange | None,
    table: str | None,
    ask: TimesRunner,
    sample: Any = None,
) -> Incremental:
    """Plans a run with the strategy `window_overwrite`.

    Args:
        requested: the requested range; None for the range from `lookback` windows before the newest one on.
        table: the model's table; None if it doesn't exist or is rebuilt.
        sample: dbt's sample, a time range that dbt has limited the model's inputs to, possibly within windows; None
            without one.

    Raises:
        QueryError: the windows are unknown, or the streams no longer have all their rows.
    """
    if sample is not None:
        sql = remove_batch_filters(sql, (sample.start, sample.end), model_text.stream_relations(sql))
    overwriting = WindowOverwriter(sql, ask)
    if requested is not None:
        ends = overwriting.touched_windows(require_nonempty_range(requested))
    elif table is not None:
        ends = _newest_windows(node["name"], overwriting, table, node["config"].get("lookback"), ask)
    else:
        ends = WindowRange()
    if table is not None:
        ends = overwriting.extend_over_sessions(ends, table)
        check_history(overwriting, ends, table, ask)
    return _range_statement(overwriting, ends, node, table)


def plan_microbatch(
    node: Mapping[str, Any], sql: str, whole: bool, table: str | None, ask: TimesRunner, types: TypesRunner
) -> Incremental:
    """Plans one batch of the strategy `microbatch`.

    Args:
        whole: whether windows at the batch's edges get all their rows (not with a sample).
        table: the model's table; None if it doesn't exist or is rebuilt.

    Raises:
        QueryError: a window would span two batches.
    """
    start, end = (_parse_time(node["batch"][key]) for key in ("event_time_start", "event_time_end"))
    if node.get("language") == "python":
        return Incremental(sql, event_time.condition(_event_time_sql(node), start, end))
    if not reads_windows(sql):
        return _plan_batch_without_windows(node, sql, (start, end), types)
    batch = TimeRange(ranges.instant_of(start), ranges.instant_of(end))
    if whole:
        sql = remove_batch_filters(sql, (start, end), model_text.stream_relations(sql))
    # Windows are computed on instants.
    overwriting = WindowOverwriter(compare_instants(sql, (start, end)), ask)
    size = node["config"]["batch_size"]
    ends = overwriting.check_batch(batch, getattr(size, "value", size))
    since = (
        _first_batch_start(start, overwriting, ask, types) if whole and _is_first_batch(node, batch) else None
    )
    if since is not None and since < ranges.instant_of(start):
        ends = ends.hull(overwriting.touched_windows(TimeRange(since, ranges.instant_of(start))))
    return _range_statement(overwriting, ends, node, table)


def _is_first_batch(node: Mapping[str, Any], batch: TimeRange) -> bool:
    """Returns whether the time of a model's config `begin` is in a batch."""
    begin = node["config"].get("begin")
    if begin is None or batch.since is None or batch.until is None:
        return False
    return batch.since <= ranges.instant_of(_parse_time(begin)) < batch.until


def _first_batch_start(
    start: datetime, overwriting: WindowOverwriter, ask: TimesRunner, types: TypesRunner
) -> int:
    """Returns the start of the first batch in microseconds. An event time that is a local time reaches it when the session's
    clock does, which is earlier east of UTC."""
    for stream in overwriting.plan.streams:
        if stream.event_time is None:
            continue
        kinds = types(f"select {quote_time(stream.event_time)} from {stream.relation}").values()
        if not {"timestamp_ntz", "date"}.isdisjoint(kinds):
            clock = start.astimezone(timezone.utc).replace(tzinfo=None)
            (shown,) = ask(f"select unix_micros(cast(timestamp_ntz'{clock}' as timestamp))")
            return int(shown)  # type: ignore[arg-type]
    return ranges.instant_of(start)


def _plan_batch_without_windows(
    node: Mapping[str, Any], sql: str, batch: Batch, types: TypesRunner
) -> Incremental:
    """Plans a batch of a model without windows. Its query raises an error for a row outside the batch."""
    column, time = node["config"]["event_time"], _event_time_sql(node)
    try:
        filtered = filtered_relations(sql, batch)
    except QueryError:
        filtered = []  # Spark may parse what this parser can't
    listed = {name.lower(): kind for name, kind in types(sql).items()}
    path = split_path(time)
    if path[0].lower() not in listed:
        raise QueryError(
            f"config 'event_time' is '{column}', and the query has no column of that name; it has {', '.join(listed)}."
        )
    kinds = {listed[path[0].lower()]}
    if len(path) > 1:
        kinds = {*types(f"select {time} from (\n{sql}\n)").values()}
    for relation, name in filtered:
        kinds.update(types(f"select {name} from {relation}").values())
    if "timestamp" in kinds and len(kinds) > 1:
        # Some times are instants and some are local times: the session's time zone converts them.
        sql, instant = compare_instants(sql, batch), f"cast({time} as timestamp)"
    else:
        instant = time
    condition = event_time.condition(instant, *batch)
    kept = condition
    if all(each.text in sql for each in event_time.bounds(*batch)):
        shown = f"coalesce(cast({time} as string), 'NULL')"
        message = literal(
            f"Model {node['name']}: the batch from {batch[0]} to {batch[1]} has a row whose {column} is outside of "
            "it, at "
        )
        advice = literal(
            ". Each run of the batch would add it again: let event_time be the column by which the model's inputs "
            "are filtered, or leave such rows out."
        )
        kept = f"if({condition}, true, raise_error(concat({message}, {shown}, {advice})))"
    rewritten = rewriting.rewrite_by_config(sql, node["config"])
    return Incremental(f"select * from (\n{rewritten}\n)\nwhere {kept}", condition)


def require_nonempty_range(span: TimeRange) -> TimeRange:
    """Returns a range that has a start before its end, or is open.

    Raises:
        QueryError: the end isn't after the start.
    """
    if span.since is not None and span.until is not None and span.since >= span.until:
        start, end = ranges.instant_text(span.since), ranges.instant_text(span.until)
        raise QueryError(
            f"The range from {start} to {end} is {'empty' if start == end else 'the wrong way round'}; its end must "
            "be after its start."
        )
    return span


def check_history(overwriting: WindowOverwriter, ends: WindowRange, table: str, ask: TimesRunner) -> None:
    """Raises unless the streams still have the rows of the windows in the range `ends`.

    Raises:
        QueryError: the table has windows older than the streams' first rows.
    """
    query = overwriting.first_time_query()
    if query is None:
        return
    (oldest,) = ask(overwriting.oldest_end_query(table, ends))
    if oldest is None:
        return
    (first,) = ask(query)
    if first is not None and first < oldest:
        _check_no_rows_lost(overwriting, oldest, table, ask)
        return
    streams = " and ".join(stream.relation.replace("`", "") for stream in overwriting.plan.streams)
    begins = "no row" if first is None else f"no row before {ranges.instant_text(first)}"
    raise QueryError(
        f"{streams} has {begins}, but the table has windows that end from {ranges.instant_text(oldest)} on: recomputing "
        f"them would delete them. {_rebuild_advice(first)}"
    )


def _check_no_rows_lost(overwriting: WindowOverwriter, oldest: int, table: str, ask: TimesRunner) -> None:
    """Raises if a stream may have lost rows of the windows that end from `oldest` on. A stream without such early rows may
    never have had any."""
    for stream, since in overwriting.needed_since(oldest).items():
        (first,) = ask(stream.first_time)
        if first is not None and first <= since:
            continue
        begins = "no rows" if first is None else f"no row before {ranges.instant_text(first)}"
        advice = _rebuild_advice(None if first is None else stream.end_of_windows_at(first))
        lost = _has_lost_rows(stream, ask)
        if lost:
            raise QueryError(
                f"{stream.name} has {begins}, and its snapshots show that it has lost rows; but the table has "
                f"windows that begin at {ranges.instant_text(since)}: recomputing them would delete a part of them. {advice}"
            )
        if (
            lost is None
            and (before := _window_end_before_first_row(overwriting, first, table, ask)) is not None
        ):
            raise QueryError(
                f"{stream.name} has {begins}, and may have lost rows: it has no snapshots that show it, and the "
                f"table has windows that end from {ranges.instant_text(before)} on. Recomputing windows that begin at "
                f"{ranges.instant_text(since)} may delete a part of them. {advice}"
            )


def _rebuild_advice(since: int | None) -> str:
    """Returns the advice for a stream that lacks rows of windows; `since` is the time from which it has all of them,
    or None."""
    later = (
        "Rebuild"
        if since is None
        else f"Begin the range at '{ranges.instant_text(since)}' or later, or rebuild"
    )
    return f"{later} the table with --full-refresh."


def _has_lost_rows(stream: StreamExtent, ask: TimesRunner) -> bool | None:
    """Returns whether a stream has lost rows; None if unknown, as for a folder, a view or a topic."""
    from pyspark.errors import PySparkException

    try:
        (lost,) = ask(stream.lost)
    except (DbtRuntimeError, PySparkException):
        return None
    return bool(lost)


def _window_end_before_first_row(
    overwriting: WindowOverwriter, first: int | None, table: str, ask: TimesRunner
) -> int | None:
    """Returns the end of the table's oldest window if it is at or before a stream's first row, which means that the
    stream once began earlier; else None."""
    (oldest,) = ask(overwriting.oldest_end_query(table, WindowRange()))
    return oldest if oldest is not None and (first is None or oldest <= first) else None


def _range_statement(
    overwriting: WindowOverwriter, ends: WindowRange, node: Mapping[str, Any], table: str | None
) -> Incremental:
    if names := list(rewrite_configs.requested_rewrites(node["config"])):
        raise QueryError(
            f"config '{names[0]}' rewrites a query that is computed as a whole, and this one is computed by ranges of "
            "windows; leave it out."
        )
    plan = overwriting.overwrite(ends)
    is_iceberg = table is not None and node["config"].get("file_format", "iceberg") == "iceberg"
    divided_files_query = overwriting.divided_files_query(str(table), ends) if is_iceberg else None
    return Incremental(plan.sql, plan.condition, divided_files_query)


def _newest_windows(
    name: str, overwriting: WindowOverwriter, table: str, lookback: int | None, ask: TimesRunner
) -> WindowRange:
    (newest,) = ask(overwriting.newest_end_query(table))
    if newest is None:
        return WindowRange()
    if newest - time.time_ns() // 1000 > DAY:
        logger.warning(
            f"Model {name}: the newest window of its table ends at {ranges.instant_text(newest)}, ahead of the clock, and "
            "without a range only that one and those right before it are recomputed. Delete its rows from the table "
            "and from what the model reads, or give --event-time-start and --event-time-end."
        )
    return overwriting.touched_windows(overwriting.last_windows(newest, 1 if lookback is None else lookback))


def _event_time_sql(node: Mapping[str, Any]) -> str:
    """Returns SQL of a model's config event_time."""
    return quote_time(time_name(node["config"]["event_time"]))


def _parse_time(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
