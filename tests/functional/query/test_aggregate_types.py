"""Every aggregate over every type: the type, the values and the overflow of the same call in plain Spark.

Hundreds of calls stand in one query, so that each way to keep an aggregate costs one of them. Types are known before
a query is carried out; values are those of the calls that differ by type.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from math import isclose, isnan
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.aggregates.aggregates import MERGEABLE
from dbt.adapters.spark_streaming.query.aggregates.model import WindowAggregateSpec
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.plan.state.window_steps import WindowBufferSpec
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests.functional.quick import session_set
from tests.planned import plan_of
from tests.spark_rows import asks
from tests.thorough import mostly_thorough

PIECES = 3
_numbers = itertools.count()

# Column → how it is made of a whole number n between -60 and 60. Where a sum of the type could be wrong in the
# last digits, or too large, it is so large.
COLUMNS = {
    "tiny": "cast(n as tinyint)",
    "small": "cast(n * 500 as smallint)",
    "normal": "cast(n * 35000000 as int)",
    # Their sums are within 64 bits, and more than a double can tell apart.
    "big": "150000000000000000 + n * 10007",
    "single": "cast(n / 8 as float)",
    "twice": "n / 7D",
    "whole": "cast(n * 100000000000000000 as decimal(38, 0))",
    "fine": "cast(cast(n as decimal(10, 0)) / 7 as decimal(38, 18))",
    "money": "cast(n / 8 as decimal(10, 2))",
    "share": "cast(n / 70 as decimal(1, 1))",
    "months": "make_ym_interval(0, n)",
    "seconds": "make_dt_interval(0, 0, 0, n)",
    "day": "date_add(date'2024-01-01', n)",
    "moment": "timestamp'2024-01-01 00:00:00' + make_dt_interval(0, n)",
    "clock": "timestamp_ntz'2024-01-01 00:00:00' + make_dt_interval(0, n)",
    "text": "cast(n / 4 as string)",
    "bytes": "cast(cast(n as string) as binary)",
    "yes": "n > 7",
}
WHOLE = ("tiny", "small", "normal", "big")
NUMBERS = (*WHOLE, "single", "twice", "whole", "fine", "money", "share", "text")
INTERVALS = ("months", "seconds")
FAMILY = ("var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev", "std")
# Their averages have more digits than a quotient has, so that their rows are kept.
LONG = ("whole", "fine")


# Types go on into what is computed from aggregates.
COMPUTED = ["sum(money) / count(*)", "avg(money) * 3", "sum(share) * sum(money)", "sum(tiny) + 1"]


def every_call() -> list[str]:
    """Every aggregate that is kept as partial aggregates, over each of the columns that it takes."""
    found = ["count(*)", "count(tiny, text)", "count(distinct tiny, text)", "count_if(yes)"]
    for name in COLUMNS:
        found += [f"{f}({name})" for f in ("count", "min", "max", "any_value")]
        found += [f"count(distinct {name})", f"max_by({name}, ts)", f"min_by({name}, ts) filter (where yes)"]
        found.append(f"approx_count_distinct({name})") if name not in INTERVALS else None
        if name in NUMBERS or name in INTERVALS:
            found += [f"sum({name})", f"sum(distinct {name})", f"sum({name}) filter (where yes)"]
            found += [f"avg({name})", f"mean(distinct {name})"] if name not in LONG else []
        if name in NUMBERS:
            found += [f"{f}({name})" for f in FAMILY]
        if name in WHOLE:
            found += [f"{f}({name})" for f in ("bit_and", "bit_or", "bit_xor")]
    found += [f"{f}(yes)" for f in ("any", "some", "bool_or", "every", "bool_and")]
    return [*found, *COMPUTED]


def calls_with_values() -> list[str]:
    """Calls whose value depends on the type, each over such types as are kept in another way."""
    found = [f"sum({name})" for name in NUMBERS] + [f"avg({name})" for name in NUMBERS if name not in LONG]
    found += ["sum(money) filter (where yes)", "avg(twice) filter (where yes)"]
    found += [f"sum(distinct {name})" for name in ("big", "twice", "fine", "money", "text")]
    found += [f"mean(distinct {name})" for name in ("big", "money", "text")]
    found += ["count(*)", "count(distinct tiny, text)", "count(distinct day)", "count_if(yes)"]
    for number, name in enumerate(STREAMED):
        found.append((f"min({name})", f"max({name})", f"max_by({name}, ts) filter (where yes)")[number % 3])
    # Of large numbers that are near to each other a variance is right in its first digits only, Spark's too.
    found += [f"{f}({name})" for name in ("small", "single", "money", "text") for f in ("var_pop", "stddev")]
    found += ["bit_and(big)", "bit_or(tiny)", "bit_xor(normal)", "bool_or(yes)", "every(yes)"]
    return [*found, *COMPUTED]


STREAMED = tuple(name for name in COLUMNS if name not in INTERVALS)
WINDOWS = {
    "hop": window_arguments.make_window("hop", "ts", "20 minutes", "1 hour"),
    "cumulate": window_arguments.make_window("cumulate", "ts", "20 minutes", "2 hours"),
}


@pytest.fixture(scope="module")
def folder(spark: Any, storage_root: Path) -> Iterator[str]:
    """Rows in three pieces, the first of which the last one's ids are of, too; NULLs, and a key of nothing else."""
    path = f"{storage_root}/typed"
    made = {name: f"if(k = 3 or n = 0, null, {text}) as {name}" for name, text in COLUMNS.items()}
    for piece in range(PIECES):
        spark.sql(
            f"""select *, {", ".join(made[name] for name in STREAMED)} from (
              select id % 80 as id, pmod(hash(id, 1), 4) as k, pmod(hash(id, 2), 121) - 60 as n,
                timestamp'2024-03-03 20:00:00' + make_dt_interval(0, 0, 0, id * 75) as ts
              from range({piece * 40}, {piece * 40 + 40}, 1, 1))"""
        ).write.mode("append").parquet(path)
    # What Iceberg can't hold is in batch alone.
    intervals = [made[name] for name in INTERVALS]
    spark.read.parquet(path).selectExpr("*", *intervals).createOrReplaceTempView("typed")
    yield path
    spark.catalog.dropTempView("typed")


