"""Refuses a storage root that was copied or moved from another folder.

The embedded catalog, and Iceberg's metadata, name files by their full paths. So the tables of a copied root are those of the
original, and a run that uses the copy would change the original's tables and delete files of them.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

from dbt_common.exceptions import DbtRuntimeError

from .storage import Storage

_LOCATIONS = (
    "select metadata_location from iceberg_tables union select previous_metadata_location from iceberg_tables"
)
_FOLDER = "/warehouse/"
_SCHEME = re.compile(r"^file:(?://)?(?=/)")


def check_not_copied(storage: Storage) -> None:
    """Raises if a local storage root with an embedded catalog was copied or moved from another folder."""
    for location in _metadata_locations(storage.catalog):
        path = _SCHEME.sub("", location)
        if path.startswith(f"{storage.root}/"):
            continue
        for root, own in _other_roots(path, storage.warehouse):
            # Metadata files have unique names, so the same name in this root is a copy of the file, or the file itself.
            if os.path.exists(own) and not (os.path.exists(path) and os.path.samefile(path, own)):
                raise DbtRuntimeError(
                    f"The storage root {storage.root} was copied or moved from {root}. Its catalog names the files of its "
                    f"tables by their full paths, so they are still those in {root}, and a run here would change and "
                    f"delete files there. Nothing was changed. Move the folder back, or name {root} as 'storage_root' in "
                    f"the profile; to begin with empty tables, name another folder, or delete {storage.root}."
                )


def _metadata_locations(catalog: str) -> Iterator[str]:
    """Yields the paths of the tables' metadata files in the embedded catalog; nothing if it doesn't exist or can't be read,
    which Iceberg reports."""
    try:
        with closing(sqlite3.connect(f"file:{quote(catalog)}?mode=rw", timeout=60, uri=True)) as connection:
            rows = connection.execute(_LOCATIONS).fetchall()
    except sqlite3.Error:
        return
    yield from (str(row[0]) for row in rows if row[0] is not None)


def _other_roots(path: str, warehouse: str) -> Iterator[tuple[str, str]]:
    """Yields the roots that a metadata file may be in, by its path, each with the path that the file has in a warehouse.

    >>> list(_other_roots("/old/warehouse/s/t/metadata/1.json", "/new/warehouse"))
    [('/old', '/new/warehouse/s/t/metadata/1.json')]
    >>> list(_other_roots("/elsewhere/t/metadata/1.json", "/new/warehouse"))
    []
    """
    end = path.find(_FOLDER)
    while end >= 0:
        yield path[:end], f"{warehouse}/{path[end + len(_FOLDER) :]}"
        end = path.find(_FOLDER, end + 1)
