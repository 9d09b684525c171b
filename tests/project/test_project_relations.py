"""Several sources that are one table: each query reads what its own sources say, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.project import streaming
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion

TABLE = "`lake`.`raw`.`ev`"


def source(name: str, event_time: str | None = None, **meta: Any) -> dict[str, Any]:
    return {
        "source_name": name,
        "name": "ev",
        "relation_name": TABLE,
        "config": {"event_time": event_time, "meta": meta},
    }


def model(name: str, *reads: str, materialized: str = "streaming_table", **config: Any) -> dict[str, Any]:
    return {
        "name": name,
        "relation_name": TABLE if name == "ev" else f"`lake`.`db`.`{name}`",
        "config": {"materialized": materialized, **config},
        "depends_on": {"nodes": list(reads)},
    }


def graph(*sources: dict[str, Any], **nodes: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": nodes, "sources": {f"s.{each['source_name']}": each for each in sources}}


def event_time(graph: dict[str, Any], *reads: str) -> str | None:
    known = streaming.known_relations(graph, node=model("m", *reads))
    plan = plan_query.plan(f"select ts, at from {expansion.expand_stream(TABLE)}", known)
    (stream,) = generate.generate_program(plan).inputs
    return stream.event_time


BOTH = graph(source("a", "ts"), source("b", "at"))


@pytest.mark.parametrize("reads", [("s.a", "s.b"), ()])
def test_a_query_of_both_is_refused(reads: tuple[str, ...]) -> None:
    with pytest.raises(QueryError) as raised:
        event_time(BOTH, *reads)
    assert str(raised.value) == (
        f"a.ev and b.ev are the same table {TABLE}, and the project says different things of them (event_time ts and at). "
        "Say the same of both, or name one of them alone in this query."
    )


def test_a_query_of_one_has_its_own() -> None:
    assert [event_time(BOTH, each) for each in ("s.a", "s.b")] == ["ts", "at"]
    others = graph(source("b", "at"), source("a"), stg=model("stg", "s.b", materialized="ephemeral"))
    assert event_time(others, "stg") == "at"
    assert event_time(others, "s.a") is None


def test_what_differs(reads: tuple[str, ...] = ("s.a", "s.b")) -> None:
    assert event_time(graph(source("a", "ts"), source("b", "ts")), *reads) == "ts"
    for one, said in (
        (source("a"), "event_time none and at"),
        (source("a", "at", stream={"unique_key": ["k", "at"]}), "unique_key k, at and none"),
    ):
        with pytest.raises(QueryError, match=said):
            event_time(graph(one, source("b", "at")), *reads)


def test_a_source_may_say_what_a_model_does_not() -> None:
    assert event_time(graph(source("a", "ts"), ev=model("ev")), "ev", "s.a") == "ts"
    assert event_time(graph(source("a"), ev=model("ev", event_time="at")), "ev", "s.a") == "at"
    both = graph(source("a", "ts"), ev=model("ev", event_time="at"))
    assert [event_time(both, each) for each in ("ev", "s.a")] == ["at", "ts"]
    with pytest.raises(QueryError, match=r"ev and a\.ev are the same table"):
        event_time(both, "ev", "s.a")


def test_other_queries_are_none_of_it() -> None:
    known = streaming.known_relations(BOTH, node=model("m", "s.other"))
    plan_query.plan(f"select * from {expansion.expand_stream('other')}", known)
    plan_query.plan(
        f"select o.x from {expansion.expand_stream('other')} as o join {TABLE} as t on o.x = t.x", known
    )
    assert known[TABLE] == RelationInfo(conflict=known[TABLE].conflict)


@pytest.mark.parametrize("value", [5, True, ["ts"], " "])
def test_an_event_time_that_is_no_text_concerns_the_readers_of_its_table_alone(value: Any) -> None:
    given = graph(source("a", value), other=model("other", event_time=value))
    assert streaming.known_relations(given, node=model("m"))
    with pytest.raises(QueryError, match=r"config 'event_time' of a.ev is .*; write the name of a column"):
        event_time(given, "s.a")
