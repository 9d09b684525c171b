"""A file that was written again after a stream had read it is noticed, and one that is gone is not taken for it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.program import StreamInput
from dbt.adapters.spark_streaming.stream.common import periodic
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.sources import changed_files
from dbt.adapters.spark_streaming.stream.sources.changed_files import ReadFiles, warn_of_gone
from dbt.adapters.spark_streaming.stream.sources.initial_offset import discard_first_batch

NO_SPARK: Any = None
EARLIER = 1_700_000_000_123


class Folder:
    """A folder of files, and the checkpoint of a model that reads it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "in"
        self.folder.mkdir()
        self.warnings: list[str] = []
        source = StreamSource("raw.orders", f"file://{self.folder}", "json")
        storage = Storage(str(root), lambda: None)
        self.model = StreamModel("m", "lake.db.m", "lake.db.m__state", storage, (source,))

    def put(self, name: str, modified: int = EARLIER) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"a": 1}')
        os.utime(path, ns=(modified * 1_000_000, modified * 1_000_000))

    def plan(self, *names: str, batch: int = 0) -> None:
        """Has a micro-batch read files as they are."""
        storage, checkpoint = self.model.storage, self.model.checkpoint
        entries = [
            {
                "path": f"file://{quote(str(self.folder / name))}",
                "timestamp": os.stat(self.folder / name).st_mtime_ns // 1_000_000,
                "batchId": batch,
            }
            for name in names
        ]
        storage.write_text(f"{checkpoint}/metadata", '{"id": "x"}')
        storage.write_text(f"{checkpoint}/sources/0/{batch}", "\n".join(["v1", *map(json.dumps, entries)]))
        storage.write_text(f"{checkpoint}/offsets/{batch}", f'v1\n{{}}\n{{"logOffset":{batch}}}')

    def option(self, **options: str) -> None:
        (source,) = self.model.sources
        self.model = replace(self.model, sources=(replace(source, options=options),))

    def begin(self, batch: int = 0) -> None:
        """Begins a run, of which micro-batches up to one are in."""
        files = ReadFiles(NO_SPARK, self.model)
        files.check(batch)
        files.accept(batch)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    made = Folder(tmp_path)
    monkeypatch.setattr(changed_files.logger, "warning", made.warnings.append)
    return made


@pytest.mark.parametrize("name", ["a.json", "a b%20é.json", "q[1].json", "day=1/a.json"])
@pytest.mark.parametrize("by", [1, -3_600_000], ids=["later", "older"])
def test_a_file_that_was_written_again(folder: Folder, name: str, by: int) -> None:
    folder.put(name)
    folder.plan(name)
    folder.begin()
    folder.put(name, EARLIER + by)
    with pytest.raises(StreamError) as raised:
        folder.begin()
    assert raised.value.msg == (
        f"Model m: the file file://{folder.folder / name} of its source raw.orders was written again since this model "
        "read it. A stream reads a path once, so its table has the old rows, and those that it has now would never be "
        "read. To add them to the old ones, give it another name; to replace the old ones, rebuild the model: `dbt run "
        "--full-refresh --select m`. If the rows are the same (files that were copied or touched), say so once: `dbt "
        "run --select m --vars '{keep_state: true}'`."
    )


def test_another_folder_with_files_of_the_same_names(folder: Folder) -> None:
    folder.put("a.json")
    folder.put("b.json")
    folder.plan("a.json", "b.json")
    for name in ("a.json", "b.json", "c.json"):
        folder.put(name, EARLIER + 1000)
    with pytest.raises(StreamError, match=r"a\.json and 1 more of its source raw\.orders were written again"):
        folder.begin()


def test_its_author_says_that_the_rows_are_the_same(folder: Folder) -> None:
    folder.put("a.json")
    folder.plan("a.json")
    folder.put("a.json", EARLIER + 1)
    folder.model = replace(folder.model, keep_state=True)
    folder.begin()
    assert "1 file of its source raw.orders was written again" in folder.warnings[0]
    folder.model = replace(folder.model, keep_state=False)
    folder.begin()
    folder.put("a.json", EARLIER)
    with pytest.raises(StreamError):
        folder.begin()


def test_a_file_that_was_put_right_before_it_was_read(folder: Folder) -> None:
    folder.put("a.json")
    folder.plan("a.json")
    folder.put("b.json")
    folder.plan("b.json", batch=1)
    folder.put("b.json", EARLIER + 1)
    folder.begin(batch=0)
    folder.begin(batch=1)
    folder.put("b.json", EARLIER + 2)
    with pytest.raises(StreamError):
        folder.begin(batch=1)


def test_files_that_were_moved_away(folder: Folder) -> None:
    folder.put("a.json")
    folder.put("b.json")
    folder.plan("a.json", "b.json")
    folder.put("c.json")
    (folder.folder / "a.json").unlink()
    folder.begin()
    folder.put("archive/a.json")
    (folder.folder / "c.json").unlink()
    (folder.folder / "b.json").unlink()
    folder.begin()
    assert folder.warnings == []


def test_all_files_are_others(folder: Folder) -> None:
    folder.put("a.json")
    folder.plan("a.json")
    (folder.folder / "a.json").rename(folder.folder / "b.json")
    folder.begin()
    (warning,) = folder.warnings
    assert "of the 1 file that it has read of its source raw.orders none is in" in warning
    assert "If the folder was replaced by another one, rebuild the model" in warning
    for options in ({"cleanSource": "delete"}, {"ignoreMissingFiles": "true"}):
        folder.option(**options)
        folder.begin()
    assert len(folder.warnings) == 1


def test_a_running_query_looks_now_and_then(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.put("a.json")
    folder.plan("a.json")
    files = ReadFiles(NO_SPARK, folder.model)
    folder.put("a.json", EARLIER + 1)
    files.check_now_and_then(0)
    now = periodic.time.monotonic()
    monkeypatch.setattr(periodic.time, "monotonic", lambda: now + 3600)
    with pytest.raises(StreamError):
        files.check_now_and_then(0)


def test_a_table_that_is_built_again_lacks_files_that_are_gone(folder: Folder) -> None:
    inputs = [StreamInput("raw.orders", "stream_orders", None, None)]
    warn_of_gone(NO_SPARK, folder.model, inputs)
    for name in ("a.json", "b c.json", "d.json"):
        folder.put(name)
    folder.plan("a.json", "b c.json")
    warn_of_gone(NO_SPARK, folder.model, inputs)
    assert folder.warnings == []
    (folder.folder / "b c.json").unlink()
    warn_of_gone(NO_SPARK, folder.model, inputs)
    assert folder.warnings == [
        f"Model m: 1 of 2 files that it has read of its source raw.orders is gone, as file://{folder.folder}/b c.json: the "
        "table that is built now lacks their rows."
    ]


def test_a_stream_that_begins_again_has_read_no_file(folder: Folder) -> None:
    """What was changed before the first micro-batch was discarded says nothing of the one that is planned then."""
    folder.put("a.json")
    folder.plan("a.json")
    folder.put("a.json", EARLIER + 1)
    folder.begin(batch=-1)
    discard_first_batch(folder.model)
    folder.put("a.json", EARLIER + 2)
    folder.plan("a.json")
    folder.begin()
