"""Columns that configs such as `partition_by` name: quoted right, left as the expression they are, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.impl import SparkStreamingAdapter
from dbt.adapters.spark_streaming.util.metadata_columns import METADATA_COLUMNS, reserved_name_message
from dbt.adapters.spark_streaming.util.quoting import quote_configured


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("we`ird", "`we``ird`"),
        ("`we``ird`", "`we``ird`"),
        ("`", "````"),
        ("``", "``````"),
        ("a``b", "`a````b`"),
        ("a)b", "`a)b`"),
        ("from here", "`from here`"),
        ("größe", "`größe`"),
        ("bucket(4, `we``ird`)", "bucket(4, `we``ird`)"),
        ("days(ts), k", "days(ts), k"),
        ("meta.at", "meta.at"),
        ("`meta`.`at utc`", "`meta`.`at utc`"),
    ],
)
def test_a_name_is_quoted_and_an_expression_stays(text: str, sql: str) -> None:
    assert quote_configured(text) == sql


@pytest.mark.parametrize("text", ["", "  ", None, 3, ["a"]])
def test_what_is_no_name_is_refused(text: Any) -> None:
    with pytest.raises(DbtRuntimeError, match="Name a column of the query, or leave it out"):
        SparkStreamingAdapter.quote_configured(None, text)


@pytest.mark.parametrize("name", [*sorted(METADATA_COLUMNS), "_FILE", "_Spec_Id"])
def test_names_of_iceberg_are_no_columns_in_any_case(name: str) -> None:
    assert f"SELECT `{name}` AS {name.strip('_').lower()}" in (reserved_name_message(["id", name]) or "")
    assert reserved_name_message(["file", "_files", "_change_type", "pos"]) is None
