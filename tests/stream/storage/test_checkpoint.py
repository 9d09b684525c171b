"""What a checkpoint says of the micro-batches that are planned and done."""

from __future__ import annotations

import json
from pathlib import Path

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.storage.checkpoint import (
    Checkpoint,
    copy_checkpoint,
    file_entries,
    read_checkpoint,
)


def test_a_checkpoint_is_read_as_spark_leaves_it(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path), lambda: None)
    folder = tmp_path / "checkpoint"
    assert read_checkpoint(storage, str(folder)) is None
    for log, names in {"offsets": ["0", "9", "10", ".10.crc", "11.tmp"], "commits": ["0", "9"]}.items():
        (folder / log).mkdir(parents=True)
        for name in names:
            (folder / log / name).touch()
    (folder / "metadata").write_text('{"id":"q1"}')
    assert read_checkpoint(storage, str(folder)) == Checkpoint("q1", planned=10, done=9)


def test_what_a_checkpoint_lacks_is_seen(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path), lambda: None)

    def found(**files: str) -> Checkpoint | None:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, text in files.items():
            file = folder / name.replace("_", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return read_checkpoint(storage, str(folder))

    def missing(**files: str) -> tuple[str, ...]:
        checkpoint = found(metadata='{"id":"q1"}', **files)
        assert checkpoint is not None
        return checkpoint.missing

    of_folder = 'v1\n{}\n{"logOffset":7}\n{"snapshot_id":3}\n-'
    assert missing() == ()
    assert missing(offsets_0="v1\n{}\n-") == ()
    assert (
        missing(offsets_3="", commits_3="")
        == missing(offsets_4="", commits_3="")
        == missing(offsets_4="")
        == ()
    )
    assert missing(commits_3="") == missing(offsets_2="", commits_3="") == ("offsets/3",)
    assert missing(offsets_3=of_folder) == ("sources/0/7",)
    assert missing(offsets_3=of_folder, sources_0_6="") == ("sources/0/7",)
    assert (
        missing(offsets_3=of_folder, sources_0_7="")
        == missing(offsets_3=of_folder, **{"sources_0_9.compact": ""})
        == ()
    )
    assert found(offsets_3="") == Checkpoint("", planned=3, done=None, missing=("metadata",))
    assert found() is None


def checkpoint(folder: Path, offsets: dict[int, str], done: list[int]) -> None:
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q"}')
    (folder / "sources.json").write_text('[{"relation":"e","reads":"db.e"}]')
    for number, offset in offsets.items():
        (folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{offset}")
        (folder / "offsets" / f".{number}.crc").write_text("of Hadoop")
    for number in done:
        (folder / "commits" / str(number)).write_text("v1\n{}")


def test_the_copy_of_a_checkpoint_says_the_same_in_few_files(tmp_path: Path) -> None:
    storage, path, to = Storage(str(tmp_path), lambda: None), str(tmp_path / "a"), str(tmp_path / "b")
    checkpoint(tmp_path / "a", {n: json.dumps({"logOffset": n}) for n in range(40)}, list(range(39)))
    for number in range(40):
        name = f"{number}.compact" if number % 10 == 9 else str(number)
        entries = range(number + 1) if number % 10 == 9 else [number]
        lines = [json.dumps({"path": f"file:///f/{n}", "timestamp": 1, "batchId": n}) for n in entries]
        (tmp_path / "a" / "sources" / "0" / name).write_text("\n".join(["v1", *lines]))
    copy_checkpoint(storage, path, to)
    assert read_checkpoint(storage, to) == read_checkpoint(storage, path) == Checkpoint("q", 39, 38)
    assert file_entries(storage, to, 0) == file_entries(storage, path, 0)
    assert file_entries(storage, to, 0).keys() == {f"file:///f/{n}" for n in range(40)}
    assert len(storage.modification_times(to)) == 2 + 2 + 2 + 11
    assert not list(Path(to).rglob(".*"))
