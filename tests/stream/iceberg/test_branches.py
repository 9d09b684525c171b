"""Which files of a snapshot are gone, wherever a catalog's FileIO has them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.iceberg.branches import missing_files
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable

GONE = "java.io.UncheckedIOException: java.io.FileNotFoundException: No such file or directory: s3://b/t/data"


class Table(IcebergTable):
    """One whose FileIO has some files, and says of a folder without any what it is told to."""

    def __init__(
        self, location: str, files: Collection[str], no_folder: str = GONE, late: bool = False
    ) -> None:
        self.name, self.looked_at = "t", list[str]()
        self._files, self._no_folder, self._late = files, no_folder, late
        io = SimpleNamespace(listPrefix=self._prefix, newInputFile=self._file)
        self.java = SimpleNamespace(location=lambda: location, io=lambda: io)

    def _prefix(self, prefix: str) -> Any:
        found = [
            SimpleNamespace(location=lambda path=path: path)
            for path in self._files
            if path.startswith(prefix)
        ]

        def refuse() -> Any:
            raise RuntimeError(self._no_folder)

        if not found and not self._late:
            refuse()
        has = (lambda: bool(found)) if found else refuse
        return SimpleNamespace(iterator=lambda: SimpleNamespace(hasNext=has, next=lambda: found.pop()))

    def _io_supports(self, what: str) -> bool:
        return True

    def _file(self, path: str) -> Any:
        self.looked_at.append(path)
        return SimpleNamespace(exists=lambda: path in self._files)


def gone(table: Table, *snapshot: str) -> list[str]:
    spark: Any = SimpleNamespace(
        sql=lambda text: SimpleNamespace(collect=lambda: [(path,) for path in snapshot])
    )
    return missing_files(spark, Storage("s3://b/root", lambda: None), table, 1)


def test_a_folder_is_listed_at_once() -> None:
    table = Table("s3://b/t", ["s3://b/t/data/a", "s3://b/t/data/k=1/b"])
    assert gone(table, "s3://b/t/data/a", "s3://b/t/data/k=1/b", "s3://b/t/data/c") == ["s3://b/t/data/c"]
    assert table.looked_at == ["s3://b/t/data/c"]


def test_a_snapshot_without_files_has_no_folder() -> None:
    assert gone(Table("s3://b/t", [])) == []


def test_files_that_lie_elsewhere_are_looked_at_one_by_one() -> None:
    """With write.data.path, where there may be no folder data."""
    table = Table("s3://b/t", ["s3://b/elsewhere/a"])
    assert gone(table, "s3://b/elsewhere/a", "s3://b/elsewhere/b") == ["s3://b/elsewhere/b"]
    table = Table("s3://b/t", ["s3://b/t/data/a", "s3://b/t/database/b"])
    assert gone(table, "s3://b/t/data/a", "s3://b/t/database/b") == []


@pytest.mark.parametrize("late", [False, True])
def test_of_a_folder_that_is_gone_all_files_are(late: bool) -> None:
    assert gone(Table("s3://b/t", [], late=late), "s3://b/t/data/a") == ["s3://b/t/data/a"]


def test_a_folder_that_cannot_be_listed_is_not_gone() -> None:
    with pytest.raises(RuntimeError, match="AccessDenied"):
        gone(Table("s3://b/t", [], "AccessDenied"), "s3://b/t/data/a")


def test_on_this_machine(tmp_path: Path) -> None:
    table = Table(f"file:{tmp_path}", [])
    assert gone(table) == []
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").touch()
    assert gone(table, f"file:{tmp_path}/data/a", f"file:{tmp_path}/data/b") == [f"file:{tmp_path}/data/b"]
