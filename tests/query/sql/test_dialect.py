"""Reading Spark's SQL."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.rewrites import rewriting
from dbt.adapters.spark_streaming.query.sql import dialect
from dbt.adapters.spark_streaming.query.sql.dialect import function_name, parse, sql


def test_a_compiled_sqlglot_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its classes can't be extended: each query would end with a TypeError."""

    def compiled() -> None:
        raise TypeError("interpreted classes cannot inherit from compiled")

    dialect._check_build.cache_clear()
    monkeypatch.setattr(dialect.DIALECT, "Parser", compiled)
    with pytest.raises(QueryError, match="Uninstall the package 'sqlglotc'"):
        dialect.parse("select 1")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM t GROUP BY ROLLUP (k, u IS NULL)",
        "SELECT k FROM t GROUP BY k, CUBE (u IN (1, 2), v > 1 AND w < 2)",
        "SELECT k FROM t GROUP BY GROUPING SETS ((k, u IS NULL), u > 1, ROLLUP (k = 'a'), ())",
        "SELECT COUNT(*) FROM t GROUP BY k WITH ROLLUP",
        "SELECT COUNT(*) FROM t GROUP BY WINDOW(ts, '5 minutes'), k",
        "SELECT window.start FROM t GROUP BY window, k",
        "SELECT SUM(n) OVER w FROM t GROUP BY n WINDOW w AS (PARTITION BY n)",
    ],
)
def test_any_expression_is_a_key(text: str) -> None:
    assert dialect.sql(dialect.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a >>> 2", "SHIFTRIGHTUNSIGNED(a, 2)"),
        ("a & b << 1", "a & SHIFTLEFT(b, 1)"),
        ("a | b >> 1 ^ c", "a | SHIFTRIGHT(b, 1) ^ c"),
        ("a + 1 >>> b - 1 >>> 2 & c", "SHIFTRIGHTUNSIGNED(SHIFTRIGHTUNSIGNED(a + 1, b - 1), 2) & c"),
        ("x || a << b >>> c", "SHIFTRIGHTUNSIGNED(SHIFTLEFT(x || a, b), c)"),
        ("a >>> 1 > b", "SHIFTRIGHTUNSIGNED(a, 1) > b"),
        ("CAST(a AS ARRAY<ARRAY<ARRAY<INT>>>)", "CAST(a AS ARRAY<ARRAY<ARRAY<INT>>>)"),
    ],
)
def test_operators_on_bits_have_the_precedence_of_sparks(text: str, printed: str) -> None:
    """From left to right, ``a & b << 1`` would be ``(a & b) << 1``."""
    assert sql(parse(f"select {text} from t")) == f"SELECT {printed} FROM t"


@pytest.mark.parametrize(
    "call", ["min_by(k, v order by ts)", "collect_list(v order by ts)", "first(v order by ts)"]
)
def test_an_order_of_the_values_of_a_call_is_refused(call: str) -> None:
    """sqlglot prints some of them without their order."""
    with pytest.raises(QueryError, match=r"'v ORDER BY ts' orders the values of a call"):
        parse(f"select {call} as m from t")


@pytest.mark.parametrize(
    "call", ["LISTAGG(v, ',') WITHIN GROUP (ORDER BY ts)", "FIRST(v) OVER (ORDER BY ts)"]
)
def test_an_order_of_spark_stays(call: str) -> None:
    assert sql(parse(f"select {call} from t")) == f"SELECT {call} FROM t"


def test_a_text_of_operators_is_joined_before_it_is_added() -> None:
    (item,) = parse("select a || b + 1 from t").expressions
    assert isinstance(item, exp.Add) and isinstance(item.this, exp.DPipe)


@pytest.mark.parametrize(
    "text", ["select a + from t", "select a from t where", "select a >>> from t", "select a from t join"]
)
def test_a_missing_value_is_told_without_classes(text: str) -> None:
    with pytest.raises(QueryError, match=r"doesn't parse at line 1, near '(from|where|join)': ") as problem:
        parse(text)
    assert "<" not in str(problem.value) and "sqlglot" not in str(problem.value)


