"""A text planned through slices gives the rows of the same text as plain Spark SQL.

Tumble keeps one partial per window, hop and cumulate merge several, so every aggregate's merge is in it.
"""

from __future__ import annotations

from decimal import Decimal
from math import isclose
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.aggregates.model import WindowAggregateSpec
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of
from tests.spark_rows import asks
from tests.thorough import mostly_thorough

WINDOWS = {
    "tumble": window_arguments.make_window("tumble", "ts", "1 hour", offset="-4 minutes"),
    "hop": window_arguments.make_window("hop", "ts", "20 minutes", "1 hour"),
    # gcd(50, 20) = 10: slices shorter than the slide, and windows that hold different numbers of them.
    "uneven_hop": window_arguments.make_window("hop", "ts", "20 minutes", "50 minutes", offset="7 minutes"),
    "cumulate": window_arguments.make_window("cumulate", "ts", "10 minutes", "2 hours", offset="10 minutes"),
    "session": window_arguments.make_window("session", "ts", "40 seconds", partition_by=["k"]),
    "dynamic_cumulate": window_arguments.make_window(
        "dynamic_cumulate", "ts", "20 seconds", "40 seconds", partition_by=["k"]
    ),
}
AGGREGATES = [
    "count(*)",
    "count(x)",
    "count(x, d)",
    "count_if(x > 3)",
    "sum(x)",
    "sum(m)",
    "avg(x)",
    "avg(m)",
    "min(s)",
    "max(x + 1)",
    "min_by(s, x)",
    "max_by(s, x) filter (where k is not null)",
    "bool_and(x > 1)",
    "bool_or(x > 8)",
    "every(x > 1)",
    "bit_and(x)",
    "bit_or(x)",
    "bit_xor(x)",
    "var_pop(d)",
    "var_samp(d)",
    "variance(big)",
    "stddev(d)",
    "stddev_pop(d)",
    "stddev_samp(big)",
    "sum(x) filter (where s > 'm')",
    "count(distinct s)",
    "count(distinct s) filter (where x > 3)",
    "count(distinct x, s)",
    "sum(distinct x)",
    "avg(distinct x)",
    "count(distinct k)",
    "max(distinct x)",
    "sum(x) / count(*)",
    "coalesce(max(x), 0) + count(distinct s)",
]


@pytest.fixture(scope="module")
def rows(spark: Any) -> str:
    """2,000 rows of half a day with NULLs everywhere, ties, and numbers far from zero."""
    spark.sql(
        """
        select timestamp'2024-03-03 20:00:00' + make_dt_interval(0, 0, 0, hash(id, 1) % 21600) as ts,
          nullif(pmod(hash(id, 2), 4), 0) as k,
          nullif(pmod(hash(id, 3), 13), 0) as x,
          nullif(chr(97 + pmod(hash(id, 4), 26)), 'q') as s,
          nullif(pmod(hash(id, 5), 1000) / 10.0, 0)::double as d,
          1e9 + pmod(hash(id, 6), 7) as big,
          cast(pmod(hash(id, 7), 10000) / 100 as decimal(10, 2)) as m
        from range(2000)
        union all
        select null, 1, 1, 'a', 1, 1, 1
        """
    ).createOrReplaceTempView("planned_rows")
    return "planned_rows"


def outcome(spark: Any, text: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(text).collect()), key=lambda row: str(row[:6]))


def same(one: Any, other: Any) -> bool:
    """Equal, but for the last digits: of an average's scale, or of what was added up in another order
    (at 1e9 Spark's own variance is off by 1e-9 of it)."""
    if isinstance(one, float | Decimal) and isinstance(other, float | Decimal):
        return isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    return bool(one == other)


