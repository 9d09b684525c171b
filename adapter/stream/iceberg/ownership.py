"""Identifies the tables that this package created by two properties: a table's role, and the model's table it was made for.

A name proves nothing: any table's name may end in ``__state``. A table without these properties is foreign. It is never
dropped, replaced or written, whatever its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.errors import StreamError
from ..common.identifiers import last, parts
from ..common.model import StreamModel
from ..storage.savepoints import CHANGELOG, STATE, TABLE
from .dropping import check_drop, may_delete_files
from .table import IcebergTable, find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLE = "dbt_spark_streaming.role"
"""Table property with the role: `STATE`, `CHANGELOG` or `TABLE`."""
OF = "dbt_spark_streaming.of"
"""Table property with the full name of the model's table."""
_WHAT = {STATE: "its state", CHANGELOG: "its changelog", TABLE: "its table"}


def properties(role: str, target: str) -> dict[str, str]:
    """Returns the properties of a table that is created for a model."""
    return {ROLE: role, OF: target}


def name_of(model: StreamModel, role: str) -> str:
    """Returns the name of a model's table in a role."""
    return {STATE: model.state, CHANGELOG: model.changes, TABLE: model.target}[role]


def is_made_as(table: IcebergTable, role: str, target: str) -> bool:
    """Returns whether a table was created for a model in a role."""
    return table.property(ROLE) == role and is_same(table.property(OF) or "", target)


def is_same(of: str, target: str) -> bool:
    """Returns whether two names are of the same table. Catalogs are ignored: another session may name the catalog otherwise.

    >>> is_same("lakehouse.shop.orders", "prod.shop.Orders"), is_same("lakehouse.shop.orders", "lakehouse.dev.orders")
    (True, False)
    """
    return [part.lower() for part in parts(of)[-2:]] == [part.lower() for part in parts(target)[-2:]]


def owned_table(spark: SparkSession, model: StreamModel, role: str) -> IcebergTable | None:
    """Returns a model's table in a role, or None if it doesn't exist or is foreign."""
    table = find(spark, name_of(model, role))
    return table if table is not None and is_made_as(table, role, model.target) else None


def check_names(spark: SparkSession, model: StreamModel, keeps_state: bool) -> None:
    """Raises if a foreign table has the name of a model's state or changelog."""
    roles = [*([STATE] if keeps_state else []), *([CHANGELOG] if model.changelog else [])]
    for role in roles:
        name = name_of(model, role)
        if spark.catalog.tableExists(name) and owned_table(spark, model, role) is None:
            raise foreign_error(spark, model, role)


def foreign_error(spark: SparkSession, model: StreamModel, role: str) -> StreamError:
    """Returns the error for a foreign table with the name of one of a model's tables."""
    name = name_of(model, role)
    return StreamError(
        f"Model {model.name}: {_WHAT[role]} goes into {name}, and a table of that name is there that this package didn't "
        f"make for it ({_describe(find(spark, name))}). It is left alone. Rename that table, or give the model another "
        "'alias'."
    )


def check_droppable(spark: SparkSession, model: StreamModel) -> None:
    """Raises unless a model's tables can be dropped: its table is its own, and no folder has files of others."""
    if spark.catalog.tableExists(model.target) and owned_table(spark, model, TABLE) is None:
        raise StreamError(
            f"Model {model.name}: {model.target} isn't a table that this package made for it "
            f"({_describe(find(spark, model.target))}), so it isn't dropped, and nothing was changed. Drop or rename it "
            "yourself, and run the command again."
        )
    for role in (TABLE, CHANGELOG, STATE):
        if (table := owned_table(spark, model, role)) is not None:
            check_drop(spark, table, may_delete_files(table))


def drop(spark: SparkSession, model: StreamModel, role: str) -> None:
    """Drops a model's table in a role unless it is foreign; with its files, if those may be deleted."""
    table = owned_table(spark, model, role)
    if table is not None:
        may_delete = may_delete_files(table)
        check_drop(spark, table, may_delete)
        purge = " purge" if may_delete else ""
        spark.sql(f"drop table if exists {name_of(model, role)}{purge}")


def hand_over(table: IcebergTable, role: str, target: str) -> None:
    """Makes a table belong to a model's table of another name."""
    if not is_made_as(table, role, target) or table.property(OF) != target:
        table.set_properties(dict(properties(role, target)))
        table.refresh()


def check_replaceable(spark: SparkSession, node: str, name: str) -> None:
    """Raises if a batch node would replace the state or the changelog of a streaming model."""
    table = find(spark, name)
    role = table.property(ROLE) if table is not None else None
    if table is not None and role in (STATE, CHANGELOG):
        of = table.property(OF) or ""
        raise StreamError(
            f"Model {node}: {name} is the {role} of the streaming model whose table is {of}, so nothing else is built "
            f"there. Give {node} another 'alias'. If there is no model {last(of)} any more, `dbt-stream clean --dropped` "
            "removes what is left of it."
        )


def _describe(table: IcebergTable | None) -> str:
    if table is None:
        return "it is a view or isn't an Iceberg table"
    role, of = table.property(ROLE), table.property(OF)
    if role is None:
        return f"it has no property '{ROLE}'"
    return f"its properties say that it is the {role} of {of}"
