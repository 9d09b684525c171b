"""Records which table the files of a model belong to, in ``tables/<key>.json`` under the storage root.

Checkpoints, savepoints and deployments are found by a table's name. Two targets may share a storage root, and have tables of
the same name in two catalogs. So the owner file has the catalog and the UUID of the table. It is written before all other
files of a model, and deleted after them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ...util.redaction import without_secrets
from ..common.errors import StreamError
from ..common.identifiers import parts
from ..common.metadata_files import read_metadata, write_metadata
from ..common.model import StreamModel
from ..storage.savepoints import own_files
from .table import find_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...environment.storage import Storage

_IDENTIFYING = ("type", "catalog-impl", "uri", "warehouse", "prefix", "ref", "glue.id", "client.region")
"""Options that identify a catalog."""
_METASTORE = ("hive.metastore.uris", "javax.jdo.option.ConnectionURL")
"""Hadoop settings that identify the metastore of a Hive catalog."""
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SQLITE = re.compile(r"(jdbc:sqlite:(?:file:)?)(?![/:]|[A-Za-z]:)([^?]+)")
"""The JDBC URL of a database file with a relative path."""
_ROOT = "<storage_root>"


@dataclass(frozen=True)
class Owner:
    """The table that files belong to."""

    table: str
    """Full name of the table."""
    catalog: Mapping[str, str]
    """The name, the class and the options of the table's catalog."""
    uuid: str | None
    """Iceberg's UUID of the table. A table that was dropped and created again has another one."""


class Conf(Protocol):
    """Spark settings of a session, or of a target without a session."""

    def get(self, key: str, default: str | None, /) -> str | None:
        """Returns a setting, or the default if it isn't set."""


def catalog_identity(conf: Conf, storage: Storage, table: str) -> dict[str, str]:
    """Returns the settings that identify the catalog of a table. `storage`: the target's storage. Paths below its root
    are made relative, so that the root may be moved."""
    named = parts(table)
    name = named[0] if len(named) > 2 else str(conf.get("spark.sql.defaultCatalog", "spark_catalog"))
    prefix = f"spark.sql.catalog.{name}"
    settings = {"name": name, "class": conf.get(prefix, None)}
    settings |= {option: conf.get(f"{prefix}.{option}", None) for option in _IDENTIFYING}
    kind = f"{settings['type']} {settings['catalog-impl']}".lower()
    if "hive" in kind or (name == "spark_catalog" and settings["type"] is None):
        settings |= {option: _hadoop_setting(conf, prefix, option) for option in _METASTORE}
    if "glue" in kind and settings["client.region"] is None:
        settings["client.region"] = next((os.environ[each] for each in _REGIONS if each in os.environ), None)
    if settings["uri"] is not None:
        settings["uri"] = _SQLITE.sub(
            lambda found: found[1] + os.path.abspath(found[2]), str(settings["uri"])
        )
    return {
        key: without_secrets(str(value).replace(storage.root, _ROOT)).rstrip("/")
        for key, value in settings.items()
        if value is not None
    }


def _hadoop_setting(conf: Conf, prefix: str, option: str) -> str | None:
    """Returns a Hadoop setting of a catalog, or else of the session."""
    for name in (f"{prefix}.hadoop.{option}", f"spark.hadoop.{option}", option):
        if (value := conf.get(name, None)) is not None:
            return value
    return None


def model_keys(storage: Storage) -> list[str]:
    """Returns the keys of all models that have an owner file."""
    return [name.removesuffix(".json") for name in storage.list(storage.tables) if name.endswith(".json")]


def read_owner(storage: Storage, key: str) -> Owner | None:
    """Returns the table that the files of a model belong to, or None if it has no owner file. Raises if it can't be read."""
    place = _owner_path(storage, key)
    return read_metadata(
        storage,
        place,
        lambda content: Owner(**content),
        what=f"the table that the files of {key} belong to",
        made=f"The note {place} was written",
        to_do="Put the file back, or delete it together with the model's checkpoint and savepoints.",
    )


def claim(spark: SparkSession, model: StreamModel, uuid: str | None = None) -> None:
    """Records that the files of a model belong to its table. `uuid`: UUID of the table; by default, of the existing
    table."""
    if uuid is None:
        table = find_table(spark, model.target)
        uuid = None if table is None else table.uuid
    now = Owner(model.target, catalog_identity(spark.conf, model.storage, model.target), uuid)
    if read_owner(model.storage, model.key) != now:
        write_metadata(model.storage, _owner_path(model.storage, model.key), now)


def forget_owner(model: StreamModel) -> None:
    """Deletes the owner file of a model, after all of its other files."""
    model.storage.delete(_owner_path(model.storage, model.key))


def check_owner(spark: SparkSession, model: StreamModel) -> None:
    """Raises unless the files of a model belong to its table in this session's catalog."""
    noted = read_owner(model.storage, model.key)
    if noted is None:
        for path in model_folders(model):
            raise StreamError(
                f"Model {model.name}: there is a folder {path}, and no note ({_owner_path(model.storage, model.key)}) "
                "says that it is this model's: an earlier version of this package or somebody else made it. Nothing "
                "was changed. Move it away or delete it, and run the command again."
            )
        return
    here = catalog_identity(spark.conf, model.storage, model.target)
    table = None if noted.catalog == here else find_table(spark, model.target)
    # The table itself shows its owner, even if its catalog's name or settings differ.
    if noted.catalog == here or (table is not None and noted.uuid == table.uuid):
        return
    raise StreamError(_other_catalog_message(model, noted, here))


def model_folders(model: StreamModel) -> list[str]:
    """Returns the existing folders of a model: its checkpoint, and its savepoints unless that folder has only foreign
    files."""
    found = [model.checkpoint] if model.storage.exists(model.checkpoint) else []
    return [*found, model.savepoints] if own_files(model.storage, model.savepoints) else found


def other_catalog_problem(model: StreamModel) -> str | None:
    """Returns a sentence if a model's files belong to a table of another catalog than the target's settings name, else
    None. This needs no Spark, so it also returns a sentence if only the settings of the same catalog have changed."""
    if model.catalog is None or (noted := read_owner(model.storage, model.key)) is None:
        return None
    here = model.catalog
    if all(here.get(key, value) == value for key, value in noted.catalog.items()):
        return None
    return _other_catalog_message(model, noted, here)


def _other_catalog_message(model: StreamModel, noted: Owner, here: Mapping[str, str]) -> str:
    return (
        f"Model {model.name}: the checkpoint and savepoints of {model.target} under {model.storage.root} belong to the "
        f"table {noted.table} of another catalog ({catalog_text(noted.catalog)}); this target's catalog is "
        f"{catalog_text(here)}. Nothing was changed. Give each target its own 'storage_root' in the profile, or another "
        "'schema'."
    )


def is_left_by_dropped_table(spark: SparkSession, model: StreamModel) -> bool:
    """Returns whether the files of a model belong to a dropped table of the same catalog, and the current table of that name
    is new and empty."""
    noted, table = read_owner(model.storage, model.key), find_table(spark, model.target)
    return (
        noted is not None
        and table is not None
        and table.known is None
        and noted.uuid not in (None, table.uuid)
        and noted.catalog == catalog_identity(spark.conf, model.storage, model.target)
    )


def catalog_text(catalog: Mapping[str, str]) -> str:
    """Returns a catalog as text for a message."""
    return ", ".join(f"{key} {value}" for key, value in catalog.items())


def _owner_path(storage: Storage, key: str) -> str:
    return f"{storage.tables}/{key}.json"
