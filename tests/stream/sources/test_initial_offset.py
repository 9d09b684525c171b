"""The initial offset of a table follows the stream: a query that begins again begins where the last one ended."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.sources import initial_offset
from dbt.adapters.spark_streaming.stream.sources.initial_offset import (
    advance_offsets,
    discard_first_batch,
    prepare_initial_load,
)
from dbt.adapters.spark_streaming.stream.storage.checkpoint import sources_read_whole


def offset(snapshot: int) -> str:
    return json.dumps({"version": 1, "snapshot_id": snapshot, "position": 1, "scan_all_files": False})


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    storage = Storage(str(tmp_path), lambda: None)
    sources = (StreamSource("orders", "lake.db.orders"), StreamSource("clicks", "/clicks", "json"))
    made = StreamModel("m", "lake.db.m", "lake.db.m__state", storage, sources)
    storage.write_text(f"{made.checkpoint}/metadata", '{"id": "q"}')
    storage.write_text(f"{made.checkpoint}/sources/0/offsets/0", offset(10))
    for batch, snapshot in ((0, 11), (1, 12)):
        text = f'v1\n{{}}\n{offset(snapshot)}\n{{"logOffset": {batch}}}'
        storage.write_text(f"{made.checkpoint}/offsets/{batch}", text)
    return made


def begins(model: StreamModel) -> dict[str, int]:
    found = json.loads(model.storage.read_text(f"{model.checkpoint}/sources/0/offsets/0") or "{}")
    return {name: found[name] for name in ("snapshot_id", "position")}


def done(model: StreamModel, batch: int) -> None:
    model.storage.write_text(f"{model.checkpoint}/commits/{batch}", "v1\n{}")


def test_before_the_first_micro_batch_is_done_it_stays(model: StreamModel) -> None:
    advance_offsets(model)
    assert begins(model) == {"snapshot_id": 10, "position": 1}


def test_it_is_before_the_last_snapshot_that_was_read(model: StreamModel) -> None:
    done(model, 0)
    advance_offsets(model)
    assert begins(model) == {"snapshot_id": 11, "position": -1}
    done(model, 1)
    advance_offsets(model)
    assert begins(model) == {"snapshot_id": 12, "position": -1}
    assert not model.storage.exists(f"{model.checkpoint}/sources/1/offsets/0"), "folders have none"


def test_a_micro_batch_that_was_ingested_before_a_crash_counts(model: StreamModel) -> None:
    advance_offsets(model, ingested=0)
    assert begins(model) == {"snapshot_id": 11, "position": 0}, "Spark replays the first micro-batch"
    advance_offsets(model, ingested=7)
    assert begins(model)["snapshot_id"] == 12, "no further than is planned"


def test_to_begin_again_keeps_the_id_of_the_query(model: StreamModel) -> None:
    discard_first_batch(model)
    assert not model.storage.exists(f"{model.checkpoint}/offsets/0")
    assert model.storage.read_text(f"{model.checkpoint}/metadata") == '{"id": "q"}'


def test_no_times_of_files_outlive_the_plan_that_they_are_of(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may be killed in between: the next plan's files would seem to be written again after they were read."""
    storage = model.storage
    storage.write_text(f"{model.checkpoint}/files.json", '{"1": {"file:///a.json": 7}}')
    deleted: list[str] = []
    monkeypatch.setattr(storage, "delete", deleted.append)
    discard_first_batch(model)
    assert deleted[0] == f"{model.checkpoint}/files.json"


