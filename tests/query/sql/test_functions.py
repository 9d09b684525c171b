"""What functions are, and what the planner makes of those that aren't in its own list."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.aggregates.model import WindowAggregateSpec
from dbt.adapters.spark_streaming.query.errors import QueryError, UnboundedStateError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.plan.operators.project import Project
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.query.plan.operators.source import Source
from dbt.adapters.spark_streaming.query.plan.operators.top_n import TopN
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.plan.state.window_steps import WindowBufferSpec
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Step
from dbt.adapters.spark_streaming.query.sql import functions, spark_functions
from dbt.adapters.spark_streaming.query.sql.dialect import DIALECT, function_name, parse, sql
from dbt.adapters.spark_streaming.query.sql.functions import Kind
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.evolution.compare import differences
from tests.planned import plan_of, signature_of

S = "(select /*+ STREAM */ * from raw.bid) as s"
# Spark has two names for these, and sqlglot prints the other one.
_SYNONYMS = {
    "approx_percentile": "percentile_approx",
    "array_agg": "collect_list",
    "var_samp": "variance",
}


def window(kind: str, *lengths: str, **options: str) -> str:
    return str(
        expansion.expand_window("raw.bid", window_arguments.make_window(kind, "ts", *lengths, **options))
    )


TUMBLE, CUMULATE = window("tumble", "1 hour"), window("cumulate", "10 minutes", "1 hour")


class Session:
    """A session that knows a UDAF, a UDF and a table function, and no types."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, query: str) -> Sequence[object]:
        self.asked.append(query)
        if not query.startswith("explain"):
            return ["bigint"] * query.count("TYPEOF")
        for name, operator in (("total", "Aggregate"), ("plus", "Project"), ("rows_of", "Generate")):
            if f"{name}(" in query:
                return [f"== Analyzed Logical Plan ==\nx: int\n{operator} [x]\n+- OneRowRelation\n\n== Op"]
        if "written(" in query:  # in SQL, with a subquery
            return [
                "== Analyzed Logical Plan ==\nx: int\nProject [scalar-subquery#1 [] AS x#2]\n"
                ":  +- Aggregate [max(id#3)]\n:     +- Range (0, 5)\n+- OneRowRelation\n"
            ]
        if "picky" in query and "1D" not in query:
            return ["[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] it takes doubles"]
        if "picky" in query:
            return ["== Analyzed Logical Plan ==\nx: int\nAggregate [picky(1.0)]\n"]
        if "never" in query:
            return ["[WRONG_NUM_ARGS.WITHOUT_SUGGESTION] The `never` requires 7 parameters. SQLSTATE: 42605"]
        return ["[UNRESOLVED_ROUTINE] Cannot resolve routine"]


def plan(text: str, session: Session | None = None) -> Plan:
    return plan_of(text, {"raw.bid": RelationInfo("ts")}, ask=session)


def kinds(found: Plan) -> list[type]:
    """Its window operators, or its operators that aren't row by row."""
    if found.dataflow.windows is not None:
        return [type(spec) for spec in found.dataflow.windows.specs]
    return [type(each) for each in found.dataflow.operators if not isinstance(each, Source | Project)]


@pytest.mark.parametrize("name", sorted(spark_functions.AGGREGATES))
def test_every_aggregate_of_spark_is_one_and_keeps_its_name(name: str) -> None:
    for arguments in ("x", "x, y", "0.5) within group (order by x"):
        try:
            call: exp.Expr = exp.maybe_parse(f"{name}({arguments})", dialect=DIALECT)
        except Exception:
            continue
        inner = call.this if isinstance(call, exp.WithinGroup) else call
        assert isinstance(inner, exp.AggFunc)
        assert function_name(inner) == _SYNONYMS.get(name, name)
        again = exp.maybe_parse(sql(call), dialect=DIALECT)
        assert sql(again) == sql(call)
        return
    raise AssertionError(f"{name} can't be called")


def test_no_function_of_a_row_is_taken_for_an_aggregate() -> None:
    read = 0
    for name in spark_functions.SCALARS - {"grouping", "grouping_id"}:
        for arguments in ("x", "x, y", "x, y, z", ""):
            try:
                call: exp.Expr = exp.maybe_parse(f"{name}({arguments})", dialect=DIALECT)
            except Exception:
                continue
            assert call.find(exp.AggFunc) is None, name
            read += 1
            break
    assert read > 390


