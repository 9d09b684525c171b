"""Queries over windows: how each GROUP BY, ranking and union over a windowing function is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.aggregates.model import WindowAggregateSpec
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.plan.state.window_steps import WindowBufferSpec
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.planner.read_text import read_text
from dbt.adapters.spark_streaming.query.planner.within_windows import RESULT, Within, WithinWindows
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from dbt.adapters.spark_streaming.query.sql.nodes import every
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of, queries_of, windows_of


def window(kind: str, relation: str, *lengths: str, time: str = "ts", **options: Any) -> str:
    return str(
        expansion.expand_window(relation, window_arguments.make_window(kind, time, *lengths, **options))
    )


TUMBLE = window("tumble", "raw.bid", "10 minutes")
CUMULATE = window("cumulate", "raw.view", "1 hour", "1 day")
SESSION = window("session", "raw.bid", "5 minutes")
HOP = window("hop", "raw.bid", "5 minutes", "15 minutes")
OVER_T = window("tumble", "t", "1 hour", time="window_time")


def aggregate(plan: Plan) -> WindowAggregateSpec:
    (spec,) = plan.dataflow.window_specs
    assert isinstance(spec, WindowAggregateSpec)
    return spec


def test_a_group_by_over_a_window_is_kept_as_partial_aggregates() -> None:
    plan = plan_of(
        f"select window_start, window_end, channel, count(*) as n, sum(price) as s from {TUMBLE} group by 1, 2, 3"
    )
    spec = aggregate(plan)
    assert spec.window == window_arguments.make_window("tumble", "ts", "10 minutes")
    assert [key.name for key in spec.keys] == ["channel"]
    assert [(metric.name, metric.sql) for metric in spec.metrics] == [
        ("count_all", "COUNT(*)"),
        ("sum_price", "SUM(price)"),
    ]
    assert plan.dataflow.windows is not None and plan.dataflow.windows.sql == f"SELECT * FROM {spec.name}"


def test_filters_over_one_argument_share_a_distinct_set() -> None:
    spec = aggregate(
        plan_of(
            f"""select window_start, window_end, count(distinct u) as a, count(distinct u) filter (where x) as b,
            count(distinct u, v) as c, sum(distinct u) as d from {CUMULATE} group by window_start, window_end"""
        )
    )
    assert [(s.columns, s.filters) for s in spec.distinct_sets] == [
        # Each of them begins to count with the first row after it came to the query.
        (("u",), (None, "x", None)),
        (("u", "v"), (None,)),
    ]
    assert [metric.distinct_set for metric in spec.metrics] == [
        "distinct_u",
        "distinct_u",
        "distinct_u_v",
        "distinct_u",
    ]


def test_a_key_that_is_also_counted_has_two_columns() -> None:
    spec = aggregate(
        plan_of(
            f"select window_start, window_end, u, count(distinct u) as n from {CUMULATE} group by 1, 2, 3"
        )
    )
    assert spec.keys[0].name == "u"
    assert spec.distinct_sets[0].columns == ("u_2",)


def test_an_aggregate_that_is_used_twice_is_kept_once() -> None:
    spec = aggregate(
        plan_of(
            f"""select window_start, window_end, sum(x) / count(*) as mean, count(*) as n
            from {TUMBLE} group by window_start, window_end having count(*) > 1 and n < 10"""
        )
    )
    assert [metric.name for metric in spec.metrics] == ["sum_x", "count_all"]
    assert sql(spec.output).endswith("WHERE `count_all` > 1 AND (`count_all`) < 10")


@pytest.mark.parametrize(
    ("clause", "sets"),
    [
        ("grouping sets ((a, b), (a), ())", (("a", "b"), ("a",), ())),
        ("rollup (a, b)", (("a", "b"), ("a",), ())),
        ("cube (a, b)", (("a", "b"), ("a",), ("b",), ())),
        ("a, rollup (b)", (("a", "b"), ("a",))),
    ],
)
def test_grouping_sets(clause: str, sets: tuple[tuple[str, ...], ...]) -> None:
    text = f"select window_start, window_end, a, b, count(*) as n from {TUMBLE} group by window_start, window_end, {clause}"
    assert aggregate(plan_of(text)).grouping_sets == sets


@pytest.mark.parametrize(
    ("clause", "kept_by"),
    [
        ("rollup (a, b)", "expires_at, window_start, `a`, `b`, `x`,"),
        ("grouping sets ((b), (a, b))", "expires_at, window_start, `b`, `a`, `x`,"),
        ("grouping sets ((a), (b))", "expires_at, window_start, `a`, `b`, grouping_id, `x`,"),
    ],
)
def test_distinct_values_of_a_finest_grouping_set_are_kept_once(clause: str, kept_by: str) -> None:
    text = f"""select window_start, window_end, a, b, count(distinct x) as n from {CUMULATE}
        group by window_start, window_end, {clause}"""
    assert generate.generate_program(plan_of(text)).parts[1].append.startswith(f"select {kept_by}")


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("percentile(x, 0.5)", "percentile(…) is not kept as partial aggregates"),
        ("collect_list(x)", "collect_list(…) is not kept as partial aggregates"),
        ("count(distinct case when window_end > ts then x end)", "uses window_end below the aggregate"),
    ],
)
def test_what_cannot_be_merged_keeps_its_rows(item: str, reason: str) -> None:
    (spec,) = plan_of(
        f"select window_start, window_end, {item} as v from {HOP} group by 1, 2"
    ).dataflow.window_specs
    assert isinstance(spec, WindowBufferSpec)
    assert reason in spec.reason


@pytest.mark.parametrize(
    "items", ["w.*, d.name", "d.*, w.window_start, w.window_end", "d.*, w.* except (k)", "*"]
)
def test_stars_of_what_stands_beside_windows_keep_no_rows(items: str) -> None:
    """The table is joined as rows come, as where columns are named."""
    rows = f"select {items} from {HOP} as w join dim as d on w.k = d.id"
    (spec,) = plan_of(
        f"select window_start, window_end, name, count(*) as n from ({rows}) group by window_start, window_end, name"
    ).dataflow.window_specs
    assert isinstance(spec, WindowAggregateSpec)


def test_a_ranking_over_rows_keeps_the_rows_of_open_windows() -> None:
    plan = plan_of(
        f"""select * from (select *, row_number() over (partition by window_start, window_end order by x) as rn
        from {TUMBLE}) where rn <= 3"""
    )
    (spec,) = plan.dataflow.window_specs
    assert isinstance(spec, WindowBufferSpec)
    assert spec.reason == "row_number() over rows"


def test_ties_are_broken_by_all_output_columns() -> None:
    plan = windows_of(
        f"""select window_end, x, y, row_number() over (partition by window_start, window_end order by x desc) as rn
        from {TUMBLE}"""
    )
    assert "ORDER BY x DESC, STRUCT(window_end, x, y)" in plan.sql


def test_a_window_function_alone_keeps_nothing() -> None:
    plan = plan_of(f"select window_end, x from {HOP} where x > 1")
    assert plan.dataflow.window_specs == ()
    assert generate.generate_program(plan).items == ()


STREAM = expansion.expand_stream("raw.bid")


def test_columns_of_one_name_below_others_are_told_apart() -> None:
    """A row that is kept has a name for each; what their author can't call isn't one of the result either."""
    both = f"{STREAM} as a join {STREAM} as b on a.x = b.x"
    rows = f"select *, row_number() over (partition by a.x order by a.y) as rn from {both}"
    columns = ["struct<x:int,y:int,ts:timestamp>"]

    def ask(query: str) -> Sequence[object]:
        return columns if "STRUCT(*)" in query.upper() else ["double"] * 100

    plan = plan_of(
        f"select rn from ({rows}) where rn = 1", {"raw.bid": RelationInfo("ts")}, 86_400_000_000, ask
    )
    assert "`__4` AS `y__2`" in queries_of(plan)
    with pytest.raises(QueryError, match="two columns called 'ts'"):
        plan_of(f"select * from ({rows}) where rn = 1", {"raw.bid": RelationInfo("ts")}, 86_400_000_000, ask)
    with pytest.raises(QueryError, match="two columns called 'X'"):
        plan_of(f"select * from (select a.x, b.X from {STREAM} as a join {STREAM} as b on a.x = b.x)", {}, 1)


@pytest.mark.parametrize(
    "text",
    [
        f"select to_json(struct(*)) as j from (select a.x, b.x from {STREAM} as a join {STREAM} as b on a.y = b.y)",
        f"select to_json(struct(* except (x.v, y))) as j, count(*) as n from {STREAM} group by 1",
        f"select x, hash(* except (t.y)) as h, count(*) as n from {STREAM} as t group by x, h",
    ],
)
def test_a_star_in_a_call_whose_columns_have_no_names_of_their_own_is_refused(text: str) -> None:
    def ask(query: str) -> Sequence[object]:
        return ["struct<x:struct<v:int>,y:int,ts:timestamp>"] * (1 if "STRUCT(*)" in query.upper() else 100)

    with pytest.raises(QueryError, match="name its columns instead of"):
        plan_of(text, {"raw.bid": RelationInfo("ts")}, 86_400_000_000, ask)


def test_keys_behind_a_star_of_group_by_all_are_columns() -> None:
    plan = plan_of(f"select *, count(*) as n from (select x, y from {STREAM}) group by all")
    assert plan.dataflow.key == ("x", "y")
    with pytest.raises(QueryError, match="GROUP BY 1 counts the columns of a select list that has"):
        plan_of(f"select *, count(*) as n from (select x, y from {STREAM}) group by 1, 2")


def test_a_key_is_the_column_of_the_window_and_not_an_alias_of_its_name() -> None:
    text = f"select window_start, window_time as window_end, count(*) as n from {TUMBLE} group by window_start, window_end"
    assert plan_of(text).dataflow.windows is not None


REFUSED = [
    (
        f"select x, y, count(*) as n from {STREAM} group by x",
        "'y' is neither a key of GROUP BY nor in an aggregate. Add it to GROUP BY, or say which of its values is meant",
    ),
    (
        f"select window_time, count(*) as n from {SESSION} group by window_start, window_end",
        "'window_time' is neither a key of GROUP BY nor in an aggregate. Add it to GROUP BY",
    ),
    (
        f"with t as (select window_time, array_agg(x) as a from {TUMBLE} group by window_start, window_end) "
        f"select window_start, window_end, count(*) as n from {OVER_T} group by window_start, window_end",
        "'window_time' is neither a key of GROUP BY nor in an aggregate. Add it to GROUP BY",
    ),
    (
        f"select date(window_time) as d, percentile(y, 0.5) as p from {TUMBLE} group by window_start, window_end",
        "'window_time' is neither a key of GROUP BY nor in an aggregate. Add it to GROUP BY",
    ),
    (
        f"with t as (select window_end, count(*) as n from {TUMBLE} group by window_start, window_end) "
        f"select window_start, window_end, sum(n) as n from {OVER_T} group by window_start, window_end",
        "goes by window_time, which t doesn't have. Add it to the select list of t, and to its GROUP BY.",
    ),
    (f"select x, count(*) as X from {STREAM} group by x", "The query has two columns called 'X'"),
    (
        f"select window_start, window_end, sum(y) > 1 from {TUMBLE} group by 1, 2",
        "'SUM(y) > 1' has no name; give it one: AS",
    ),
    (
        "select a from raw.bid",
        "The query reads no stream; wrap a relation of its FROM in a windowing table function",
    ),
    ("select a, from where", "The query doesn't parse"),
    (
        f"select window_start,\nwindow_end,\ncount(*) as n,\nfrom {TUMBLE} group by 1, 2",
        "The query doesn't parse at line 3: there is a comma before 'from'. Remove it.",
    ),
    ("select 1; select 2", "A streaming model is one SELECT; found 2 statements."),
    ("drop table t", "A streaming model is one SELECT; found DROP."),
    (
        f"select channel, count(*) from {TUMBLE} group by channel",
        "GROUP BY over tumble() needs window_start and window_end among its keys; window_start is not there.",
    ),
    (
        f"select window_end, count(*) from {TUMBLE} group by window_end",
        "GROUP BY over tumble() needs window_start and window_end among its keys; window_start is not there.",
    ),
    (
        f"select window_start, window_end, sum(count(*)) from {TUMBLE} group by 1, 2",
        "'SUM(COUNT(*))' is an aggregate of an aggregate; compute the inner one in a subquery.",
    ),
    (
        f"select *, row_number() over (partition by channel order by x) as rn from {TUMBLE}",
        "ranks rows of different windows together; write PARTITION BY window_start, window_end",
    ),
    (f"select * from {TUMBLE} limit 10", "'LIMIT 10' cuts off rows across windows"),
    (
        f"select window_start, window_end, count(*) as n from {TUMBLE} group by 1, 2 offset 3",
        "'OFFSET 3' cuts off rows across windows",
    ),
    (
        f"select window_start, window_end, x from {window('tumble', '(select * from raw.bid offset 3)', '1 hour')}",
        "'OFFSET 3' of a stream without windows has an updating result",
    ),
    (
        f"select a.n from (select window_start, window_end, count(*) as n from {TUMBLE} group by 1, 2) a join "
        f"(select window_start, window_end, count(*) as m from {TUMBLE} group by 1, 2) b on a.n = b.m",
        "The join with 'b' compares rows of different windows; add ON a.window_start = b.window_start",
    ),
    (
        f"select sum(n) from (select window_start, window_end, count(*) as n from {TUMBLE} group by 1, 2)",
        "An aggregate over window results without GROUP BY mixes windows",
    ),
    (
        "select window_end, rank() over (partition by window_end order by sum(n)) as r from "
        f"(select window_start, window_end, x, count(*) as n from {TUMBLE} group by 1, 2, 3)",
        "An aggregate over window results without GROUP BY mixes windows",
    ),
    (
        f"select window_end, count(*) from {window('tumble', '(select max(ts) as ts from raw.bid group by x)', '1 hour')} "
        "group by window_start, window_end",
        "'GROUP BY x' of a stream without windows has an updating result, and is below a windowing table function",
    ),
    (
        f"select b.x from {window('tumble', '(select b.* from raw.bid b join raw.dim d on b.x = d.x)', '1 hour')} b",
        "tumble() has raw.bid, raw.dim under it; mark the one that is the stream: {{ stream(ref('…')) }}.",
    ),
    *(
        (
            f"select d.x from raw.dim d {kind} join {of} t on d.x = t.x",
            f"The {kind} JOIN with 't' keeps every row",
        )
        for kind in ("LEFT", "LEFT SEMI", "LEFT ANTI")
        for of in (
            TUMBLE,
            f"(select window_start, window_end, x, count(*) as n from {TUMBLE} group by 1, 2, 3)",
        )
    ),
    (
        f"select grouping(x) as g, window_start, window_end from {TUMBLE} group by window_start, window_end, x",
        "needs GROUPING SETS, ROLLUP or CUBE in the GROUP BY",
    ),
    (
        f"select window_start, window_end, x, count(*) from {TUMBLE} group by rollup (window_start, window_end, x)",
        "window_start is inside GROUPING SETS, ROLLUP or CUBE; put it before them",
    ),
    (
        "with recursive a as (select 1) select * from a",
        "WITH RECURSIVE can't be kept up to date from a stream",
    ),
]


def test_conditions_are_found_in_brackets() -> None:
    rows = f"(select window_start, window_end, x, count(*) as n from {TUMBLE} group by all)"
    plan_of(
        f"select a.n from {rows} as a join {rows} as b "
        "on a.x = b.x and (a.window_start = b.window_start and a.window_end = b.window_end)"
    )
    ranked = (
        f"select *, row_number() over (partition by window_start, window_end order by n) as rn from {rows}"
    )
    assert plan_of(f"select * from ({ranked}) where (rn <= 3 and x > 1)").ranks


@pytest.mark.parametrize(("text", "sentence"), REFUSED)
def test_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(QueryError) as refusal:
        (plan_query.plan_windows if "/*+" in text else plan_query.plan)(text)
    assert sentence in str(refusal.value)


def test_a_window_is_read_back_from_its_hint() -> None:
    for made in (
        window_arguments.make_window("tumble", "my ts", "90 minutes", offset="-4 minutes"),
        window_arguments.make_window("hop", "ts", "5 minutes", "15 minutes"),
        window_arguments.make_window("cumulate", "ts", "1 minute", "1 day", emit="on_change"),
    ):
        text = f"select window_start, window_end from {expansion.expand_window('t', made)} group by window_start, window_end"
        found = plan_of(text)
        assert found.streams[0].event_time == made.time_col
        assert found.dataflow.window_specs[0].window == made


def test_in_batch_ties_are_broken_as_in_a_stream() -> None:
    """Also where a query leaves its windows."""
    plain = "select k, count(*) as n from (select /*+ STREAM */ * from raw.bid) group by k"
    assert whole_query.text_in_batch(plain) == plain
    ranked = f"select k, n, row_number() over (order by n) as place from ({plain}) order by n"
    assert "ORDER BY n, STRUCT(k, n)" in whole_query.text_in_batch(ranked)
    changes = window("cumulate", "raw.bid", "1 minute", "1 hour", emit="on_change")
    with pytest.raises(QueryError, match="group them by window_start, window_end, or leave emit out"):
        whole_query.text_in_batch(f"with w as (select * from {changes}) select * from w")
    text = f"with w as (select * from {changes}) select k, median(v) as m from w group by window_start, window_end, k"
    assert "HAVING COUNT(CASE WHEN `w`.`__new_row` THEN 1 END) > 0" in whole_query.text_in_batch(text)


def found_in(text: str) -> tuple[WithinWindows, exp.Query]:
    """The queries of a text that stay within windows, and its tree."""
    read = read_text(text, parse(text), {}, None)
    return read.within, read.tree


OF_ROWS = f"select x, count(*) as n from {TUMBLE} group by x"
OF_WINDOWS = f"select window_start, window_end, x, count(*) as n from {TUMBLE} group by 1, 2, 3"


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "select n, count(*) as times from {} as g group by n",
        "select * from (select * from {} as a) as b",
    ],
)
def test_a_query_around_one_that_leaves_its_windows_leaves_them_for_the_same_reason(around: str) -> None:
    within, tree = found_in(around.format(f"({OF_ROWS})"))
    found = within.visit(tree)
    assert isinstance(found, QueryError) and "needs window_start and window_end" in str(found)


def test_a_query_below_one_that_leaves_its_windows_stays() -> None:
    within, tree = found_in(f"select n, count(*) as times from ({OF_WINDOWS}) as g group by n")
    assert isinstance(within.visit(tree), QueryError)
    (below,) = (each for each in every(tree, exp.Select) if each.args.get("group") and each is not tree)
    found = within.visit(below)
    assert isinstance(found, Within) and found.kind == RESULT


def test_a_query_is_visited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[str] = []
    visit = WithinWindows._visit_select

    def noting(self: WithinWindows, select: exp.Select) -> Within | QueryError:
        visited.append(sql(select))
        return visit(self, select)

    monkeypatch.setattr(WithinWindows, "_visit_select", noting)
    plan_of(f"select n, count(*) as times from ({OF_WINDOWS}) as g join raw.d on d.x = g.x group by n")
    assert visited and len({*visited}) == len(visited)


def test_a_visit_changes_no_tree() -> None:
    within, tree = found_in(f"select * from ({OF_WINDOWS}) as a order by n")
    before = sql(tree)
    within.visit(tree)
    assert sql(tree) == before


def test_which_rows_of_a_ranking_are_asked_for_is_part_of_the_query() -> None:
    """Both rankings have the same text, and other rows are stored for them."""
    ranked = (
        "select *, row_number() over (partition by window_start, window_end order by x) as r "
        f"from {window('tumble', '{0}', '10 minutes')}"
    )
    one, other = (f"select r, x from ({ranked.format('raw.bid')}) as a where r <= {last}" for last in (1, 5))
    plan = plan_of(f"{one} union all {other}")
    tops = [each.top for each in plan.dataflow.window_specs if isinstance(each, WindowBufferSpec)]
    assert [top and top.rows for top in tops] == [1, 5]
