"""What the planner knows of Spark's functions, compared with the Spark at hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.sql import spark_functions
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from dbt.adapters.spark_streaming.query.sql.functions import Kind, session_functions

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


@pytest.fixture(scope="module")
def registry(spark: Any) -> dict[str, Any]:
    """Spark's own functions, as it describes them."""
    state, jvm = spark._jsparkSession.sessionState(), spark._jvm
    registries = (state.functionRegistry(), state.tableFunctionRegistry())
    found: dict[str, Any] = {}
    for (name,) in spark.sql("show system functions").collect():
        for each in registries if name.isidentifier() else ():
            described = each.lookupFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))
            if described.isDefined():
                found.setdefault(name, described.get())
    return found


@pytest.mark.thorough
def test_the_functions_are_those_of_this_spark(spark: Any, registry: dict[str, Any]) -> None:
    jvm = spark._jvm
    bases = {
        base: jvm.org.apache.spark.util.Utils.classForName(f"{_EXPRESSIONS}.{base}", False, False)
        for base in (
            "aggregate.AggregateFunction",
            "RuntimeReplaceableAggregate",
            "Generator",
            "Nondeterministic",
        )
    }
    kinds: dict[str, set[str]] = {name: set() for name in ("AGGREGATES", "WINDOWS", "GENERATORS", "TABLES")}
    random = set()
    for name, described in registry.items():
        kind = jvm.org.apache.spark.util.Utils.classForName(described.getClassName(), False, False)
        inherits = {base for base, parent in bases.items() if parent.isAssignableFrom(kind)}
        group = described.getGroup()
        if "Nondeterministic" in inherits:
            random.add(name)
        if name in ("grouping", "grouping_id"):
            continue
        if group == "window_funcs":
            kinds["WINDOWS"].add(name)
        elif group == "agg_funcs" or inherits & {
            "aggregate.AggregateFunction",
            "RuntimeReplaceableAggregate",
        }:
            kinds["AGGREGATES"].add(name)
        elif group == "generator_funcs" or "Generator" in inherits:
            kinds["GENERATORS"].add(name)
        elif group == "table_funcs" or name.startswith("variant_explode"):
            kinds["TABLES"].add(name)
    for kind, names in kinds.items():
        assert names == getattr(spark_functions, kind), kind
    # uniform() is made of rand() and try_reflect() of reflect(); aes_encrypt() draws an initialization vector.
    assert random | {"uniform", "try_reflect", "aes_encrypt"} == spark_functions.NONDETERMINISTIC
    assert set(registry) - set().union(*kinds.values()) == spark_functions.SCALARS


@pytest.mark.thorough
def test_the_examples_of_sparks_functions_mean_the_same_when_printed(
    spark: Any, registry: dict[str, Any]
) -> None:
    """Spark's own documentation of each function, parsed and printed: the plan stays what it was."""
    different, read, compared = {}, 0, 0
    for name, described in registry.items():
        for query in re.findall(r"> (SELECT .*?);\n", described.getExamples(), re.DOTALL):
            try:
                printed = sql(parse(query))
            except QueryError:
                continue  # refused in a sentence
            read += 1
            if _letters(printed) == _letters(query):
                continue
            try:
                expected = spark.sql(query)
            except Exception:
                continue  # it shows an error
            compared += 1
            try:
                found = spark.sql(printed)
                same = found.sameSemantics(expected) or _rows(found) == _rows(expected)
            except Exception as problem:
                different[query] = f"{printed}: {str(problem)[:100]}"
                continue
            if not same and name not in spark_functions.NONDETERMINISTIC:
                different[query] = printed
    assert (different, read > 950, compared > 100) == ({}, True, True)


def _letters(text: str) -> str:
    """A text but for the case of names, and spaces: what stands in quotes is printed as it is."""
    return "".join(text.split()).lower()


def _rows(frame: Any) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


def test_a_session_says_what_other_functions_are(spark: Any) -> None:
    from pyspark.sql.pandas.functions import pandas_udf

    udaf: Any = pandas_udf(lambda values: float(values.mean()), "double", 202)  # GROUPED_AGG
    spark.udf.register("mean_of", udaf)
    spark.udf.register("plus_one", lambda value: value, "double")

    def ask(query: str) -> Sequence[object]:
        return tuple(spark.sql(query).first())

    kind = session_functions(ask)
    asked = {
        ("mean_of", 1): Kind.AGGREGATE,
        ("plus_one", 1): Kind.SCALAR,
        ("sum", 1): Kind.AGGREGATE,
        ("not_there", 1): None,
        ("explode", 1): Kind.GENERATOR,
        ("row_number", 0): Kind.WINDOW,
        ("lakehouse.system.bucket", 2): Kind.SCALAR,
    }
    assert {each: kind(*each) for each in asked} == asked