@pytest.mark.parametrize(
    "call",
    [
        *"try_sum(v) any(b) some(b) regr_slope(v,w) bitmap_or_agg(v) `try_sum`(v) any_value(v) kurtosis(v)".split(),
        *"histogram_numeric(v,5) hll_sketch_agg(v) listagg(v) mode(v) system.builtin.sum(v) builtin.try_avg(v)".split(),
        "theta_sketch_agg(v)",
    ],
)
def test_an_aggregate_without_group_by_is_not_row_by_row(call: str) -> None:
    for text in (call, f"{call} filter (where v > 1)"):
        assert kinds(plan(f"select {text} as x from {S}")) in ([GroupAggregate], [Recompute])


@pytest.mark.parametrize("call", ["try_sum(k)", "system.builtin.avg(k)", "total(k)", "a.total(k)"])
def test_an_aggregate_of_a_group_key_is_not_a_function_of_it(call: str) -> None:
    assert kinds(plan(f"select k, {call} as x from {S} group by k", Session())) == [Recompute]


@pytest.mark.parametrize("call", ["total(v,w)", "picky(v)"])
def test_an_aggregate_of_the_users_own_is_recomputed(call: str) -> None:
    assert kinds(plan(f"select {call} as x from {S}", Session())) == [Recompute]


def test_what_is_not_sparks_own_is_asked_for() -> None:
    session = Session()
    for call in ("total(v, w)", "picky(v)"):
        assert kinds(plan(f"select {call} as x from {S}", session)) == [Recompute]
    assert session.asked[:2] == [
        "explain extended select total(null, null)",
        "explain extended select picky(null)",
    ]
    assert kinds(plan(f"select plus(v) as x, rows_of(a) from {S}", session)) == []
    assert kinds(plan(f"select written(v) as x from {S}", session)) == []
    # Spark says itself what it doesn't know.
    assert kinds(plan(f"select nothing(v) as x from {S}", session)) == []


def test_what_a_session_can_not_tell_is_refused() -> None:
    with pytest.raises(QueryError) as raised:
        plan(f"select never(v) as x from {S}", Session())
    assert str(raised.value) == (
        "Whether never() is an aggregate isn't known: Spark rejects it for every type of argument "
        "([WRONG_NUM_ARGS.WITHOUT_SUGGESTION] The `never` requires 7 parameters. SQLSTATE: 42605). Register it with "
        "the types of its arguments."
    )


def test_without_a_session_it_is_named() -> None:
    found = plan(f"select plus(v) as x, a.total(v) as y, upper(k) as k from {S}")
    assert (found.unknown_functions, kinds(found)) == (("plus", "a.total"), [])


def test_hints_and_table_functions_are_not_asked_for() -> None:
    session = Session()
    plan(f"select window_start, window_end, count(*) as n from {TUMBLE} group by all", session)
    plan(f"select s.k, t.x from {S}, lateral rows_of(s.a) as t(x)", session)
    assert session.asked == []


def test_distinct_under_a_name_that_sqlglot_has_not() -> None:
    found = plan(f"select k, mean(distinct v) as m from {S} group by k")
    (group,) = found.dataflow.groups.values()
    assert group.spec.metrics[0].distinct


