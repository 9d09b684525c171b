"""Queries put together from any parts, as trees of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.aggregates.aggregates import TYPED
from dbt.adapters.spark_streaming.query.errors import QueryError, Unbounded
from dbt.adapters.spark_streaming.query.frontend.streams import Known
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.generation.signature import signature
from dbt.adapters.spark_streaming.query.normalize import above_groups
from dbt.adapters.spark_streaming.query.normalize.rankings import rank_filters
from dbt.adapters.spark_streaming.query.plan.dataflow import Dataflow
from dbt.adapters.spark_streaming.query.plan.operator import Operator
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.plan.operators.outer_interval_join import OuterIntervalJoin
from dbt.adapters.spark_streaming.query.plan.operators.over_aggregate import OverAggregate
from dbt.adapters.spark_streaming.query.plan.operators.project import Project
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.query.plan.operators.top_n import TopN
from dbt.adapters.spark_streaming.query.plan.operators.union_all import UnionAll
from dbt.adapters.spark_streaming.query.plan.operators.window_close import WindowClose
from dbt.adapters.spark_streaming.query.plan.operators.window_rows import WindowRows
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.evolution.compare import differences
from tests.planned import tree_of

DAY = 86_400_000_000
STREAM = "(select /*+ STREAM */ * from db.s)"
OTHER = "(select /*+ STREAM */ * from db.t)"
KNOWN = {"db.s": Known(event_time="ts"), "db.t": Known(event_time="ts")}


def per_window(size: str) -> str:
    rows = expansion.expand("db.s", window_arguments.make("tumble", "ts", size))
    return (
        f"select window_start, window_end, k, count(*) as n from {rows} group by window_start, window_end, k"
    )


def flow(text: str, ttl: int | None = DAY, domains: tuple[str, ...] = ("k",)) -> Dataflow:
    found = tree_of(text, KNOWN, ttl, domains)
    assert generate.program(found, ttl=ttl).again is not None
    return found.dataflow


def kinds(found: Dataflow) -> list[str]:
    return [type(each).__name__ for each in found.operators]


def only(found: Dataflow, kind: type[Operator]) -> Operator:
    (operator,) = (each for each in found.operators if isinstance(each, kind))
    return operator


GROUPS = f"select k, count(*) as n, max(v) as m from {STREAM} group by k"


def test_groups_of_window_results_are_kept_from_changes() -> None:
    found = flow(f"select k, sum(n) as n from ({per_window('5 minutes')}) group by k", ttl=None)
    assert kinds(found) == ["WindowAggregate", "WindowResults", "GroupAggregate", "Project"]
    assert found.key == ("k",)


def test_windows_of_two_lengths_meet_within_a_micro_batch() -> None:
    found = flow(
        f"select a.window_end, a.n, b.n as m from ({per_window('5 minutes')}) as a "
        f"join ({per_window('10 minutes')}) as b on a.window_end = b.window_end and a.k = b.k"
    )
    assert kinds(found) == ["WindowAggregate", "WindowResults"] * 2 + ["Local"]
    assert not found.root.relation.changes
    assert found.root.relation.together == {"window_end": "window_end"}


def test_window_end_and_window_time_do_not_meet() -> None:
    timed = per_window("10 minutes").replace("select window_start", "select window_time, window_start", 1)
    timed = timed.replace("group by window_start", "group by window_time, window_start")
    text = f"select a.n from ({per_window('5 minutes')}) as a join ({timed}) as b on a.window_end = b.window_time"
    assert "Local" not in kinds(flow(text))


def test_equal_parts_are_one_operator() -> None:
    found = flow(f"with g as ({GROUPS}) select a.k, a.n, b.m from g as a join g as b on a.k = b.k")
    assert kinds(found).count("GroupAggregate") == 1


def test_names_come_from_what_is_computed() -> None:
    one = flow(f"select a.k, a.n, b.m from ({GROUPS}) as a join (select k, min(v) as m from {OTHER} group by k) as b "
               "on a.k = b.k")  # fmt: skip
    other = flow(f"select y.k, x.m, y.n from (select k, min(v) as m from {OTHER} group by k) as x join ({GROUPS}) as y "
                 "on y.k = x.k")  # fmt: skip
    stateful = [
        {e.name for e in each.operators if type(e).__name__ == "GroupAggregate"} for each in (one, other)
    ]
    assert stateful[0] == stateful[1]


def test_an_outer_join_is_computed_by_what_it_equates() -> None:
    found = flow(
        f"select a.k, b.m from ({GROUPS}) as a left join ({GROUPS.replace('db.s', 'db.t')}) as b on a.k = b.k"
    )
    made = only(found, Recompute)
    assert isinstance(made, Recompute)
    assert made.keys == (("a.k",), ("b.k",))


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("exists (select 1 from {t} as b where b.k = g.k and b.v > 3)", (("g.k",), ("b.k",))),
        ("not exists (select 1 from {t} as b where b.k = g.k)", (("g.k",), ("b.k",))),
        ("g.n in (select v from {t} as b)", (("g.n",), ("b.v",))),
        ("g.n not in (select v from {t} as b)", ((), ())),
        ("g.n > (select avg(v) from {t} as b)", ((), ())),
        ("exists (select 1 from {t} as b where b.v > g.n)", ((), ())),
    ],
)
def test_subqueries_touch_what_they_are_correlated_by(
    condition: str, keys: tuple[tuple[str, ...], ...]
) -> None:
    made = only(flow(f"select * from ({GROUPS}) as g where {condition.format(t=OTHER)}"), Recompute)
    assert isinstance(made, Recompute)
    assert made.keys == keys


PAIRS = f"select k, v, count(*) as n, sum(v) as s, count(distinct ts) as d from {STREAM} group by k, v"


def ranked_pairs(
    order: str, items: str = "*", rank: str = "row_number", by: str = "k", of: str = PAIRS
) -> str:
    ranked = f"select {items}, {rank}() over (partition by {by} order by {order}) as rn from ({of}) as p"
    return f"select k, count(*) as n from ({ranked}) where rn <= 3 group by k"


@pytest.mark.parametrize(
    ("text", "improves", "of_groups"),
    [
        (ranked_pairs("n desc"), True, ("k",)),
        (ranked_pairs("n desc", items="s, k, v, n"), False, ("k",)),
        (ranked_pairs("n desc", items="s, k, v, n", rank="rank"), True, ("k",)),
        (ranked_pairs("n desc", rank="dense_rank"), False, ("k",)),
        (ranked_pairs("n desc", of=f"select * from ({PAIRS}) where n > 2"), False, ("k",)),
        (ranked_pairs("s desc"), False, ("k",)),
        (ranked_pairs("s desc", by="n % 2"), False, None),
        (ranked_pairs("n desc", by="n % 2"), False, None),
        (ranked_pairs("n desc, k", by="v, k"), True, ("v", "k")),
    ],
)
def test_a_ranking_over_groups_keeps_its_members(
    text: str, improves: bool, of_groups: tuple[str, ...] | None
) -> None:
    made = only(flow(text, ttl=None, domains=("k", "v")), TopN)
    assert isinstance(made, TopN)
    assert (made.improves, made.of_groups, made.top.rows) == (improves, of_groups, 3)


OF_GROUPS = f"select n, k, count(*) as v, count(distinct s) as d from ({PAIRS}) group by n, k"


@pytest.mark.parametrize(
    "text",
    [
        ranked_pairs(
            "n", of=f"select a.k, a.n, b.v from ({PAIRS}) as a join ({PAIRS}) as b on a.k = b.k and a.n > b.n"
        ),
        # Values of rows that come and go are counted when a group is read.
        ranked_pairs("d", of=OF_GROUPS),
    ],
)
def test_a_ranking_over_other_rows_that_change_keeps_these(text: str) -> None:
    found = kinds(flow(text, ttl=None, domains=("k", "v", "n", "s")))
    assert "TopN" not in found and "Recompute" in found


def test_a_ranking_below_others_asks_no_table() -> None:
    """It may have another answer when a row goes."""
    with pytest.raises(QueryError, match="asks a table, and is computed again when its rows change"):
        flow(ranked_pairs("n", items="*, exists(select 1 from db.levels as l where l.u = n) as x"), ttl=None)


def test_under_a_ttl_a_ranking_over_groups_keeps_its_members_too() -> None:
    (made,) = tops_of(flow(ranked_pairs("n desc"), ttl=None, domains=("k", "v")))
    assert made.improves
    # Below others its rows are kept, and live by themselves.
    assert not tops_of(flow(ranked_pairs("n desc")))
    ranked = f"select *, row_number() over (partition by k order by n desc) as rn from ({PAIRS}) as p"
    (made,) = tops_of(flow(f"select * from ({ranked}) where rn <= 3"))
    assert not made.improves  # a group that was forgotten begins anew


def tops_of(found: Dataflow) -> list[TopN]:
    return [each for each in found.operators if isinstance(each, TopN)]


def test_a_ranking_of_rows_that_only_come_keeps_its_first_rows() -> None:
    ranked = f"select *, row_number() over (partition by k order by v desc) as rn from {STREAM}"
    made = only(flow(f"select * from ({ranked}) where rn <= 3", ttl=None), TopN)
    assert isinstance(made, TopN)
    assert made.top.rows == 3 and not made.final
    first = ranked.replace("v desc", "ts")
    (made,) = tops_of(flow(f"select k, v from ({first}) where rn = 1", ttl=None))
    assert made.final and not made.relation.changes
    # What stands above it asks for what is known so far.
    (made,) = tops_of(flow(f"select k, count(*) as n from ({first}) where rn = 1 group by k", ttl=None))
    assert not made.final


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"select k, v, median(v) over (partition by k order by ts) as s from {STREAM}",
            "it keeps every row that ever comes",
        ),
        (f"select a.v from {STREAM} as a join {OTHER} as b on a.v = b.v", "it keeps every row of both sides"),
        (
            f"select a.v from {STREAM} as a join {OTHER} as b on a.v = b.v",
            "or bound the time between them on both sides",
        ),
        (
            f"select v, count(*) as n from ({GROUPS.replace(' k', ' v')}) group by v",
            "constant_domains: ['v']",
        ),
        (f"select v from {STREAM} except select v from {OTHER}", "it keeps every different row"),
        (
            f"select *, row_number() over (partition by k order by v) as rn from {STREAM}",
            "say how many are asked for: WHERE rn <= 10 in the query around it. To have the query as it is: The state "
            "of this query grows without bound: it keeps every row that ever comes. Set state_ttl",
        ),
    ],
)
def test_state_without_a_bound_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(Unbounded, match="grows without bound") as problem:
        flow(text, ttl=None)
    assert sentence in str(problem.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"select n, collect_list(k) as l from ({GROUPS}) group by n", "depends on the order of rows"),
        (
            f"select exists (select 1 from {STREAM}) as e from db.dim",
            "'SELECT 1 FROM stream(db.s)' reads a stream inside an expression of a query over a table",
        ),
        (f"select 1 in (select v from {STREAM}) as e, rand() as r", "compute it in a query below"),
        (f"select 1 as one, 1 + (select max(v) from {STREAM})", "has no name; give it one: AS …"),
        (
            f"select k from ({GROUPS}) union all select k from db.dim",
            "which is none; read it as a stream too",
        ),
        (
            f"select k from ({GROUPS}) union all select k from ({GROUPS}) limit 3",
            "any rows could be the first; say which",
        ),
        (f"select * from {STREAM} order by 2 limit 3", "whose number of columns isn't known"),
        (f"select k, v from {STREAM} order by 3 limit 3", "ORDER BY 3 … LIMIT: there are 2 columns."),
        (f"select * from {STREAM} as a natural join {OTHER} as b", "with USING"),
        (
            f"select g.k, l.v from ({GROUPS}) as g join db.dim as d on d.k = g.k, "
            f"lateral (select v from {OTHER} as b where b.k > d.k order by v limit 1) as l",
            "queries a stream for each row in LATERAL, next to a table that isn't a stream; join that table in a query "
            "below",
        ),
        (
            f"select g.k, l.v from ({GROUPS}) as g, lateral (select v from {OTHER} as b where b.k > g.k limit 1) as l",
            "'SELECT v FROM stream(db.t) AS b WHERE b.k > g.k LIMIT 1': without ORDER BY any rows could be the first",
        ),
        (
            f"select d.k, g.n from db.dim as d left join ({GROUPS}) as g on g.k = d.k",
            "put the stream on the left of a LEFT JOIN, or read the table as a stream, too: {{ stream(ref('…')) }}.",
        ),
        # What a message quotes is the author's text.
        (
            f"select k from db.dim where k in (select k from {STREAM} where v > 1)",
            "'SELECT k FROM stream(db.s) WHERE v > 1' reads a stream inside an expression",
        ),
    ],
)
def test_what_could_not_be_taken_back_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(QueryError) as problem:
        flow(text)
    assert sentence in str(problem.value)


def test_a_union_with_what_is_no_stream_says_so() -> None:
    with pytest.raises(QueryError) as problem:
        plan_query.plan(f"select k from {STREAM} except select k from db.dim", KNOWN, DAY)
    assert str(problem.value).startswith(
        "EXCEPT puts a stream together with 'SELECT k FROM db.dim', which is none;"
    )


@pytest.mark.parametrize(
    "rows", ["select 1", "values (1)", "select * from values (1), (2) as t(k)", "select explode(array(1))"]
)
def test_a_set_operation_with_rows_that_are_written_out_says_what_to_write(rows: str) -> None:
    for kind, instead in (
        (
            "except",
            "Leave them out with a condition, as in SELECT DISTINCT … WHERE k IS DISTINCT FROM 1; or write them",
        ),
        (
            "intersect",
            "Keep them with a condition, as in SELECT DISTINCT … WHERE k IS NOT DISTINCT FROM 1; or write them",
        ),
        ("union all", "Write them into a table, such as a seed, and read that as a stream"),
        ("except all", "from no table. Write them into a table, such as a seed"),
    ):
        with pytest.raises(QueryError) as problem:
            plan_query.plan(f"select k from {STREAM} {kind} {rows}", KNOWN, DAY)
        assert instead in str(problem.value)


def test_a_stream_beside_what_is_computed_first_is_read_by_operators() -> None:
    first = f"select * from (select *, row_number() over (partition by k order by ts) as rn from {STREAM}) where rn = 1"
    joined = f"select a.k, b.v from ({first}) as a join {OTHER} as b on a.k = b.k"
    plan_query.plan(joined, KNOWN, DAY)


def test_windows_put_themselves_out_where_nothing_stands_above_them() -> None:
    assert plan_query.plan(per_window("5 minutes"), KNOWN).windows is not None
    assert plan_query.plan(GROUPS, KNOWN, DAY).windows is None
    above = f"select n, count(*) as c from ({per_window('5 minutes')}) group by n"
    assert plan_query.plan(above, KNOWN, DAY).windows is None


def test_the_first_refusal_is_told_where_neither_takes_it() -> None:
    with pytest.raises(QueryError, match="without ORDER BY"):
        plan_query.plan(f"select k from {STREAM} limit 3", KNOWN, DAY)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            "collect_list(n)",
            "its value depends on the order of rows, which may differ each time; sort it: array_sort(collect_list(…)), or "
            "LISTAGG(…) WITHIN GROUP (ORDER BY …)",
        ),
        (
            "mode(n)",
            "mode() may return another value for the same rows each time; compute it in a separate model",
        ),
        (
            "total(n)",
            "whether total(), which isn't Spark's own, returns the same value for the same rows isn't known; "
            "compute it in a separate model",
        ),
    ],
)
def test_an_aggregate_that_may_give_another_value_is_refused_where_it_would_be_taken_back(
    call: str, sentence: str
) -> None:
    def ask(query: str) -> tuple[str, ...]:
        return ("== Analyzed Logical Plan ==\nx: int\nAggregate [total(n)]\n",)

    with pytest.raises(QueryError) as problem:
        tree_of(f"select m, {call} as x from ({GROUPS}) group by m", KNOWN, DAY, ("k",), ask)
    assert str(problem.value).endswith(f"{sentence}.")


def test_last_digits_matter_where_a_row_is_not_found_by_its_key() -> None:
    def ask(query: str) -> tuple[str, ...]:
        return ("double", "double", "double", "double") * (query.count("TYPEOF") // 4)

    text = f"select m, percentile(n, 0.5) as p, {{}} as x from ({GROUPS}) group by m"
    counted = "select x, count(*) as c from ({}) group by x"
    for call in ("sum(n)", "stddev(n)", "corr(n, m)"):
        assert tree_of(text.format(call), KNOWN, DAY, ("k",), ask).dataflow
        with pytest.raises(QueryError, match="other last digits when they are added up in another order"):
            tree_of(counted.format(text.format(call)), KNOWN, DAY, ("k",), ask)
    assert tree_of(counted.format(text.format("max(n)")), KNOWN, DAY, ("k",), ask).dataflow


def test_groups_of_groups_know_the_types_of_their_sums() -> None:
    asked: list[str] = []

    def ask(query: str) -> tuple[str, ...]:
        asked.append(query)
        return ("decimal(14,6)", "decimal(20,2)", "decimal(38,18)", "decimal(10,2)") * (
            query.count("TYPEOF") // 4
        )

    text = f"select k, sum(n) as n, avg(n) as m, sum(distinct n) as d from ({per_window('5 minutes')}) group by k"
    found, without = plan_query.plan(text, KNOWN, DAY, ask=ask), plan_query.plan(text, KNOWN, DAY)
    stages = [each.stage for each in found.dataflow.operators if isinstance(each, GroupAggregate)]
    metrics = [metric for stage in stages for metric in stage.metrics if metric.function in TYPED]
    assert len(metrics) == 3 and all(metric.types is not None for metric in metrics)
    assert len(asked) == len(set(asked)) == 1
    assert differences(signature(without), signature(found)) == [
        "how its aggregates are kept, by an earlier version of this package or of values of another type"
    ]


def _names(text: str) -> set[str]:
    return {each.name for each in flow(text).operators if isinstance(each, UnionAll)}


def test_union_all_in_another_order_is_the_same_operator_where_its_columns_are() -> None:
    one, other = f"select k, v from {STREAM}", f"select k, v from {OTHER}"
    assert _names(f"{one} union all {other}") == _names(f"{other} union all {one}")
    turned = f"select v, k from {OTHER}"
    renamed = f"select k as a, v as b from {OTHER}"
    for each in (turned, renamed):
        assert _names(f"{one} union all {each}") != _names(f"{each} union all {one}")


def test_two_unions_of_sides_with_other_columns_in_one_query() -> None:
    one, other = f"select k as a, v as b from {STREAM}", f"select v as c, k as d from {OTHER}"
    found = flow(
        f"with x as ({one} union all {other}), y as ({other} union all {one}) "
        "select x.a, x.b from x left semi join y on x.a = y.d"
    )
    assert kinds(found).count("UnionAll") == 2


@pytest.mark.parametrize(
    "items, key",
    [
        ("*", ("k", "rn")),
        ("k, v", ("k", "rn")),
        ("* except (k), v as k", None),
        ("* except (k)", None),
        ("v as k, u", None),
        ("k as v, u", ("rn", "v")),
        ("k, explode(array(1, 1)) as e", None),
    ],
)
def test_a_rank_identifies_rows_with_what_it_counts_within(items: str, key: tuple[str, ...] | None) -> None:
    ranked = f"select {items}, row_number() over (partition by k order by v, ts) as rn from {STREAM} as t"
    assert flow(f"select * from ({ranked}) where rn <= 3").key == key


def test_a_key_is_none_where_rows_are_multiplied() -> None:
    exploded = f"({GROUPS}) as g lateral view explode(array(1, 1)) as e"
    assert flow(f"select g.k, g.n, sum(g.n) over (partition by g.n) as s from {exploded}").key is None
    joined = f"from ({GROUPS}) as a join ({GROUPS.replace('db.s', 'db.t')}) as b on a.k = b.k"
    assert flow(f"select a.k, b.k as k2, a.n {joined}").key == ("k", "k2")
    assert flow(f"select a.k, b.k as k2, explode(array(1, 1)) as e {joined}").key is None


def ranking(rows: str) -> str:
    return f"(select k, v, row_number() over (partition by k order by v, ts) as rn from {rows})"


def test_a_filter_ends_the_ranking_it_names() -> None:
    found = flow(
        f"select x.k, y.v from {ranking(STREAM)} as x join {ranking(OTHER)} as y on x.k = y.k "
        "where x.rn <= 3 and y.rn = 1"
    )
    assert sorted(each.top.rows for each in tops_of(found)) == [1, 3]
    found = flow(
        f"select x.k, y.v from {ranking(STREAM)} as x join {ranking(OTHER)} as y on x.k = y.k where x.rn <= 3"
    )
    assert [each.top.rows for each in tops_of(found)] == [3]
    assert "Recompute" in kinds(found)


def test_a_filter_ends_a_ranking_of_different_rows() -> None:
    found = flow(
        "select * from (select distinct k, row_number() over (partition by k order by v) as rn "
        f"from {STREAM}) where rn <= 2"
    )
    assert [each.top.rows for each in tops_of(found)] == [2]


def test_a_ranking_without_an_end_says_what_would_bound_it() -> None:
    with pytest.raises(Unbounded) as problem:
        plan_query.plan(f"select k, row_number() over (partition by k order by v) as r from {STREAM}", KNOWN)
    assert str(problem.value) == (
        "'ROW_NUMBER() OVER (PARTITION BY k ORDER BY v)' ranks all rows that ever come; say how many are asked for: "
        "WHERE r <= 10 in the query around it. To have the query as it is: The state of this query grows without "
        "bound: it keeps every row that ever comes. Set state_ttl (as in '7 days') to forget what was idle for so "
        "long; or bound it by time: SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r FROM stream(db.s) "
        "WHERE ts >= CURRENT_TIMESTAMP() - INTERVAL '7' DAY"
    )


@pytest.mark.parametrize(
    ("items", "rows"),
    [
        ("k, sum(v) filter (where rn <= 2) as s", 2),
        ("k, max(case when rn = 1 then v end) as a, count(distinct if(rn <= 3, v, null)) as b", 3),
        ("k, sum(case when rn = 1 then v else 0 end) as s", None),
        ("k, count(*) as n, count_if(rn = 1) as one", None),
        ("k, try_sum(v) as n, count_if(rn = 1) as one", None),
    ],
)
def test_aggregates_that_pass_over_other_places_end_a_ranking(items: str, rows: int | None) -> None:
    found = flow(f"select {items} from {ranking(STREAM)} as r group by k")
    tops = [each.top.rows for each in tops_of(found)]
    assert rows in tops or (rows is None and not any(tops))


@pytest.mark.parametrize(
    "text, partitions",
    [
        ("left join {0} as b on a.k = b.k where a.v = b.v", ("`a`.`k`", "`a`.`v`")),
        ("left join {0} as b on a.k = b.k where a.v <=> b.v", ("`a`.`k`",)),
        ("left join {0} as b on a.k <=> b.k where a.v = coalesce(b.v, 1)", ("`a`.`k`",)),
        ("left semi join {0} as b on a.k = b.k", ("`a`.`k`",)),
        ("left join {0} as b on a.k = b.k left join {0} as c on c.k = b.k", ("`a`.`k`",)),
        ("left join {0} as b on a.k = b.k left join {0} as c on c.k <=> b.k", ()),
        (
            "left join {0} as b on a.k = b.k left join {0} as c on a.v = b.v and c.v = b.v and a.k = c.k",
            ("`a`.`k`",),
        ),
    ],
)
def test_outer_joins_are_partitioned_by_what_their_rows_have_in_common(
    text: str, partitions: tuple[str, ...]
) -> None:
    found = only(flow(f"select a.k, a.v from {STREAM} as a {text.format(OTHER)}"), Recompute)
    assert isinstance(found, Recompute)
    assert tuple(key.replace('"', "`").lower() for key in found.keys[0]) in (
        partitions,
        tuple(each.replace("`", "") for each in partitions),
    )


def _of_doubles(query: str) -> tuple[str, ...]:
    return ("double",) * query.lower().count("typeof(")


def planned_over_doubles(text: str) -> Dataflow:
    found = tree_of(text, KNOWN, DAY, ("k",), _of_doubles).dataflow
    assert found is not None
    return found


@pytest.mark.parametrize(
    "over", ["sum(v) over (partition by k)", "first_value(v) over (partition by k)", "avg(v) over ()"]
)
def test_a_value_that_depends_on_the_order_of_rows_is_taken_in_one_order(over: str) -> None:
    found = only(planned_over_doubles(f"select k, {over} as m from {STREAM} as t"), Recompute)
    assert isinstance(found, Recompute)
    assert "STRUCT(`t`.*)" in found.sql
    assert "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING" in found.sql


def test_a_sum_over_rows_that_stand_in_one_place_is_refused_where_its_last_digit_differs() -> None:
    text = f"select k, sum(v) over (partition by k order by day{{}}) as m from {STREAM} as t"
    with pytest.raises(QueryError, match=r"other last digits.*ROWS BETWEEN"):
        planned_over_doubles(text.format(""))
    assert planned_over_doubles(text.format(" rows between 3 preceding and current row"))
    assert flow(text.format(""))
    with pytest.raises(QueryError, match="order of rows"):
        flow(f"select k, last_value(v) over (partition by k order by day) as m from {STREAM} as t")
    assert flow(f"select k, last_value(n) over (order by m, k) as l from ({GROUPS}) as t")


def test_a_subquery_whose_last_digit_differs_is_refused() -> None:
    text = f"select k, (select {{}} from {OTHER} as o where o.k = a.k) as m from {STREAM} as a"
    for call in ("avg(o.v)", "collect_list(o.v)"):
        with pytest.raises(QueryError, match=r"other last digits|order of rows"):
            planned_over_doubles(text.format(call))
    assert planned_over_doubles(text.format("max(o.v)"))
    assert flow(text.format("avg(o.v)"))


LAST = f"(select * from (select *, row_number() over (partition by k order by ts desc) as rn from {STREAM}) where rn = 1)"


def windows_over(relation: str, kind: str = "tumble", *lengths: str, **more: Any) -> str:
    return expansion.expand(relation, window_arguments.make(kind, "ts", *(lengths or ("5 minutes",)), **more))


def test_groups_of_windows_of_what_changes_wait_for_the_window() -> None:
    found = flow(
        f"select window_start, window_end, count(*) as n from {windows_over(LAST)} group by window_start, window_end"
    )
    assert kinds(found)[-4:] == ["WindowRows", "GroupAggregate", "WindowClose", "Project"]
    assert found.key == ("window_end", "window_start")
    assert only(found, WindowClose).relation.open_until is None


@pytest.mark.parametrize(
    ("text", "last"),
    [
        # At once, as over a stream.
        (f"select v, window_end as e from {windows_over(LAST)}", ["WindowRows", "Project"]),
        (f"select * from {windows_over(LAST, 'hop', '1 minute', '5 minutes')}", ["WindowRows", "Project"]),
        # What doesn't hand a window's end on waits for it below.
        (
            f"select v, count(*) as n from {windows_over(LAST)} group by v",
            ["WindowClose", "GroupAggregate", "Project"],
        ),
        (
            f"select window_start, count(*) as n from {windows_over(LAST)} group by window_start",
            ["WindowClose", "GroupAggregate", "Project"],
        ),
        (
            f"""select window_end, count(*) as n from (select *, window_end as we from {windows_over(LAST)})
            group by window_end""",
            ["WindowRows", "Project", "WindowClose", "GroupAggregate", "Project"],
        ),
        (
            f"select k, window_end from {windows_over(LAST, 'session', '1 minute')}",
            ["Project", "Recompute", "WindowClose", "Project"],
        ),
        (
            f"""select window_end, k, count(*) as n from (select * from {windows_over("db.s")} as c
            where k in (select k from {OTHER})) group by window_start, window_end, k""",
            [
                "WindowResults",
                "WindowClose",
                "Source",
                "Project",
                "Recompute",
                "GroupAggregate",
                "Project",
            ],
        ),
        (
            f"select v from (select distinct v, window_end from {windows_over(LAST)})",
            ["GroupAggregate", "WindowClose", "Project", "Project"],
        ),
        (
            f"select window_end, median(v) as m from {windows_over(LAST)} group by window_start, window_end",
            ["WindowRows", "WindowClose", "Recompute"],
        ),
        (
            f"""select * from (select *, row_number() over (partition by window_end order by v) as place
            from {windows_over(LAST)}) where place < 3""",
            ["WindowRows", "WindowClose", "Recompute", "Project"],
        ),
        (
            f"select window_end, count(*) as n from {windows_over(LAST, 'session', '1 minute')} group by window_end",
            ["Recompute", "WindowClose", "GroupAggregate", "Project"],
        ),
    ],
)
def test_what_waits_for_the_window(text: str, last: list[str]) -> None:
    assert kinds(flow(text))[-len(last) :] == last


def test_windows_over_a_model_whose_rows_change() -> None:
    text = f"select window_start, window_end, count(*) as n from {windows_over('db.s')} group by window_start, window_end"
    known = {"db.s": Known(event_time="ts", key=("k",), changes=True)}
    made = plan_query.plan(text, known, DAY).dataflow
    assert made is not None
    assert kinds(made) == [
        "Source",
        "Project",
        "WindowRows",
        "GroupAggregate",
        "WindowClose",
        "Project",
    ]
    # There are never more windows than rows in the table upstream.
    assert plan_query.plan(text, known).dataflow is not None
    keyed = {"db.s": Known(event_time="ts", key=("k",))}
    with pytest.raises(QueryError) as problem:
        plan_query.plan(text, keyed, DAY)
    assert str(problem.value) == (
        "config 'state_ttl' forgets what was idle, but the rows of db.s stay until others replace them; leave it out, or "
        "give the model constant_domains: ['k'] if the set of their values doesn't grow."
    )
    assert plan_query.plan(text, keyed, DAY, ("k",)).dataflow is not None
    with pytest.raises(Unbounded, match="it keeps a row for every value of k that ever comes"):
        plan_query.plan(text, keyed)
    made = plan_query.plan(text, keyed, domains=("k",)).dataflow
    assert made is not None and kinds(made)[:3] == ["Source", "ChangelogNormalize", "Project"]


def test_steps_without_new_rows_are_left_out_by_having() -> None:
    rows = expansion.expand(
        LAST, window_arguments.make("cumulate", "ts", "1 minute", "1 hour", emit="on_change")
    )
    text = f"select window_end, count(*) as n from {rows} group by window_start, window_end"
    found = plan_query.plan(text, KNOWN, DAY).dataflow
    assert found is not None
    rows_of_windows = {each.name for each in found.operators if isinstance(each, WindowRows)}
    told = [each for each in found.operators if isinstance(each, Project) and "__new_row" in each.sql]
    assert told[0].inputs[0].name in rows_of_windows
    assert kinds(found)[-2:] == ["WindowClose", "Project"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"select k, v, count(*) as n from {STREAM} group by rollup (k, v) having max(v) > (select max(v) from {OTHER})",
            "is in a SELECT with grouping sets; put the GROUP BY into a query below",
        ),
        (
            f"select s.k, (select max(v) from {OTHER} as t where t.k = s.v) as m, max(v) from {STREAM} as s group by s.k",
            "'s.v' is used in a subquery of the groups' select list or HAVING, and is no key",
        ),
        (
            f"select k, (select min(v) from {OTHER}) as m, rank() over (order by k) as r from {STREAM} group by k",
            "or next to OVER or LIMIT; join it in a query below, or put the GROUP BY into one",
        ),
        (
            f"select k, stddev(v), (select min(v) from {OTHER}) as m from {STREAM} group by k",
            "'STDDEV(v)' is next to OVER or a subquery over a stream, and has no name",
        ),
    ],
)
def test_subqueries_beside_groups_that_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(QueryError) as problem:
        plan_query.plan(text, KNOWN, DAY)
    assert sentence in str(problem.value)


@pytest.mark.parametrize(
    "text",
    [
        f"select count(*) as n from {STREAM} group by k in (select k from {OTHER})",
        f"select k, sum(v - (select min(v) from {OTHER})) as s from {STREAM} group by rollup (k)",
        f"select k, count(*) filter (where v > (select min(v) from {OTHER})) as s from {STREAM} group by k",
    ],
)
def test_subqueries_that_are_asked_for_each_row_are_computed_below_groups(text: str) -> None:
    found = flow(text)
    assert {"GroupAggregate", "Recompute"} & {*kinds(found)} == {"GroupAggregate", "Recompute"}


def test_not_in_is_asked_as_one_question() -> None:
    """Of IN alone, in a select list, Spark makes false where it is NULL."""
    asked = f"count(case when not (v in (select v from {OTHER})) then 1 end)"
    texts = " ".join(
        step.sql
        for level in generate.program(
            tree_of(f"select k, {asked} as n from {STREAM} group by k", KNOWN, DAY), ttl=DAY
        ).levels
        for step in level.ingest
    )
    assert "WHEN `__asked_0`" in texts or "WHEN __asked_0" in texts


@pytest.mark.parametrize(
    "text",
    [
        f"select k, lag(v) over (partition by k order by ts) in (select v from {OTHER}) as m from {STREAM}",
        f"select k, sum(v - (select min(v) from {OTHER})) as s, (select max(v) from {OTHER}) as m from {STREAM} group by k",
        f"select k, count(case when v - (select min(v) from {OTHER}) in (select v from {OTHER}) then 1 end) as n "
        f"from {STREAM} group by k",
    ],
    ids=["OVER in IN", "one below and one above", "one inside another"],
)
def test_queries_that_are_not_all_asked_for_each_row_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match=r"[Ss]ubquery (over a stream )?is in"):
        tree_of(text, KNOWN, DAY)


def test_a_ranking_of_a_table_that_is_no_stream_is_read_as_it_is() -> None:
    """Its text is what a state of the query above is known by."""
    ranked = "select k, x, row_number() over (partition by k order by x) as rn from db.dim"
    text = f"select d.x from {STREAM} as s left join ({ranked}) as d on d.k = s.k and d.rn = 1"
    assert sql(rank_filters.brought_down(parse(text))) == sql(parse(text))


def test_a_query_in_a_select_list_is_kept_apart_from_the_unions_of_rows_below() -> None:
    """Spark's optimizer takes select lists into a UNION ALL, and loses columns that queries in them are correlated by."""
    asked = f"(select count(*) from {OTHER} as t where t.k = s.k and t.v > s.v)"

    def steps(text: str) -> str:
        program = generate.program(tree_of(text, KNOWN, DAY), ttl=DAY)
        return " ".join(step.sql for level in program.levels for step in level.ingest)

    assert "explode(array(1))" in steps(f"select k, v, {asked} as n from {STREAM} as s")
    assert "explode(array(1))" not in steps(f"select k, v from {STREAM} as s where v > {asked}")