def differences(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> list[Any]:
    """The first few rows and columns that differ."""
    assert len(found) == len(expected)
    pairs = zip(found, expected, strict=True)
    return [
        (row[:4], number, a, b)
        for row, wanted in pairs
        for number, (a, b) in enumerate(zip(row, wanted, strict=True))
        if not same(a, b)
    ][:5]


@pytest.mark.parametrize("name", mostly_thorough(WINDOWS, []))
@pytest.mark.parametrize("keys", mostly_thorough(["", "k, s"], ["k, s"]))
def test_every_mergeable_aggregate(spark: Any, rows: str, name: str, keys: str) -> None:
    if not keys and WINDOWS[name].merges:
        pytest.skip("refused: sessions of a key, put together by none, are most likely a mistake")
    listed = ", ".join(["window_start", "window_end", *([keys] if keys else [])])
    # min_by and max_by may take any of several rows with the same x; ours takes the least value.
    asked = [item for item in AGGREGATES if "_by" not in item]
    items = ", ".join(f"{item} as v{number}" for number, item in enumerate(asked))
    text = f"select {listed}, {items} from {expansion.expand_window(rows, WINDOWS[name])} group by {listed}"
    plan = plan_of(text, ask=asks(spark))
    assert isinstance(plan.dataflow.window_specs[0], WindowAggregateSpec)
    assert differences(outcome(spark, whole_query.batch_sql(plan)), outcome(spark, text)) == []


def test_least_and_greatest_of_a_key_are_taken_at_its_extremes(spark: Any, rows: str) -> None:
    text = f"""select window_start, window_end, min_by(s, x) as least, min(x) as at
        from {expansion.expand_window(rows, WINDOWS["cumulate"])} group by window_start, window_end"""
    there = {(row.x, row.s) for row in spark.table(rows).collect()}
    found = spark.sql(whole_query.batch_sql(plan_of(text))).collect()
    assert found
    assert {(row.at, row.least) for row in found} <= there


@pytest.mark.parametrize("name", mostly_thorough(WINDOWS, ["hop"]))
@pytest.mark.parametrize(
    "clause", mostly_thorough(["grouping sets ((k, s), (s), ())", "cube (k, s)"], ["cube (k, s)"])
)
def test_grouping_sets(spark: Any, rows: str, name: str, clause: str) -> None:
    text = f"""select window_start, window_end, k, s, grouping(k) as gk, grouping_id() as gid, count(*) as n,
        count(distinct x) as a, count(distinct s) as b, sum(x) filter (where k = 1) as c
        from {expansion.expand_window(rows, WINDOWS[name])} group by window_start, window_end, {clause}"""
    assert (
        differences(
            outcome(spark, whole_query.batch_sql(plan_of(text, ask=asks(spark)))), outcome(spark, text)
        )
        == []
    )


def test_only_steps_with_new_data_on_change(spark: Any, rows: str) -> None:
    window = window_arguments.make_window("cumulate", "ts", "1 minute", "2 hours", emit="on_change")
    text = f"select window_start, window_end, k, count(*) as n from {expansion.expand_window(rows, window)} group by all"
    found = outcome(spark, whole_query.batch_sql(plan_of(text)))
    every = outcome(spark, text)
    assert set(found) < set(every)
    assert len({(row[0], row[2], row[3]) for row in every}) == len(found)


@pytest.mark.parametrize(
    "query",
    [
        "select window_start, window_end, k, sum(x) as v, sum(x) - lag(sum(x)) over (partition by k order by window_end) as "
        "more from {} group by window_start, window_end, k",
        "with r as (select * from {} as w where x > 1) select window_start, window_end, upper(s) as s, max(d) as d, "
        "count(count(*)) over (partition by window_end) as n from r group by window_start, window_end, upper(s) having "
        "count(*) > 2",
        "select distinct k, max(sum(x)) over (partition by k) as most from {} as w group by window_start, window_end, k",
        "select k, count(*) as n from (select window_end, k, rank() over (partition by k order by count(distinct s) desc) "
        "as r from {} group by window_start, window_end, k) where r < 3 group by k",
        "select window_start, window_end, k, count(*) as n, avg(d) as a, count(distinct s) as c from {FIRST} "
        "group by window_start, window_end, rollup(k)",
    ],
)
def test_groups_below_queries_over_windows(spark: Any, rows: str, query: str) -> None:
    window = window_arguments.make_window("cumulate", "ts", "5 minutes", "4 hours")
    first = f"(select * from (select *, row_number() over (partition by x, s order by ts) as r from {rows}) where r = 1)"
    text = query.replace("{FIRST}", expansion.expand_window(first, window))
    text = text.replace("{}", expansion.expand_window(rows, window))
    sliced = whole_query.text_in_batch(text, asks(spark), from_slices=whole_query.within_windows)
    assert ("_slices as (" in sliced) == ("with r" not in query)
    assert outcome(spark, sliced) and differences(outcome(spark, sliced), outcome(spark, text)) == []