def test_what_an_earlier_attempt_left_is_not_where_a_stream_begins(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ended before its first micro-batch was planned began at the last append, to read the table as a whole.

    The source's option `streaming-skip-overwrite-snapshots` has come since: now all appends are read.
    """
    model.storage.delete(f"{model.checkpoint}/offsets")
    table = SimpleNamespace(newest_append=lambda: 17, has_lost_rows=False, snapshot_id=18)
    monkeypatch.setattr(
        initial_offset, "table_from_beginning", lambda spark, source: table if source.is_table else None
    )
    no_spark: Any = None
    for is_changed, position in ((True, {"snapshot_id": 17, "position": 0}), (False, None)):
        monkeypatch.setattr(initial_offset, "has_changed_rows", lambda *given, it=is_changed: it)
        assert prepare_initial_load(no_spark, model) is is_changed
        assert sources_read_whole(model.storage, model.checkpoint) == ({0: 18} if is_changed else {})
        if position is not None:
            assert begins(model) == position
    assert not model.storage.exists(f"{model.checkpoint}/sources/0/offsets/0")
    model.storage.write_text(f"{model.checkpoint}/offsets/0", f"v1\n{{}}\n{offset(5)}\n-")
    model.storage.write_text(f"{model.checkpoint}/sources/0/offsets/0", offset(5))
    assert not prepare_initial_load(no_spark, model), "it has begun"
    assert begins(model) == {"snapshot_id": 5, "position": 1}


def of_kafka(tmp_path: Path, **options: str) -> StreamModel:
    """A model that reads a topic and a folder, before its first micro-batch is planned."""
    sources = (StreamSource("bids", "", "kafka", options=options), StreamSource("clicks", "/clicks", "json"))
    return StreamModel("m", "lake.db.m", "lake.db.m__state", Storage(str(tmp_path), lambda: None), sources)


def left(model: StreamModel) -> list[str]:
    """What is left of an earlier attempt, after another one has begun."""
    no_spark: Any = None
    assert not prepare_initial_load(no_spark, model)
    paths = ("0/0", "1/0")
    return [path for path in paths if model.storage.exists(f"{model.checkpoint}/sources/{path}")]


EARLIEST, LATEST = {"startingOffsets": "earliest"}, {"StartingOffsets": "latest"}
MONDAY = {"startingTimestamp": "1700000000000"}


@pytest.mark.parametrize(
    ("before", "now", "stays"),
    [
        (LATEST, LATEST, True),
        (LATEST, EARLIEST, False),
        (LATEST, {}, False),
        (LATEST, MONDAY, False),
        (MONDAY, MONDAY, True),
        (EARLIEST, LATEST, False),
        ({}, {"kafka.group.id": "g"}, False),
        (None, {}, False),
        (None, LATEST, True),
    ],
)
def test_a_stream_of_kafka_begins_where_its_options_say(
    tmp_path: Path, before: dict[str, str] | None, now: dict[str, str], stays: bool
) -> None:
    """Spark stores an initial offset even if there are no messages to plan. With the same `latest` it is right: what
    comes between two runs is read. `None`: an earlier version of this package, which noted no options."""
    if before is not None:
        assert left(of_kafka(tmp_path, **before)) == []
    model = of_kafka(tmp_path, **now)
    model.storage.write_text(f"{model.checkpoint}/sources/0/0", '\0v1\n{"bids":{"0":100}}')
    model.storage.write_text(f"{model.checkpoint}/sources/0/.0.crc", "of Hadoop")
    model.storage.write_text(f"{model.checkpoint}/sources/1/0", 'v1\n{"path":"file:///a.json"}')
    for _ in range(2):
        assert left(model) == (["0/0", "1/0"] if stays else ["1/0"])
        assert model.storage.exists(f"{model.checkpoint}/sources/0/.0.crc") is stays


def test_a_stream_of_kafka_that_has_begun_keeps_its_offset_and_files_keep_their_log(tmp_path: Path) -> None:
    model = of_kafka(tmp_path, **LATEST)
    assert left(model) == []
    log = f"{model.checkpoint}/sources/0/0"
    model.storage.write_text(log, 'v1\n{"path":"file:///a.json"}')
    assert left(of_kafka(tmp_path)) == ["0/0"], "the sources were in another order"
    model.storage.write_text(log, '\0v1\n{"bids":{"0":100}}')
    model.storage.write_text(f"{model.checkpoint}/offsets/0", 'v1\n{}\n{"bids":{"0":101}}\n-')
    assert left(of_kafka(tmp_path)) == ["0/0"]
