"""What `dbt-stream state diff` says of a model before it runs, with a session and a state that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.program import Program, StatePart, Upsert
from dbt.adapters.spark_streaming.query.state_signature import Signature, WindowOperatorState
from dbt.adapters.spark_streaming.stream.common.model import FAIL, StreamModel
from dbt.adapters.spark_streaming.stream.progress.position import Position
from dbt.adapters.spark_streaming.stream.run import evolve

MODEL = StreamModel(
    "m", "db.m", "db.m__state", Storage("/root", lambda: None), (), columns={"k": "bigint", "n": "bigint"}
)
SIGNATURE = Signature((WindowOperatorState("window_1"),))
STATELESS = Program(inputs=(), items=(), output="", boundaries=None)
STATEFUL = replace(STATELESS, items=(StatePart("rows", "", ""),), signature=SIGNATURE)


def verdict(
    monkeypatch: pytest.MonkeyPatch,
    model: StreamModel,
    program: Program,
    has: Mapping[str, str] | None,
    zone: str | None = None,
) -> evolve.Verdict:
    """The verdict over a table with columns, and a state that was made in a time zone; None: there is none."""
    fields = [SimpleNamespace(name=name, dataType=kind) for name, kind in (has or {}).items()]
    session: Any = SimpleNamespace(
        catalog=SimpleNamespace(tableExists=lambda _: has is not None),
        table=lambda _: SimpleNamespace(schema=SimpleNamespace(fields=fields)),
        conf=SimpleNamespace(get=lambda name: "UTC" if name.endswith("timeZone") else "false"),
    )
    had = replace(SIGNATURE, session={"spark.sql.session.timeZone": zone or ""})
    state = SimpleNamespace(
        position=lambda: Position("m", "q1", batch=7) if zone else None,
        signature=lambda: had if zone else None,
    )
    monkeypatch.setattr(evolve, "working_session", lambda _: session)
    monkeypatch.setattr(
        evolve, "column_types", lambda schema: {each.name: each.dataType for each in schema.fields}
    )
    monkeypatch.setattr(evolve, "StateTable", lambda *_: state)
    for name in ("AppendSink", "Lookups", "RunContext"):
        monkeypatch.setattr(evolve, name, lambda *_: None)
    monkeypatch.setattr(evolve, "plan_state_change", lambda *_, **__: None)
    return evolve.effect_of_edit(session, model, program)


def test_other_settings_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    has = {"k": "bigint", "n": "bigint"}
    found = verdict(monkeypatch, MODEL, STATEFUL, has, "Europe/Berlin")
    assert found.refused is not None and found.refused.startswith(
        "its state was made under other settings of the session (spark.sql.session.timeZone is 'UTC' and was "
        "'Europe/Berlin')"
    )
    assert found.refused.endswith(MODEL.rebuild_advice)
    assert verdict(monkeypatch, MODEL, STATEFUL, has, "UTC").refused is None


@pytest.mark.parametrize("program", [STATELESS, STATEFUL])
def test_columns_where_there_is_no_state(monkeypatch: pytest.MonkeyPatch, program: Program) -> None:
    found = verdict(monkeypatch, replace(MODEL, on_schema_change=FAIL), program, {"k": "bigint"})
    assert found.refused is not None and "the query gives n, which the table lacks" in found.refused
    found = verdict(monkeypatch, MODEL, program, {"k": "bigint", "n": "int"})
    assert found.refused is not None and "its query gives n as BIGINT" in found.refused
    assert verdict(monkeypatch, MODEL, program, {"k": "bigint"}).refused is None


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_columns_that_no_changing_row_can_have(monkeypatch: pytest.MonkeyPatch, zone: str | None) -> None:
    columns = {"k": "bigint", "n": "variant"}
    program = replace(STATEFUL, upsert=Upsert(key=("k",), affected_keys="", target_filter=(), bound=None))
    found = verdict(monkeypatch, replace(MODEL, columns=columns), program, columns, zone)
    assert found.refused is not None and "its column n is or holds a VARIANT" in found.refused