def test_an_ordered_aggregate_is_called_by_its_own_name() -> None:
    """`split_distinct` asked what "x within group()" gives for no rows."""
    calls = "percentile_cont(0.5) within group (order by v), listagg(k) within group (order by v)"
    names = [function_name(call) for call in parse(f"select {calls} from t").find_all(exp.WithinGroup)]
    assert sorted(names) == ["listagg", "percentile_cont"]
    text = rewriting.rewrite("split_distinct", f"select count(distinct k), {calls} from t")
    assert "PERCENTILE_CONT(0.5) WITHIN GROUP" in text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select k from t order by v", "select k from t order by v asc"),
        ("select row_number() over (order by v) from t", "select row_number() over (order by v asc) from t"),
        ("select k from t group by k", "select k from t group by distinct k"),
        (
            "select * from t unpivot (v for n in (a, b))",
            "select * from t unpivot exclude nulls (v for n in (a, b))",
        ),
    ],
)
def test_a_text_does_not_depend_on_what_was_read_before(one: str, other: str) -> None:
    """States' names are made of such texts: they mustn't be another query's, planned before in the same process."""
    alone = {}
    for text in (one, other):
        dialect._TEXTS.clear()
        alone[text] = dialect.canonical(parse(text))
    for first, then in ((one, other), (other, one)):
        dialect._TEXTS.clear()
        dialect.canonical(parse(first))
        assert dialect.canonical(parse(then)) == alone[then]


@pytest.mark.parametrize(
    "call",
    [
        *("MAX_BY(a)", "MIN_BY(a, b, 3)", "MAX(a, b)", "HEX(a, b)", "MAP(a)", "REGEXP_REPLACE(a, b)"),
        *("DATE_FORMAT(a, 'yyyy', b)", "ARRAY_SIZE(a)", "UNIX_DATE(a)", "NAMED_STRUCT(CONCAT('a', b), 1)"),
        *(
            "LIKE(a, b) = c",
            "ILIKE(a, b) = c",
            "RLIKE(a, b) = TRUE",
            "REGEXP_LIKE(a, b) = c",
            "TRUE = RLIKE(a, b)",
        ),
        *("TO_DATE(a, 'yyyy-MM-dd')", "YEAR(TO_DATE(a, 'yyyy-MM-dd'))", "DATE_FORMAT(a, 'y')"),
        *("DATE_FORMAT(a, '\\'day\\' d')", "TO_TIMESTAMP(a, '\\'day\\' d')", "FROM_UNIXTIME(a, 'E \\'d\\'')"),
        *("UNIX_TIMESTAMP(a, 'y')", "TO_UNIX_TIMESTAMP(a, 'y')", "DATE_SUB(a, '1')"),
        *("GET_JSON_OBJECT(a, 'b')", "GET_JSON_OBJECT(a, '$.b.*')", "GET_JSON_OBJECT(a, '$..b')"),
        *("SEQUENCE(a, CAST(b AS DATE))", "SEQUENCE(CAST(a AS DATE), b, INTERVAL '1' DAY)"),
        *("COLLATE(a, 'utf8_lcase') = b", "TRUNC(a)", "DATE_TRUNC('a')", "NAMED_STRUCT('a', b, c)"),
    ],
)
def test_a_call_is_printed_with_all_that_it_says(call: str) -> None:
    """What is wrong in it is Spark's to say. Of what is right, no value may differ: array_size() of NULL is NULL, and size()
    of it -1; and an operator in place of a function may take its neighbour for its operand. A pattern of times isn't that
    of another database, a text in it least of all; a path that Spark doesn't understand gives NULL; and what a sequence
    ends with has its own type."""
    assert sql(parse(f"select {call} from t")) == f"SELECT {call} FROM t"


def test_a_call_that_is_known_is_read() -> None:
    for call, kind in {
        "max_by(a, b)": exp.ArgMax,
        "first(a, true)": exp.IgnoreNulls,
        "named_struct('a', b)": exp.Struct,
        "a rlike b": exp.RegexpLike,
        "max(a)": exp.Max,
    }.items():
        assert isinstance(parse(f"select {call} from t").expressions[0], kind), call