@pytest.mark.parametrize("plan_it", [plan_query.plan, tree_of])
def test_keys_with_few_values_need_no_bound(plan_it: Callable[..., Plan]) -> None:
    kinds_of = f"(select *, case when v > 9 then 'much' when v is null then 'none' end as much from {STREAM})"
    few = f"select much, k is null as missing, v % 7, count(*) as n from {kinds_of} group by much, k is null, v % 7"
    plan_it(few, KNOWN)
    with pytest.raises(Unbounded) as problem:
        plan_it(few.replace("k is null", "k"), KNOWN)
    assert "constant_domains: ['missing'] if" in str(problem.value)


@pytest.mark.parametrize(
    ("inner", "given"),
    [
        (f"select count(*) from {OTHER}", True),
        (f"select max(v) from {OTHER} as t where t.v < 10 and k <> 'a'", True),
        # It may be one for each row around it.
        (f"select max(v) from {OTHER} as t where t.k = g.k", False),
        (f"select max(v) from {OTHER} as t where v = n", False),
        (f"select max(v) from {OTHER} as t group by k having count(*) > 100", True),
    ],
)
def test_a_subquery_that_asks_nothing_around_is_kept_as_what_it_gives(inner: str, given: bool) -> None:
    found = only(flow(f"select k, n, ({inner}) as x from ({GROUPS}) as g"), Recompute)
    assert isinstance(found, Recompute)
    assert found.inputs[1].relation.bounded == given


