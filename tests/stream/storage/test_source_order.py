"""Sources that are one folder or table keep their places in a checkpoint, whatever the order in the query's text."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.program import StreamInput
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.storage.source_order import in_checkpoint_order, write_order


def model(root: Path, *sources: StreamSource) -> StreamModel:
    return StreamModel("m", "lake.db.m", "lake.db.m__state", Storage(str(root), lambda: None), sources)


def of(relation: str, location: str) -> StreamSource:
    return StreamSource(relation, location, "json")


ONE_FOLDER = [of("raw.eu", "/in"), of("raw.us", "/in"), of("raw.other", "/other")]


@pytest.mark.parametrize("text", [*permutations(range(3))])
def test_two_sources_of_one_folder(tmp_path: Path, text: tuple[int, ...]) -> None:
    begun = model(tmp_path, *ONE_FOLDER)
    begun.storage.write_text(f"{begun.checkpoint}/metadata", '{"id": "x"}')
    begun.storage.write_text(f"{begun.checkpoint}/offsets/0", "v1")
    write_order(begun)
    now = model(tmp_path, *(ONE_FOLDER[place] for place in text))
    inputs: list[Any] = [
        StreamInput(source.relation, f"stream_{place}", None, None)
        for place, source in enumerate(now.sources)
    ]
    order = in_checkpoint_order(now, inputs)
    assert [each.relation for each in order.model.sources] == ["raw.eu", "raw.us", "raw.other"]
    assert [each.relation for each in order.inputs] == ["raw.eu", "raw.us", "raw.other"]
