"""Windows by a time that is a field of a struct: streams have batch's rows, on DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.util.quoting import time_name
from tests.differential import duck
from tests.differential.outcome import compare
from tests.planned import plan_of
from tests.thorough import mostly_thorough

BY_WINDOW = "group by window_start, window_end"


def over(kind: str, *lengths: str, time: str = "meta.at", of: str = "events", **named: list[str]) -> str:
    return expansion.expand_window(of, window_arguments.make_window(kind, time, *lengths, **named))


QUERIES = {
    "tumble": f"select window_start, window_end, count(*) as n, sum(v) as s from {over('tumble', '5 minutes')} {BY_WINDOW}",
    "hop": f"""select window_start, window_end, k, count(distinct v) as n from {over("hop", "5 minutes", "15 minutes")}
        {BY_WINDOW}, k""",
    "cumulate": f"""select window_start, window_end, max(meta.at) as n from {over("cumulate", "5 minutes", "15 minutes")}
        {BY_WINDOW}""",
    "session": f"""select window_start, window_end, k, count(*) as n
        from {over("session", "10 minutes", partition_by=["k"])} {BY_WINDOW}, k""",
    "dynamic cumulate": f"""select window_start, window_end, count(*) as n
        from {over("dynamic_cumulate", "5 minutes", "10 minutes")} {BY_WINDOW}""",
    "all columns": f"select * from {over('tumble', '5 minutes')}",
    "all columns of sessions": f"select * from {over('session', '10 minutes')}",
    "odd names": f"""select window_start, window_end, count(*) as n
        from {over("tumble", "5 minutes", time="meta.`at - utc`")} {BY_WINDOW}""",
    "of a query": f"""with x as (select k, meta as m from events where v > 1) select window_start, window_end, count(*) as n
        from {over("tumble", "5 minutes", time="m.at", of="x")} {BY_WINDOW}""",
    "the first": f"""select * from (select *, row_number() over (partition by window_start, window_end order by v, k) as rn
        from {over("tumble", "5 minutes")}) where rn = 1""",
    "joined with a table": f"""select window_start, window_end, d.factor, count(*) as n
        from {over("tumble", "5 minutes")} as e join dims as d on d.k = e.k {BY_WINDOW}, d.factor""",
    "two windows": f"""select a.window_end, a.n, b.m from (
        select window_start, window_end, count(*) as n from {over("tumble", "5 minutes")} {BY_WINDOW}) as a left join (
        select window_start, window_end, max(v) as m from {over("tumble", "5 minutes")} {BY_WINDOW}) as b
        on a.window_start = b.window_start and a.window_end = b.window_end""",
    "percentiles": f"""select window_start, window_end, percentile(v, 0.5) as p from {over("tumble", "5 minutes")}
        {BY_WINDOW}""",
    "a group of rows in windows": f"select k, count(*) as n from {over('tumble', '5 minutes')} group by k",
    "no windows": "select k, count(*) as n from (select /*+ STREAM */ * from events) group by k",
}
KNOWN = {"events": RelationInfo(time_name("meta.at"))}


@pytest.fixture(scope="module")
def laboratory() -> Iterator[duck.Laboratory]:
    made = duck.Laboratory()
    made.base.execute("""create table events__pieces as select {'at': t, 'at - utc': t + interval 1 minute} as meta, k, v,
        p as piece__ from (values (timestamp '2024-03-04 08:00:00', 'a', 1, 0), ('2024-03-04 08:04:00', 'b', 2, 0),
        (null, 'a', 9, 0), ('2024-03-04 08:08:00', 'a', 3, 1), ('2024-03-04 08:03:00', 'a', 4, 1),
        ('2024-03-04 08:40:00', 'b', 5, 2),
        ('2024-03-04 09:10:00', 'b', 6, 2)) as t(t, k, v, p)""")
    made.base.execute("insert into events__pieces values (null, 'b', 7, 1)")
    made.base.execute("create view events as select * exclude (piece__) from events__pieces")
    yield made
    made.base.close()


_IN_CI = ["tumble", "session", "two windows", "no windows", "odd names", "the first"]


@pytest.mark.parametrize(
    "known",
    [KNOWN, pytest.param({}, marks=pytest.mark.thorough)],
    ids=["a source's event_time", "no event_time"],
)
@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
def test_a_stream_has_the_rows_of_batch(
    laboratory: duck.Laboratory, name: str, known: dict[str, RelationInfo]
) -> None:
    plan = plan_of(QUERIES[name], known)
    found = laboratory.steps(
        whole_query.batch_sql(plan), generate.generate_program(plan), 3, timedelta(hours=1)
    )[-1]
    for text in (
        whole_query.batch_sql(plan),
        whole_query.text_in_batch(QUERIES[name], known=known),
        QUERIES[name],
    ):
        rows = duck.rows_of(laboratory.base.execute(duck.translated(text)).fetchall())
        assert rows.total()
        assert not compare(rows, found)