@pytest.fixture(scope="module", autouse=True)
def without_generated_code(spark: Any) -> Iterator[None]:
    """For a few rows it takes longer to compile than to run, and much longer for hundreds of columns."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    with session_set(spark, settings):
        yield


@pytest.fixture
def ask(spark: Any) -> Any:
    return asks(spark)


@contextmanager
def ansi(spark: Any, on: bool) -> Iterator[None]:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", on)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def listed(calls: list[str]) -> str:
    return ", ".join(f"{call} as v{number}" for number, call in enumerate(calls))


def over_windows(window: str, calls: list[str], relation: str = "typed") -> str:
    keys = "window_start, window_end, k"
    return f"select {keys}, {listed(calls)} from {expansion.expand_window(relation, WINDOWS[window])} group by {keys}"


def over_stream(calls: list[str]) -> str:
    return f"select k, {listed(calls)} from (select /*+ STREAM */ * from typed) as t group by k"


def types(frame: Any) -> list[str]:
    return [field.dataType.simpleString() for field in frame.schema.fields]


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """The rows of a small result."""
    return sorted((tuple(row) for row in frame.collect()), key=lambda row: str(row[:3]))


def same(one: Any, other: Any) -> bool:
    """Equal; of doubles, which are added up in another order, but for the last digits."""
    if isinstance(one, float) and isinstance(other, float):
        return (isnan(one) and isnan(other)) or isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    return type(one) is type(other) and bool(one == other)


def differences(found: Any, expected: Any, calls: list[str], keys: int) -> list[Any]:
    """The calls whose values differ, with the first of these."""
    one, other = rows(found), rows(expected)
    assert [row[:keys] for row in one] == [row[:keys] for row in other]
    different: dict[str, Any] = {}
    for left, right in zip(one, other, strict=True):
        for call, a, b in zip(calls, left[keys:], right[keys:], strict=True):
            if not same(a, b):
                different.setdefault(call, (left[:keys], a, b))
    return list(different.items())


def differing_types(found: Any, expected: Any, calls: list[str], keys: int) -> list[Any]:
    pairs = zip(calls, types(found)[keys:], types(expected)[keys:], strict=True)
    return [(call, a, b) for call, a, b in pairs if a != b]


# -- batch ----------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_types_in_batch(spark: Any, folder: str, ask: Any) -> None:
    asked = every_call()
    text = over_windows("hop", asked)
    plan = plan_of(text, ask=ask)
    assert isinstance(plan.dataflow.window_specs[0], WindowAggregateSpec)
    assert differing_types(spark.sql(whole_query.batch_sql(plan)), spark.sql(text), asked, 3) == []


def test_averages_with_more_digits_than_a_quotient_keep_rows(spark: Any, folder: str, ask: Any) -> None:
    asked = [f"avg({'distinct ' * (n % 2)}{name})" for name in LONG for n in range(2)]
    text = over_windows("hop", asked)
    plan = plan_of(text, ask=ask)
    (spec,) = plan.dataflow.window_specs
    assert isinstance(spec, WindowBufferSpec) and "more digits than a quotient" in spec.reason
    found, expected = spark.sql(whole_query.batch_sql(plan)), spark.sql(text)
    assert differing_types(found, expected, asked, 3) == []
    assert differences(found, expected, asked, 3) == []


def test_types_are_asked_without_a_job(spark: Any, folder: str) -> None:
    """A job takes a new process seconds."""
    asked: list[str] = []

    def ask(query: str) -> Any:
        asked.append(query)
        spark.sparkContext.setJobGroup("types are asked", "")
        try:
            return tuple(spark.sql(query).first())
        finally:
            spark.sparkContext.setJobGroup(None, None)

    plan_of(over_windows("hop", ["sum(money)", "max(struct(*))"]), ask=ask)
    assert len(asked) == 2
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup("types are asked")) == []


# -- overflow -------------------------------------------------------------------------------------

OVERFLOWING = {
    "sum(big)": "9000000000000000000",
    "sum(distinct big)": "9000000000000000000 + id",
    "sum(whole)": "cast(repeat('9', 38) as decimal(38, 0)) - id",
    "sum(distinct whole)": "cast(repeat('9', 38) as decimal(38, 0)) - id",
    "sum(fine)": "cast(repeat('9', 20) as decimal(38, 18))",
    "avg(big)": "9000000000000000000 + id",
    "avg(distinct big)": "9000000000000000000 + id",
}


def overflowing(spark: Any) -> Any:
    """One key whose sums overflow within a slice, one whose do only over several, one whose never do."""
    made = {
        call.rpartition(" ")[2].rpartition("(")[2].rstrip(")"): text for call, text in OVERFLOWING.items()
    }
    columns = ", ".join(f"if(k = 2 and id > 83, null, {text}) as {name}" for name, text in made.items())
    rows = spark.sql(
        f"""select *, {columns} from (
          select id, id % 3 as k,
            timestamp'2024-03-03 20:00:00' + make_dt_interval(0, 0, if(id % 3 = 0, 0, (id div 3 - 27) * 20)) as ts
          from range(81, 90))"""
    )
    rows.createOrReplaceTempView("overflowing")
    return rows


@pytest.mark.parametrize("window", mostly_thorough(WINDOWS, []))
def test_overflow_is_sparks_own(spark: Any, ask: Any, window: str) -> None:
    overflowing(spark)
    asked = list(OVERFLOWING)
    text = over_windows(window, asked, "overflowing")
    with ansi(spark, False):
        found, expected = spark.sql(whole_query.batch_sql(plan_of(text, ask=ask))), spark.sql(text)
        assert any(row["v2"] is None for row in expected.collect())
        assert any((row["v0"] or 0) < 0 for row in expected.collect())
        assert differences(found, expected, asked, 3) == []
    with ansi(spark, True):
        for call in asked:
            text = over_windows(window, [call], "overflowing")
            planned = spark.sql(whole_query.batch_sql(plan_of(text, ask=ask)))
            assert _error(planned) == _error(spark.sql(text)), call


def _error(frame: Any) -> str | None:
    """What kind of error it ends with: that of a sum, a cast or a division is of one kind; None: it doesn't."""
    try:
        frame.collect()
    except Exception as problem:
        kinds = ("ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "CAST_OVERFLOW")
        return "overflow" if any(kind in str(problem) for kind in kinds) else str(problem)
    return None


# -- streams --------------------------------------------------------------------------------------


def streamed(spark: Any, root: Path, folder: str, plan: Plan, expected: Any, delay: int = 0) -> Any:
    """The table of a stream that reads piece after piece."""
    spark.sql("create namespace if not exists typed_streams")
    target = f"typed_streams.t{next(_numbers)}"
    made = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in expected.schema.fields)
    spark.sql(f"create table {target} ({made}) using iceberg")
    schema = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in spark.read.parquet(folder).schema)
    (stream,) = plan.streams
    source = StreamSource(stream.relation, folder, "parquet", schema, {"maxFilesPerTrigger": "1"})
    storage = Storage(str(root), lambda: spark)
    model = StreamModel(target, target, f"{target}__state", storage, (source,), watermark_delay=delay)
    program = generate.generate_program(plan)
    result = run_stream(spark, model, program)
    assert (result.batches, result.late_rows) == (PIECES, 0)
    flush(spark, model, program)
    return spark.table(target)


