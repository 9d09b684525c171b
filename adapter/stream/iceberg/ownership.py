"""Identifies the tables that this package created, by two properties: the table's role, and the name of its model's table.

A name proves nothing: any table's name may end in ``__state``. A table without these properties is foreign. It is never
dropped, replaced or written, whatever its name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..common.errors import StreamError
from ..common.identifiers import last_part, parts
from ..common.model import StreamModel
from ..storage.savepoints import BRANCH, CHANGELOG, STATE, TABLE
from .table import UUID, IcebergTable, find_table, java_elements, path_below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLE = "dbt_spark_streaming.role"
"""Table property with the role: `STATE`, `CHANGELOG` or `TABLE`."""
OF = "dbt_spark_streaming.of"
"""Table property with the full name of the model's table."""
_WHAT = {STATE: "its state", CHANGELOG: "its changelog", TABLE: "its table"}
_OWN = re.compile(
    rf"(?:metadata/\.?(?:v\d+[^/]*\.metadata\.json|version-hint\.text|[^/]*{UUID})[^/]*|data/(?:.*/)?[^/]*{UUID}[^/]*)"
)


def ownership_properties(role: str, target: str) -> dict[str, str]:
    """Returns the properties of a table that is created for a model."""
    return {ROLE: role, OF: target}


def role_table_name(model: StreamModel, role: str) -> str:
    """Returns the name of the table that a model has in a role."""
    return {STATE: model.state, CHANGELOG: model.changes, TABLE: model.target}[role]


def was_made_for(table: IcebergTable, role: str, target: str) -> bool:
    """Returns whether a table was created for a model in a role."""
    return table.property(ROLE) == role and is_same_table(table.property(OF) or "", target)


def is_same_table(of: str, target: str) -> bool:
    """Returns whether two names are of the same table. Ignores catalogs, whose names may differ between sessions.

    >>> is_same_table("lakehouse.shop.orders", "prod.shop.Orders")
    True
    """
    return [part.lower() for part in parts(of)[-2:]] == [part.lower() for part in parts(target)[-2:]]


def owned_table(spark: SparkSession, model: StreamModel, role: str) -> IcebergTable | None:
    """Returns a model's table in a role, or None if it doesn't exist or is foreign."""
    table = find_table(spark, role_table_name(model, role))
    return table if table is not None and was_made_for(table, role, model.target) else None


def check_no_foreign_tables(spark: SparkSession, model: StreamModel, keeps_state: bool) -> None:
    """Raises if a foreign table has the name of a model's state or changelog."""
    roles = [*([STATE] if keeps_state else []), *([CHANGELOG] if model.changelog else [])]
    for role in roles:
        name = role_table_name(model, role)
        if spark.catalog.tableExists(name) and owned_table(spark, model, role) is None:
            raise foreign_error(spark, model, role)


def foreign_error(spark: SparkSession, model: StreamModel, role: str) -> StreamError:
    """Returns the error for a foreign table with the name of one of a model's tables."""
    name = role_table_name(model, role)
    return StreamError(
        f"Model {model.name}: {_WHAT[role]} goes into {name}, but there is a table of that name that this package didn't "
        f"make for the model ({_ownership_text(find_table(spark, name))}). It is left alone. Rename that table, or give "
        "the model another 'alias'."
    )


def check_droppable(spark: SparkSession, model: StreamModel) -> None:
    """Raises unless a model's tables can be dropped: its table is its own, and no folder has files of others."""
    if spark.catalog.tableExists(model.target) and owned_table(spark, model, TABLE) is None:
        raise StreamError(
            f"Model {model.name}: {model.target} isn't a table that this package made for it "
            f"({_ownership_text(find_table(spark, model.target))}), so it isn't dropped, and nothing was changed. Drop or "
            "rename it yourself, and run the command again."
        )
    for role in (TABLE, CHANGELOG, STATE):
        if (table := owned_table(spark, model, role)) is not None:
            check_drop_is_safe(spark, table, may_delete_files(table))


def drop_owned_table(spark: SparkSession, model: StreamModel, role: str) -> None:
    """Drops a model's table in a role unless it is foreign. Deletes its files if `may_delete_files`."""
    table = owned_table(spark, model, role)
    if table is not None:
        may_delete = may_delete_files(table)
        check_drop_is_safe(spark, table, may_delete)
        purge = " purge" if may_delete else ""
        spark.sql(f"drop table if exists {role_table_name(model, role)}{purge}")