def test_what_a_group_is_compared_with_needs_no_bound_of_its_own() -> None:
    text = f"select k, count(*) / (select count(*) from {STREAM}) as share from {STREAM} group by k"
    assert flow(text, ttl=None).key == ("k",)


@pytest.mark.parametrize(
    ("call", "made"),
    [
        (
            "listagg(k, ',') within group (order by n)",
            "LISTAGG(k, ',') WITHIN GROUP (ORDER BY n, k)",
        ),
        (
            "string_agg(k) within group (order by n, k desc)",
            "STRING_AGG(k) WITHIN GROUP (ORDER BY n, k DESC)",
        ),
        (
            "listagg(distinct k) within group (order by k) filter (where n > 1)",
            "LISTAGG(DISTINCT k) WITHIN GROUP (ORDER BY k) FILTER(WHERE n > 1)",
        ),
    ],
)
def test_a_list_in_order_is_the_same_each_time(call: str, made: str) -> None:
    """Where rows are equal by its order, their values put it in order."""
    found = only(flow(f"select m, {call} as l from ({GROUPS}) group by m"), Recompute)
    assert isinstance(found, Recompute)
    assert f"{made} AS l" in found.sql


def test_a_list_in_no_order_is_refused() -> None:
    text = f"SELECT m, LISTAGG(k) AS l FROM ({GROUPS}) GROUP BY m"
    with pytest.raises(QueryError) as raised:
        flow(text)
    assert str(raised.value).endswith(
        ": listagg(…) is not kept as partial aggregates, and its value depends on the order of rows, which may differ each "
        "time; sort it: array_sort(collect_list(…)), or LISTAGG(…) WITHIN GROUP (ORDER BY …)."
    )


