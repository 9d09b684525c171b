"""Temporal joins on DuckDB: a row is joined with the version that was valid at its time, as in batch."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.temporal_join import TemporalJoin
from dbt.adapters.spark_streaming.query.program import BATCH_ID, CHANGE_TYPE
from tests.corpus.temporal_joins import ASKS, AT_END, BID, BIDS, KNOWN, MET, OWN, QUERIES, TUMBLED, planned
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.tables import Row
from tests.differential.tree import Column
from tests.differential.two_streams import ASKS as ASKS_COLUMNS
from tests.differential.two_streams import BIDS as BIDS_COLUMNS
from tests.differential.two_streams import put, rows_of
from tests.planned import plan_of, tree_of
from tests.thorough import mostly_thorough

_IN_CI = [
    "a key that may be NULL",
    "a table before",
    "all rows counted",
    "stars in calls",
    "left",
    "other conditions",
    "twice",
    "grouped",
    "of an outer interval join",
]


def _some_without_time(name: str) -> list[Row]:
    return [(None, *row[1:]) if number % 40 == 39 else row for number, row in enumerate(rows_of(name))]


@pytest.fixture(scope="module")
def laboratory() -> duck.Laboratory:
    """Two streams in six pieces, with NULLs, versions of one time, and rows up to 20 minutes ahead of others."""
    made = duck.Laboratory()
    put(made, _some_without_time)
    again = _some_without_time("asks again")
    made.put("asks_again", ASKS_COLUMNS, [again[25 * n : 25 * n + 25] for n in range(6)])
    return made


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
@pytest.mark.parametrize("cuts", mostly_thorough([1, 3, 6], [3]))
def test_a_row_gets_the_version_of_its_time(laboratory: duck.Laboratory, name: str, cuts: int) -> None:
    plan = planned(name)
    assert any(isinstance(each, TemporalJoin) for each in plan.dataflow.operators)
    program = generate.generate_program(plan)
    outcome = laboratory.stream(whole_query.batch_sql(plan), program, cuts, timedelta(minutes=30))
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


def _changes(versions: list[Row]) -> list[Row]:
    """The changelog of a table with the latest of these versions for each item, from which each seventh is deleted."""
    there: dict[object, Row] = {}
    found: list[Row] = []
    for batch, row in enumerate(versions):
        item = row[1]
        if item is None:
            continue
        before = there.pop(item, None)
        if before is not None and batch % 7 == 0:
            found.append((*before, "delete", batch))
            continue
        if before is not None:
            found.append((*before, "update_before", batch))
        found.append((*row, "insert" if before is None else "update_after", batch))
        there[item] = row
    return found


@pytest.mark.parametrize("name", mostly_thorough(["left", "inner", "twice", "grouped"], ["left"]))
@pytest.mark.parametrize("cuts", mostly_thorough([1, 3, 6], [3]))
def test_versions_of_a_table_whose_rows_change(name: str, cuts: int) -> None:
    made = duck.Laboratory()
    rows, changes = rows_of("bids"), _changes(rows_of("asks"))
    columns = (*ASKS_COLUMNS, Column(CHANGE_TYPE, "string"), Column(BATCH_ID, "bigint"))
    for stream, every, of in (("bids", rows, BIDS_COLUMNS), ("asks", changes, columns)):
        size = len(every) // 6 + 1
        made.put(stream, of, [every[size * n : size * n + size] for n in range(6)])
    made.base.execute("create view asks__changes as select * from asks")
    known = {**KNOWN, "asks": RelationInfo("ts", ("item",), changes=True)}
    plan = planned(name, known)
    outcome = made.stream(
        whole_query.batch_sql(plan), generate.generate_program(plan), cuts, timedelta(minutes=30)
    )
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


@pytest.mark.parametrize("fold", [False, True])
def test_a_late_version_of_a_deleted_row_ends_where_the_row_was_deleted(fold: bool) -> None:
    """However long ago that was: compacted state remembers it, as Flink's does."""
    made = duck.Laboratory()
    begin = datetime(2024, 3, 4, 8)
    bids = [(10, "b")], [(70, "b")], [(150, "b")], [(160, "a"), (220, "b")]
    changes: list[list[tuple[int, str, int, str, int]]] = [
        [(0, "a", 1, "insert", 0), (0, "b", 2, "insert", 0)],
        [(0, "a", 1, "delete", 1), (60, "b", 3, "update_after", 1)],
        [(140, "b", 4, "update_after", 2)],
        [(-10, "a", 5, "insert", 3), (210, "b", 6, "update_after", 3)],
    ]
    made.put(
        "bids",
        BIDS_COLUMNS,
        [[(begin + timedelta(minutes=at), 1, of, 1) for at, of in each] for each in bids],
    )
    columns = (*ASKS_COLUMNS, Column(CHANGE_TYPE, "string"), Column(BATCH_ID, "bigint"))
    made.put(
        "asks", columns, [[(begin + timedelta(minutes=at), *rest) for at, *rest in each] for each in changes]
    )
    made.base.execute("create view asks__changes as select * from asks")
    plan = planned("left", {**KNOWN, "asks": RelationInfo("ts", ("item",), changes=True)})
    outcome = made.stream(
        whole_query.batch_sql(plan), generate.generate_program(plan), 4, timedelta(0), fold=fold
    )
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


