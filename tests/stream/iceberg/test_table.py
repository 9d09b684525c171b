"""Files of another table in a table's folder are no orphans of this one."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from dbt.adapters.spark_streaming.stream.iceberg import table as table_module
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable, SharedFolder

OWN, OTHER = "own", "another"
NEWER = b'{"format-version": 9, "table-uuid": "another"}'


class Java:
    """Iceberg's objects of a table in ``/t``: metadata, files and streams."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def uuid(self) -> str:
        return OWN

    def operations(self) -> Java:
        return self

    io = current = operations

    def metadataFileLocation(self) -> str:
        return "/t/metadata/v2.metadata.json"

    def previousFiles(self) -> Java:
        return self

    def iterator(self) -> Java:
        return self

    def hasNext(self) -> bool:
        return False

    def newInputFile(self, path: str) -> File:
        return File(self._files.get(path))


class File:
    def __init__(self, content: bytes | None) -> None:
        self._content = content

    def exists(self) -> bool:
        return self._content is not None

    def newStream(self) -> File:
        return self

    def readAllBytes(self) -> bytes | None:
        return self._content

    def close(self) -> None:
        pass


class Parser:
    """Iceberg's parser, which can't read any of these files."""

    def read(self, io: object, path: str) -> object:
        raise RuntimeError(f"can't parse {path}")


@pytest.mark.parametrize(
    ("content", "is_of_another"),
    [
        (NEWER, True),
        (gzip.compress(NEWER), True),
        (NEWER[:20], False),
        (gzip.compress(NEWER)[:20], False),
        (b"", False),
        (None, False),
    ],
    ids=["newer", "newer, compressed", "half", "half, compressed", "empty", "deleted"],
)
def test_metadata_of_a_newer_iceberg_is_of_another_table(
    monkeypatch: pytest.MonkeyPatch, content: bytes | None, is_of_another: bool
) -> None:
    """Its data files would be deleted as orphans. A half of a file that a killed process left is of none."""
    path = "/t/metadata/v9.metadata.json"
    table = IcebergTable.__new__(IcebergTable)
    table.name, table.java = "db.t", Java({} if content is None else {path: content})
    monkeypatch.setattr(IcebergTable, "folder", "/t")
    monkeypatch.setattr(IcebergTable, "files_below", lambda *given: iter([path]))
    monkeypatch.setattr(table_module, "java_class", lambda *given: Parser())
    no_spark: Any = None
    if is_of_another:
        with pytest.raises(SharedFolder):
            table._check_folder(no_spark)
    else:
        table._check_folder(no_spark)
