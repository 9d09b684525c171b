"""Columns that a model's table can take, and names that it can't."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.program import Program, Upsert
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.evolution.output_schema import check_columns, check_same_columns

MODEL = StreamModel("m", "lake.`dbt-dev`.`my-model`", "s", Storage("/root", lambda: None), ())
APPENDS = Program(inputs=(), items=(), output="", boundaries=None)
REPLACES = replace(APPENDS, upsert=Upsert(key=("k",), affected_keys="", target_filter=(), bound=None))


def refused(program: Program, gives: dict[str, str], has: Any = None, model: StreamModel = MODEL) -> str:
    with pytest.raises(StreamError) as raised:
        check_columns(model, program, gives, has)
    return str(raised.value.msg)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            "interval day to second",
            "is INTERVAL DAY TO SECOND, which an Iceberg table can't hold; make a number of it",
        ),
        (
            "array<interval year to month>",
            "can't hold; make a number of it, as in timestampdiff(SECOND, started_at",
        ),
        (
            "void",
            "a NULL without a type, which an Iceberg table can't hold; give it one, as in CAST(NULL AS STRING)",
        ),
        ("struct<a:void,b:int>", "is or holds a NULL without a type"),
    ],
)
@pytest.mark.parametrize("program", [APPENDS, REPLACES])
def test_a_type_that_no_table_can_hold(program: Program, kind: str, sentence: str) -> None:
    found = refused(program, {"k": "string", "waited": kind})
    assert found.startswith("Model m: its column waited is ") and sentence in found
    check_columns(MODEL, program, {"k": "struct<`interval day`:int>", "v": "int"}, None)


def test_a_unique_key_that_is_no_column_of_the_query() -> None:
    found = refused(REPLACES, {"key": "int", "v": "string"})
    assert found == (
        "Model m: config 'unique_key' names k, which the query doesn't give; it gives key, v. Name columns of these, or "
        "leave unique_key out."
    )
    # Also where the table had such a column once.
    assert found == refused(REPLACES, {"key": "int", "v": "string"}, {"k": "int", "v": "string"})


def test_columns_that_came_later() -> None:
    given, has = {"k": "int", "later": "int"}, {"k": "int", "gone": "int"}
    check_columns(MODEL, REPLACES, {"K": "int", "v": "string"}, {"k": "bigint", "V": "string"})
    # The run changes the table, or passes over what it lacks.
    for policy in ("append_new_columns", "sync_all_columns", "ignore"):
        check_columns(replace(MODEL, on_schema_change=policy), APPENDS, given, has)
    found = refused(APPENDS, given, has, replace(MODEL, on_schema_change="fail"))
    assert (
        "the query gives later, which the table lacks; the table has gone, which the query doesn't give"
        in found
    )
    assert "`dbt run --full-refresh --select m`" in found and "name the table's columns" in found


def test_a_column_of_another_type() -> None:
    found = refused(APPENDS, {"total": "double"}, {"Total": "bigint"})
    assert (
        "gives total as DOUBLE, and in its table" in found
        and "it is BIGINT, so values would be cut off" in found
    )
    assert "cast(… as BIGINT)" in found
    for kind in ("bigint", "int", "void"):
        check_columns(MODEL, APPENDS, {"total": kind}, {"total": "bigint"})


def test_fields_in_another_order() -> None:
    message = refused(APPENDS, {"s": "struct<b:int,a:int>"}, {"s": "struct<a:bigint,b:int>"})
    assert "gives s as STRUCT<B:INT,A:INT>, and in its table" in message
    assert (
        "in another order: STRUCT<A:BIGINT,B:INT>. Give them in that order, as in if(`s` is null, null, "
        in message
    )
    assert "named_struct('a', `s`.`a`, 'b', `s`.`b`)) AS s. To rebuild the table" in message


def test_a_step_needs_a_table_that_was_changed() -> None:
    check_same_columns(MODEL, ["k"], ["k", "gone"])
    for model, gives, has in (
        (MODEL, ["k", "later"], ["k"]),
        (replace(MODEL, on_schema_change="sync_all_columns"), ["k"], ["k", "gone"]),
    ):
        with pytest.raises(StreamError, match=r"`dbt run --select m` changes the table\."):
            check_same_columns(model, gives, has)
    check_same_columns(replace(MODEL, on_schema_change="ignore"), ["k", "later"], ["k", "gone"])


def test_what_can_not_be_compared() -> None:
    check_columns(MODEL, APPENDS, {"k": "map<string,int>"}, None)
    check_columns(MODEL, REPLACES, {"k": "int", "map": "struct<`map`:int>"}, None)
    check_columns(MODEL, REPLACES, {"k": "int", "tags": "array<struct<a:int,b:map<int,int>>>"}, None)
    assert "Select to_json(v) instead." in refused(REPLACES, {"k": "int", "v": "variant"})


def test_names_that_the_changes_have() -> None:
    logged = replace(MODEL, changelog=True)
    check_columns(MODEL, APPENDS, {"_batch_id": "int"}, None)
    assert "its column _Batch_Id has the name of a column" in refused(
        APPENDS, {"_Batch_Id": "int"}, None, logged
    )
