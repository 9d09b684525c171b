"""The table of configs says what the code does: defaults, and what a changed value means to the next run."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.project import stream_config, streaming
from dbt.adapters.spark_streaming.project.model_configs import (
    INCREMENTAL,
    MATERIALIZATIONS,
    REBUILD,
    STREAMING,
    TABLES,
    check_table_configs,
)
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.rewrites import rewrite_configs
from dbt.adapters.spark_streaming.query.windows import emission, expansion, window_arguments
from dbt.adapters.spark_streaming.stream.evolution import compare
from dbt.adapters.spark_streaming.util.settings import setting_names

KNOWN = {"bids": RelationInfo("ts")}
TUMBLE = expansion.expand_window("bids", window_arguments.make_window("tumble", "ts", "5 minutes"))
BY_WINDOW = (
    f"select window_start, window_end, channel, count(distinct price) as n from {TUMBLE} "
    "where channel in ('a', 'b') group by window_start, window_end, channel"
)
RANKED = (
    "select window_start, window_end, item, place from (select *, row_number() over "
    f"(partition by window_start, window_end order by price desc) as place from {TUMBLE}) where place <= 3"
)
GROUPED = "select item, count(*) as n from (select /*+ STREAM */ * from bids as bids) group by item"
LATE = {"late_updates": True, "last_result_offset": "2 hours"}
BOUNDED: dict[str, Any] = {"constant_domains": ["item"]}

CHANGES: dict[str, list[tuple[str, dict[str, Any], Any, bool]]] = {
    "first_result_offset": [(BY_WINDOW, LATE, "-1 minute", False), (BY_WINDOW, {}, "-1 minute", True)],
    "update_rate": [(BY_WINDOW, {"first_result_offset": "-2 minutes"}, "1 minute", False)],
    "complete_result_offset": [(BY_WINDOW, {}, "1 minute", True)],
    "last_result_offset": [(BY_WINDOW, LATE, "1 hour", True)],
    "state_ttl": [(GROUPED, {"state_ttl": "1 day"}, "2 days", False), (GROUPED, BOUNDED, "1 day", True)],
    "constant_domains": [(GROUPED, {"state_ttl": "1 day"}, ["item"], False)],
    "allow_recompute": [(GROUPED, BOUNDED, False, False)],
    "enum_distinct": [(BY_WINDOW, {}, True, True)],
    "split_distinct": [(BY_WINDOW, {}, 16, False)],
    "split_topn": [(RANKED, {}, 16, False)],
    "output_mode": [(GROUPED, BOUNDED, "upsert", False), (BY_WINDOW, {}, "upsert", True)],
    "unique_key": [(GROUPED, BOUNDED, ["item", "n"], True)],
}
"""Config → query, its other configs, the new value, and whether the state can't continue then."""


@pytest.mark.parametrize(("given", "missing"), [("clustered_by", "buckets"), ("buckets", "clustered_by")])
def test_buckets_of_a_table_need_both_configs(given: str, missing: str) -> None:
    values = {"clustered_by": "k", "buckets": 4}
    check_table_configs(values)
    with pytest.raises(QueryError) as problem:
        check_table_configs({given: values[given], missing: None})
    assert str(problem.value) == (
        f"config '{given}' has no effect without '{missing}'; write both, or leave it out."
    )


def program(query: str, config: dict[str, Any]) -> Program:
    node = {"name": "m", "config": {"materialized": "streaming_table", **config}}
    return streaming.model_program(node, streaming.plan_model(node, query, KNOWN))


@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for name, cases in CHANGES.items() for case in cases],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_changed_value_means_to_the_state(
    name: str, case: tuple[str, dict[str, Any], Any, bool]
) -> None:
    query, others, value, stops = case
    before, after = program(query, others), program(query, {**others, name: value})
    keys = [None if each.upsert is None else each.upsert.row_key for each in (before, after)]
    assert bool(compare.differences(before.signature, after.signature) or keys[0] != keys[1]) == stops
    (said,) = (each.runs.changed for each in STREAMING if each.name == name)
    cases = {each[-1] for each in CHANGES[name]}
    assert (REBUILD in said) == (True in cases)
    if cases == {True}:
        assert said == REBUILD


def test_each_config_that_the_state_depends_on_is_among_these_changes() -> None:
    assert {*streaming._OF_STATE} - {"late_updates"} <= CHANGES.keys()


def test_defaults_are_those_of_the_code() -> None:
    given = {each.name: each.default for each in STREAMING if each.default is not None}
    given.pop("on_schema_change")  # dbt's own config has another default.
    for name in rewrite_configs.NAMES:
        assert given.pop(name) is False
    assert stream_config.read_stream_config(given, frozenset()) == stream_config.read_stream_config(
        {}, frozenset()
    )
    assert rewrite_configs.requested_rewrites(dict.fromkeys(rewrite_configs.NAMES, False)) == {}


def test_each_config_has_a_default_and_a_place_in_the_reference() -> None:
    for each in (*STREAMING, *TABLES, *INCREMENTAL):
        assert each.default is None or not each.default_text, each.name
        assert each.group and each.meaning and each.kind.schema, each.name
        assert each.default is None or each.kind.problem(each.default) is None, each.name
    assert len({*setting_names(STREAMING), *setting_names(TABLES), *setting_names(INCREMENTAL)}) == len(
        STREAMING + TABLES + INCREMENTAL
    )
    assert {*rewrite_configs.NAMES, *emission.CONFIGS} <= {*setting_names(STREAMING)}
    assert len(MATERIALIZATIONS) == 4
