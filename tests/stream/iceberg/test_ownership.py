"""The check before a DROP fails where it can't read what a table holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbt.adapters.spark_streaming.stream.iceberg.ownership import may_delete_files
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable


class Names:
    """An iterator of py4j, whose `next` ends a loop at an element that can't be fetched."""

    def __init__(self, *names: str, fails: bool = False) -> None:
        self.left, self.fails = [*names], fails

    def hasNext(self) -> bool:
        return bool(self.left) or self.fails

    def next(self) -> str:
        if not self.left:
            raise StopIteration
        return self.left.pop(0)


def table(refs: Names) -> IcebergTable:
    keys = SimpleNamespace(iterator=lambda: refs)
    java = SimpleNamespace(refs=lambda: SimpleNamespace(keySet=lambda: keys))
    found: Any = SimpleNamespace(java=java, property=lambda _: None, has_all_files_in_folder=lambda: True)
    return cast(IcebergTable, found)


def test_a_branch_or_tag_of_a_user_keeps_the_files() -> None:
    assert may_delete_files(table(Names("main")))
    assert not may_delete_files(table(Names("main", "audit")))


def test_refs_that_cannot_be_fetched_are_an_error() -> None:
    with pytest.raises(RuntimeError):
        may_delete_files(table(Names("main", fails=True)))
