"""What the rewrites take and what they refuse, and why; whether the rows are the same is asked of Spark elsewhere."""

from __future__ import annotations

import re

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.rewrites import rewriting
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments

IN = "where c in ('A', 'B')"
TUMBLE = expansion.expand_window("t", window_arguments.make_window("tumble", "ts", "1 minute"))
SESSION = expansion.expand_window(
    "t", window_arguments.make_window("session", "ts", "1 minute", partition_by=["c"])
)
STEPS = expansion.expand_window(
    "t", window_arguments.make_window("cumulate", "ts", "1 minute", "1 hour", emit="on_change")
)
RANKED = "select *, row_number() over (partition by c order by v) as rn from t"
COUNTED = f"select c, count(distinct u) as n from x {IN} group by c"
FIRST = "select c, v from (select *, rank() over (partition by c order by v) as r from x) where r < 3"
IDS = ", ".join(str(number) for number in range(1025))

REFUSALS = [
    # No aggregate that the rewrite is about.
    (
        "enum_distinct",
        f"select c, count(*) from t {IN} group by c",
        "There is no COUNT(DISTINCT …) in this query",
    ),
    (
        "split_distinct",
        "select c, sum(distinct v) from t group by c",
        "There is no COUNT(DISTINCT …) in this query",
    ),
    (
        "split_topn",
        "select * from t where v < 3",
        "There is no filter on a ROW_NUMBER(), RANK() or DENSE_RANK()",
    ),
    (
        "split_topn",
        "select * from t order by v limit 3",
        "There is no filter on a ROW_NUMBER(), RANK() or DENSE_RANK()",
    ),
    # Values.
    (
        "enum_distinct",
        "select c, count(distinct u) from t where c in ('A', lower(d)) group by c",
        "'c IN ('A', LOWER(d))' lists values that are not literals",
    ),
    (
        "enum_distinct",
        "select c, count(distinct u) from t where c in (select c from s) group by c",
        "'c IN (SELECT c FROM s)' lists values that are not literals",
    ),
    (
        "enum_distinct",
        "select c, count(distinct u) from t where c in (1e3, 2e3) group by c",
        "'c IN (1e3, 2e3)' lists values that are not literals",
    ),
    (
        "enum_distinct",
        "select c, d, count(distinct u) from t where v > 3 or c = 'A' group by c, d",
        "WHERE limits no group key (c, d) to a list of values",
    ),
    (
        "enum_distinct",
        "select count(distinct u) from t",
        "WHERE limits no group key (there is none) to a list",
    ),
    (
        "enum_distinct",
        "select c, count(distinct u) from t where not c in ('A', 'B') group by c",
        "WHERE limits no group key (c) to a list of values",
    ),
    (
        "enum_distinct",
        "select c, count(distinct u) from t where c in ('A', 1) group by c",
        "The values 'A', 1 are of several types; write all of them in one type.",
    ),
    (
        "enum_distinct",
        f"select c, count(distinct u) from t where c in ({IDS}) group by c",
        "1025 values and 1 FILTERs make 1025 bits, more than the 1024 that pay",
    ),
    # Windows.
    (
        "enum_distinct",
        f"select window_start, window_end, c, count(distinct u) from {SESSION} {IN} group by all",
        "session() computes the bounds of a window from its rows",
    ),
    (
        "enum_distinct",
        f"with w as (select * from {SESSION}) select window_end, c, count(distinct u) from w {IN} group by all",
        "session() computes the bounds of a window from its rows",
    ),
    *(
        (name, text, "cumulate() with emit='on_change' leaves out steps without new rows")
        for name, text in {
            "enum_distinct": f"select window_end, c, count(distinct u) from {STEPS} {IN} group by all",
            "split_distinct": f"select window_end, count(distinct u) from {STEPS} group by all",
            "split_topn": f"select * from (select *, rank() over (order by v) as r from {STEPS}) where r < 3",
        }.items()
    ),
    # What would be another value, or another row, the second time.
    (
        "enum_distinct",
        f"select c, count(distinct u) from t {IN} and rand() < 0.5 group by c",
        "'RAND()' is non-deterministic",
    ),
    ("split_distinct", "select count(distinct uuid()) from t", "'UUID()' is non-deterministic"),
    (
        "split_topn",
        "select * from (select *, rank() over (order by rand()) as r from t) where r < 3",
        "'RAND()' is non-deterministic",
    ),
    (
        "split_distinct",
        "select count(distinct u) from t tablesample (10 percent)",
        "'TABLESAMPLE (10 PERCENT)' takes other rows each time it is read",
    ),
    (
        "enum_distinct",
        f"select c, count(distinct u) from (select * from t limit 10) {IN} group by c",
        "'LIMIT 10' under FROM may keep other rows each time it is read",
    ),
    # What can't be moved over the steps.
    (
        "split_distinct",
        "select *, count(distinct u) from t group by c",
        "'*' in the select list of a GROUP BY",
    ),
    (
        "split_distinct",
        "select d, count(distinct u) from t group by c",
        "'d' is neither grouped nor aggregated",
    ),
    (
        "split_distinct",
        "select c, count(distinct u) from t group by c having count(*) > (select max(n) from s)",
        "'(SELECT MAX(n) FROM s)' is a subquery over groups",
    ),
    (
        "split_distinct",
        "select c, count(distinct u), sum((select max(n) from s)) from t group by c",
        "contains a subquery; join it in a subquery in FROM",
    ),
    (
        "split_distinct",
        "select c, count(distinct u), count(t.*) from t group by c",
        "'COUNT(t.*)' contains a '*'",
    ),
    ("split_distinct", "select sum(count(distinct u)) from t", "is an aggregate of an aggregate"),
    (
        "split_distinct",
        "select grouping(c), count(distinct u) from t group by c",
        "needs GROUPING SETS, ROLLUP or CUBE",
    ),
    (
        "split_distinct",
        "select grouping(d), count(distinct u) from t group by rollup(c)",
        "'GROUPING(d)' names something that is not a group key",
    ),
    (
        "split_distinct",
        "select c, count(distinct u) from t group by grouping sets ((c), (c))",
        "The grouping set (c) is listed twice",
    ),
    (
        "split_distinct",
        "select count(distinct u), hll_sketch_agg(v) from t",
        "What hll_sketch_agg() returns for no rows is not known here",
    ),
    # Rankings.
    (
        "split_topn",
        f"select * from ({RANKED}) where v > 3",
        "No filter sets an upper bound to the rank rn; add rn <= N.",
    ),
    (
        "split_topn",
        f"select * from ({RANKED}) where rn >= 3",
        "sets no upper bound to the rank rn; add rn <= N",
    ),
    (
        "split_topn",
        f"select * from ({RANKED}) x join s on x.c = s.c where s.rn <= 3 and x.v < 3",
        "No filter sets an upper bound to the rank rn",
    ),
    (
        "split_topn",
        "select * from (select *, row_number() over (partition by c) as rn from t) where rn < 3",
        "has no ORDER BY, so any row could come first",
    ),
    (
        "split_topn",
        "select * from (select *, row_number() over (order by v) as rn, sum(v) over () as s from t) where rn < 3",
        "'SUM(v) OVER ()' is next to the ranking and needs all rows of its group",
    ),
    (
        "split_topn",
        "select * from (select *, rank() over w as rn from t window w as (order by v)) where rn < 3",
        "The ranking's window has a name, 'w OVER (ORDER BY v)'; write its PARTITION BY",
    ),
    (
        "split_topn",
        "select * from (select distinct c, rank() over (order by v) as rn from t) where rn < 3",
        "'DISTINCT' is next to the ranking",
    ),
    (
        "split_topn",
        "select * from (select c, d as c, rank() over (order by v) as rn from t) where rn < 3",
        "Two columns next to the ranking are called c",
    ),
    (
        "split_topn",
        "select * from (select v + 1 as a, rank() over (order by v) as rn, * from t) where rn < 3",
        "The rank rn is between '*' and other columns; put it first or last.",
    ),
    # Not one SELECT.
    ("split_topn", "select 1; select 2", "What split_topn rewrites is one SELECT; found 2 statements."),
    ("split_topn", "", "What split_topn rewrites is one SELECT; found nothing."),
]