@pytest.mark.thorough
def test_values_of_windows(spark: Any, storage_root: Path, folder: str, ask: Any) -> None:
    """In batch and streamed."""
    asked = calls_with_values()
    text = over_windows("cumulate", asked)
    plan = plan_of(text, ask=ask)
    expected = spark.sql(text)
    assert differences(spark.sql(whole_query.batch_sql(plan)), expected, asked, 3) == []
    assert differences(streamed(spark, storage_root, folder, plan, expected), expected, asked, 3) == []


@pytest.mark.thorough
def test_values_of_a_group_whose_rows_replace_others(
    spark: Any, storage_root: Path, folder: str, ask: Any
) -> None:
    """The rows of the last piece replace those of the first that have their id."""
    # Values that can't be taken away again are kept one by one, in a part of the state for each column.
    by_value = [
        call for call in calls_with_values() if call.startswith(("min", "max", "bit_", "bool", "every"))
    ]
    asked = [call for call in calls_with_values() if call not in by_value[3:]]
    text = over_stream(asked)
    plan = plan_of(text, {"typed": RelationInfo("ts", key=("id",))}, ask=ask)
    (group,) = plan.dataflow.groups.values()
    assert group.spec.has_retractions
    last = "select r.* from (select max_by(struct(*), ts) as r from typed group by id)"
    expected = spark.sql(text.replace("select /*+ STREAM */ * from typed", last))
    assert differences(streamed(spark, storage_root, folder, plan, expected), expected, asked, 1) == []