@pytest.mark.parametrize(
    "call",
    [
        "percentile_cont(0.5) within group (order by v)",
        "any_value(v) ignore nulls",
        "listagg(k) within group (order by k)",
    ],
)
def test_an_aggregate_stays_whole_below_a_subquery(call: str) -> None:
    select = parse(f"select k, {call} as a, (select min(v) from {OTHER}) as m from {STREAM} group by k")
    assert isinstance(select, exp.Select)
    assert "__aggregate_1` AS a" in sql(above_groups.lifted(select))
    assert sql(parse(call.join(("select ", "")))).removeprefix("SELECT ") in sql(above_groups.lifted(select))


def test_a_key_that_is_computed_hides_no_column() -> None:
    inner = f"(select max(v) from {OTHER} as o where o.k = k)"
    select = parse(f"select upper(k) as k, count(*) as n, {inner} as m from {STREAM} group by upper(k), k")
    assert isinstance(select, exp.Select)
    assert "SELECT UPPER(k) AS `__key_0`, k AS `k`, COUNT(*)" in sql(above_groups.lifted(select))


def test_how_far_streams_under_such_windows_have_come() -> None:
    known = {"db.s": Known(event_time="ts", key=("k",), changes=True), "db.t": Known()}
    computed = f"(select k, date_trunc('minute', ts) as ts from {STREAM})"
    counted = "select window_start, window_end, count(*) as n from {} group by window_start, window_end"
    assert plan_query.plan(counted.format(windows_over(computed)), known, DAY).streams[0].event_time == "ts"
    last = LAST.replace("db.s", "db.t")
    with pytest.raises(QueryError, match=r"nothing says which column of db\.t that is"):
        plan_query.plan(counted.format(windows_over(last)), known, None, ("k",))