def test_a_separator_is_spark_s() -> None:
    text = "LISTAGG(DISTINCT v) WITHIN GROUP (ORDER BY v)"
    assert sql(exp.maybe_parse(text, dialect=DIALECT)) == text
    assert sql(exp.maybe_parse("string_agg(v)", dialect=DIALECT)) == "STRING_AGG(v)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"select * from (select k, v from {S}) pivot (sum(v) for k in ('a'))",
            "'PIVOT(SUM(v) FOR k IN ('a'))' over a stream; write its columns as aggregates with FILTER: SELECT key, sum(x) "
            "FILTER (WHERE y = 'a') AS a … GROUP BY key.",
        ),
        (
            "select * from (select /*+ STREAM */ * from raw.bid) tablesample (10 rows)",
            "'TABLESAMPLE (10 ROWS)' of a stream would take that number of rows from each micro-batch; use TABLESAMPLE "
            "(… PERCENT), or a ROW_NUMBER() with a filter on it.",
        ),
        (
            f"with r as (select k, v from {S}) select * from r pivot (sum(v) for k in ('a'))",
            "'PIVOT(SUM(v) FOR k IN ('a'))' over a stream; write its columns as aggregates with FILTER: SELECT key, sum(x) "
            "FILTER (WHERE y = 'a') AS a … GROUP BY key.",
        ),
        (
            f"with r as (select k, v from {S}) select * from r tablesample (10 rows)",
            "'TABLESAMPLE (10 ROWS)' of a stream would take that number of rows from each micro-batch; use TABLESAMPLE "
            "(… PERCENT), or a ROW_NUMBER() with a filter on it.",
        ),
        (
            f"select * from (select k, v from {S}) s join dims d on s.k = d.k pivot (sum(v) for name in ('a'))",
            "'PIVOT(SUM(v) FOR name IN ('a'))' over a stream; write its columns as aggregates with FILTER: SELECT key, "
            "sum(x) FILTER (WHERE y = 'a') AS a … GROUP BY key.",
        ),
        (
            f"select name, v from {S} natural join dims b",
            "'NATURAL JOIN dims AS b' over a stream: a stream reads only the columns that a query names, so the "
            "columns that both sides have aren't known; name them, with USING.",
        ),
        (
            f"select session_window(ts, '5 minutes') w, count(*) n from {S} group by 1",
            "'SESSION_WINDOW(ts, '5 minutes')' over a stream would be a session of each row; read the stream through the "
            "macro: FROM {{ session(relation, 'time_column', '5 minutes') }} … GROUP BY window_start, window_end.",
        ),
        (
            "select * from u(table((select /*+ STREAM */ * from raw.bid)))",
            "'U(TABLE((SELECT /*+ STREAM */ * FROM raw.bid)))' gives a stream to a table function, which would see the rows "
            "of one micro-batch at a time; call it for each row, with LATERAL, or in a model in batch.",
        ),
    ],
)
def test_rows_put_together_in_from_are_refused(text: str, said: str) -> None:
    with pytest.raises(QueryError) as raised:
        plan(text)
    assert str(raised.value) == said


@pytest.mark.parametrize(
    "text",
    [
        f"select k, x from {S} unpivot (x for n in (a, b))",
        "select * from (select /*+ STREAM */ * from raw.bid) tablesample (10 percent)",
    ],
)
def test_unpivot_and_samples_in_percent_are_row_by_row(text: str) -> None:
    flow = plan(text).dataflow
    assert flow is not None and flow.is_stateless


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"select k, nth_value(v, 2) over (partition by k order by v) as second from {S}",
            "'NTH_VALUE(v, 2) OVER (PARTITION BY k ORDER BY v)' depends on the order of rows that are equal by its ORDER "
            "BY; give it a frame of rows, as in ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW.",
        ),
        (
            f"select k, first_value(v) ignore nulls over (partition by k order by v) as first from {S}",
            "'FIRST_VALUE(v) IGNORE NULLS OVER (PARTITION BY k ORDER BY v)' depends on the order of rows that are equal by "
            "its ORDER BY; give it a frame of rows, as in ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW.",
        ),
    ],
)
def test_what_depends_on_other_rows_is_refused_in_any_form(text: str, said: str) -> None:
    with pytest.raises(QueryError) as raised:
        plan_query.plan(text, {}, 86_400_000_000)
    assert str(raised.value) == said


# -- GROUP BYs whose rows are kept ----------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "percentile(v, 0.5)",
        "median(v)",
        "collect_list(v)",
        "percentile_cont(0.5) within group (order by v)",
        "total(v)",
    ],
)
@pytest.mark.parametrize("over", [TUMBLE, CUMULATE])
def test_a_group_by_over_kept_rows_is_a_window_aggregate(call: str, over: str) -> None:
    text = f"select window_start, window_end, k, {call} as x from {over} group by window_start, window_end, k"
    found = plan(text, Session())
    assert kinds(found) == [WindowBufferSpec]
    assert found.shape == {
        "window_aggregate": True,
        "cumulate": over is CUMULATE,
        "topn": False,
        "streaming_table": True,
    }


def test_rows_of_windows_are_no_window_aggregate() -> None:
    text = f"select *, row_number() over (partition by window_end order by v) as rn from {TUMBLE}"
    assert not plan(f"select * from ({text}) where rn = 1").shape["window_aggregate"]