# -- NaN, the infinities, and what is taken away --------------------------------------------------

# Key, id and value in each piece: a row replaces the one before it that has its id.
ODD = [
    [("nan goes", 1, "NaN"), ("up goes", 2, "Infinity"), ("both", 3, "Infinity"), ("nan stays", 4, "NaN")],
    [
        ("nan goes", 1, "2"),
        ("nan goes", 5, "NaN"),
        ("both", 6, "-Infinity"),
        ("nan stays", 7, "1"),
        ("down", 8, "0.1"),
    ],
    [
        ("nan goes", 5, "3"),
        ("up goes", 2, "-0.5"),
        ("nan stays", 7, "2"),
        ("down", 8, "-Infinity"),
        ("down", 9, "1"),
    ],
]


@pytest.mark.thorough
def test_what_is_not_finite_goes_with_its_row(spark: Any, storage_root: Path, ask: Any) -> None:
    path = f"{storage_root}/odd"
    for piece, values in enumerate(ODD):
        made = ", ".join(f"('{key}', {at}, double('{value}'))" for key, at, value in values)
        spark.sql(
            f"""select timestamp_seconds({piece}) as ts, k, id, x, cast(x as float) as f, cast(x as string) as t
            from values {made} as v(k, id, x)"""
        ).coalesce(1).write.mode("append").parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("odd")
    asked = [f"{f}({x})" for f in ("sum", "avg") for x in ("x", "f", "t")]
    asked += ["var_pop(x)", "stddev_samp(f)", "variance(t)", "stddev_pop(x)"]
    asked += ["sum(distinct x)", "avg(distinct x)", "sum(distinct t)"]
    text = f"select k, {listed(asked)} from (select /*+ STREAM */ * from odd) as t group by k"
    plan = plan_of(text, {"odd": RelationInfo("ts", key=("id",))}, ask=ask)
    last = "select r.* from (select max_by(struct(*), ts) as r from odd group by id)"
    expected = spark.sql(text.replace("select /*+ STREAM */ * from odd", last))
    assert differences(streamed(spark, storage_root, path, plan, expected), expected, asked, 1) == []


