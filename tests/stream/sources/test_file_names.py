"""A micro-batch doesn't have a file twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.sources.file_names import check_batch


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (["a", "b"], None),
        (["a", "b", "a"], r"its path /in/\{a,\*\} matches file:///in/a twice"),
        (["a", "b[1]"], "has one of the letters"),
    ],
)
def test_a_file_that_would_be_read_twice(tmp_path: Path, files: list[str], problem: str | None) -> None:
    source = StreamSource("raw.files", "/in/{a,*}", "json")
    model = StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), (source,))
    log = "\n".join(
        ["v1", *(f'{{"path": "file:///in/{name}", "timestamp": 1, "batchId": 0}}' for name in files)]
    )
    model.storage.write_text(f"{model.checkpoint}/offsets/0", 'v1\n{}\n{"logOffset":0}')
    model.storage.write_text(f"{model.checkpoint}/sources/0/0", log)
    if problem is None:
        check_batch(model, 0)
        return
    with pytest.raises(StreamError, match=problem):
        check_batch(model, 0)