@pytest.mark.parametrize(
    ("on", "key"),
    [("l.k = r.k and l.v = r.v", ("k", "v")), ("l.n = r.n", None), ("l.k = r.k", None)],
)
def test_a_query_that_is_read_twice_is_told_apart_by_all_of_its_keys(
    on: str, key: tuple[str, ...] | None
) -> None:
    text = f"""with g as (select k, v, count(*) as n from {STREAM} group by k, v)
      select l.k, l.v, l.n, r.n as m, r.v as w from g as l left join g as r on {on}"""
    found = plan_query.plan(text, KNOWN, DAY)
    upsert = generate.program(found, ttl=DAY).upsert
    assert upsert is not None
    assert upsert.key == key


@pytest.mark.parametrize(
    "items, source",
    [
        ("lag(v) over (partition by k order by ts)", STREAM),
        ("lag(v, 2, 0) over (order by ts, v)", STREAM),
        (
            "sum(v) over (partition by k order by ts range between interval 1 hour preceding and current row)",
            STREAM,
        ),
        ("max(v) over (partition by k order by ts rows between 3 preceding and 1 preceding)", STREAM),
        ("avg(v) over (partition by k order by ts)", f"{STREAM} where v > 1"),
        ("lag(n) over (partition by k order by window_end)", f"({per_window('5 minutes')})"),
    ],
)
def test_frames_that_reach_back_in_order_of_time(items: str, source: str) -> None:
    found = flow(f"select *, {items} as a from {source}")
    made = only(found, OverAggregate)
    assert found.root is made and not made.relation.changes and Recompute.__name__ not in kinds(found)


