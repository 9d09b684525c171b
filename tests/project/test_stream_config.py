"""What a streaming model's configs mean, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.project import model_configs, stream_config, streaming
from dbt.adapters.spark_streaming.project.model_configs import STREAMING
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.rewrites import rewrite_configs
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.model import Retention
from dbt.adapters.spark_streaming.util.settings import setting_names


def read(**config: Any) -> stream_config.StreamConfig:
    return stream_config.read_stream_config(config, frozenset())


def test_retention() -> None:
    assert read().retention == Retention(86_400_000_000, 500, 64 << 20)
    found = read(max_snapshot_age="2 days", max_snapshots=1000, target_file_size="128 MB").retention
    assert found == Retention(172_800_000_000, 1000, 128 << 20)


@pytest.mark.parametrize(
    ("config", "micros"),
    [
        ({}, 7 * 86_400_000_000),
        ({"changelog_retention": None}, 7 * 86_400_000_000),
        ({"changelog_retention": "1 day"}, 86_400_000_000),
        ({"changelog_retention": "0 seconds"}, 0),
        ({"changelog_retention": "forever"}, None),
    ],
)
def test_how_long_changes_are_kept(config: dict[str, Any], micros: int | None) -> None:
    assert read(**config).changelog_retention == micros


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"max_snapshot_age": "0 seconds"}, "'max_snapshot_age' '0 seconds' must be longer than zero"),
        ({"max_snapshot_age": "a while"}, "'max_snapshot_age': 'a while' is not an interval"),
        ({"max_snapshots": 0}, "'max_snapshots' is 0"),
        ({"max_snapshots": True}, "'max_snapshots' is True"),
        ({"max_snapshots": "many"}, "'max_snapshots' is 'many'"),
        ({"target_file_size": "large"}, "'target_file_size' is 'large'"),
        ({"target_file_size": 0}, "'target_file_size' is 0"),
        (
            {"changelog_retention": "-1 day"},
            "'changelog_retention' '-1 day' is negative; .* as in '7 days', or 'forever'",
        ),
        (
            {"changelog_retention": "never"},
            r"'changelog_retention' \(other than 'forever'\): 'never' is not an interval",
        ),
        ({"changelog_retention": True}, "'changelog_retention'"),
    ],
)
def test_a_retention_that_means_nothing(config: dict[str, Any], told: str) -> None:
    with pytest.raises(QueryError, match=told):
        read(**config)


KNOWN = {"bids": RelationInfo("ts")}
BIDS = "(select /*+ STREAM */ * from bids as bids)"
GROUPS = f"select item, count(*) as n from {BIDS} group by item"
TUMBLE = expansion.expand_window("bids", window_arguments.make_window("tumble", "ts", "5 minutes"))
WINDOWS = f"select window_end, window_start, item, count(*) as n from {TUMBLE} group by window_end, window_start, item"
AGAIN = {
    f"select item, n, sum(n) over () as s from ({GROUPS})": "as a whole",
    f"select item, lead(n) over (partition by item order by window_end) as next from ({WINDOWS})": "for each item",
    f"select item, percentile(price, 0.5) as m from {BIDS} as b where price > 0 group by item": (
        "computes GroupAggregate 'by item: item, PERCENTILE(price, 0.5) AS m WHERE price > 0' "
        "(percentile(…) is not kept as partial aggregates) for each item that changes again"
    ),
}


@pytest.mark.parametrize("text", AGAIN)
def test_what_is_computed_again_is_refused_where_that_is_asked_for(text: str) -> None:
    config = {"materialized": "streaming_table", "state_ttl": "7 days"}
    assert streaming.plan_model({"name": "m", "config": config}, text, KNOWN)
    with pytest.raises(QueryError, match="'allow_recompute' is false") as refused:
        streaming.plan_model({"name": "m", "config": {**config, "allow_recompute": False}}, text, KNOWN)
    assert AGAIN[text] in str(refused.value)
    assert not any(name in str(refused.value) for name in ("stream_bids", "STREAM", "__"))


def test_what_follows_from_changes_is_not() -> None:
    config = {"materialized": "streaming_table", "constant_domains": ["item"], "allow_recompute": False}
    assert streaming.plan_model({"name": "m", "config": config}, GROUPS, KNOWN)


def test_allow_recompute_is_true_or_false() -> None:
    assert read().allow_recompute and read(allow_recompute=None).allow_recompute
    with pytest.raises(QueryError, match="config 'allow_recompute' is 'no'; write true or false"):
        read(allow_recompute="no")


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"on_state_change": "ask"}, "config 'on_state_change' is 'ask'; write 'migrate' or 'fail'"),
        ({"on_new_metric": "never"}, "config 'on_new_metric' is 'never'; write 'from_now' or 'backfill'"),
        (
            {"on_schema_change": "append"},
            "config 'on_schema_change' is 'append'; write 'append_new_columns', ",
        ),
    ],
)
def test_what_becomes_of_an_edited_query_is_one_of_few_things(config: dict[str, Any], told: str) -> None:
    with pytest.raises(QueryError, match=told):
        read(**config)
    assert read().on_state_change == read(on_state_change="migrate", on_new_metric="from_now").on_state_change
    assert (read().on_new_metric, read(on_new_metric="backfill").on_new_metric) == ("from_now", "backfill")


def program_of(text: str, **config: Any) -> Program:
    node = {"name": "m", "config": {"materialized": "streaming_table", **config}}
    return streaming.model_program(node, streaming.plan_model(node, text, KNOWN))


def refused(text: str, **config: Any) -> str:
    with pytest.raises(QueryError) as found:
        program_of(text, **config)
    return str(found.value)


def over(kind: str, *lengths: str, **more: Any) -> str:
    window = expansion.expand_window("bids", window_arguments.make_window(kind, "ts", *lengths, **more))
    columns = "window_start, window_end, window_time, item"
    return f"select {columns.replace('item', 'item as k')}, count(*) as n from {window} group by {columns}"


TUMBLED = over("tumble", "10 minutes")
CUMULATED = over("cumulate", "5 minutes", "10 minutes")
SESSIONS = over("session", "10 minutes", partition_by=["item"])


def test_a_unique_key_tells_windows_apart() -> None:
    """Of two windows, the one that closed first would keep its row beside the other's."""
    assert refused(TUMBLED, output_mode="upsert", unique_key="k") == (
        "Model m: config 'unique_key' is ['k'], and each window has rows with the same values: none of these columns tells "
        "windows apart. Write unique_key=['k', 'window_end'], or leave it out: the query's own key is (k, window_end)."
    )
    assert "unique_key=['k', 'window_start', 'window_end']" in refused(
        CUMULATED, output_mode="upsert", unique_key=["k", "window_start"]
    )
    late = {"late_updates": True, "last_result_offset": "1 hour"}
    assert "unique_key=['n', 'window_" in refused(SESSIONS, unique_key="n", **late)
    renamed = f"select k, window_end as ended, n from ({TUMBLED})"
    assert "unique_key=['k', 'ended']" in refused(renamed, output_mode="upsert", unique_key="k")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (TUMBLED, ["window_start", "k"]),
        (TUMBLED, ["K", "Window_Time"]),
        (CUMULATED, ["k", "window_end"]),
        (SESSIONS, ["k", "window_start"]),
        (f"select k, window_end as ended, n from ({TUMBLED})", ["ended", "k"]),
    ],
)
def test_one_that_does_is_taken(text: str, key: list[str]) -> None:
    found = program_of(text, output_mode="upsert", unique_key=key).upsert
    assert found is not None and found.key == tuple(key)


