"""How far a new version of a model is behind the old one, by their checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.sources.lag import Lag, consumer_lag
from dbt.adapters.spark_streaming.stream.storage import deployments
from dbt.adapters.spark_streaming.stream.storage.deployments import Deployment, version_of_model

SPARK = cast(Any, None)


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("m", "lake.db.m", "lake.db.m__state", Storage(str(tmp_path), lambda: None), ())


@pytest.fixture
def staged(model: StreamModel) -> Deployment:
    made = deployments.new_deployment(model, "u")
    deployments.write_deployment(model.storage, made)
    return made


def checkpoint(model: StreamModel, reads: list[str], offsets: list[object], done: bool = True) -> None:
    """A checkpoint after one micro-batch."""
    folder = Path(model.checkpoint)
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text('{"id": "q"}')
    (folder / "sources.json").write_text(json.dumps([{"relation": each, "reads": each} for each in reads]))
    lines = [each if isinstance(each, str) else json.dumps(each) for each in offsets]
    (folder / "offsets" / "0").write_text("\n".join(["v1", "{}", *lines]))
    if done:
        (folder / "commits" / "0").write_text("v1\n{}")


def files(model: StreamModel, place: int, *names: str) -> None:
    log = Path(model.checkpoint) / "sources" / str(place)
    log.mkdir(parents=True)
    for number, name in enumerate(names):
        (log / str(number)).write_text("v1\n" + json.dumps({"path": name, "timestamp": 1, "batchId": number}))


def test_how_far_folders_and_topics_are_read(model: StreamModel, staged: Deployment) -> None:
    new = version_of_model(model, staged.new)
    topic, reads = {"t": {"0": 7, "1": 5}}, ["/in", "topic"]
    checkpoint(model, reads, [{"logOffset": 2}, topic])
    files(model, 0, "a", "b", "c")
    with pytest.raises(
        StreamError,
        match=r"its new version lake.*has no checkpoint: it was forgotten since .*`dbt-stream deploy await",
    ):
        consumer_lag(SPARK, model, new)
    # Another order, other files in a micro-batch, and one source more.
    checkpoint(new, ["topic", "else", "/in"], [{"t": {"0": 4}}, {"logOffset": 9}, {"logOffset": 0}])
    files(new, 2, "c", "a")
    assert consumer_lag(SPARK, model, new) == [Lag("/in", 2, "files"), Lag("topic", 8, "messages")]
    checkpoint(new, ["topic", "else", "/in"], [{"t": {"0": 9, "1": 5}}, {"logOffset": 9}, {"logOffset": 1}])
    (Path(new.checkpoint) / "sources" / "2" / "0").write_text(
        "\n".join(["v1", *(json.dumps({"path": each, "timestamp": 1, "batchId": 0}) for each in "abd")])
    )
    (Path(new.checkpoint) / "sources" / "2" / "1").write_text(
        "v1\n" + json.dumps({"path": "c", "timestamp": 1, "batchId": 1})
    )
    assert consumer_lag(SPARK, model, new) == []
    # What is planned and not done has to be done again.
    Path(new.checkpoint, "commits", "0").unlink()
    assert [str(each) for each in consumer_lag(SPARK, model, new)] == [
        "3 files of /in",
        "12 messages of topic",
    ]
