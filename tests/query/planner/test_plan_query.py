"""Refusals name the cause and say what to write instead."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.project import streaming
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments

KNOWN = {name: RelationInfo(event_time="ts") for name in ("a", "b", "c")}
A, B, C = map(expansion.expand_stream, KNOWN)
NEAR = "{0}.k = {1}.k and {0}.ts between {1}.ts - interval 1 minute and {1}.ts + interval 1 minute"


def tumble(relation: str) -> str:
    return expansion.expand_window(relation, window_arguments.make_window("tumble", "ts", "10 minutes"))


def counts(relation: str) -> str:
    keys = "window_start, window_end, k"
    return f"select {keys}, count(*) as n from {tumble(relation)} group by {keys}"


def refused(text: str) -> str:
    with pytest.raises(QueryError) as problem:
        plan_query.plan(text, KNOWN)
    return str(problem.value)


@pytest.mark.parametrize(
    ("materialized", "text", "found"),
    [
        (
            "window_aggregate",
            f"select k, count(*) as n from {tumble('a')} group by k",
            "a GROUP BY over a windowing table function without both window_start and window_end among its keys",
        ),
        (
            "window_aggregate",
            f"select k, window_end, count(*) as n from {tumble('a')} group by k, window_end",
            "a GROUP BY over a windowing table function without both window_start and window_end among its keys",
        ),
        (
            "window_aggregate",
            f"select * from {tumble('a')}",
            "rows of a windowing table function that nothing groups or ranks",
        ),
        (
            "topn",
            f"select k from {tumble('a')}",
            "rows of a windowing table function that nothing groups or ranks",
        ),
        ("topn", counts("a"), "a GROUP BY over tumble()"),
        (
            "window_aggregate",
            f"select k, count(*) as n from {A} group by k",
            "a GROUP BY without windows",
        ),
        ("window_aggregate", f"select k from {A}", "no aggregate"),
    ],
)
def test_what_a_materialization_found(materialized: str, text: str, found: str) -> None:
    config = {"materialized": materialized}
    if "group by k" in text and not text.endswith("window_start, window_end, k"):
        config["constant_domains"] = ["k", "window_end"]  # type: ignore[assignment]
    with pytest.raises(QueryError) as problem:
        streaming.plan_model({"name": "m", "config": config}, text, KNOWN)
    assert f", found {found}; use materialized='streaming_table'." in str(problem.value)


def test_stream_over_several_tables_says_where_to_put_it() -> None:
    assert refused(
        "with j as (select a.k from a join b on a.k = b.k) select * from (select /*+ STREAM */ * from j)"
    ) == (
        "stream() marks one table, found a, b under it; put it around the one that is the stream, where the query reads it: "
        "FROM {{ stream(ref('…')) }}."
    )


@pytest.mark.parametrize("values", ["values (1, 2), (3, 4)", "select * from values (1, 2), (3, 4)"])
def test_values_get_their_names_from_with(values: str) -> None:
    assert plan_query.plan(
        f"with v(x, y) as ({values}) select a.k, v.y from {A} as a join v on v.x = a.v", KNOWN
    )


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("select * from d", "that has '*'"),
        ("select 1 as one", "that has 1 of them"),
        ("values (1, 2, 3)", "that has 3 of them"),
        ("select * from values (1, 2), (3, 4) where col1 > 1", "that has '*'"),
        ("select * except (col1) from values (1, 2, 3)", "that has '*'"),
    ],
)
def test_names_of_with_that_fit_no_columns_say_why(query: str, what: str) -> None:
    text = f"with v(x, y) as ({query}) select a.k from {A} as a join v on v.x = a.v"
    assert refused(text) == f"'v(x, y)' names the columns of a query {what}; name them in its select list."


def test_an_outer_join_of_three_is_told_to_be_one_of_two() -> None:
    text = f"select a.k from {A} as a join {B} as b on {NEAR.format('b', 'a')} left join {C} as c on {NEAR.format('c', 'a')}"
    assert "; or join two at a time, the outer join last" in refused(text)
    two = f"(select a.ts, a.k from {A} as a join {B} as b on {NEAR.format('b', 'a')})"
    assert plan_query.plan(
        f"select ab.k from {two} as ab left join {C} as c on {NEAR.format('c', 'ab')}", KNOWN
    )
    assert "two at a time" not in refused(f"select a.k from {A} as a left join {B} as b on a.k = b.k")


def test_rows_of_windows_that_are_asked_for_are_told_to_be_of_the_same() -> None:
    text = f"select w.k from ({counts('a')}) as w where exists (select 1 from ({counts('b')}) as x where x.k = w.k{{}})"
    assert "; or compare window_start and window_end of both sides in its condition" in refused(
        text.format("")
    )
    assert plan_query.plan(
        text.format(" and x.window_start = w.window_start and x.window_end = w.window_end"), KNOWN
    )
    other = f"select w.k from ({counts('a')}) as w where exists (select 1 from {B} as x where x.k = w.k)"
    assert "compare window_start" not in refused(other)


@pytest.mark.parametrize(
    "text",
    [
        f"select a.k, (select b.v from {B} as b where b.k < a.k order by b.ts desc limit 1) as v from {A} as a",
        f"select a.k from {A} as a where 1 = (select b.v from {B} as b where b.k = a.k order by b.ts limit 2)",
        f"select a.k from {A} as a where exists ((select b.v from {B} as b where b.k = a.k order by b.ts limit 1) "
        f"union all (select b.v from {B} as b where b.v > 1))",
        f"select a.k from {A} as a where exists (select 1 from ("
        f"select b.v from {B} as b where b.k = a.k order by b.ts limit 1) as x where x.v > 1)",
        f"select a.k from {A} as a where a.v in (select b.v from {B} as b where b.ts <= a.ts order by b.ts desc limit 3)",
    ],
)
def test_a_limit_for_each_row(text: str) -> None:
    """It was planned as one ranking of all, and ended with Spark's word of a name that it doesn't know."""
    found = refused(text)
    assert "cuts off rows of a correlated subquery" in found and "row_number() over (partition by" in found
    assert "'SELECT b.v FROM stream(b) AS b WHERE" in found


def test_a_limit_of_what_is_only_asked_for() -> None:
    there, limited = (
        f"select a.k from {A} as a where exists (select 1 from {B} as b where b.k = a.k and {NEAR.format('a', 'b')}{cut})"
        for cut in ("", " order by b.ts limit 1")
    )
    assert (
        plan_query.plan(there, KNOWN, DAY).dataflow.root == plan_query.plan(limited, KNOWN, DAY).dataflow.root
    )


def test_windows_of_spark_by_their_name() -> None:
    found = refused(
        f"select window.start as s, k, count(*) as n from {A} group by window(ts, '30 minutes'), k"
    )
    assert "{{ tumble(relation, 'ts', '30 minutes') }}" in found and "AS w" in found


def test_whose_columns_they_are() -> None:
    groups = f"(select k, count(*) as n from {A} group by k)"
    others = f"(select k, max(v) as m from {B} group by k)"
    text = (
        f"select g.k, n, m, kind from {groups} as g join {others} as o on g.k = o.k left join t on t.k = g.k"
    )
    assert "doesn't say whose columns n, m, kind are" in refused(text)
    plan_query.plan(text.replace("n, m, kind", "g.n, o.m, t.kind"), KNOWN, DAY)


@pytest.mark.parametrize(
    "asked",
    [
        f"exists (select 1 from {B} as b join t on t.k = b.k where b.v = a.v and t.kind = 'x')",
        f"a.v not in (select b.v from {B} as b left join t on t.k = b.k where t.kind = 'x')",
    ],
)
def test_a_query_inside_may_join_a_table(asked: str) -> None:
    """It was refused as if the query around it did."""
    plan_query.plan(f"select a.k from {A} as a where {asked}", KNOWN, DAY)
    assert "joins streams and a table" in refused(
        f"select a.k from {A} as a where {asked.replace('t.kind', 'kind')}"
    )


@pytest.mark.parametrize("asked", ["t.v = a.v", "t.v in (select u.v from u where u.k = a.k)"])
def test_joins_of_a_query_inside_may_not_ask_what_is_around(asked: str) -> None:
    """They were put into a query of their own with what they ask, which Spark doesn't find there."""
    inside = f"select 1 from {B} as b join t on t.k = b.k and {asked} where t.kind = 'x'"
    assert "joins streams and a table" in refused(f"select a.k from {A} as a where exists ({inside})")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("tumble", "ts", None),
            "tumble() takes 3 arguments (relation, time_col, size), found 2: size is missing.",
        ),
        (
            ("hop", "ts", "1 hour", None),
            "hop() takes 4 arguments (relation, time_col, slide, size), found 3: size is",
        ),
        (
            ("session", None, None),
            "session() takes 3 arguments (relation, time_col, gap), found 1: time_col and gap are",
        ),
    ],
)
def test_arguments_that_are_missing_are_counted(given: tuple[str, str | None], said: str) -> None:
    with pytest.raises(QueryError) as problem:
        window_arguments.make_window(*given)
    assert said in str(problem.value)
    assert f"Write {given[0]}(ref('orders'), 'ordered_at', '" in str(problem.value)