@pytest.mark.parametrize("of", mostly_thorough(["windows", "groups"], []))
def test_overflow_across_micro_batches_is_sparks_own(
    spark: Any, storage_root: Path, ask: Any, of: str
) -> None:
    rows = overflowing(spark)
    path = f"{storage_root}/overflowing_{of}"
    for first in (81, 84, 87):
        rows.where(f"id between {first} and {first + 2}").coalesce(1).write.mode("append").parquet(path)

    def plan(asked: list[str]) -> Plan:
        if of == "windows":
            return plan_of(over_windows("cumulate", asked, "overflowing"), ask=ask)
        text = f"select k, {listed(asked)} from (select /*+ STREAM */ * from overflowing) group by k"
        return plan_of(text, {"overflowing": RelationInfo()}, ask=ask)

    def batch(asked: list[str]) -> Any:
        windows = over_windows("cumulate", asked, "overflowing")
        return spark.sql(
            windows if of == "windows" else f"select k, {listed(asked)} from overflowing group by k"
        )

    def found(asked: list[str]) -> Any:
        return streamed(spark, storage_root, path, plan(asked), batch(asked), delay=7_200_000_000)

    asked = list(OVERFLOWING)
    with ansi(spark, False):
        values = batch(asked).collect()
        # NULL, and one that has gone round.
        assert any(row["v2"] is None for row in values)
        assert any(row["v0"] is not None and row["v0"] < 9_000_000_000_000_000_000 for row in values)
        assert differences(found(asked), batch(asked), asked, 3 if of == "windows" else 1) == []
    with ansi(spark, True):
        for call in ("sum(big)", "sum(fine)"):
            assert _error(batch([call])) == "overflow"
            with pytest.raises(StreamError, match=r"OVERFLOW|OUT_OF_RANGE"):
                found([call])


@pytest.mark.thorough
def test_distinct_values_that_are_met_earlier_later_on(spark: Any, storage_root: Path, ask: Any) -> None:
    """Their first sight moves to an earlier slice, from where they are taken away again."""
    path = f"{storage_root}/moving"
    for minutes in (100, 50, 10):
        spark.sql(
            f"""select 1 as k, timestamp'2024-03-03 20:00:00' + make_dt_interval(0, 0, {minutes} + id) as ts,
              cast(1 as decimal(38, 18)) / 7 + id as fine, cast(0.3 + id as decimal(10, 2)) as money,
              if(id = 0, double('Infinity'), id) as x, cast(9000000000000000000 as bigint) as big
            from range(3)"""
        ).coalesce(1).write.mode("append").parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("moving")
    asked = [f"sum(distinct {name})" for name in ("fine", "money", "x", "big")]
    asked += ["avg(distinct money)", "avg(distinct x)", "avg(distinct big)", "count(distinct x)"]
    text = over_windows("cumulate", asked, "moving")
    plan = plan_of(text, ask=ask)
    assert isinstance(plan.dataflow.window_specs[0], WindowAggregateSpec)
    expected = spark.sql(text)
    found = streamed(spark, storage_root, path, plan, expected, delay=7_200_000_000)
    assert differences(found, expected, asked, 3) == []


@pytest.mark.parametrize(
    "values",
    [
        "('')",
        "(''), ('a'), (null)",
        "(0D), (-0D), (double('nan'))",
        "(float('-0'))",
        "(x'')",
        "('-0.0'), ('0.0')",
    ],
)
def test_sketches_count_what_spark_counts(spark: Any, values: str) -> None:
    """A sketch passes over empty texts, and -0.0 isn't the text of 0.0."""
    sketch = MERGEABLE["approx_count_distinct"]
    made = sketch.make["value"].format("x", filter="")
    counted = sketch.finish.format(value=made)
    found = spark.sql(
        f"select {counted} as n, approx_count_distinct(x) as m from values {values} as t(x)"
    ).first()
    assert found.n == found.m
