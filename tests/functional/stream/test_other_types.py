"""A column of a source becomes of another type: values that the state's columns can't hold are told, never cut off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query import expansion
from dbt.adapters.spark_streaming.stream.errors import StreamError
from tests.functional.stream.test_evolution import Edited

STREAM = expansion.expand_stream("events")


def test_distinct_values_of_a_wider_type(spark: Any, storage_root: Path) -> None:
    s = Edited(spark, storage_root, constant_domains=["k"])
    spark.sql(f"alter table {s.events} add column p float")
    text = f"select k, count(distinct p) as n from {STREAM} group by k"
    insert = f"insert into {s.events} (ts, k, p) select timestamp_millis(0), 'a', "
    spark.sql(f"{insert} float(0.5)")
    s.run(text)
    spark.sql(f"alter table {s.events} alter column p type double")
    spark.sql(f"{insert} 0.1D")
    for _ in range(2):
        with pytest.raises(StreamError) as refused:
            s.run(text)
    assert (
        f"Model {s.model.name}: its query gives values of DOUBLE for p of its state, which is FLOAT, so they would be cut "
        "off or lost: most likely a column of a source is of another type than it was. Nothing of this micro-batch was "
        "taken in. Convert it where it is read, as in cast(p as FLOAT) as p, and have the state go on with that: "
        f"`dbt run --select {s.model.name} --vars '{{keep_state: true}}'`. To build it anew: "
    ) in str(refused.value.msg)
    assert [tuple(row) for row in s.table().collect()] == [("a", 1)]
    converted = (
        f"select k, count(distinct p) as n from (select k, cast(p as float) as p from {STREAM}) group by k"
    )
    s.model = replace(s.model, keep_state=True)
    s.run(converted)
    s.model = replace(s.model, keep_state=False)
    spark.sql(f"{insert} 0.1D")
    s.run(converted)
    assert [tuple(row) for row in s.table().collect()] == [("a", 2)]