FIELD = {"raw.orders": RelationInfo("`meta`.`at`")}


@pytest.mark.parametrize(
    "text",
    [
        "select k from ORDERS where meta.at > current_timestamp() - interval 1 hour",
        """select a.k from ORDERS as a join ORDERS as b on a.k = b.k and a.meta.at between b.meta.at and
            b.meta.at + interval 1 hour""",
        "select * from (select *, row_number() over (partition by k order by meta.at) as rn from ORDERS) where rn = 1",
    ],
)
def test_an_event_time_in_a_struct_has_to_be_a_column_without_windows(text: str) -> None:
    with pytest.raises(QueryError, match=r"the event time meta\.at of raw\.orders is a field of a struct"):
        plan_query.plan(text.replace("ORDERS", "(select /*+ STREAM */ * from raw.orders)"), FIELD)


def one_of(relation: str) -> str:
    return f"select k from (select /*+ STREAM */ * from {relation})"


@pytest.mark.parametrize(
    "text",
    [
        f"{one_of('raw.Ev')} union all {one_of('raw.ev')}",
        f"with x as ({one_of('raw.Ev')}) select x.k from x join raw.EV as e on x.k = e.k",
        f"select a.k from ({one_of('cat.raw.ev')}) as a where a.k in (select k from cat.Raw.ev)",
    ],
)
def test_relations_that_differ_in_case_only_are_not_taken_for_one(text: str) -> None:
    with pytest.raises(
        QueryError, match=r"whose names differ only in case, so it would treat them as one\. If they are"
    ):
        plan_query.plan(text)