@pytest.mark.parametrize(
    "text",
    [
        "select * from {over}",
        "select * from (select *, row_number() over (partition by window_start, window_end order by v) as rn "
        "from {over}) where rn = 1",
        "select a.k from {over} as a join {over} as b using (window_start, window_end)",
    ],
)
def test_rows_of_windows_do_not_say_at_which_steps_a_key_changed(text: str) -> None:
    over = window("cumulate", "10 minutes", "1 hour", emit="on_change")
    with pytest.raises(QueryError) as raised:
        plan_query.plan(text.format(over=over))
    assert str(raised.value) == (
        "cumulate() with emit='on_change' leaves out steps without new rows of a key, and only a GROUP BY over its rows has "
        "keys: group them by window_start, window_end, or leave emit out."
    )


def test_kinds_of_sparks_own() -> None:
    asked = ("sum", "explode", "lag", "upper", "nothing")
    found = [Kind.AGGREGATE, Kind.GENERATOR, Kind.WINDOW, Kind.SCALAR, None]
    assert [functions.builtin_kind(name) for name in asked] == found


# -- types ----------------------------------------------------------------------------------------


def test_types_are_asked_of_the_rows_as_they_were_written() -> None:
    session = Session()
    text = f"""select window_start, window_end, k, sum(v) as s, avg(distinct w) filter (where v > 1) as a
        from {TUMBLE} where v > 0 group by 1, 2, 3 having sum(v) > 1"""
    found = plan(text, session)
    (spec,) = found.dataflow.window_specs
    assert isinstance(spec, WindowAggregateSpec)
    assert [metric.types is not None for metric in spec.metrics] == [True, True]
    (asked,) = session.asked
    values = ("SUM(v)", "SUM(v)", "SUM(v) / COUNT(v)", "ANY_VALUE(v)", "AVG(DISTINCT w)", "SUM(w)")
    assert all(f"{value} AS __value_{place}" in asked for place, value in enumerate(values))
    assert asked.endswith("WHERE FALSE) AS asked ON FALSE") and "GROUP BY" not in asked


def test_nothing_is_asked_where_types_make_no_difference() -> None:
    session = Session()
    plan(f"select k, count(*) as n, max(v) as m, stddev(v) as d from {S} group by k", session)
    assert session.asked == []


class Decimals(Session):
    """A session in which all is decimal."""

    def __init__(self, quotient: str = "decimal(38,18)") -> None:
        super().__init__()
        self.quotient = quotient

    def __call__(self, query: str) -> Sequence[object]:
        return ["decimal(14,6)", "decimal(20,2)", self.quotient, "decimal(10,2)"] * (
            query.count("TYPEOF") // 4
        )


def test_an_average_that_a_quotient_has_too_few_digits_for_keeps_rows() -> None:
    text = f"select k, avg(v) as a from {S} group by k order by avg(w) limit 3"
    assert kinds(plan(text, Decimals())) == [GroupAggregate, TopN]
    flow = plan(text, Decimals("decimal(38,5)")).dataflow
    assert flow is not None
    # What is computed anew is ranked anew.
    grouped, ranked = (each for each in flow.operators if isinstance(each, Recompute))
    assert ranked.label == "OVER"
    assert grouped.label == (
        "the decimal(14,6) of 'AVG(v)' has more digits than a quotient of sum and count, so it is not kept as partial "
        "aggregates"
    )


def test_what_is_taken_away_keeps_its_type() -> None:
    known = {"raw.bid": RelationInfo("ts", key=("id",))}
    text = f"select k, sum(v) as s, avg(v) as a from {S} group by k"
    program = generate.generate_program(plan_of(text, known, ask=Decimals()))
    steps = program.items_of_kind(Step)
    (added,) = [s.sql for s in steps if s.name.startswith("group_") and s.name.endswith("_changed")]
    assert "case when sign < 0 then -(sum(`v`)) else sum(`v`) end" in added
    assert "sign *" not in added.replace("sign * count(*)", "")


def test_a_state_depends_on_the_type_of_its_sums() -> None:
    text = f"select k, sum(v) as s, count(*) as n from {S} group by k"
    known = {"raw.bid": RelationInfo("ts")}
    whole, decimals = (signature_of(plan_of(text, known, ask=session)) for session in (Session(), Decimals()))
    assert differences(whole, decimals) == ["how its aggregates are kept: their values are of another type"]


# -- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    """week(x) group_concat(x) logical_or(x) hll(x) strpos(x,'b') to_hex(x) try(x) normalize(x)""".split(),
)
def test_what_another_database_has_is_no_function_of_spark(call: str) -> None:
    """A UDF of such a name is the user's own: asked about, and printed as it is written."""
    read: exp.Expr = exp.maybe_parse(call, dialect=DIALECT)
    assert isinstance(read, exp.Anonymous)
    assert sql(read).lower().replace(" ", "") == call


