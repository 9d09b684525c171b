"""Tables of ours, told by two properties: as what a table was made, and for which model's table.

A name proves nothing: anybody's table may end in ``__state``. A table without the properties is somebody else's. It is never
dropped, replaced or written, whatever it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.errors import StreamError
from ..common.identifiers import last, parts
from ..common.model import StreamModel
from ..storage.savepoints import CHANGELOG, STATE, TABLE
from .table import IcebergTable, find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLE = "dbt_spark_streaming.role"
"""The property that says as what a table was made: `STATE`, `CHANGELOG` or `TABLE`."""
OF = "dbt_spark_streaming.of"
"""The property with the name of the model's table, in full."""
_WHAT = {STATE: "its state", CHANGELOG: "its changelog", TABLE: "its table"}


def properties(role: str, target: str) -> dict[str, str]:
    """The properties of a table that is made for a model.

    Args:
        role: as what.
        target: the model's table, in full.
    """
    return {ROLE: role, OF: target}


def name_of(model: StreamModel, role: str) -> str:
    """The name of one of a model's tables."""
    return {STATE: model.state, CHANGELOG: model.changes, TABLE: model.target}[role]


def is_made_as(table: IcebergTable, role: str, target: str) -> bool:
    """Whether a table was made for a model, in that role."""
    return table.property(ROLE) == role and is_same(table.property(OF) or "", target)


def is_same(of: str, target: str) -> bool:
    """Whether two names are of one table of a catalog, which another session may call otherwise.

    >>> is_same("lakehouse.shop.orders", "prod.shop.Orders"), is_same("lakehouse.shop.orders", "lakehouse.dev.orders")
    (True, False)
    """
    return [part.lower() for part in parts(of)[-2:]] == [part.lower() for part in parts(target)[-2:]]


def owned(spark: SparkSession, model: StreamModel, role: str) -> IcebergTable | None:
    """One of a model's tables, if it was made for it; None if there is none, or it is somebody else's."""
    table = find(spark, name_of(model, role))
    return table if table is not None and is_made_as(table, role, model.target) else None


def check_names(spark: SparkSession, model: StreamModel, keeps_state: bool) -> None:
    """Raises where a table that a model needs has the name of somebody else's.

    Args:
        spark: a session.
        model: the model.
        keeps_state: whether its query keeps state.

    Raises:
        StreamError: what was found, and what to do. Nothing was changed.
    """
    roles = [*([STATE] if keeps_state else []), *([CHANGELOG] if model.changelog else [])]
    for role in roles:
        name = name_of(model, role)
        if spark.catalog.tableExists(name) and owned(spark, model, role) is None:
            raise foreign(spark, model, role)


def foreign(spark: SparkSession, model: StreamModel, role: str) -> StreamError:
    """The error where somebody else's table has the name of one of a model's tables."""
    name = name_of(model, role)
    return StreamError(
        f"Model {model.name}: {_WHAT[role]} goes into {name}, and a table of that name is there that this "
        "package didn't make "
        f"for it ({_described(find(spark, name))}). It is left alone. Rename that table, or give the model another "
        "'alias'."
    )


def check_droppable(spark: SparkSession, model: StreamModel) -> None:
    """Raises where a model's table is somebody else's, so that it can't be dropped with the rest of the model.

    Raises:
        StreamError: it is. Nothing was changed.
    """
    if spark.catalog.tableExists(model.target) and owned(spark, model, TABLE) is None:
        raise StreamError(
            f"Model {model.name}: {model.target} isn't a table that this package made for it "
            f"({_described(find(spark, model.target))}), so it isn't dropped, and nothing was changed. Drop or "
            "rename "
            "it yourself, and run the command again."
        )


def drop(spark: SparkSession, model: StreamModel, role: str) -> None:
    """Drop one of a model's tables, if it was made for the model; with its files, unless somebody has added others to it."""
    table = owned(spark, model, role)
    if table is not None:
        purge = " purge" if table.has_only_its_own() else ""
        spark.sql(f"drop table if exists {name_of(model, role)}{purge}")


def hand_over(table: IcebergTable, role: str, target: str) -> None:
    """Note that a table belongs to a model's table of another name from now on."""
    if not is_made_as(table, role, target) or table.property(OF) != target:
        table.set_properties(dict(properties(role, target)))
        table.refresh()


def check_replaceable(spark: SparkSession, node: str, name: str) -> None:
    """Raises where a node that isn't a stream would be built into the state or the changelog of one.

    Args:
        spark: a session.
        node: the node's name.
        name: of its table, in full.

    Raises:
        StreamError: it would.
    """
    table = find(spark, name)
    role = table.property(ROLE) if table is not None else None
    if table is not None and role in (STATE, CHANGELOG):
        of = table.property(OF) or ""
        raise StreamError(
            f"Model {node}: {name} is the {role} of the streaming model whose table is {of}, so nothing else is "
            "built there. "
            f"Give {node} another 'alias'. If there is no model {last(of)} any more, `dbt-stream clean "
            "--dropped` removes what "
            "is left of it."
        )


def _described(table: IcebergTable | None) -> str:
    if table is None:
        return "it is a view or isn't an Iceberg table"
    role, of = table.property(ROLE), table.property(OF)
    if role is None:
        return f"it has no property '{ROLE}'"
    return f"its properties say that it is the {role} of {of}"
