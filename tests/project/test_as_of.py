"""The arguments of ``as_of()``."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from dbt.adapters.base.relation import EventTimeFilter

from dbt.adapters.spark_streaming.project.as_of import as_of_arguments, name_of_versions
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.relation import SparkStreamingRelation


@pytest.mark.parametrize("key", [[], [""], " ", 4, ["a", 4]])
def test_a_key_is_columns(key: object) -> None:
    with pytest.raises(QueryError, match=r"as_of\(\) over rates: key is .*; write a column or a list"):
        as_of_arguments("rates", "o.at", key, RelationInfo("changed_at"))


def test_versions_from_before_a_microbatch_are_read() -> None:
    rates = SparkStreamingRelation.create(schema="shop", identifier="rates")
    begin = datetime(2024, 1, 1, tzinfo=timezone.utc)
    of_day = EventTimeFilter(field_name="changed_at", start=begin, end=begin + timedelta(days=1))
    assert "where" in str(rates.replace(event_time_filter=of_day))
    for limited in (rates, rates.replace(event_time_filter=of_day), rates.replace(limit=0), "shop.rates"):
        assert name_of_versions(limited) == "shop.rates"
