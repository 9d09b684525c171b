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


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM t GROUP BY ROLLUP (k, u IS NULL)",
        "SELECT k FROM t GROUP BY k, CUBE (u IN (1, 2), v > 1 AND w < 2)",
        "SELECT k FROM t GROUP BY GROUPING SETS ((k, u IS NULL), u > 1, ROLLUP (k = 'a'), ())",
        "SELECT COUNT(*) FROM t GROUP BY k WITH ROLLUP",
        "SELECT COUNT(*) FROM t GROUP BY WINDOW(ts, '5 minutes'), k",
        "SELECT window.start FROM t GROUP BY window, k",
        "SELECT SUM(n) OVER w FROM t GROUP BY n WINDOW w AS (PARTITION BY n)",
    ],
)
def test_any_expression_is_a_key(text: str) -> None:
    assert dialect.sql(dialect.parse(text)) == text
