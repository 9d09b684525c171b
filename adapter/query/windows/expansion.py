"""Expands windowing macros to subqueries in plain Spark SQL.

The expansion is for readers, and for engines without streams. The planner only uses its hint, and the relation with the
alias ``input``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...util.quoting import quote
from ..program import BATCH_ID, CHANGE_TYPE
from ..sql import instants
from .windows import AS_OF, STREAM, Window

INPUT = "input"
"""Alias of the relation under a windowing TVF."""
WINDOW_COLUMNS = ("window_start", "window_end", "window_time")
"""Columns that a windowing TVF adds. They replace input columns of these names."""
LEAVING_OUT = f"except ({', '.join(WINDOW_COLUMNS)})"
"""Clause after a star over `with_null_window_columns`."""


def expand_window(relation: str, window: Window) -> str:
    """Returns a subquery that assigns every row to its windows. Rows without a usable event time are dropped."""
    return _sessions_sql(relation, window) if window.merges else _slices_sql(relation, window)


def expand_stream(relation: str) -> str:
    """Returns the expansion of ``stream(relation)``: the relation with a hint.

    >>> expand_stream("raw.orders")
    '(select /*+ STREAM */ * from raw.orders)'
    """
    return f"(select /*+ {STREAM.upper()} */ * from {relation})"


VALID_UNTIL = "__valid_until"
"""Column with the time at which the next version of a row begins; NULL for the last one."""


def expand_as_of(relation: str, time: str, version_time: str, key: Sequence[str]) -> str:
    """Returns the expansion of ``as_of(relation, time)``: the version of each key at the time of a joined row.

    A version is valid from its own time until that of the next one. Of versions of one time the greatest row is valid, by
    its columns in order.

    Args:
        time: quoted column of a preceding relation in FROM.
        version_time: column with the time from which a version is valid.
        key: columns that identify what a row is a version of.

    >>> print(expand_as_of("rates", "`o`.`at`", "changed_at", ["currency"]))
    lateral (
      select /*+ AS_OF(`currency`) */ versions.* except (__valid_until)
      from (
        select `rows`.*, lead(`rows`.`changed_at`) over (
          partition by `rows`.`currency` order by `rows`.`changed_at`, struct(`rows`.*)
        ) as __valid_until
        from (select /*+ STREAM */ * from rates) as `rows`
        where `rows`.`changed_at` between timestamp'0001-01-01T00:00:00.000000Z' and timestamp'9999-12-31T23:59:59.999999Z'
      ) as versions
      where versions.`changed_at` <= `o`.`at` and (versions.__valid_until is null or versions.__valid_until > `o`.`at`)
    )
    """
    at, begins = time, f"`rows`.{quote(version_time)}"
    keys = ", ".join(quote(name) for name in key)
    by = ", ".join(f"`rows`.{quote(name)}" for name in key)
    return (
        f"lateral (\n  select /*+ {AS_OF.upper()}({keys}) */ versions.* except ({VALID_UNTIL})\n  from (\n"
        f"    select `rows`.*, lead({begins}) over (\n"
        f"      partition by {by} order by {begins}, struct(`rows`.*)\n    ) as {VALID_UNTIL}\n"
        f"    from {expand_stream(relation)} as `rows`\n"
        f"    where {instants.usable_time_condition(begins)}\n  ) as versions\n"
        f"  where versions.{quote(version_time)} <= {at} "
        f"and (versions.{VALID_UNTIL} is null or versions.{VALID_UNTIL} > {at})\n)"
    )


IS_VERSION = f"{CHANGE_TYPE} <> 'update_before'"
"""Condition for the rows of a changelog that are versions: inserts, updates and deletes, but no rows before an update."""


def versions_in_changes(
    changelog: str, version_time: str, key: Sequence[str], valid_until: str = VALID_UNTIL
) -> str:
    """Returns a query for the versions that a changelog has, each with the time at which the next one begins.

    A delete ends the last version of a key. Of versions of one time the one of the latest micro-batch is valid.

    Args:
        version_time: column with the time from which a version is valid.
        key: columns that identify a row of the changelog's table.
        valid_until: name of the column with the time at which the next version begins.

    >>> print(versions_in_changes("rates__changes", "changed_at", ["currency"]))
    select * except (_change_type, _batch_id) from (
      select `rows`.*, lead(`rows`.`changed_at`) over (
        partition by `rows`.`currency` order by `rows`.`changed_at`, `rows`._batch_id
      ) as __valid_until
      from rates__changes as `rows`
      where _change_type <> 'update_before'
        and `rows`.`changed_at` between timestamp'0001-01-01T00:00:00.000000Z' and timestamp'9999-12-31T23:59:59.999999Z'
    ) where _change_type <> 'delete'
    """
    begins, by = f"`rows`.{quote(version_time)}", ", ".join(f"`rows`.{quote(name)}" for name in key)
    return (
        f"select * except ({CHANGE_TYPE}, {BATCH_ID}) from (\n  select `rows`.*, lead({begins}) over (\n"
        f"    partition by {by} order by {begins}, `rows`.{BATCH_ID}\n  ) as {valid_until}\n"
        f"  from {changelog} as `rows`\n  where {IS_VERSION}\n    and {instants.usable_time_condition(begins)}\n"
        f") where {CHANGE_TYPE} <> 'delete'"
    )


def with_null_window_columns(query: str, alias: str) -> str:
    """Returns a relation with the rows of a query, where each of `WINDOW_COLUMNS` that the query lacks is NULL.

    So a select list can exclude these columns with EXCEPT, which fails for a column that doesn't exist. The NULLs come from
    a join with an empty relation, which engines remove from their plans."""
    columns = ", ".join(f"null as {name}" for name in WINDOW_COLUMNS)
    return (
        f"(select * from ({query}) as {alias} natural left join (select {columns} where false) as no_windows)"
    )


def _slices_sql(relation: str, window: Window) -> str:
    time = f"`rows`.{window.time}"
    end = "windows.end_micros"
    slice_end = window.slice_end(window.micros(time))
    if window.is_one_slice:
        ends = f"lateral view explode(array({slice_end})) windows as end_micros"
    else:
        first, last = window.first_end(f"({slice_end})"), window.last_end(f"({slice_end})")
        ends = f"lateral view explode(sequence({first}, {last}, {window.step})) windows as end_micros"
    start = window.start(f"({end} - 1)") if window.grows else f"{end} - {window.size}"
    condition = instants.usable_time_condition(time)
    if window.grows and (exists := window.local_time_exists(end)):
        condition += f" and ({exists} or {end} = {window.last_end(end)})"
    if window.emit == "on_change":
        # Which steps have new rows of a key is only known where rows are grouped.
        condition += " /* emit = on_change: silent steps are left out by the planner */"
    return (
        f"(\n  select /*+ {window.hint()} */ `rows`.* {LEAVING_OUT},\n"
        f"    {_window_columns_sql(window, start, end)}\n"
        f"  from {with_null_window_columns(f'select * from {relation}', INPUT)} as `rows`\n"
        f"  {ends}\n"
        f"  where {condition}\n)"
    )


def _window_columns_sql(window: Window, start: str, end: str) -> str:
    return (
        f"{window.instant(start)} as window_start,\n"
        f"    {window.latest_instant(end)} as window_end,\n"
        f"    {window.latest_instant(end)} - interval 1 microsecond as window_time"
    )


def _sessions_sql(relation: str, window: Window) -> str:
    """Returns the expansion for sessions: a row opens one if the previous row of its key is more than the gap before it."""
    time = f"`rows`.{window.time}"
    keys = ", ".join(f"`row`.{quote(name)}" for name in window.partition_by)
    by_key = f"partition by {keys} " if keys else ""
    of_session = f"over (partition by {', '.join([keys, 'session']) if keys else 'session'})"
    first, last = f"min(ts_micros) {of_session}", f"max(ts_micros) {of_session}"
    items, ends = f"{first} as start_micros, {last} + {window.size} as end_micros", ""
    if window.grows:
        slice_end = window.slice_end("ts_micros")
        items = (
            f"{window.start_of_first(first)} as start_micros, {slice_end} as first_micros,\n"
            f"      {window.end_of_last(f'({last} + {window.size})')} as last_micros"
        )
        ends = f"  lateral view explode(sequence(first_micros, last_micros, {window.step})) windows as end_micros\n"
        if exists := window.local_time_exists("end_micros"):
            ends += f"  where {exists} or end_micros = last_micros\n"
    return (
        f"(\n  select /*+ {window.hint()} */ `row`.* {LEAVING_OUT},\n"
        f"    {_window_columns_sql(window, 'start_micros', 'end_micros')}\n"
        f"  from (\n"
        f"    select `row`, {items}\n"
        f"    from (\n"
        f"      select `row`, ts_micros, sum(opens) over ({by_key}order by ts_micros) as session\n"
        f"      from (\n"
        f"        select `row`, ts_micros, case when ts_micros - lag(ts_micros) over ({by_key}order by ts_micros)"
        f" <= {window.size} then 0 else 1 end as opens\n"
        f"        from (\n"
        f"          select struct(`rows`.*) as `row`, {window.micros(time)} as ts_micros\n"
        f"          from {with_null_window_columns(f'select * from {relation}', INPUT)} as `rows`\n"
        f"          where {instants.usable_time_condition(time)}\n"
        f"        )\n"
        f"      )\n"
        f"    )\n"
        f"  )\n{ends})"
    )