def test_names_that_are_written_alike_or_are_of_queries_may_differ_in_case() -> None:
    plan_query.plan(f"with Xs as ({one_of('raw.ev')}) select k from xs union all {one_of('`raw`.ev')}")
    known = {"raw.Ev": RelationInfo("a"), "raw.ev": RelationInfo("b"), "raw.eV": RelationInfo("c")}
    for name, what in known.items():
        (stream,) = plan_query.plan(one_of(name), known).streams
        assert (stream.relation, stream.event_time) == (name, what.event_time)


@pytest.mark.parametrize(
    ("materialized", "config", "said"),
    [
        (
            "topn",
            {},
            "its ranking has no upper bound: filter it in a query around it, as in WHERE place <= 10, or use",
        ),
        ("cumulate", {}, "found a GROUP BY over tumble(); use materialized='streaming_table'"),
        (
            "topn",
            {"table.exec.state.ttl": "1 d"},
            "did you mean 'state_ttl'?",
        ),
        (
            "topn",
            {"watermak": "1 minute"},
            "unknown for a streaming model; did you mean 'watermark'? Its own are",
        ),
        ("topn", {"zzz": 1}, "unknown for a streaming model. Its own are"),
    ],
)
def test_what_is_nearly_right(materialized: str, config: dict[str, object], said: str) -> None:
    text = f"select *, row_number() over (partition by window_start, window_end order by n) as rn from ({counts('a')})"
    node = {"name": "m", "unique_id": "model.p.m", "config": {"materialized": materialized, **config}}
    with pytest.raises(QueryError) as problem:
        streaming.plan_model(node, text)
    assert said in str(problem.value)


@pytest.mark.parametrize("rows", [tumble("a"), f"({counts('a')})"])
def test_a_ranking_by_chance_in_windows(rows: str) -> None:
    ranked = f"select *, row_number() over (partition by window_start, window_end order by rand()) as rn from {rows}"
    assert "ranks by a non-deterministic function" in refused(f"select * from ({ranked}) where rn <= 2")
