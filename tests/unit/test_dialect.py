"""Reading Spark's SQL."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query import dialect
from dbt.adapters.spark_streaming.query.errors import QueryError


def test_a_compiled_sqlglot_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its classes can't be extended: each query would end with a TypeError."""

    def compiled() -> None:
        raise TypeError("interpreted classes cannot inherit from compiled")

    dialect._check_build.cache_clear()
    monkeypatch.setattr(dialect.DIALECT, "Parser", compiled)
    with pytest.raises(QueryError, match="Uninstall the package 'sqlglotc'"):
        dialect.parse("select 1")