PASSED_ON = "select ts, item, price from " + BIDS
ROWS = f"select * from {TUMBLE}"


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"complete_result_offset": "5 minutes"}, "config 'complete_result_offset' is"),
        ({"first_result_offset": "-1 minute"}, "config 'first_result_offset' is"),
        (
            {"late_updates": True, "last_result_offset": "1 hour"},
            "config 'late_updates' and 'last_result_offset' are",
        ),
        (
            {"first_result_offset": "-2 minutes", "update_rate": "1 minute"},
            "config 'first_result_offset' and 'update_rate' are",
        ),
    ],
)
def test_results_of_windows_where_there_are_none(config: dict[str, Any], named: str) -> None:
    """Rows that are passed on come at once, with their windows or without."""
    for text in (ROWS, PASSED_ON, f"{ROWS} union all {ROWS}"):
        assert refused(text, **config) == (
            f"Model m: {named} about windows that are kept until they close, and this query emits its rows at once. "
            "Leave it out."
        ).replace("Leave it", "Leave it" if named.endswith("is") else "Leave them")
    assert refused(GROUPS, state_ttl="1 day", **config) == (
        f"Model m: {named} about windows, and this query has no windows, so its results change at once. Leave "
        f"{'it' if named.endswith('is') else 'them'} out."
    )


@pytest.mark.parametrize("text", [PASSED_ON, ROWS])
def test_upsert_where_rows_are_passed_on(text: str) -> None:
    for more in ({}, {"unique_key": "item"}):
        assert refused(text, output_mode="upsert", **more) == (
            "Model m: config 'output_mode' is 'upsert', but this query never changes a row that it has emitted; leave "
            "output_mode out, or write 'append'."
        )


