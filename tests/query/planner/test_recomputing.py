"""What is computed again must give the same value each time."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.plan.dataflow import Dataflow
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.plan.operators.materialized_project import MaterializedProject
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.planned import tree_of
from tests.query.auctions import BEST, B, auction_flow, auction_plan, keeping
from tests.query.trees import GROUPS, KNOWN, OTHER, STREAM, flow, only


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"select n, collect_list(k) as l from ({GROUPS}) group by n", "depends on the order of rows"),
        (
            f"select exists (select 1 from {STREAM}) as e from db.dim",
            "'SELECT 1 FROM stream(db.s)' reads a stream inside an expression of a query over a table",
        ),
        (f"select 1 in (select v from {STREAM}) as e, rand() as r", "compute it in a subquery in FROM"),
        (f"select 1 as one, 1 + (select max(v) from {STREAM})", "has no name; give it one: AS …"),
        (
            f"select k from ({GROUPS}) union all select k from db.dim",
            "which is none; read it as a stream too",
        ),
        (
            f"select k from ({GROUPS}) union all select k from ({GROUPS}) limit 3",
            "any rows could be the first; add ORDER BY",
        ),
        (f"select * from {STREAM} order by 2 limit 3", "whose number of columns isn't known"),
        (f"select k, v from {STREAM} order by 3 limit 3", "ORDER BY 3 … LIMIT: the query has 2 columns."),
        (f"select * from {STREAM} as a natural join {OTHER} as b", "with USING"),
        (
            f"select g.k, l.v from ({GROUPS}) as g join db.dim as d on d.k = g.k, "
            f"lateral (select v from {OTHER} as b where b.k > d.k order by v limit 1) as l",
            "queries a stream for each row in LATERAL, next to a table that isn't a stream; join that table in a subquery "
            "in FROM",
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


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            "collect_list(n)",
            "its value depends on the order of rows, which may differ each time; sort it: array_sort(collect_list(…)), or "
            "LISTAGG(…) WITHIN GROUP (ORDER BY …)",
        ),
        (
            "collect_set(n)",
            "its value depends on the order of rows, which may differ each time; sort it: array_sort(collect_set(…)), or "
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


@pytest.mark.parametrize("function", ["array_sort", "size", "array_max", "array_contains"])
def test_a_set_may_be_in_any_order_below_a_function_that_ignores_it(function: str) -> None:
    call = f"{function}(collect_set(n){', 3' if function == 'array_contains' else ''})"
    assert only(flow(f"select m, {call} as l from ({GROUPS}) group by m"), Recompute)


def test_a_list_in_no_order_is_refused() -> None:
    text = f"SELECT m, LISTAGG(k) AS l FROM ({GROUPS}) GROUP BY m"
    with pytest.raises(QueryError) as raised:
        flow(text)
    assert str(raised.value).endswith(
        ": listagg(…) is not kept as partial aggregates, and its value depends on the order of rows, which may differ each "
        "time; sort it: array_sort(collect_list(…)), or LISTAGG(…) WITHIN GROUP (ORDER BY …)."
    )


@pytest.mark.parametrize(
    "text",
    [
        f"select d.c, sum(b.y) as s from {BEST} as b join dims as d on d.x = b.x group by d.c",
        f"select bucket, sum(y) as s from (select pmod(hash(uuid()), 8) as bucket, y from {BEST}) group by 1",
        f"select s, sum(y) as s2 from (select aes_encrypt(string(x), '0000111122223333') as s, y from {BEST}) group by 1",
        f"select day, sum(y) as s from (select date(current_timestamp()) as day, y from {BEST}) group by 1",
        f"select day, sum(y) as s from (select date'today' as day, y from {BEST}) group by 1",
    ],
)
def test_what_is_taken_away_must_be_what_was_added(text: str) -> None:
    """So what each row gave is kept."""
    assert keeping(auction_flow(text)) == [MaterializedProject, GroupAggregate]


@pytest.mark.parametrize("key", ["pmod(hash(uuid()), 8)", "date(current_timestamp())"])
def test_a_group_key_is_the_same_each_time(key: str) -> None:
    assert keeping(auction_flow(f"select {key} as k, sum(y) as s from {B} group by 1")) == [GroupAggregate]
    with pytest.raises(QueryError) as refusal:
        auction_plan(f"select {key} as k, sum(y) as s from {BEST} group by 1")
    assert "groups and calls a non-deterministic function; compute it in a subquery in FROM" in str(
        refusal.value
    )


def test_a_time_as_a_number_is_the_same_each_time_and_a_clock_is_not() -> None:
    text = f"select unix_timestamp({{}}) as k, sum(y) as s from {BEST} group by 1"
    assert auction_plan(text.format("ts")).dataflow
    for clock in ("", "now()"):
        with pytest.raises(QueryError, match="calls a non-deterministic function"):
            auction_plan(text.format(clock))


def test_a_list_of_values_has_the_same_rows_each_time() -> None:
    text = (
        f"select d.c, sum(b.y) as s from {BEST} as b join values (1, 2) as d(x, c) on d.x = b.x group by d.c"
    )
    assert keeping(auction_flow(text)) == [GroupAggregate]
