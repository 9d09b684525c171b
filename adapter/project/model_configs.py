"""The configs of models that this adapter reads: the one table of their types, defaults and meanings.

`stream_config`, `check_configs` and `batch` check values by it. `tests.reference_pages` generates the reference and the
editors' JSON schemas from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..query.errors import QueryError
from ..stream.common.model import APPEND_NEW, BACKFILL, FAIL, FROM_NOW, IGNORE, MIGRATE, SYNC
from ..util.settings import (
    COLUMN_LIST,
    COLUMNS,
    FLAG,
    INTERVAL,
    SIZE,
    SettingInfo,
    ValueType,
    count_type,
    interval_or_type,
    is_columns,
    is_name,
    mapping_type,
    one_of_type,
    text_type,
)

AVAILABLE_NOW = "available_now"
"""Value of `trigger` with which a model reads the available input, then stops."""

SKIP = "skip"
"""Value of `on_running` with which `dbt run` skips a model that ``dbt-stream run`` keeps up to date."""

FOREVER = "forever"
"""Value of `changelog_retention` that keeps every change."""

MATERIALIZATIONS = ("streaming_table", "window_aggregate", "cumulate", "topn")
"""The materializations of streaming models."""

ALL = "all"
"""Value of `ModelConfig.models` of a config for models of all kinds."""

HOLDS = "holds"
NEXT_RUN = "holds from this run on"
REBUILD = "the run stops and asks for `--full-refresh`"
AFTER_REBUILD = "holds after a full refresh"
NOTHING = "no effect"
AS_FIRST = "as in a first run"
CHECKED = "is checked"


@dataclass(frozen=True)
class Runs:
    """The effects of a config on each kind of run, as the reference says them."""

    first: str = HOLDS
    again: str = HOLDS
    changed: str = NEXT_RUN
    """The effect on a run after its value was changed."""
    edited: str = HOLDS
    """The effect on a run after the query was edited."""
    refresh: str = AS_FIRST
    empty: str = CHECKED


@dataclass(frozen=True)
class ModelConfig(SettingInfo):
    """A config of a model."""

    group: str = ""
    """The heading that it is listed under."""
    models: str = ALL
    """The streaming models that it is for, or the materializations of others."""
    runs: Runs = Runs()


def _under_heading(heading: str, configs: Sequence[ModelConfig], **shared: Any) -> tuple[ModelConfig, ...]:
    """Returns the configs that are listed under a heading."""
    return tuple(replace(each, group=heading, **shared) for each in configs)


_REBUILDS = Runs(changed=REBUILD)
_OF_TABLE = Runs(again=NOTHING, changed=AFTER_REBUILD, edited=NOTHING)
_WINDOWS = "with windows"
_STATE = "with state, without windows"
_TEXTS = {"type": "array", "items": {"type": "string"}}
_BUCKETS = ValueType("number \\| `false`", {"anyOf": [{"type": "integer", "minimum": 2}, {"enum": [False]}]})

_TIME = (
    ModelConfig(
        "watermark",
        INTERVAL,
        "how far rows may be out of order ([Late data](../guides/late-data.md))",
        "0 seconds",
    ),
    ModelConfig(
        "idle_timeout",
        INTERVAL,
        "processing time after which a stream without rows no longer holds back the watermark. Must be positive",
    ),
    ModelConfig(
        "trigger",
        interval_or_type(AVAILABLE_NOW),
        "under [`dbt-stream run`](cli.md#run): the time from one micro-batch to the next. `dbt run` takes what is there "
        "and exits. Must match [`MINI_BATCH`](sources.md#mini-batches) if both are set",
        AVAILABLE_NOW,
    ),
)
_RESULTS = (
    ModelConfig(
        "first_result_offset",
        INTERVAL,
        "first early firing, relative to `window_end`; before the on-time firing",
        runs=Runs(changed="holds from this run on if rows are updated anyway; otherwise " + REBUILD),
    ),
    ModelConfig(
        "update_rate",
        INTERVAL,
        "time between early firings; needs `first_result_offset`",
        default_text="none; there is one early firing",
    ),
    ModelConfig(
        "complete_result_offset",
        INTERVAL,
        "on-time firing; not before `window_end`",
        "0 seconds",
        runs=_REBUILDS,
    ),
    ModelConfig(
        "late_updates",
        FLAG,
        "late rows update the result; needs `last_result_offset`",
        False,
        runs=_REBUILDS,
    ),
    ModelConfig(
        "last_result_offset",
        INTERVAL,
        "end of allowed lateness; needs `late_updates`",
        default_text="the on-time firing",
        runs=_REBUILDS,
    ),
)
_KEPT = (
    ModelConfig(
        "state_ttl",
        INTERVAL,
        "event time after which an idle key expires. Must be positive "
        "([State TTL](../guides/aggregations.md#state-ttl))",
        models=_STATE,
        runs=Runs(
            changed=f"another length holds from this run on; with one where there was none, or none, {REBUILD}"
        ),
    ),
    ModelConfig(
        "constant_domains", COLUMN_LIST, "columns whose set of values doesn't grow", [], models=_STATE
    ),
    ModelConfig(
        "allow_recompute",
        FLAG,
        "`false` refuses a query that can't be kept up to date from changes alone",
        True,
    ),
    ModelConfig(
        "on_state_change",
        one_of_type(MIGRATE, FAIL),
        "whether an edited query continues with the state ([Evolve a query](../guides/evolve.md))",
        MIGRATE,
        runs=Runs(
            NOTHING,
            NOTHING,
            edited=f"`'{MIGRATE}'` continues where it can, `'{FAIL}'` stops the run",
            refresh=NOTHING,
        ),
    ),
    ModelConfig(
        "on_new_metric",
        one_of_type(FROM_NOW, BACKFILL),
        "what an aggregate starts from that is added to a query: new rows only, or the sources' history",
        FROM_NOW,
        runs=Runs(NOTHING, NOTHING, edited="decides what new aggregates start from", refresh=NOTHING),
    ),
    ModelConfig(
        "enum_distinct",
        FLAG,
        "[rewrite](../guides/rewrites.md): a distinct set with a bit per value",
        False,
        models="all; `table`, `incremental`",
        runs=_REBUILDS,
    ),
    *(
        ModelConfig(
            name,
            _BUCKETS,
            f"[rewrite](../guides/rewrites.md): the number of buckets, for {what}",
            False,
            models="all; `table`, `incremental`",
        )
        for name, what in (("split_distinct", "distinct counts"), ("split_topn", "rankings"))
    ),
)
_WRITTEN = (
    ModelConfig(
        "output_mode",
        one_of_type("append", "upsert"),
        "what you expect of the table. `'append'` is refused where rows change, `'upsert'` where a row never does",
        default_text="by query",
        runs=Runs(
            changed=f"holds from this run on; if rows are to change that didn't, or no longer, {REBUILD}"
        ),
    ),
    ModelConfig(
        "unique_key",
        COLUMNS,
        "columns that identify a row of an upsert table. Two rows with one key stop the run",
        default_text="from the query",
        models="whose rows change; `incremental`",
        runs=_REBUILDS,
    ),
    ModelConfig(
        "changelog",
        FLAG,
        "also keep `<model>__changes`. On automatically if a streaming model reads this upsert model",
        False,
    ),
    ModelConfig(
        "changelog_retention",
        interval_or_type(FOREVER),
        f"how long each change is kept; `'{FOREVER}'` keeps all",
        "7 days",
    ),
    ModelConfig(
        "on_schema_change",
        one_of_type(APPEND_NEW, SYNC, FAIL, IGNORE),
        "what happens to the table if the query returns other columns (dbt's default for incremental models is "
        "`'ignore'`)",
        APPEND_NEW,
        models="all; `incremental`",
        runs=Runs(
            NOTHING,
            "holds, for columns that a source gets",
            edited="decides what happens to the table ([columns](../guides/evolve.md#columns-of-the-table))",
            refresh="no effect: the table is recreated",
        ),
    ),
    ModelConfig(
        "max_snapshot_age",
        INTERVAL,
        "older snapshots are expired ([Maintenance](../operate/state.md#maintenance))",
        "1 day",
    ),
    ModelConfig(
        "max_snapshots",
        count_type("how many snapshots are kept at most, as in 200"),
        "the number of snapshots that are kept at most",
        500,
    ),
    ModelConfig("target_file_size", SIZE, "small files are compacted to this size", "64 MB"),
)
_RUNNING = (
    ModelConfig(
        "on_running",
        one_of_type(SKIP, FAIL),
        "what `dbt run` does while `dbt-stream run` has the model: skip it with a note, or fail",
        SKIP,
        runs=Runs(
            NOTHING,
            "holds while `dbt-stream run` has the model",
            edited="holds while `dbt-stream run` has the model",
            refresh="no effect: while another process runs the model, the run stops",
        ),
    ),
)
STREAMING: tuple[ModelConfig, ...] = (
    *_under_heading("Time", _TIME),
    *_under_heading("Results of windows", _RESULTS, models=_WINDOWS),
    *_under_heading("State", _KEPT),
    *_under_heading("Table and changelog", _WRITTEN),
    *_under_heading("Running", _RUNNING),
)
"""The configs of streaming models. dbt's own `event_time`, `contract`, `grants`, hooks … aren't among them."""

_TABLES = (
    ModelConfig(
        "file_format",
        text_type("write the name of a format, as in 'iceberg'"),
        "format of the table",
        default_text="the profile's `file_format`",
    ),
    ModelConfig(
        "partition_by",
        replace(COLUMNS, instead="write a column or a list of columns, as in ['days(at)', 'city']"),
        "columns, or functions of one: `days(at)`, `bucket(16, id)`",
        default_text="not partitioned",
    ),
    ModelConfig(
        "tblproperties",
        mapping_type("{'write.format.default': 'orc'}"),
        "Iceberg's table properties",
    ),
    ModelConfig(
        "location_root",
        text_type("write a path"),
        "folder that the table's folder is made in",
        default_text="the catalog's warehouse",
    ),
    ModelConfig(
        "clustered_by",
        COLUMNS,
        "columns that rows are put into `buckets` by",
        models="`table` and `incremental`",
    ),
    ModelConfig(
        "buckets",
        count_type("a whole number of at least 1"),
        "the number of buckets; needs `clustered_by`",
        models="`table` and `incremental`",
    ),
    ModelConfig(
        "options",
        mapping_type("{'compression': 'zstd'}"),
        "Spark's `OPTIONS` of CREATE TABLE",
    ),
)
TABLES = _under_heading("Tables", _TABLES, runs=_OF_TABLE)
"""Configs of any table, streaming or not."""

WINDOW_OVERWRITE, MICROBATCH = "window_overwrite", "microbatch"

STRATEGIES = {
    "append": "adds the query's rows. The default",
    "merge": "updates rows with the same key, inserts the others. The default with `unique_key`",
    "delete+insert": "deletes rows that have the key of a new one, and inserts, in one commit",
    "insert_overwrite": "replaces the partitions of the new rows; without `partition_by` the table, also by no rows. "
    "After an edit of `partition_by` it asks for `--full-refresh`",
    WINDOW_OVERWRITE: "replaces a range of windows ([window_overwrite](../guides/backfill.md#window_overwrite))",
    MICROBATCH: "replaces each of dbt's batches ([microbatch](../guides/backfill.md#microbatch))",
}
"""The built-in incremental strategies, and what a run of each does."""

_CONDITIONS = ValueType(
    "list of conditions",
    _TEXTS,
    "write a list of conditions",
    lambda value: isinstance(value, list | tuple) and all(map(is_name, value)),
)

_INCREMENTAL = (
    ModelConfig(
        "incremental_strategy",
        ValueType(
            " \\| ".join(f"`'{each}'`" for each in STRATEGIES) + " \\| a name of yours",
            {"anyOf": [{"enum": [*STRATEGIES]}, {"type": "string"}]},
        ),
        "what a run does with the table's rows",
        default_text="`'append'`, or `'merge'` with `unique_key`",
    ),
    ModelConfig(
        "lookback",
        count_type("how many windows, 0 or more", least=0),
        "batches of `microbatch`, or windows of `window_overwrite`, that are computed again before the newest one",
        1,
    ),
    ModelConfig(
        "incremental_predicates",
        _CONDITIONS,
        "conditions on the table, `DBT_INTERNAL_DEST`, that limit what `merge` looks at",
    ),
    ModelConfig("predicates", _CONDITIONS, "dbt's earlier name of `incremental_predicates`"),
    ModelConfig("merge_update_columns", COLUMNS, "the columns that `merge` updates", default_text="all"),
    ModelConfig(
        "merge_exclude_columns",
        replace(
            COLUMNS,
            schema={"anyOf": [{"type": "string", "minLength": 1}, _TEXTS]},
            is_valid=lambda value: is_columns(value) or value in ([], ()),
        ),
        "the columns that `merge` doesn't update",
    ),
)
INCREMENTAL = _under_heading("Incremental models", _INCREMENTAL)
"""Configs of incremental models. Some of `STREAMING` are for them, too."""


def check_table_configs(given: Mapping[str, Any]) -> None:
    """Raises if a config of a table has an invalid value, or no effect."""
    check_configs(TABLES, given)
    for one, other in (("clustered_by", "buckets"), ("buckets", "clustered_by")):
        if given.get(one) is not None and given.get(other) is None:
            raise QueryError(f"config '{one}' has no effect without '{other}'; write both, or leave it out.")


def check_configs(configs: Iterable[ModelConfig], given: Mapping[str, Any]) -> None:
    """Raises if one of the configs has an invalid value. None counts as not given."""
    for each in configs:
        if problem := each.kind.problem(given.get(each.name)):
            raise QueryError(f"config '{each.name}' {problem}, or leave it out.")
