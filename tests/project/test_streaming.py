"""What a project says of a model's plan: its lookup tables, its configs, what its state depends on, its columns."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.project import streaming
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.program import StreamInput
from dbt.adapters.spark_streaming.query.windows import expansion
from dbt.adapters.spark_streaming.stream.progress.open_windows import OpenWindowSummary
from dbt.adapters.spark_streaming.stream.progress.result import StreamResult
from tests.evolution import CONFIGS, configs_of, planned, query

URL = "jdbc:postgresql://me:secret@db/shop"


def test_the_graph_says_which_relations_are_lookup_tables() -> None:
    graph = {
        "sources": {
            "a": {"relation_name": "crm.a", "config": {"meta": {"lookup": {"url": URL}}}},
            "b": {"relation_name": "crm.b", "config": {}},
        }
    }
    assert {name: known.lookup for name, known in streaming.known_relations(graph).items()} == {
        "crm.a": True,
        "crm.b": False,
    }


def test_a_constant_domain_that_is_no_column() -> None:
    def noted(text: str, *domains: str) -> str | None:
        node = {
            "name": "by_city",
            "config": {"materialized": "streaming_table", "constant_domains": [*domains]},
        }
        return streaming.unknown_domains_note(node, text, {"db.s": RelationInfo(columns=("region",))})

    stream = expansion.expand_stream("db.s")
    assert noted(f"select city, count(*) as n from {stream} group by city", "city", "region") is None
    assert noted(f"select * from {stream}", "ctiy") is None, "the star may have it"
    assert noted(f"select city, count(*) as n from {stream} group by city", "city", "ctiy", "lnad") == (
        "Model by_city: config 'constant_domains' names 'ctiy' and 'lnad', and no column of its query is called so, so it "
        "bounds nothing."
    )


NOTHING = StreamResult(
    batches=1,
    rows_in=3,
    rows_out=0,
    late_rows=0,
    null_time_rows=0,
    watermark=60_000_000,
    windows=OpenWindowSummary(0),
)
ONE = OpenWindowSummary(1, closes_at=600_000_000, after_event=900_000_000)


def note(result: StreamResult, file_format: str = "json", **options: str) -> str | None:
    model: Any = SimpleNamespace(name="few", sources=[SimpleNamespace(format=file_format, options=options)])
    return streaming.no_results_note(model, [StreamInput("raw.orders", "orders", None, "ordered_at")], result)


@pytest.mark.parametrize(
    ("windows", "says"),
    [
        (
            ONE,
            "Model few: 3 rows in and no results, because its window is still open. The next one closes at 1970-01-01 "
            "00:10:00 (UTC), when a row of 1970-01-01 00:15:00 or later comes; `dbt-stream flush few` closes it now.",
        ),
        (
            replace(ONE, windows=1200, after_event=900_000_001),
            "Model few: 3 rows in and no results, because its 1,200 windows are still open. The next one closes at "
            "1970-01-01 00:10:00 (UTC), when a row after 1970-01-01 00:15:00 comes; `dbt-stream flush few` closes all now.",
        ),
        (
            replace(ONE, waits_for=("raw.a", "raw.b")),
            "Model few: 3 rows in and no results, because its window is still open. The next one closes at 1970-01-01 "
            "00:10:00 (UTC), and there is no watermark before rows of raw.a and raw.b come; `dbt-stream flush few` closes "
            "it now.",
        ),
    ],
)
def test_a_run_without_results_says_which_windows_are_open_and_what_closes_them(
    windows: OpenWindowSummary, says: str
) -> None:
    assert note(replace(NOTHING, windows=windows)) == says


@pytest.mark.parametrize(
    ("late", "untimed", "says"),
    [
        (3, 0, "because all rows are late: the windows they belong to have closed. "),
        (1, 2, "because 2 rows of 3 have no event time. Check that ordered_at is in the source's data"),
        (0, 3, "for an array set the option multiLine: true."),
    ],
)
def test_a_run_that_dropped_all_rows_says_why(late: int, untimed: int, says: str) -> None:
    assert says in (note(replace(NOTHING, late_rows=late, null_time_rows=untimed)) or "")


def test_only_files_with_an_object_a_line_may_be_arrays() -> None:
    dropped = replace(NOTHING, null_time_rows=3)
    assert all(
        said is not None and "multiLine" not in said
        for said in (note(dropped, "csv"), note(dropped, multiline="true"))
    )


@pytest.mark.parametrize("change", [{"rows_out": 1}, {"rows_in": 0}, {"late_rows": 2}])
def test_there_is_no_note_where_there_are_results_or_no_rows_or_nothing_to_say(
    change: dict[str, int],
) -> None:
    assert note(replace(NOTHING, **change)) is None


def test_the_line_of_a_run_says_what_came_what_came_out_and_what_is_open() -> None:
    said = streaming.dbt_response(replace(NOTHING, windows=ONE, late_rows=1, null_time_rows=2))._message
    assert said == (
        "STREAM (3 rows in, 0 out, 1 batch, 1 window open, the next closes at 1970-01-01 00:10:00, dropped 1 late and 2 "
        "without a time)"
    )


@pytest.mark.parametrize(
    ("materialized", "query", "found"),
    [
        ("window_aggregate", "select k, count(*) as n from {} group by k", "a GROUP BY without windows"),
        ("cumulate", "select k, count(*) as n from {} group by k", "a GROUP BY without windows"),
        ("topn", "select k, count(*) as n from {} group by k", "a GROUP BY without windows"),
        ("topn", "select a.k from {} as a join {} as b on a.k = b.k", "a join of streams"),
    ],
)
def test_a_query_that_its_materialization_refuses_is_refused_for_that_before_its_state(
    materialized: str, query: str, found: str
) -> None:
    text = query.format(*[expansion.expand_stream("shop.bids")] * query.count("{}"))
    node = {"name": "m", "alias": "m", "config": {"materialized": materialized}}
    with pytest.raises(QueryError) as problem:
        streaming.plan_model(node, text)
    assert f"materialized='{materialized}' asks for" in str(problem.value)
    assert f", found {found}; use materialized='streaming_table'." in str(problem.value)
    with pytest.raises(QueryError, match="grows without bound"):
        streaming.plan_model({**node, "config": {"materialized": "streaming_table"}}, text)


@pytest.mark.parametrize(
    "operator",
    [
        "tumble rows",
        "session WindowAggregate",
        "IntervalJoin",
        "TopN of rows",
        "GroupAggregate over WindowAggregate",
    ],
)
def test_operators_list_the_state_tables_by_their_names_in_the_state(operator: str) -> None:
    config = "state_ttl" if "state_ttl" in configs_of(operator) else ""
    plan, program = planned(query(operator).text(), CONFIGS[config])
    windows = [each.name for each in plan.dataflow.window_operators]
    own = (
        ()
        if program.fingerprints is None
        else (*program.fingerprints().parts, *program.fingerprints().groups)
    )
    assert program.with_names is not None
    made = program.with_names({each: f"{each}_of_old" for each in (*windows, *own)})
    assert made.operators is not None and program.operators is not None
    assert {*made.operators().of_parts} == {each.name for each in made.parts}
    assert [*made.operators().of_parts.values()] == [*program.operators().of_parts.values()]
    assert all("_of_old" in each.part for each in made.open_windows)