@pytest.mark.parametrize(
    "text",
    [
        "SELECT TO_CHAR(x, '99G999'), PARSE_JSON(x), LEVENSHTEIN(a, b, 2)",
        "SELECT CURRENT_CATALOG(), LOCALTIMESTAMP(), TIME'6:30:45'",
        "SELECT * FROM VALUES (1), (CASE WHEN TRUE THEN 2 END) AS tab(x)",
        "SELECT TRY_CAST(x AS INT), TIMESTAMPDIFF(HOUR, a, b), STRUCT(1 AS a)",
    ],
)
def test_what_is_printed_is_what_was_read(text: str) -> None:
    assert sql(parse(text)) == text


def test_values_without_parentheses() -> None:
    assert sql(parse("select x from values 'a', 'b' as t(x)")) == "SELECT x FROM VALUES ('a'), ('b') AS t(x)"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("ts - interval 1 day 2 hours", "ts - (INTERVAL '1' DAY + INTERVAL '2' HOURS)"),
        ("-interval 1 day 2 hours", "-(INTERVAL '1' DAY + INTERVAL '2' HOURS)"),
        ("b * interval '1' day '2' hours", "b * (INTERVAL '1' DAY + INTERVAL '2' HOURS)"),
        ("ts - interval 1 day", "ts - INTERVAL '1' DAY"),
        ("log10(x)", "LOG10(x)"),
        ("log2(x)", "LOG2(x)"),
        ("log(10, x)", "LOG(10, x)"),
        ("any_value(x, true) filter (where y)", "ANY_VALUE(x) FILTER(WHERE y) IGNORE NULLS"),
        ("first(x) filter (where y) ignore nulls", "FIRST(x) FILTER(WHERE y) IGNORE NULLS"),
    ],
)
def test_what_means_something_else_written_another_way(text: str, written: str) -> None:
    assert sql(parse(f"select {text} from t")) == f"SELECT {written} FROM t"


def test_a_misspelt_aggregate_is_told() -> None:
    """It makes a value of each row, as far as anybody can tell, of all of which something would be kept."""
    text = f"select item, summ(price) as n from {S} group by item"
    with pytest.raises(
        UnboundedStateError,
        match=r"^There is no function summ\(\), which may be a misspelt aggregate\. The ",
    ):
        plan_query.plan(text, {"raw.bid": RelationInfo("ts")}, domains=["item"], ask=Session())


def test_a_misspelt_column_is_told_before_what_bounds_its_groups() -> None:
    """A misspelt column isn't the event time, the end of a window or one of the constant domains either."""
    unknown = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `itm` cannot be resolved. Did you mean one of the "
        "following? [`item`]. SQLSTATE: 42703"
    )
    error = f"== Analyzed Logical Plan ==\norg.apache.spark.ExtendedAnalysisException: {unknown}; line 1 pos 7;\n'Project"

    def ask(query: str) -> Sequence[object]:
        return [error] if query.startswith("explain extended") and "itm" in query else Session()(query)

    known = {"raw.bid": RelationInfo("ts")}
    with pytest.raises(QueryError) as problem:
        plan_query.plan(f"select itm, sum(price) as n from {S} group by itm", known, ask=ask)
    assert str(problem.value) == unknown
    with pytest.raises(UnboundedStateError, match="grows without bound"):
        plan_query.plan(f"select item, sum(price) as n from {S} group by item", known, ask=ask)


@pytest.mark.parametrize(
    ("call", "is_random"),
    [
        ("aes_encrypt(x, key)", True),
        ("aes_encrypt(x, key, 'CBC')", True),
        ("aes_encrypt(x, key, mode)", True),
        ("aes_encrypt(x, key, 'ecb')", False),
        ("aes_encrypt(x, key, 'CBC', 'DEFAULT', unhex('00'))", False),
        ("aes_decrypt(x, key)", False),
        ("try_reflect('java.util.UUID', 'randomUUID')", True),
        ("unix_timestamp(ts)", False),
    ],
)
def test_a_call_that_draws_something_is_random(call: str, is_random: bool) -> None:
    (tree,) = parse(f"select {call} as y from t").expressions
    assert functions.is_random(tree.this) is is_random
