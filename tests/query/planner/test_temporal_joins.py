"""Event-time temporal joins: which rows are versions, and what is refused."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.operators.changelog_normalize import ChangelogNormalize
from dbt.adapters.spark_streaming.query.plan.operators.source import Source
from dbt.adapters.spark_streaming.query.plan.operators.temporal_join import TemporalJoin
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import window_arguments
from dbt.adapters.spark_streaming.query.windows.expansion import expand_as_of, expand_window

KNOWN = {
    "orders": RelationInfo("at"),
    "rates": RelationInfo("since", ("currency",)),
    "changing": RelationInfo("at", ("id",), changes=True),
}
ORDERS = "(select /*+ STREAM */ * from orders) as o"


def rates(time: str = "`o`.`at`") -> str:
    return expand_as_of("rates", time, "since", ("currency",))


def query(
    on: str = "r.currency = o.currency", join: str = "join", of: str = ORDERS, time: str = "`o`.`at`"
) -> str:
    return f"select o.id, r.rate from {of} {join} {rates(time)} as r on {on}"


def joins(text: str) -> list[TemporalJoin]:
    found = plan_query.plan(text, KNOWN, None, ("currency", "id"))
    return [each for each in found.dataflow.operators if isinstance(each, TemporalJoin)]


def test_the_versions_are_all_rows_of_a_source_whose_rows_replace_each_other() -> None:
    last = "(select /*+ STREAM */ * from rates) as l"
    found = plan_query.plan(
        f"{query()} union all select l.currency, l.rate from {last}", KNOWN, None, ("currency",)
    )
    (join,) = (each for each in found.dataflow.operators if isinstance(each, TemporalJoin))
    assert isinstance(join.inputs[1], Source) and join.inputs[1].relation.event_time == "since"
    (latest,) = (each for each in found.dataflow.operators if isinstance(each, ChangelogNormalize))
    assert latest.inputs[0].name != join.inputs[1].name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (query(time="`r`.`since`"), "at `r`.`since`, their own time"),
        (query(time="`x`.`at`"), "`x`.`at`, which isn't the event time of the rows; write as_of(…, 'o.at')"),
        (
            query(
                of=f"{expand_window('orders', window_arguments.make_window('tumble', 'at', '1 hour'))} as o"
            ),
            "join the versions to the stream itself",
        ),
        (query().replace("as r on", "on"), "has no name"),
        (query().replace("as r on", "as r(a, b, c) on"), "renames the columns"),
        (f"select r.rate from {rates()} as r", "isn't joined to a stream"),
        (
            f"select r.rate from {rates()} as r join {ORDERS} on r.currency = o.currency",
            "isn't joined to a stream",
        ),
        (
            f"select o.id from {ORDERS} where exists (select 1 from {rates()} as r where r.currency = o.currency)",
            "isn't joined to a stream",
        ),
        (query("r.rate > 1"), "ON doesn't say which: add r.currency = …"),
        (query("r.currency = upper(r.currency)"), "ON doesn't say which"),
        (query("r.currency < o.currency"), "ON doesn't say which"),
        (query("currency = o.currency"), "ON doesn't say whose column currency is"),
        (query("r.currency = code"), "ON doesn't say whose column code is"),
        (query(join="full join"), "JOIN … ON or LEFT JOIN … ON"),
        (query(join="right join"), "JOIN … ON or LEFT JOIN … ON"),
        (query(time="`o`.`paid_at`"), "which isn't the event time of the rows; write as_of(…, 'o.at')"),
        (query(of="orders as o"), "a table that is no stream"),
        (query(of="(select /*+ STREAM */ * from changing) as o"), "joined to an updating input"),
        (
            f"""select o.id, rate from {ORDERS} join {rates()} as r on r.currency = currency
            join {rates()} as s on s.rate = r.rate""",
            "write the relation's name before each",
        ),
        (
            f"""select id from {ORDERS} where id in (select max(p.id) from {ORDERS.replace("as o", "as p")}
            join {rates("`p`.`at`")} as r on r.currency = p.currency group by p.currency)""",
            "put the join into a CTE",
        ),
    ],
)
def test_what_is_refused_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(QueryError) as refused:
        joins(text)
    assert message in str(refused.value)


def test_versions_come_when_the_watermark_says_so() -> None:
    other = window_arguments.make_window("tumble", "later", "1 hour")
    windows = f"select id, count(*) from {expand_window('fees', other)} group by window_start, window_end, id"
    fees = expand_as_of("fees", "`o`.`at`", "since", ("id",))
    text = f"select o.id, f.fee from {ORDERS} join {fees} as f on f.id = o.id union all {windows}"
    with pytest.raises(QueryError) as refused:
        plan_query.plan(text, {**KNOWN, "fees": RelationInfo("since")}, None, ("id",))
    assert "needs the watermark of since" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (query(time="`r`.`since`"), "their own time"),
        (query(join="right join"), "JOIN … ON or LEFT JOIN … ON"),
        (query(join="left semi join"), "JOIN … ON or LEFT JOIN … ON"),
        (query(join="left anti join"), "JOIN … ON or LEFT JOIN … ON"),
        (query(join="natural join").partition(" on ")[0], "JOIN … ON or LEFT JOIN … ON"),
        (query(join="cross join").partition(" on ")[0], "JOIN … ON or LEFT JOIN … ON"),
        (query().partition(" on ")[0], "JOIN … ON or LEFT JOIN … ON"),
        (
            f"select r.rate from {ORDERS}, {rates()} as r where r.currency = o.currency",
            "JOIN … ON or LEFT JOIN … ON",
        ),
        (query().replace("on r.currency = o.currency", "using (currency)"), "JOIN … ON or LEFT JOIN … ON"),
        (query().replace("as r on", "on"), "has no name"),
        (f"select r.rate from {rates()} as r", "isn't joined to a stream"),
        (
            f"select o.id from {ORDERS} where exists (select 1 from {rates()} as r where r.currency = o.currency)",
            "isn't joined to a stream",
        ),
    ],
)
def test_what_batch_would_answer_otherwise_is_refused_there_too(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        whole_query.text_in_batch(text, None, KNOWN)


def test_versions_with_a_map_are_ordered_by_its_entries() -> None:
    """Spark doesn't order MAPs; which of two versions of one time counts has to be the same in stream and batch."""

    def ask(_: str) -> tuple[str]:
        return ("struct<since:timestamp,currency:string,`a b`:map<string,int>>",)

    entries = "array_sort(map_entries({}.`a b`))"
    assert entries.format("`rows`") in whole_query.text_in_batch(query(), ask, KNOWN).lower()
    flow = plan_query.plan(query(), KNOWN, None, ("currency", "id"), ask=ask).dataflow
    (join,) = (each for each in flow.operators if isinstance(each, TemporalJoin))
    assert entries.format("__row") in join.ordered