@pytest.mark.parametrize(
    "items, source",
    [
        ("lead(v) over (partition by k order by ts)", STREAM),
        ("lag(v) over (partition by k order by ts desc)", STREAM),
        ("lag(v) over (partition by k order by v)", STREAM),
        ("lag(v) over (partition by k order by p.ts)", STREAM),
        ("lag(v) over (partition by k order by ts) as b, max(v) over (partition by k order by p.ts)", STREAM),
        ("sum(v) over (partition by k)", STREAM),
        ("sum(v) over (partition by k order by ts rows between 1 preceding and 1 following)", STREAM),
        (
            "sum(v) over (order by ts range between interval 1 hour preceding and interval 1 hour following)",
            STREAM,
        ),
        ("sum(v) over (order by ts range between interval -1 hour preceding and current row)", STREAM),
        ("sum(v) over (order by ts range between interval 1 month preceding and current row)", STREAM),
        ("lag(v) over (order by ts) as b, lag(v) over (partition by k order by ts)", STREAM),
        ("lag(n) over (partition by k order by window_start)", f"({per_window('5 minutes')})"),
        ("lag(n) over (partition by k order by n)", f"({GROUPS})"),
    ],
)
def test_frames_that_are_computed_again(items: str, source: str) -> None:
    assert OverAggregate.__name__ not in kinds(flow(f"select *, {items} as a from {source}"))