@pytest.mark.parametrize(("name", "text", "sentence"), REFUSALS)
def test_refused_with_the_reason(name: str, text: str, sentence: str) -> None:
    with pytest.raises(QueryError) as refusal:
        rewriting.rewrite(name, text)
    assert str(refusal.value).startswith(f"{name}: ")
    assert sentence in str(refusal.value)


@pytest.mark.parametrize("item", ["xs[0]", "date '2020-01-01'", "cast(upper(c) as string)"])
def test_ranked_columns_without_a_name_are_read_by_the_one_they_get(item: str) -> None:
    made = rewriting.rewrite(
        "split_topn",
        f"select * from (select v, {item}, row_number() over (partition by c order by v) as rn from t) where rn < 3",
    )
    rows, _, ranked = (cte.this for cte in parse(made).ctes)
    _, named, *_ = rows.expressions
    assert isinstance(named, exp.Alias)
    assert [each.name for each in ranked.expressions[:2]] == ["v", named.alias]


@pytest.mark.parametrize("name", ["split_distinct", "enum_distinct"])
def test_grouped_columns_without_a_name_are_named_by_their_text(name: str) -> None:
    made = rewriting.rewrite(
        name,
        f"select c, cast(count(*) as int), array_agg(v)[0], count(distinct u) as n from t {IN} group by c",
    )
    names = [each.alias_or_name for each in parse(made).selects]
    assert names == ["c", "CAST(COUNT(*) AS INT)", "COLLECT_LIST(v)[0]", "n"]


