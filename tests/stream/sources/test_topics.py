"""A topic is known by the id that its broker gave it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.sources import topics


class Broker:
    """Tells the ids of its topics."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **ids: str) -> None:
        self.ids = ids
        monkeypatch.setattr(topics, "topic_ids", lambda spark, source: dict(self.ids))


def model(tmp_path: Path, **options: str) -> StreamModel:
    sources = (
        StreamSource("raw.files", "/in", "json"),
        StreamSource("raw.views", "", "kafka", None, options),
    )
    storage: Any = Storage(str(tmp_path), lambda: None)
    return StreamModel("m", "lake.db.m", "lake.db.m__state", storage, sources)


def start(model: StreamModel) -> None:
    spark: Any = None
    topics.note_topics(spark, model)


def plan(model: StreamModel) -> None:
    model.storage.write_text(f"{model.checkpoint}/metadata", '{"id": "x"}')
    model.storage.write_text(f"{model.checkpoint}/offsets/0", "v1")


def test_one_that_was_made_again_stops_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views, broker = model(tmp_path), Broker(monkeypatch, views="a", more="b")
    start(views)
    plan(views)
    start(views)
    broker.ids["more"] = "c"
    with pytest.raises(
        StreamError, match=r"the topic more of its stream raw\.views was deleted and made again"
    ):
        start(views)


def test_what_was_gone_in_between_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views, broker = model(tmp_path), Broker(monkeypatch, views="a")
    start(views)
    plan(views)
    broker.ids = {}
    start(views)
    broker.ids = {"views": "b"}
    with pytest.raises(StreamError):
        start(views)


def test_before_anything_was_read_it_may_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, broker = model(tmp_path), Broker(monkeypatch, views="a")
    start(views)
    broker.ids["views"] = "b"
    start(views)
    plan(views)
    start(views)


def test_who_accepts_lost_messages_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views, broker = model(tmp_path, failOnDataLoss="false"), Broker(monkeypatch, views="a")
    start(views)
    plan(views)
    broker.ids["views"] = "b"
    start(views)
    assert topics.noted_topics(views) == {"1": {"views": "b"}}


def test_a_checkpoint_without_ids_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views, broker = model(tmp_path), Broker(monkeypatch, views="a")
    plan(views)
    start(views)
    broker.ids["views"] = "b"
    with pytest.raises(StreamError):
        start(views)


def test_the_noted_ids_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views = model(tmp_path)
    Broker(monkeypatch, views="a")
    start(views)
    plan(views)
    read: list[str] = []

    def noting(path: str) -> str | None:
        read.append(path)
        return Storage.read_text(views.storage, path)

    monkeypatch.setattr(views.storage, "read_text", noting)
    start(views)
    assert [path for path in read if path.endswith(topics.TOPICS)] == [f"{views.checkpoint}/{topics.TOPICS}"]
