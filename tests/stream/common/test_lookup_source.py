"""What `sources.yml` may say of a table that lookup joins ask."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.relation import SparkStreamingRelation
from dbt.adapters.spark_streaming.sources.stream_source import stream_source
from dbt.adapters.spark_streaming.stream.common.lookup_source import LookupSource, lookup_source


def source(config: Any) -> LookupSource:
    return LookupSource.from_config("crm.customers", "`spark_catalog`.`crm`.`customers`", config, "customers")


URL = "jdbc:postgresql://me:secret@db/shop"


def test_the_table_is_called_as_the_source_and_the_rest_has_defaults() -> None:
    found = source({"url": URL, "options": {"user": "me", "readOnly": True}})
    assert found.options == {"url": URL, "dbtable": "customers", "user": "me", "readOnly": "true"}
    assert (found.cache_ttl, found.chunk_size, found.retries) == (None, 500, 3)
    assert "secret" not in repr(found)


def test_all_that_can_be_said() -> None:
    said = {
        "url": URL,
        "dbtable": "(select * from c) as t",
        "driver": "org.postgresql.Driver",
        "cache_ttl": "10 minutes",
        "chunk_size": "50",
        "retries": 0,
    }
    found = source(said)
    assert found.options == {key: said[key] for key in ("url", "dbtable", "driver")}
    assert (found.cache_ttl, found.chunk_size, found.retries) == (600_000_000, 50, 0)
    assert found.as_table.format == "jdbc" and found.as_table.options == found.options


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("jdbc:x", "'lookup' must be a mapping with a 'url'"),
        (
            {"url": URL, "table": "c"},
            "'table' is not a key of 'lookup'; did you mean 'dbtable'? Known keys are: cache_ttl,",
        ),
        ({"dbtable": "c"}, "'lookup' needs a 'url' that starts with jdbc:"),
        ({"url": "postgresql://me:secret@db"}, "'lookup' needs a 'url' that starts with jdbc:"),
        ({"url": URL, "dbtable": 7}, "'dbtable' of 'lookup' must be text, not 7."),
        ({"url": URL, "options": ["user"]}, "'options' of 'lookup' must be a mapping"),
        ({"url": URL, "options": {"Driver": "x"}}, "'Driver' doesn't belong under 'options' of 'lookup'"),
        ({"url": URL, "options": {"query": "x"}}, "write 'dbtable', which may be (select …) as t next to it"),
        ({"url": URL, "cache_ttl": "soon"}, "'cache_ttl' of 'lookup' 'soon' is not an interval"),
        ({"url": URL, "cache_ttl": "0 s"}, "'0 s', which must be longer than zero"),
        ({"url": URL, "chunk_size": 0}, "'chunk_size' of 'lookup' is 0; write a whole number of at least 1."),
        ({"url": URL, "retries": -1}, "'retries' of 'lookup' is -1; write a whole number of at least 0."),
        ({"url": URL, "retries": True}, "'retries' of 'lookup' is True"),
    ],
)
def test_what_means_nothing_is_said(config: Any, sentence: str) -> None:
    with pytest.raises(DbtRuntimeError) as raised:
        source(config)
    assert "Source crm.customers" in str(raised.value) and sentence in str(raised.value)
    assert "secret" not in str(raised.value)


def node(meta: dict[str, Any]) -> Any:
    return SimpleNamespace(
        database=None,
        schema="crm",
        identifier="clients",
        name="clients",
        source_name="crm",
        quoting_dict={},
        catalog_name=None,
        config=SimpleNamespace(meta=meta, event_time=None),
    )


def test_dbt_reads_it_as_a_table_of_the_sessions_catalog() -> None:
    relation = SparkStreamingRelation.create_from(SimpleNamespace(quoting={}), node({"lookup": {"url": URL}}))
    name = relation.render()
    assert re.fullmatch(r"`spark_catalog`\.`dbt_source_crm_[0-9a-f]{8}_[0-9a-f]{8}`\.`clients`", name)
    found, table = lookup_source(name), stream_source(name)
    assert found is not None and table is not None and not table.is_table
    assert found.options["dbtable"] == "clients" and table.format == "jdbc"


def test_a_source_is_a_stream_or_a_lookup_table() -> None:
    with pytest.raises(DbtRuntimeError, match=r"Source crm.clients has both 'stream' and 'lookup'"):
        SparkStreamingRelation.create_from(
            SimpleNamespace(quoting={}), node({"lookup": {"url": URL}, "stream": {"format": "iceberg"}})
        )
