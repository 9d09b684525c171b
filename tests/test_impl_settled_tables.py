"""What is said where something fails once a batch node's table is built: what failed, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming import impl
from dbt.adapters.spark_streaming.impl import SparkStreamingAdapter


class Table:
    """A table that was noted as ours."""


def fails(*_: object) -> Any:
    raise ValueError("the catalog is {away}")


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    found: list[str] = []
    monkeypatch.setattr(impl.logger, "warning", found.append)
    yield found


def after_build() -> None:
    environment = SimpleNamespace(session=lambda: None, storage=None)
    adapter: Any = SimpleNamespace(environment=environment, _warn_of_unreadable_values=lambda node: None)
    before: Any = SimpleNamespace(model=SimpleNamespace(name="m"))
    SparkStreamingAdapter.post_model_hook(adapter, None, before)


def test_a_table_that_can_not_be_noted(monkeypatch: pytest.MonkeyPatch, warned: list[str]) -> None:
    monkeypatch.setattr(impl.batch_tables, "mark_made_table", fails)
    monkeypatch.setattr(impl.maintenance, "expire_old_snapshots", fails)
    after_build()
    assert warned == [
        "Node m: its table is built, but can't be marked as made by this package, or the files of a stream of its name "
        "can't be removed (the catalog is {away}). Its old snapshots and files are kept until it is built with "
        "--full-refresh."
    ]


def test_a_table_whose_snapshots_can_not_be_expired(
    monkeypatch: pytest.MonkeyPatch, warned: list[str]
) -> None:
    monkeypatch.setattr(impl.batch_tables, "mark_made_table", lambda *_: Table())
    monkeypatch.setattr(impl.maintenance, "expire_old_snapshots", fails)
    after_build()
    assert warned == ["Node m: old snapshots of its table can't be expired (the catalog is {away})."]


def test_a_table_of_somebody_else_is_left_alone(monkeypatch: pytest.MonkeyPatch, warned: list[str]) -> None:
    monkeypatch.setattr(impl.batch_tables, "mark_made_table", lambda *_: None)
    monkeypatch.setattr(impl.maintenance, "expire_old_snapshots", fails)
    after_build()
    assert warned == []
