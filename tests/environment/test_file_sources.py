"""A declared source that can't be made readable says why."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError
from pyspark.sql.types import LongType, StringType, StructField, StructType

from dbt.adapters.spark_streaming.environment.file_sources import DeclaredSources, create_view_sql
from dbt.adapters.spark_streaming.sources.stream_source import DeclaredSource
from dbt.adapters.spark_streaming.sources.unreadable import WARN, Records
from dbt.adapters.spark_streaming.stream.common.lookup_source import LookupSource


def source(config: Any) -> LookupSource:
    return LookupSource.from_config("crm.customers", "`spark_catalog`.`crm`.`customers`", config, "customers")


URL = "jdbc:postgresql://me:secret@db/shop"


def test_a_database_without_a_driver_is_told_how_to_get_one() -> None:
    def sql(statement: str) -> None:
        if statement.startswith("show tblproperties"):
            raise RuntimeError("[TABLE_OR_VIEW_NOT_FOUND]")
        if statement.startswith("create table"):
            raise RuntimeError("java.sql.SQLException: No suitable driver")

    declared = DeclaredSources(lambda: SimpleNamespace(sql=sql, conf={}))
    with pytest.raises(DbtRuntimeError) as raised:
        declared.create_table_of(source({"url": URL}).as_table)
    assert "Source crm.customers can't be read, because there is no JDBC driver for its 'url'." in str(
        raised.value
    )
    assert "under 'packages' in the profile" in str(raised.value) and "secret" not in str(raised.value)


def test_a_link_to_a_folder_is_named() -> None:
    def sql(statement: str) -> None:
        if statement.startswith("create table"):
            raise RuntimeError(
                "java.lang.StackOverflowError\n\tat org.apache.hadoop.fs.Path.<init>(Path.java:222)\n"
                "\tat org.apache.hadoop.fs.FileSystem.listStatus(FileSystem.java:2078)"
            )
        if statement.startswith("show tblproperties"):
            raise RuntimeError("[TABLE_OR_VIEW_NOT_FOUND]")

    declared = DeclaredSources(lambda: SimpleNamespace(sql=sql, conf={}))
    with pytest.raises(DbtRuntimeError, match="has a subfolder that is a symbolic link to another folder"):
        declared.create_table_of(DeclaredSource("raw.bids", "`raw`.`bids`", "parquet", {"path": "in"}))


class Session:
    """A session that notes its statements, with a source of two columns."""

    def __init__(self, catalog: str) -> None:
        self.conf = {"spark.sql.catalogImplementation": catalog}
        self.statements: list[str] = []
        self.read = self

    def sql(self, statement: str) -> Any:
        if statement.startswith("show tblproperties"):
            raise RuntimeError("[TABLE_OR_VIEW_NOT_FOUND]")
        self.statements.append(statement)

    def format(self, name: str) -> Session:
        return self

    def options(self, **options: str) -> Session:
        return self

    def load(self) -> Any:
        schema = StructType([StructField("id", LongType()), StructField("a`b", StringType())])
        return SimpleNamespace(schema=schema)


@pytest.mark.parametrize("catalog", ["hive", "in-memory"])
@pytest.mark.parametrize("options", [{"url": URL}, {"url": "jdbc:postgresql://db/shop"}])
def test_a_metastore_gets_no_secrets(catalog: str, options: dict[str, str]) -> None:
    session = Session(catalog)
    DeclaredSources(lambda: session).create_table_of(source(options).as_table)
    (made,) = session.statements[1:]
    if catalog == "in-memory" or "@" not in options["url"]:
        assert made.startswith("create table") and options["url"] in made
        return
    assert "secret" not in made.replace("secrets", "")
    assert made.startswith("create view if not exists `spark_catalog`.`crm`.`customers` tblproperties (")
    assert (
        "as select cast(null as bigint) as `id`, cast(null as string) as `a``b` from range(1) where" in made
    )
    assert "Source crm.customers can\\'t be read in batch here, only as a stream" in made


def test_kafkas_secrets_neither() -> None:
    session = Session("hive")
    options = {
        "kafka.bootstrap.servers": "b:1",
        "subscribe": "v",
        "kafka.sasl.jaas.config": "x password=geheim1;",
    }
    declared = DeclaredSource("raw.v", "`spark_catalog`.`raw`.`v`", "kafka", options)
    DeclaredSources(lambda: session).create_table_of(declared)
    assert "geheim1" not in "".join(session.statements) and session.statements[1].startswith("create view")


def test_a_view_is_another_one_where_a_folder_name_is_of_another_type() -> None:
    """Spark keeps the types that a view had when it was created: a stream would be planned with them."""

    def view(kind: str) -> str:
        records = Records.of_source("raw.bids", "json", [("id", "int"), ("day", kind)], WARN, {})
        assert records is not None
        declared = DeclaredSource("raw.bids", "`raw`.`bids`", "json")
        return create_view_sql(declared, "`raw`.`bids__records`", replace(records, folders=["day"]), "view")

    assert "cast(`day` as date) as `day`" in view("date")
    assert view("date") != view("string")
