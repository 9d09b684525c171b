"""Random rows × random queries: a rewritten query gives the rows, names and types of the one it was made of."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.rewrites import rewriting
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from dbt.adapters.spark_streaming.query.sql.tie_breaking import break_ties
from tests.thorough import mostly_thorough

TABLE = "rewritten_rows"
COLUMNS = "k string, c string, d int, u bigint, p string, m decimal(9,2), v int, f double, a array<int>"

_asked = os.environ.get("PROPERTY_EXAMPLES")
_few = settings(
    max_examples=int(_asked or 2),
    deadline=None,
    # The same few each time; PROPERTY_EXAMPLES=100 looks for as many others.
    derandomize=_asked is None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


def nullable(values: Any) -> Any:
    return st.none() | st.sampled_from(list(values))


# Few values of each, so that there are duplicates, ties and a hot key; and now and then no row at all.
rows = st.lists(
    st.tuples(
        st.sampled_from(["hot", "hot", "hot", "x", "y", None]),
        nullable(["A", "B", "C", "a"]),
        nullable([1, 2, 3]),
        nullable(range(6)),
        nullable(["", "p", "q"]),
        nullable([Decimal("0.10"), Decimal("2.25"), Decimal("-7.00")]),
        nullable(range(-2, 4)),
        nullable([0.0, -0.0, 1.5, float("nan")]),
        nullable([(1, 2), (), (None,)]).map(lambda value: None if value is None else list(value)),
    ),
    max_size=40,
)

plain = st.sampled_from(
    [
        "count(*)",
        "count(u)",
        "count_if(v > 0)",
        "sum(v)",
        "sum(m)",
        "sum(v) filter (where c = 'A')",
        "avg(v)",
        "avg(m)",
        "min(p)",
        "max(m) filter (where v > 1)",
        "max(u)",
        "bool_or(v > 2)",
        "bit_xor(v)",
        "var_pop(v)",
        "percentile(v, 0.5)",
        "percentile_cont(0.5) within group (order by v)",
        "sort_array(collect_list(v))",
        "approx_count_distinct(u)",
        "max(distinct v)",
        "coalesce(sum(v), -1) * 2 + count(*)",
        "max(a)",
    ]
)
counted = st.sampled_from(
    [
        "count(distinct u)",
        "count(distinct u) filter (where v > 0)",
        "count(distinct u) filter (where p = 'q' or d = 1)",
        "count(distinct p)",
        "count(distinct u, p)",
        "count(distinct p, u) filter (where v < 2)",
        "count(distinct f)",
        "count(distinct v % 2)",
        "count(distinct k)",
        "count(distinct c)",
        "count(distinct u) / count(*)",
        "sum(distinct v)",
        "avg(distinct m)",
        "count(distinct a)",
    ]
)
havings = st.sampled_from(
    ["", "", "having count(*) > 1", "having count(distinct u) > 1 and max(v) is not null"]
)
orders = st.sampled_from(["", "order by 1 desc", "order by n0, count(distinct u) limit 1000"])
grouped = st.sampled_from(
    [
        "{}",
        "rollup({})",
        "cube({})",
        "grouping sets (({}), (k), ())",
        "k, rollup({})",
        "grouping sets (({}), (c))",
    ]
)
limits = st.sampled_from(
    [
        "c in ('A', 'B')",
        "c in ('A', null, 'C', 'a')",
        "c = 'A' or 'B' = c or c is null",
        "(c in ('A', 'B', 'C') and v > 0) or (c = 'a' and d = 1)",
        "c in ('A', 'B') and (d = 1 or d = 3)",
        "d in (1, 2, 7) and p is not null",
        "d in ('1', '3') and t.c in ('B', 'A')",
        "c = null or c in ('A', 'B')",
        "upper(c) in ('A', 'B') and c in ('A', 'a', 'B')",
    ]
)


@st.composite
def select_lists(draw: st.DrawFn, of_keys: bool = True) -> str:
    calls = draw(st.lists(counted, min_size=1, max_size=3)) + draw(st.lists(plain, max_size=3))
    if not any("count(distinct" in call for call in calls):
        calls.append("count(distinct u)")
    items = [f"{call} as n{at}" for at, call in enumerate(draw(st.permutations(calls)))]
    if of_keys:
        items.append(
            draw(st.sampled_from(["rank() over (order by count(distinct u) desc) as r", "1 as one"]))
        )
    return ", ".join(items)


@st.composite
def enumerated(draw: st.DrawFn) -> str:
    where = draw(limits)
    keys = draw(st.sampled_from(["c, d", "k, c, d", "d, k, t.c", "k, c, d, upper(c)"]))
    clause = draw(st.just("{}") | grouped)
    ids = ", grouping_id() as id, grouping(c) as gc" if clause != "{}" else ""
    return _spark_takes(
        f"select {keys}{ids}, {draw(select_lists())} from {TABLE} t where {where} "
        f"group by {_once(clause.format(keys))} {draw(havings)} {draw(orders)}"
    )


@st.composite
def filtered(draw: st.DrawFn) -> str:
    """Nothing is enumerated but FILTERs."""
    two = "count(distinct u) filter (where c = 'A') as a, count(distinct u) filter (where c is null) as b"
    keys = draw(st.sampled_from(["", "k", "k, v % 2"]))
    group = f"group by {keys}" if keys else ""
    return f"select {keys + ', ' if keys else ''}{two}, {draw(select_lists(False))} from {TABLE} t {group}"


@st.composite
def split(draw: st.DrawFn) -> str:
    keys = draw(st.sampled_from(["", "k", "k, c", "v % 2, k", "k, u"]))
    items = draw(select_lists(bool(keys)))
    if not keys:
        return f"select {items} from {TABLE} where k <> 'y'"
    clause = draw(st.just("{}") | grouped)
    if "(c)" in clause and "c" not in keys:
        clause = "cube({})"
    group = _once(clause.format(keys))
    return _spark_takes(
        f"select {keys}, {items} from {TABLE} t group by {group} {draw(havings)} {draw(orders)}"
    )


def _has_no_set_twice(text: str) -> bool:
    try:
        rewriting.rewrite("split_distinct", text)
    except QueryError as problem:
        assert "is listed twice" in str(problem)
        return False
    return True


def _spark_takes(text: str) -> str:
    """Beside a window function or HAVING, Spark takes no aggregate in ORDER BY."""
    plain = " over (" not in text and " having " not in text
    return text if plain else text.replace("order by n0, count(distinct u)", "order by n0")


def _once(clause: str) -> str:
    """Grouping sets that are all different: `k, rollup(k, c)` has (k) twice."""
    return clause.replace("k, rollup(k, ", "k, rollup(").replace("k, rollup(k)", "k")


@st.composite
def ranked(draw: st.DrawFn) -> str:
    rank = draw(st.sampled_from(["row_number", "rank", "dense_rank"]))
    order = draw(st.sampled_from(["v desc", "m, v desc nulls last", "p nulls last", "v % 2, t.u desc"]))
    within = draw(
        st.sampled_from(["", "partition by k ", "partition by k, upper(c) ", "partition by v > 0 "])
    )
    where = draw(
        st.sampled_from(
            ["r <= 2", "r = 2", "2 > r", "r between 2 and 3", "r in (1, 3) and v > 0", "x.r <= 30"]
        )
    )
    over = f"{rank}() over ({within}order by {order}) as r"
    below = draw(
        st.sampled_from(
            [
                f"select *, {over} from {TABLE} t",
                f"select {over}, t.* from {TABLE} t where p <> 'q'",
                f"select k, v + 1 as w, {over}, v, f from {TABLE} t",
                f"select k, v, {rank}() over ({within.replace('upper(c)', 'k')}order by count(distinct u), v) as r "
                f"from {TABLE} t group by k, v",
            ]
        )
    )
    columns = draw(st.sampled_from(["*", "k, v, r", "x.r as place, x.*"]))
    if draw(st.booleans()):
        return f"with x as ({below}) select {columns} from x where {where}"
    return f"select {columns} from ({below}) x where {where}"


@pytest.fixture(scope="module")
def quick(spark: Any) -> Iterator[Any]:
    """The session, without generated code, which takes longer to compile than a few rows to run."""
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
    }
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        spark.conf.set(key, value)


def outcome(spark: Any, text: str) -> tuple[Counter[str], list[Any]]:
    """Rows, and names and types of the columns that have a name of their own."""
    table = spark.sql(text)
    named = [(f.name, f.dataType) if f.name.isidentifier() else f.dataType for f in table.schema.fields]
    return Counter(str([_rounded(value) for value in row]) for row in table.collect()), named


def _rounded(value: Any) -> Any:
    """Without the last digits, which depend on the order of what was added up, or the sign of zero."""
    return round(value, 9) + 0.0 if isinstance(value, float) else value


def compare(spark: Any, name: str, text: str, **options: Any) -> None:
    """Fails unless the rewritten text gives what the text gives."""
    made = rewriting.rewrite(name, text, **options)
    tree = parse(text)
    for select in tree.find_all(exp.Select) if name == "split_topn" else ():
        break_ties(select)  # Spark leaves them to chance
    found, expected = outcome(spark, made), outcome(spark, sql(tree) if name == "split_topn" else text)
    assert found == expected, f"{text}\nbecame\n{made}\n{found[0] - expected[0]}\n{expected[0] - found[0]}"


@pytest.mark.parametrize(
    ("name", "queries", "options"),
    [
        pytest.param("enum_distinct", enumerated(), {}, marks=pytest.mark.thorough),
        pytest.param("enum_distinct", filtered(), {}, marks=pytest.mark.thorough),
        ("split_distinct", split().filter(_has_no_set_twice), {"buckets": 3}),
        pytest.param("split_topn", ranked(), {"buckets": 3}, marks=pytest.mark.thorough),
    ],
    ids=["enum_distinct", "enum_distinct of filters", "split_distinct", "split_topn"],
)
@_few
@given(data=st.data(), table=rows)
def test_same_rows(
    quick: Any,
    name: str,
    queries: st.SearchStrategy[str],
    options: Any,
    data: st.DataObject,
    table: list[Any],
) -> None:
    quick.createDataFrame(table, COLUMNS).createOrReplaceTempView(TABLE)
    for text in data.draw(st.lists(queries, min_size=3, max_size=3)):
        compare(quick, name, text, **options)


@pytest.mark.parametrize("values", mostly_thorough([63, 64, 65, 150], [65]))
def test_any_number_of_values(quick: Any, values: int) -> None:
    """Bits fill one BIGINT to its sign and go on in others, each FILTER's after the one before."""
    quick.range(3000).selectExpr(
        f"cast(pmod(hash(id), {values + 9}) as string) as c", "id % 3 as k", "pmod(hash(id, 1), 400) as u"
    ).createOrReplaceTempView("many_values")
    listed = ", ".join(f"'{number}'" for number in range(values))
    text = f"""select k, c, grouping(c) as all_of_them, count(distinct u) as n, sum(distinct u) as s,
        count(distinct u) filter (where u > 200) as m from many_values where c in ({listed}) group by k, rollup(c)"""
    compare(quick, "enum_distinct", text)


def test_numbers_are_not_compared_with_strings(quick: Any) -> None:
    """'1' and '01' are equal to 1, and are two groups."""
    quick.sql("select * from values ('1', 1), ('01', 2), ('2', 3) as t(c, u)").createOrReplaceTempView(
        "codes"
    )
    text = "select c, count(distinct u) as n from codes where {} in (1, 2) group by {}"
    with pytest.raises(Exception, match="c is a string, so write its values as strings"):
        quick.sql(rewriting.rewrite("enum_distinct", text.format("c", "c"))).collect()
    compare(quick, "enum_distinct", text.format("int(c)", "int(c)").replace("select c", "select int(c) as c"))
