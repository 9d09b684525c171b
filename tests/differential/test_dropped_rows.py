"""A row that is dropped for its time (NULL, before the year 1, after 9999) changes nothing of what others come to, in a
stream and in batch, on DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from dbt.adapters.spark_streaming.query import expansion, generate
from dbt.adapters.spark_streaming.query.windowing import window_arguments
from tests.differential import duck
from tests.differential.outcome import compare
from tests.differential.tables import Row
from tests.differential.two_streams import ASKS, BIDS
from tests.functional.query.test_operators import window
from tests.functional.query.test_unwindowed import KNOWN, A, B
from tests.planned import plan_of

SESSIONS = expansion.expand(
    "bids", window_arguments.make("session", "ts", "10 minutes", partition_by=["item"])
)
BY_WINDOW = "group by window_start, window_end"
QUERIES = {
    **{
        name: f"select window_start, window_end, count(*) as n, sum(price) as s from {over} {BY_WINDOW}"
        for name, over in {
            "tumble": window("tumble", "5 minutes"),
            "hop": window("hop", "5 minutes", "15 minutes"),
            "cumulate": window("cumulate", "5 minutes", "30 minutes"),
            "session": window("session", "10 minutes"),
            "dynamic cumulate": window("dynamic_cumulate", "5 minutes", "10 minutes"),
        }.items()
    },
    "a session of a key": f"""select window_start, window_end, item, count(*) as n, count(distinct price) as d
        from {SESSIONS} {BY_WINDOW}, item""",
    "a session of kept rows": f"""select window_start, window_end, percentile(price, 0.5) as p
        from {window("session", "10 minutes")} {BY_WINDOW}""",
    "rows of a session": f"select window_start, window_end, item, price from {window('session', '10 minutes')}",
    "first of a session": f"""select window_start, window_end, item, price from (select *, row_number() over (
        partition by window_start, window_end order by price, item) as rn from {window("session", "10 minutes")})
        where rn = 1""",
    "over": f"select ts, item, price, lag(price) over (partition by item order by ts) as before from {B}",
    "running": f"""select ts, item, sum(price) over (partition by item order by ts rows between 1 preceding and current row)
        as s from {B}""",
    "over a range": f"""select ts, item, count(*) over (partition by item order by ts
        range between interval '10' minute preceding and current row) as n from {B}""",
    "near": f"""select b.ts, b.item, b.price, a.price as ask from {B} as b join {A} as a
        on a.item = b.item and a.ts between b.ts - interval '5' minute and b.ts""",
    "near or alone": f"""select b.ts, b.item, b.price, a.price as ask from {B} as b left join {A} as a
        on a.item = b.item and a.ts between b.ts - interval '5' minute and b.ts""",
    "first": f"select * from (select *, row_number() over (partition by item order by ts) as rn from {B}) where rn = 1",
}
AT = datetime(2024, 3, 4, 8)
EARLY = datetime(1, 1, 1, 0, 0, 30)
LATE = datetime(9999, 12, 31, 23, 58)


def pieces_of(columns: int) -> list[list[Row]]:
    def row(ts: datetime, item: str, price: int) -> Row:
        return (ts, 1, item, price) if columns == 4 else (ts, item, price)

    return [
        [row(EARLY, "a", 1), row(AT, "a", 5), row(AT + timedelta(minutes=4), "b", 6)],
        [row(AT + timedelta(minutes=8), "a", 7), row(AT + timedelta(minutes=20), "a", 3)],
        [row(AT + timedelta(minutes=50), "a", 2), row(LATE, "a", 4)],
    ]


TIMES = (
    "null",
    "make_timestamp(-62135596800000001)",
    "make_timestamp(-62135596830000000)",
    "make_timestamp(253402300800000000)",
    "make_timestamp(253402300830000000)",
)


@pytest.fixture(scope="module")
def laboratory() -> Iterator[duck.Laboratory]:
    made = duck.Laboratory()
    yield made
    made.base.close()


def put(laboratory: duck.Laboratory, dropped: bool) -> None:
    laboratory.put("bids", BIDS, pieces_of(4))
    laboratory.put("asks", ASKS, pieces_of(3))
    for piece in range(3) if dropped else ():
        for time in TIMES:
            laboratory.base.execute(f"insert into bids__pieces values ({time}, 1, 'a', 99, {piece})")
            laboratory.base.execute(f"insert into asks__pieces values ({time}, 'a', 99, {piece})")


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_dropped_changes_nothing(laboratory: duck.Laboratory, name: str) -> None:
    plan = plan_of(QUERIES[name], KNOWN)
    batch, program = generate.batch(plan), generate.program(plan)
    found, tables = {}, {}
    for dropped in (False, True):
        put(laboratory, dropped)
        found[dropped] = laboratory.steps(batch, program, 3, timedelta(hours=1))[-1]
        rows = laboratory.base.execute(duck.translated(batch)).fetchall()
        tables[dropped] = duck.rows_of([row for row in rows if 99 not in row])
    assert found[False].total()
    assert not compare(found[False], found[True])
    if "window_start" in QUERIES[name]:  # else batch asks no row for its time
        assert not compare(tables[False], tables[True])