@pytest.mark.parametrize(("time", "waits"), [("ts", True), ("arrived", False)])
def test_rows_wait_for_the_watermark_that_is_measured_on_their_time(time: str, waits: bool) -> None:
    # Where the stream's windows are over another column, that is what its watermark is measured on.
    windows = expansion.expand("db.s", window_arguments.make("tumble", time, "5 minutes"))
    found = flow(
        f"select ts, lag(v) over (partition by k order by ts) as n from {STREAM} union all "
        f"select window_end, count(*) from {windows} group by window_start, window_end"
    )
    assert (OverAggregate.__name__ in kinds(found)) == waits


def test_what_bounds_frames() -> None:
    def over(frame: str, domains: tuple[str, ...] = ()) -> Dataflow:
        return flow(
            f"select ts, v, sum(v) over (partition by u order by ts {frame}) as s from {STREAM}",
            None,
            domains,
        )

    assert over("range between interval 1 hour preceding and current row")
    assert over("rows 2 preceding", ("u",))
    with pytest.raises(
        Unbounded, match=r"it keeps the last 2 rows for every value of u .* or constant_domains: \['u'\]"
    ):
        over("rows 2 preceding")
    assert over("", ("u",))
    with pytest.raises(
        Unbounded, match=r"it keeps totals for every value of u .* or constant_domains: \['u'\]"
    ):
        over("", ())


NUMBERS = "row_number() over (partition by k order by ts)"


@pytest.mark.parametrize(
    ("items", "values"),
    [
        (("sum(v) over (partition by k order by ts)",), 1),
        (("sum(v) over (order by ts)",), 1),
        (
            (
                "avg(v) over (partition by k order by ts)",
                "sum(v / 1) over (partition by k order by ts rows unbounded preceding)",
            ),
            2,
        ),
        (("count(*) over (partition by k order by ts)", "count(u, v) over (partition by k order by ts)"), 2),
        (
            (
                "min(case when u > 1 then v end) over (partition by k order by ts)",
                "max(v) over (partition by k order by ts, u)",
            ),
            2,
        ),
    ],
)
def test_of_running_aggregates_one_row_of_a_partition_is_kept(items: tuple[str, ...], values: int) -> None:
    named = ", ".join(f"{item} as a{number}" for number, item in enumerate(items))
    made = only(flow(f"select k, ts, {named} from {STREAM} where v > 3", None), OverAggregate)
    assert isinstance(made, OverAggregate)
    assert len(made.running) == values and not made.relation.changes
    # With state_ttl a partition begins anew: its rows are kept, and say when.
    if NUMBERS not in items:
        kept = only(flow(f"select k, ts, {named} from {STREAM}", DAY), OverAggregate)
        assert isinstance(kept, OverAggregate) and not kept.running


@pytest.mark.parametrize(
    "items",
    [
        "percentile(v, 0.5) over (partition by k order by ts) as p",
        "sum(v) over (partition by k order by ts) as s, lag(v) over (partition by k order by ts) as l",
        "sum(v) over (partition by k order by ts rows between unbounded preceding and 1 preceding) as s",
        # It may be another value of the select list.
        "v + 1 as v, sum(v) over (partition by k order by ts) as s",
    ],
)
def test_of_other_frames_from_the_beginning_all_rows_are(items: str) -> None:
    with pytest.raises(Unbounded, match="it keeps every row that ever comes"):
        flow(f"select k, ts, {items} from {STREAM}", None)


def test_numbers_of_rows_are_a_ranking_which_has_to_have_an_end() -> None:
    numbered = f"(select *, {NUMBERS} as rn from {STREAM})"
    assert "TopN" in kinds(flow(f"select * from {numbered} where rn <= 3", None))
    with pytest.raises(Unbounded, match="ranks all rows that ever come; say how many"):
        flow(f"select * from {numbered}", None)


IN_TIME = "r.k = l.k and r.ts between l.ts - interval 1 minute and l.ts + interval 5 minutes"
JOINED = f"(select l.ts, l.k, l.v, r.v as w from {STREAM} as l {{}} join {OTHER} as r on {IN_TIME})"
EITHER = f"""(select coalesce(l.ts, r.ts) as ts, coalesce(l.k, r.k) as k, l.v from {STREAM} as l
    full join {OTHER} as r on {IN_TIME})"""