def assign_table(table: IcebergTable, role: str, target: str) -> None:
    """Sets a table's properties so that it belongs to another model's table, such as one with the new name."""
    if not was_made_for(table, role, target) or table.property(OF) != target:
        table.set_properties(dict(ownership_properties(role, target)))
        table.refresh()


def check_replaceable(spark: SparkSession, node: str, name: str) -> None:
    """Raises if a batch node would replace the state or the changelog of a streaming model."""
    table = find_table(spark, name)
    role = table.property(ROLE) if table is not None else None
    if table is not None and role in (STATE, CHANGELOG):
        of = table.property(OF) or ""
        raise StreamError(
            f"Model {node}: {name} is the {role} of the streaming model whose table is {of}, so nothing else is built "
            f"there. Give {node} another 'alias'. If there is no model {last_part(of)} any more, `dbt-stream clean "
            "--dropped` removes what is left of it."
        )


def _ownership_text(table: IcebergTable | None) -> str:
    if table is None:
        return "it is a view or isn't an Iceberg table"
    role, of = table.property(ROLE), table.property(OF)
    if role is None:
        return f"it has no property '{ROLE}'"
    return f"its properties say that it is the {role} of {of}"


def may_delete_files(table: IcebergTable) -> bool:
    """Returns whether dropping a table may delete its files: all files are in its folder, no branch or tag of a user retains
    a snapshot, and ``gc.enabled`` isn't false."""
    refs = (str(name) for name in java_elements(table.java.refs().keySet().iterator()))
    is_kept = any(name != "main" and not name.startswith(BRANCH) for name in refs)
    return not is_kept and table.property("gc.enabled") != "false" and table.has_all_files_in_folder()


def is_in_hadoop_catalog(spark: SparkSession, table: str) -> bool:
    """Returns whether the catalog of a table is of type hadoop: a folder with a folder for each table."""
    prefix = f"spark.sql.catalog.{parts(table)[0]}"
    kind, cls = (str(spark.conf.get(f"{prefix}.{option}", None) or "") for option in ("type", "catalog-impl"))
    return kind.lower() == "hadoop" or cls.endswith("HadoopCatalog")


def check_drop_is_safe(spark: SparkSession, table: IcebergTable, may_delete: bool) -> None:
    """Raises if a DROP of a table would delete files that have to stay. In a catalog of type hadoop DROP deletes the table's
    whole folder. `may_delete`: whether the files of the table itself may be deleted."""
    if not is_in_hadoop_catalog(spark, table.name):
        return
    others = (
        file for file in table.files_below(table.folder) if not has_name_of_hadoop_catalog(file, table.folder)
    )
    if not may_delete:
        why = (
            "its files have to stay: this package didn't make it, or a branch, a tag or a property keeps them"
        )
    elif (file := next(others, None)) is not None:
        why = f"{file} is in its folder and doesn't belong to it"
    else:
        return
    raise StreamError(
        f"{table.name} isn't dropped, since {why}; and in its catalog {parts(table.name)[0]} (type: hadoop) DROP "
        "deletes all that is in a table's folder. Move what is to stay to another folder or drop the table yourself, and "
        "run the command again."
    )


def has_name_of_hadoop_catalog(file: str, folder: str) -> bool:
    """Returns whether a file of a table's folder has a name that Iceberg gives in a catalog of type hadoop.

    >>> data = "data/day=1/00000-4-0f8fad5b-d9cb-469f-a165-70867728950e-0-00001.parquet"
    >>> named = [data, "metadata/v1.metadata.json", "metadata/.version-hint.text.crc", "metadata/v2.gz.metadata.json"]
    >>> check = has_name_of_hadoop_catalog
    >>> [check(f"file:/in/t/{name}", "file:///in/t") for name in named]
    [True, True, True, True]
    >>> [check(f"/in/t/{name}", "/in/t") for name in ("mine.csv", "data/mine.csv", "metadata/v1.txt", f"sub/{data}")]
    [False, False, False, False]
    """
    return _OWN.fullmatch(path_below(folder, file) or "") is not None