@pytest.mark.parametrize("buckets", [0, 1, -3, 2.5, "64", True, None])
@pytest.mark.parametrize("name", ["split_distinct", "split_topn"])
def test_buckets_are_a_whole_number(name: str, buckets: object) -> None:
    with pytest.raises(QueryError) as refusal:
        rewriting.rewrite(name, "select count(distinct u) from t", buckets=buckets)
    assert f"buckets is {buckets!r}; write a whole number of at least 2, such as 128." in str(refusal.value)


@pytest.mark.parametrize(
    ("where", "numbered"),
    [
        ("c in ('A', 'B')", {"c"}),
        ("c in ('A', null, 'B')", {"c"}),
        ("'A' = c or c = 'B'", {"c"}),
        ("c = 'A' or c is null", {"c"}),
        ("(c in ('A') or (c = 'B' and v > 3)) and d < 3", {"c"}),
        ("t.c in ('A', 'B') and (d = 1 or d = -2)", {"c", "d"}),
        ("c in ('A', 'B') and d = 1", {"c"}),
        ("(c = 'A' and d = 1) or (c = 'B' and d = 2)", {"c", "d"}),
        ("d in (date '2024-01-01', date '2024-01-02')", {"d"}),
        ("c in ('A', 'B') and c in ('B', 'C', 'D')", {"c"}),
    ],
)
def test_values_are_found_in_the_filter(where: str, numbered: set[str]) -> None:
    text = rewriting.rewrite(
        "enum_distinct", f"select c, d, count(distinct u) as n from t where {where} group by c, d"
    )
    assert {name for name in ("c", "d") if f"{name}_number" in text} == numbered


@pytest.mark.parametrize(
    ("where", "numbered"),
    [("b.c in ('A', 'B')", False), ("a.c in ('A', 'B')", True), ("a.c in ('A', 'B') and b.c > 'A'", True)],
)
def test_values_of_another_relation_are_not_those_of_the_key(where: str, numbered: bool) -> None:
    """A group of another value would have no place among the counts, and NULL for one."""
    text = f"select a.c, count(distinct a.u) as n from a join b on a.x = b.x where {where} group by a.c"
    if numbered:
        assert "c_number" in rewriting.rewrite("enum_distinct", text)
        return
    with pytest.raises(QueryError, match=r"WHERE limits no group key \(a.c\)"):
        rewriting.rewrite("enum_distinct", text)


@pytest.mark.parametrize("function", ["sum", "avg", "mean"])
def test_texts_that_are_equal_numbers_are_one_value(function: str) -> None:
    """Spark deduplicates numbers: '1' and '1.0' are one."""
    text = rewriting.rewrite(
        "enum_distinct",
        f"select c, {function}(distinct v) as s, count(distinct v) as n from t {IN} group by c",
    )
    assert "POSITIVE(v) AS positive_v" in text
    assert "COUNT(v)" in text


@pytest.mark.parametrize("by", ["c, d", "rollup (c, d)", "d, grouping sets ((c), ())"])
def test_a_name_in_group_by_may_be_a_column(by: str) -> None:
    """If the table has a column of that name, Spark groups by it; the value would be one of the other key's."""
    text = f"select upper(d) as c, count(distinct u) as n from t group by {by}"
    with pytest.raises(QueryError, match=r"'c' in GROUP BY may be a column or the value UPPER\(d\)"):
        rewriting.rewrite("split_distinct", text)
    # The value needs its column among the keys, unless it is a key itself.
    for alone in ("c", "t.d, 1", "upper(d), c"):
        assert "UPPER(d) AS upper_d" in rewriting.rewrite("split_distinct", text.replace(by, alone))
    renamed = "select d as c, count(distinct u) as n from t group by c"
    assert "GROUP BY\n  d" in rewriting.rewrite("split_distinct", renamed)


def test_a_key_in_having_precedes_an_alias() -> None:
    text = "select upper(d) as c, count(distinct u) as n from t group by t.c, d having c > 'x'"
    made = rewriting.rewrite("split_distinct", text)
    assert made.endswith("GROUP BY\n  c,\n  d\nHAVING\n  c > 'x'")


def test_two_buckets_are_enough() -> None:
    assert "PMOD(HASH(u), 2)" in rewriting.rewrite(
        "split_distinct", "select count(distinct u) from t", buckets=2
    )