INTERVALS = [
    "watermark",
    "trigger",
    "idle_timeout",
    "state_ttl",
    "max_snapshot_age",
    "changelog_retention",
    "first_result_offset",
    "update_rate",
    "complete_result_offset",
    "last_result_offset",
]


@pytest.mark.parametrize("config", INTERVALS)
@pytest.mark.parametrize("text", ["999999999999 days", "-3652060 days", "9" * 400 + " seconds"])
def test_no_interval_is_longer_than_all_of_time(config: str, text: str) -> None:
    assert read(state_ttl="3652059 days").state_ttl == 3_652_059 * 86_400_000_000
    with pytest.raises(
        QueryError, match=f"config '{config}'.* is longer than 3652059 days, .*write a shorter one"
    ):
        read(**{config: text})


@pytest.mark.parametrize(
    ("kind", "lengths"),
    [("tumble", ["X"]), ("hop", ["1 day", "X"]), ("cumulate", ["X", "X"]), ("session", ["X"])],
)
def test_nor_is_a_window(kind: str, lengths: list[str]) -> None:
    found = [each.replace("X", "999999999999 days") for each in lengths]
    with pytest.raises(QueryError, match=rf"{kind}\(\): \w+ '999999999999 days' is longer than 3652059 days"):
        window_arguments.make_window(kind, "ts", *found)
    with pytest.raises(QueryError, match=r"tumble\(\): offset '-999999999999 days' is longer"):
        window_arguments.make_window("tumble", "ts", "1 hour", offset="-999999999999 days")


EMPTY: list[Any] = ["", " ", [], {}, 0, False, 0.0, [""]]


@pytest.mark.parametrize("config", [*INTERVALS, *setting_names(STREAMING)])
def test_what_is_empty_is_given(config: str) -> None:
    """Only None means that a config isn't given. Anything else is a value, and a wrong one is refused."""
    assert read(**{config: None}) == read()
    if config in rewrite_configs.NAMES:
        return
    right: dict[str, list[Any]] = {
        "constant_domains": [[]],
        "late_updates": [False],
        "changelog": [False],
        "allow_recompute": [False],
    }
    for value in EMPTY:
        if any(value is each or (value == each == []) for each in right.get(config, ())):
            read(**{config: value})
        else:
            with pytest.raises(QueryError, match=f"config '{config}'"):
                read(**{config: value})


def test_flags_are_no_numbers() -> None:
    for config in ("changelog", "late_updates", "allow_recompute"):
        with pytest.raises(QueryError, match=f"config '{config}' is 1; write true or false"):
            read(**{config: 1})


@pytest.mark.parametrize(
    ("config", "value"),
    [
        ("file_format", ""),
        ("file_format", []),
        ("location_root", " "),
        ("partition_by", []),
        ("partition_by", ""),
        ("partition_by", {"a": 1}),
        ("partition_by", ["a", None]),
        ("clustered_by", 5),
        ("buckets", 0),
        ("buckets", True),
        ("tblproperties", []),
        ("tblproperties", "x"),
        ("tblproperties", {"a": [1]}),
        ("options", ""),
    ],
)
def test_configs_of_any_table(config: str, value: Any) -> None:
    with pytest.raises(QueryError, match=f"config '{config}' is .*; write .*, or leave it out"):
        model_configs.check_configs(model_configs.TABLES, {config: value})
    model_configs.check_configs(model_configs.TABLES, {config: None})


@pytest.mark.parametrize(
    ("config", "value"), [("partition_by", 5), ("tblproperties", ["a"]), ("options", "x")]
)
def test_configs_of_tables_are_checked_without_spark_too(config: str, value: Any) -> None:
    """As `dbt-stream explain` reads them, which is a linter."""
    with pytest.raises(QueryError, match=f"config '{config}' is .*; write .*, or leave it out"):
        read(**{config: value})


def test_configs_of_any_table_that_are_right() -> None:
    model_configs.check_configs(
        model_configs.TABLES,
        {
            "file_format": "iceberg",
            "partition_by": ["days(at)"],
            "clustered_by": "a",
            "buckets": 4,
            "tblproperties": {"a": 1, "b": None, "c": True},
            "options": {},
        },
    )


@pytest.mark.parametrize(("config", "value"), [("clustered_by", "a"), ("buckets", 4)])
def test_configs_that_a_streaming_table_would_ignore_are_refused(config: str, value: Any) -> None:
    with pytest.raises(QueryError, match=f"config '{config}' is for `table` and `incremental` models"):
        stream_config.read_stream_config({config: value}, frozenset())
    stream_config.read_stream_config({config: None}, frozenset())
