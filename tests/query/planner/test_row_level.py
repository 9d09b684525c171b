"""A table at one time is read as it was; one at the time of each row is refused before anything runs."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion

ORDERS = expansion.expand_stream("raw.orders")
KNOWN = {"raw.orders": RelationInfo("ts"), "raw.rates": RelationInfo("ts")}


@pytest.mark.parametrize(
    "travel",
    [
        "for system_time as of o.ts",
        "FOR SYSTEM_TIME AS OF o.ts - interval 1 hour",
        "timestamp as of ts",
        "for version as of o.version",
    ],
)
@pytest.mark.parametrize("join", ["join", "left join"])
def test_a_version_for_each_row_is_refused(travel: str, join: str) -> None:
    text = f"select o.id, r.rate from {ORDERS} o {join} raw.rates {travel} as r on o.currency = r.currency"
    with pytest.raises(QueryError, match=r"JOIN \{\{ as_of\(.*'o\.ordered_at'\) \}\} AS r ON"):
        plan_query.plan(text, known=KNOWN)


@pytest.mark.parametrize("travel", ["timestamp as of '2024-01-01'", "version as of 3", "for version as of 3"])
def test_a_version_of_a_static_table_is_read(travel: str) -> None:
    text = f"select o.id, r.rate from {ORDERS} o join raw.rates {travel} as r on o.currency = r.currency"
    assert plan_query.plan(text, known=KNOWN)