def test_the_key_of_a_table_whose_rows_change() -> None:
    for key, said in (((), "nothing identifies them"), (("item", "price"), "write key=['item', 'price']")):
        with pytest.raises(QueryError, match=re.escape(said)):
            tree_of(
                QUERIES["left"], {**KNOWN, "asks": RelationInfo("ts", key, changes=True)}, None, ("item",)
            )


def test_a_late_row_of_a_join_finds_no_version() -> None:
    """The versions of its time may be gone from the state."""
    made = duck.Laboratory()
    begin = datetime(2024, 3, 4, 8)
    bids, asks, again = [(10, 40), (61, 19), (90,)], [(0, 25, 41), (62,), (90,)], [(15, 41), (60,), (90,)]
    for name, times in (("bids", bids), ("asks", asks), ("asks_again", again)):
        columns = BIDS_COLUMNS if name == "bids" else ASKS_COLUMNS
        values = (1, "a") if name == "bids" else ("a",)
        rows = [[(begin + timedelta(minutes=at), *values, at) for at in piece] for piece in times]
        made.put(name, columns, rows)
    met = MET.format(BID, "").replace("2 minutes", "1 hour")
    plan = tree_of(
        f"select b.ts, a.price as q from {met} as b left join {ASKS} as a on a.item = b.item",
        KNOWN,
        None,
        ("item",),
    )
    batch = f"select * from ({whole_query.batch_sql(plan)}) where ts <> timestamp'2024-03-04 08:19:00'"
    outcome = made.stream(batch, generate.generate_program(plan), 6, timedelta(0))
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


AGAIN = "(select /*+ STREAM */ * from asks_again) as c"
JOINED = f"select {{}} from {BIDS} left join {ASKS} as a on a.item = b.item"
IN_EXPRESSIONS = {
    "exists": f"""select c.ts, c.item from {AGAIN} where exists (
        {JOINED.format("1")} where b.item = c.item and a.price = c.price and b.bidder > 1)""",
    "in": f"select c.ts, c.item from {AGAIN} where c.price in ({JOINED.format('a.price')})",
    "a value": f"""select c.item, c.price, ({JOINED.format("max(a.price)")} where b.item = c.item) as m
        from {AGAIN}""",
    "two of them": f"""select c.ts, c.item from {AGAIN} where exists ({JOINED.format("1")}
        left join {OWN} as o on o.item = a.item and o.bidder = b.bidder where b.item = c.item and o.price = c.price)""",
}


@pytest.mark.parametrize("name", mostly_thorough(IN_EXPRESSIONS, ["exists", "a value"]))
def test_subqueries_in_expressions(laboratory: duck.Laboratory, name: str) -> None:
    """All versions count, though only the last row of each key is read where the stream itself is."""
    plan = plan_of(IN_EXPRESSIONS[name], KNOWN)
    program = generate.generate_program(plan)
    outcome = laboratory.stream(whole_query.batch_sql(plan), program, 3, timedelta(minutes=30))
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


def test_a_watermark_that_is_the_end_of_windows() -> None:
    made = duck.Laboratory()
    begin = datetime(2024, 3, 4, 8)
    minutes = [(5, 15, 19, 20, 30), (45,), (55,), (), (), (115,)]
    times = [[begin + timedelta(minutes=each) for each in piece] for piece in minutes]
    made.put("bids", BIDS_COLUMNS, [[(at, 1, "a", 1) for at in piece] for piece in times])
    made.put("asks", ASKS_COLUMNS, [[(at, "a", at.minute) for at in piece] for piece in times])
    windows = f"""select window_start, window_end, window_time, item, count(*) as n
        from {TUMBLED} group by window_start, window_end, window_time, item"""
    at_end = AT_END.replace("window_time", "window_end")
    for column in ("window_time", "window_end"):
        query = f"""select x.item, x.n, y.price from ({windows}) as x left join (select b.window_end, b.window_time,
            b.item, a.price from ({windows}) as b left join {at_end} as a on a.item = b.item) as y
            on x.{column} = y.{column} and x.item = y.item"""
        plan = tree_of(query, KNOWN, None, ("item",))
        # The watermark of the first piece is 08:20.
        outcome = made.stream(
            whole_query.batch_sql(plan), generate.generate_program(plan), 6, timedelta(minutes=10)
        )
        assert outcome.kind == EQUAL, f"{column}: {outcome.kind}: {outcome.detail}"
