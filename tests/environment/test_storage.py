"""Small files under the storage root."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage, StorageError
from dbt.adapters.spark_streaming.stream.common.errors import StreamError, readable_errors
from dbt.adapters.spark_streaming.stream.common.model import StreamModel


def no_session() -> None:
    raise AssertionError("a local root needs no Spark")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path), no_session)


def test_a_text_comes_back(storage: Storage) -> None:
    path = storage.path("progress", "model.json")
    assert storage.read_text(path) is None
    assert not storage.exists(path)
    storage.write_text(path, "über")
    assert storage.read_text(path) == "über"
    assert storage.exists(path)
    assert storage.list(storage.progress) == ["model.json"]


def test_deleting_what_is_not_there_is_fine(storage: Storage) -> None:
    storage.delete(storage.path("none"))
    storage.write_text(storage.path("folder", "file"), "x")
    storage.delete(storage.path("folder"))
    assert storage.list(storage.root) == []
    assert storage.list(storage.path("folder")) == []


def test_below_a_file_there_is_nothing(storage: Storage) -> None:
    storage.write_text(storage.path("file"), "x")
    below = storage.path("file", "below")
    storage.delete(below)
    assert (storage.read_text(below), storage.exists(below), storage.list(storage.path("file"))) == (
        None,
        False,
        [],
    )
    assert storage.read_text(storage.path("file")) == "x"


def test_a_reader_never_sees_half_a_text(storage: Storage) -> None:
    path = storage.path("file")
    texts = {"a" * 100_000, "b" * 100_000}
    storage.write_text(path, max(texts))
    done = threading.Event()

    def write() -> None:
        for number in range(50):
            storage.write_text(path, sorted(texts)[number % 2])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert storage.read_text(path) in texts
    writer.join()
    assert storage.list(storage.root) == ["file"]


def test_a_root_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert Storage(str(tmp_path), no_session).unwritable_reason() is None
    assert Storage(str(tmp_path / "file"), no_session).unwritable_reason() in (
        "Not a directory",
        "File exists",
    )


@pytest.mark.parametrize(
    ("root", "local"),
    [("/a/b", True), ("file:///a/b", True), ("s3a://bucket/x", False), ("hdfs://n/x", False)],
)
def test_what_is_local(root: str, local: bool) -> None:
    storage = Storage(root, no_session)
    assert storage.is_local is local
    assert storage.warehouse == f"{root.removeprefix('file://')}/warehouse"
    assert os.path.basename(storage.catalog) == "catalog.db"


@pytest.mark.parametrize("root", ["/data/spark", "file:/data/spark/", "file:///data/spark"])
def test_a_path_of_this_machine_may_have_a_scheme(root: str) -> None:
    storage = Storage(root, lambda: None)
    assert (storage.root, storage.is_local) == ("/data/spark", True)


class Store:
    """A file system of Hadoop's, and the session that has it."""

    def __init__(self, shows_whole_files: bool) -> None:
        self._shows_whole_files = shows_whole_files
        self.done: list[tuple[str, ...]] = []
        context = SimpleNamespace(
            rename=lambda path, to, options: self.done.append(("rename", self._named(path), to.name))
        )
        fs = SimpleNamespace(
            Path=lambda name: SimpleNamespace(
                name=name.rpartition("/")[2], toUri=lambda: None, getFileSystem=lambda conf: self
            ),
            Options=SimpleNamespace(Rename=SimpleNamespace(OVERWRITE=None)),
            FileContext=SimpleNamespace(getFileContext=lambda uri, conf: context),
        )
        self._jvm = SimpleNamespace(
            org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=fs)))
        )
        self._jsc = SimpleNamespace(hadoopConfiguration=lambda: None)
        gateway = SimpleNamespace(new_array=lambda kind, size: [None] * size)
        self.sparkContext = SimpleNamespace(_gateway=gateway)

    @staticmethod
    def _named(path: Any) -> str:
        return "partial" if path.name.endswith(".partial") else str(path.name)

    def hasPathCapability(self, path: Any, capability: str) -> bool:
        return self._shows_whole_files and capability == "fs.capability.outputstream.abortable"

    def getConf(self) -> None:
        return None

    def create(self, path: Any, overwrite: bool) -> Any:
        assert overwrite
        return SimpleNamespace(
            write=lambda data: self.done.append(("write", self._named(path), data.decode())),
            close=lambda: self.done.append(("close", self._named(path))),
        )


def test_an_object_store_shows_a_file_when_it_is_whole() -> None:
    store = Store(shows_whole_files=True)
    Storage("s3a://bucket/x", lambda: store).write_text("s3a://bucket/x/note", "text")
    # Renamed, it would be gone for a moment.
    assert store.done == [("write", "note", "text"), ("close", "note")]


def test_elsewhere_a_file_is_written_beside_its_place() -> None:
    store = Store(shows_whole_files=False)
    Storage("hdfs://n/x", lambda: store).write_text("hdfs://n/x/note", "text")
    assert store.done == [
        ("write", "partial", "text"),
        ("close", "partial"),
        ("rename", "partial", "note"),
    ]


def missing(path: str) -> Any:
    """A session that has no file system for any path."""

    def get(conf: None) -> None:
        raise RuntimeError(
            "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
        )

    hadoop = SimpleNamespace(
        fs=SimpleNamespace(Path=lambda path: SimpleNamespace(getFileSystem=get)),
        util=SimpleNamespace(VersionInfo=SimpleNamespace(getVersion=lambda: "3.4.2")),
    )
    return Storage(
        path,
        lambda: SimpleNamespace(
            _jvm=SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop))),
            _jsc=SimpleNamespace(hadoopConfiguration=lambda: None),
        ),
    )


UNREACHABLE = (
    "The storage root s3a://***@b/x can't be reached: java.lang.ClassNotFoundException: Class "
    "org.apache.hadoop.fs.s3a.S3AFileSystem not found. If classes are missing, name the Java packages of its file "
    "system under 'packages' in the profile: s3 for s3a, Maven coordinates for others, in the version of Spark's Hadoop "
    "(3.4.2)."
)


def test_a_root_whose_file_system_is_missing_is_told_when_it_is_needed() -> None:
    """Not when Spark starts: what is built in batch needs none."""
    root = missing("s3a://AKIA:swordfish@b/x")
    for first in (
        root.unwritable_reason,
        lambda: root.exists(root.checkpoints),
        lambda: root.list(root.savepoints),
    ):
        with pytest.raises(StorageError) as raised:
            first()
        assert raised.value.msg == UNREACHABLE


def test_a_stream_says_the_same_of_such_a_root() -> None:
    root = missing("s3a://AKIA:swordfish@b/x")
    model = StreamModel("m", "c.s.m", "c.s.m__state", root, ())
    with pytest.raises(StreamError) as raised, readable_errors(model):
        root.exists(model.checkpoint)
    assert raised.value.msg == UNREACHABLE


def test_a_first_git_add_leaves_out_what_spark_keeps_in_the_project(tmp_path: Path) -> None:
    for name in (".spark", "lake"):
        (tmp_path / name).mkdir()
        Storage(str(tmp_path / name), lambda: None).hide_from_git()
    assert (tmp_path / ".spark/.gitignore").read_text() == "*\n"
    assert not (tmp_path / "lake/.gitignore").exists()
    (tmp_path / ".spark/.gitignore").write_text("!kept\n")
    Storage(str(tmp_path / ".spark"), lambda: None).hide_from_git()
    assert (tmp_path / ".spark/.gitignore").read_text() == "!kept\n"