ALONE = f"(select l.ts, l.k, l.v from {STREAM} as l where not exists (select 1 from {OTHER} as r where {IN_TIME}))"
COUNTED = "select window_start, window_end, k, count(*) as n from {} group by window_start, window_end, k"


@pytest.mark.parametrize(
    ("rows", "minutes"),
    [
        (JOINED.format(""), 5),
        (JOINED.format("left"), 5),
        (JOINED.format("right").replace("l.ts, l.k", "r.ts, r.k"), 1),
        (EITHER, 5),
        (ALONE, 5),
        (ALONE.replace("not exists", "exists"), 5),
        (f"(select ts, k, v from {STREAM} union all select ts, k, v from {JOINED.format('left')})", 5),
        (f"(select ts + interval 2 minutes as ts, k, v from {JOINED.format('left')})", 3),
        (f"(select ts - interval 2 minutes as ts, k, v from {JOINED.format('left')})", 7),
    ],
)
def test_windows_over_joins_in_time_have_their_result_once_for_all(rows: str, minutes: int) -> None:
    found = flow(COUNTED.format(windows_over(rows)), ttl=None, domains=())
    closed = only(found, WindowClose)
    assert isinstance(closed, WindowClose)
    assert closed.lasts == minutes * 60_000_000
    assert not found.root.relation.changes
    assert found.root.relation.together == {"window_end": f"window_end + {minutes * 60_000_000}"}


def test_what_stands_on_such_windows_comes_with_them() -> None:
    windows = COUNTED.format(windows_over(JOINED.format("left")))
    ranked = (
        f"select *, row_number() over (partition by window_end order by n desc) as place from ({windows})"
    )
    assert kinds(flow(f"select * from ({ranked}) where place < 3", None, ()))[-2:] == ["Local", "Project"]
    two = f"select a.k, a.n, b.n as m from ({windows}) as a full join ({windows}) as b on a.window_end = b.window_end"
    assert kinds(flow(two, None, ()))[-1] == "Local"
    median = COUNTED.replace("count(*)", "median(w)").format(windows_over(JOINED.format("left")))
    assert kinds(flow(median, None, ()))[-3:] == ["WindowRows", "WindowClose", "Local"]
    lagged = f"select *, lag(n) over (partition by k order by window_end) as before from ({windows})"
    assert kinds(flow(lagged, None, ("k",)))[-1] == "OverAggregate"


@pytest.mark.parametrize(
    "rows",
    [
        windows_over(JOINED.format("left"), "session", "1 minute"),
        windows_over(f"(select date_trunc('minute', ts) as ts, k from {JOINED.format('left')})"),
        windows_over(LAST),
    ],
)
def test_windows_without_a_bound_in_time_still_need_one(rows: str) -> None:
    with pytest.raises(Unbounded, match="grows without bound"):
        flow(COUNTED.format(rows), None, ())


TWO_TIMES = f"""(select l.k, l.ts as at, r.ts as before from {STREAM} as l join {OTHER} as r
    on r.k = l.k and r.ts between l.ts - interval 5 hours and l.ts)"""
ONE_ALONE = f"""(select a.k, a.before from {TWO_TIMES} as a left join {STREAM} as b on b.k = a.k
    and b.ts between a.at and a.at + interval 1 hour and b.ts between a.before and a.before + interval 1 hour)"""


def windows_by(time: str, rows: str, length: str = "10 minutes") -> str:
    return expansion.expand(rows, window_arguments.make("tumble", time, length))


@pytest.mark.parametrize(
    ("time", "rows"),
    [
        # How far it lies from the time of the window that the row was in, nothing says.
        ("before", f"(select k, before from {windows_by('at', TWO_TIMES, '1 hour')})"),
        # That of a row without a match is as far away as it likes.
        ("before", ONE_ALONE),
    ],
)
def test_windows_by_a_time_whose_distance_is_not_known_need_a_bound(time: str, rows: str) -> None:
    text = f"select window_start, window_end, k, count(*) as n from {windows_by(time, rows)} group by all"
    with pytest.raises(Unbounded, match="grows without bound"):
        flow(text.replace("group by all", "group by window_start, window_end, k"), None, ())


def test_a_predicate_on_time_over_a_join_that_time_bounds_is_told() -> None:
    lately = "where ts > current_timestamp() - interval 1 day"
    for rows in (ALONE, ALONE.replace("not exists", "exists")):
        with pytest.raises(
            QueryError, match="over an interval join is not supported; put it on the streams below"
        ):
            flow(f"select ts, k from {rows} {lately}", None, ())


@pytest.mark.parametrize(
    ("join", "alone"),
    [
        ("left", (True, False)),
        ("right", (False, True)),
        ("full", (True, True)),
        ("left anti", (False, False)),
    ],
)
def test_what_is_alone_comes_when_it_can_meet_none_any_more(join: str, alone: tuple[bool, bool]) -> None:
    items = "l.k, l.v" if "anti" in join else "l.k, r.v"
    made = flow(f"select {items} from {STREAM} as l {join} join {OTHER} as r on {IN_TIME}", None, ()).root
    assert isinstance(made, OuterIntervalJoin)
    assert not made.relation.changes
    assert (made.pairs is None) == ("anti" in join)
    assert tuple(each is not None for each in made.alone) == alone


def test_a_name_that_may_be_of_the_rows_around_is_asked_for_beside_a_joined_table() -> None:
    text = f"select l.k, d.x from {STREAM} as l join db.dim as d on d.k = l.k where exists (select 1 from {OTHER} as r {{}})"
    with pytest.raises(
        QueryError, match=r"asks in a query inside for 'v', without saying whose column it is"
    ):
        flow(text.format("where r.k = v"))
    assert flow(text.format("where r.k = l.v and v > 3"))


def test_distinct_over_sessions_whose_silent_steps_are_left_out() -> None:
    steps = windows_over("db.s", "dynamic_cumulate", "1 minute", "5 minutes", emit="on_change")
    text = (
        f"select distinct w.window_start, w.window_end, w.k from {steps} as w join {OTHER} as r on r.k = w.k"
    )
    assert "GroupAggregate" in kinds(flow(text))


def test_what_names_are_marked_with_is_refused() -> None:
    with pytest.raises(QueryError) as problem:
        flow(f"select __of_author0x as k from {STREAM}")
    assert str(problem.value) == (
        "'__of_author0x' begins with what names of columns are marked with while a query is planned; call it something else."
    )


def test_a_message_has_the_names_of_the_author() -> None:
    with pytest.raises(QueryError, match="__row_time") as problem:
        flow(f"select __row_time, count(*) as n from {STREAM} group by __row_time", ttl=None)
    assert "of_author" not in str(problem.value)
