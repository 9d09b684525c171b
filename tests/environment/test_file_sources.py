"""A declared source that can't be made readable says why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment.file_sources import DeclaredSources
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

    declared = DeclaredSources(lambda: SimpleNamespace(sql=sql))
    with pytest.raises(DbtRuntimeError) as raised:
        declared.make(source({"url": URL}).as_table, ".")
    assert "Source crm.customers can't be read, for there is no JDBC driver for its 'url'." in str(
        raised.value
    )
    assert "under 'packages' in the profile" in str(raised.value) and "secret" not in str(raised.value)
