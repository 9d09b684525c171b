"""Which column of a SELECT is what it reads."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.sql.clauses import first_aggregate, output_column_of
from dbt.adapters.spark_streaming.query.sql.dialect import parse


@pytest.mark.parametrize(
    ("items", "expression", "column"),
    [
        ("k as q, k as r", "k", "q"),
        ("t.k", "k", "k"),
        ("K as q", "t.k", "q"),
        ("upper(k) as u", "upper(t.k)", "u"),
        ("upper(k)", "upper(k)", None),  # it has no name
        ("*", "k", "k"),
        ("*, v as k", "k", None),
        ("* except (k)", "k", None),
        ("* except (v)", "k", "k"),
        ("t.*", "k", "k"),
        ("t.* except (k)", "t.k", None),
        ("*", "upper(k)", None),
        ("s.k", "k", None),  # fields of a struct
        ("*", "s.k", None),
    ],
)
def test_a_column_is_what_it_reads(items: str, expression: str, column: str | None) -> None:
    select = parse(f"select {items}, row_number() over (partition by {expression} order by v) as rn from t")
    (key,) = select.expressions[-1].this.args["partition_by"]
    assert output_column_of(select, key) == column


def test_of_several_relations_only_a_qualified_column_is_in_their_stars() -> None:
    select = parse(
        "select a.*, row_number() over (partition by a.k, b.k, k order by v) as rn from a cross join b"
    )
    keys = select.expressions[-1].this.args["partition_by"]
    assert [output_column_of(select, key) for key in keys] == ["k", None, None]


@pytest.mark.parametrize(
    "call",
    [
        "sum(v)",
        "sum(v) filter (where v > 1)",
        "first(v) filter (where v > 1) ignore nulls",
        "percentile_cont(0.5) within group (order by v)",
        "listagg(v) within group (order by v) filter (where v > 1)",
    ],
)
def test_a_function_of_over_is_no_aggregate_of_the_select(call: str) -> None:
    """Taken for one, the query would have a single row."""
    assert first_aggregate(parse(f"select k, {call} over (partition by k) as x from t")) is None
    assert first_aggregate(parse(f"select {call} as x from t")) is not None
