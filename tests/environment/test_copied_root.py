"""Storage roots that were copied, moved, or are named by another path."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment.copied_root import check_not_copied
from dbt.adapters.spark_streaming.environment.storage import Storage


def storage_at(root: Path) -> Storage:
    return Storage(str(root), lambda: None)


def locate(root: Path, *files: Path, prefix: str = "") -> None:
    """Makes metadata files of tables and writes them into the catalog of a root, the current one and the one before."""
    root.mkdir(exist_ok=True)
    with closing(sqlite3.connect(root / "catalog.db")) as catalog, catalog:
        catalog.execute(
            "create table if not exists iceberg_tables (metadata_location, previous_metadata_location)"
        )
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("{}")
            catalog.execute("insert into iceberg_tables values (?, ?)", (f"{prefix}{file}", None))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with two tables. Its path has the name of the warehouse's folder."""
    found = tmp_path / "warehouse" / "mine"
    found.parent.mkdir()
    locate(
        found,
        found / "warehouse/shop/orders/metadata/1.json",
        found / "warehouse/warehouse/t/metadata/2.json",
    )
    return found


def test_a_root_is_used_where_it_was_made(root: Path, tmp_path: Path) -> None:
    check_not_copied(storage_at(root))
    check_not_copied(storage_at(tmp_path / "new"))
    (tmp_path / "empty").mkdir()
    sqlite3.connect(tmp_path / "empty" / "catalog.db").close()
    check_not_copied(storage_at(tmp_path / "empty"))
    (tmp_path / "empty" / "catalog.db").write_text("no database")
    check_not_copied(storage_at(tmp_path / "empty"))


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
@pytest.mark.parametrize("moved", [False, True])
def test_a_copied_or_moved_root_is_refused(tmp_path: Path, prefix: str, moved: bool) -> None:
    """Its tables would be those of the original, whose files a `--full-refresh` or the maintenance deletes."""
    root, other = tmp_path / "a", tmp_path / "b"
    locate(root, root / "warehouse/shop/orders/metadata/1.json", prefix=prefix)
    if moved:
        root.rename(other)
    else:
        shutil.copytree(root, other)
    with pytest.raises(DbtRuntimeError) as raised:
        check_not_copied(storage_at(other))
    said = str(raised.value.msg)
    assert f"{other} was copied or moved from {root}." in said
    assert f"Move the folder back, or name {root} as 'storage_root'" in said


def test_a_copy_that_a_run_has_written_to_is_refused(root: Path, tmp_path: Path) -> None:
    """The current metadata file is then in the original only, and the one before in both."""
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    with closing(sqlite3.connect(copy / "catalog.db")) as catalog, catalog:
        catalog.execute(
            "update iceberg_tables set previous_metadata_location = metadata_location, metadata_location = ?",
            (f"{root}/warehouse/shop/orders/metadata/3.json",),
        )
    with pytest.raises(DbtRuntimeError, match=f"copied or moved from {root}"):
        check_not_copied(storage_at(copy))


def test_another_path_to_the_same_folder_is_accepted(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    check_not_copied(storage_at(tmp_path / "link"))


def test_tables_in_other_folders_are_accepted(root: Path, tmp_path: Path) -> None:
    """As those with a `location_root`."""
    locate(
        root, tmp_path / "elsewhere/shop/other/metadata/4.json", tmp_path / "warehouse/shop/x/metadata/5.json"
    )
    check_not_copied(storage_at(root))