@pytest.mark.parametrize(
    ("over", "made"),
    [
        ("sum(sum(w)) filter (where max(x) > 1)", "SUM(MAX(sum_w)) FILTER(WHERE MAX(max_x) > 1) OVER ()"),
        ("percentile_cont(0.5) within group (order by sum(w))", "WITHIN GROUP (ORDER BY MAX(sum_w)) OVER ()"),
    ],
)
def test_aggregates_around_the_function_of_over_are_those_of_the_group(over: str, made: str) -> None:
    """Left as they are, they would read columns that the last query doesn't have."""
    text = f"select k, count(distinct v) as n, {over} over () as p from t group by k"
    assert made in " ".join(rewriting.rewrite("split_distinct", text).split())


def test_more_than_64_bits_are_several_columns() -> None:
    listed = ", ".join(f"'{number}'" for number in range(40))
    call = "count(distinct u) as n, count(distinct u) filter (where v > 1) as m"
    text = rewriting.rewrite("enum_distinct", f"select c, {call} from t where c in ({listed}) group by c")
    assert "AS bits_1," in text
    assert "AS bits_2" in text
    assert "GETBIT(bits_1, 63) = 1" in text
    # The last value's bit under the FILTER is number 79.
    assert "GETBIT(bits_2, 15) = 1" in text


def test_numbers_are_not_compared_with_strings() -> None:
    """'1' and '01' are equal to 1, and are two groups."""
    text = "select c, count(distinct u) from t where c in ({}) group by c"
    assert "RAISE_ERROR" in rewriting.rewrite("enum_distinct", text.format("1, 2"))
    assert "RAISE_ERROR" not in rewriting.rewrite("enum_distinct", text.format("'1', '2'"))


def test_a_block_may_hold_named_queries_and_be_one() -> None:
    text = """
        with base as (select * from t where v > 1),
        counted as (select c, count(distinct u) as users from base group by c),
        ranked as (select *, rank() over (order by users desc) as place from counted)
        select * from ranked where place <= 3 and users > 1
    """
    both = rewriting.rewrite("split_topn", rewriting.rewrite("split_distinct", text, buckets=4), buckets=8)
    names = [cte.alias for cte in parse(both).find_all(exp.CTE)]
    assert sorted(names) == sorted(
        [
            "base",
            "counted",
            "split_rows",
            "split_values",
            "split_buckets",
            "topn_rows",
            "topn_buckets",
            "topn_ranked",
        ]
    )
    assert "HASH(users), 8" in both


@pytest.mark.parametrize("name", ["enum_distinct", "split_distinct"])
def test_fields_of_a_row_may_be_called_like_keys(name: str) -> None:
    text = f"select struct(c, count(*)) as s, count(distinct u) as users from t {IN} group by c having struct(c, 1) > s"
    made = parse(rewriting.rewrite(name, text))
    (fields, _) = made.expressions
    assert [each.name for each in fields.this.expressions] == ["c", "col2"]


@pytest.mark.parametrize(
    "text",
    [
        "{0} union all {0}",
        "{0} union all select c, n from s intersect {0}",
        "with x as (select * from t) {0} union all {0}",
        "with x as (select * from t) {0} union select c, n from s except {0}",
        "with x as (select * from t) {0} intersect {0} union all {0} order by c limit 3",
        "with x as (select * from t) ({0} union all {0}) except ({0})",
        "with x as (select * from t) ({0})",
        "(with x as (select * from t) {0} union all {0}) union all (with x as (select * from s) {0})",
        "with y as (with x as (select * from t) {0} union all {0}) select * from y union all {0}",
    ],
)
@pytest.mark.parametrize("name", sorted(rewriting.REWRITES))
def test_with_begins_a_statement_or_brackets(name: str, text: str) -> None:
    made = rewriting.rewrite(name, text.format(FIRST if name == "split_topn" else COUNTED))
    before = [made[: found.start()].rstrip() for found in re.finditer(r"\bWITH\b", made)]
    assert len(before) >= text.count("{0}")
    assert all(not each or each.endswith("(") for each in before)


def test_names_of_the_user_stay_theirs() -> None:
    text = "select bits, count(distinct u) as enum_set from enum_rows where bits in ('a', 'b') group by bits"
    made = rewriting.rewrite("enum_distinct", text)
    assert "enum_rows_2 AS (" in made
    assert "AS bits_2" in made
    assert "AS enum_set" in made


@pytest.mark.parametrize("name", rewriting.REWRITES)
def test_the_text_reads_back_as_it_is(name: str) -> None:
    text = {
        "enum_distinct": f"select window_start, c, count(distinct u) as n from {TUMBLE} {IN} group by 1, 2",
        "split_distinct": f"select window_start, count(distinct u) as n from {TUMBLE} group by 1",
        "split_topn": f"select * from (select *, rank() over (partition by window_end order by v) as r from {TUMBLE}) "
        "where r < 3",
    }[name]
    made = rewriting.rewrite(name, text)
    assert sql(parse(made), pretty=True) == made
    assert "/*+ TUMBLE(`ts`, '1 minute', '0 seconds') */" in made
    assert "/* 1. The rows" in made
