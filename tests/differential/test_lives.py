"""Rankings of groups that are forgotten: a member is one for as long as its group is there."""

from __future__ import annotations

from datetime import datetime

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import EXPIRES_AT
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.corpus.regressions import IN_TIME
from tests.differential import planning, tables
from tests.differential.duck import Laboratory, Streamed
from tests.differential.tables import cuts
from tests.differential.tree import TIME, Column, Model, Written
from tests.thorough import mostly_thorough

COLUMNS = (Column("ts", TIME), Column("item", "varchar"), Column("bidder", "varchar"))
LEADERS = """select * from (
    select *, row_number() over (partition by item order by n desc) as place from (
        select item, bidder, count(*) as n from (select /*+ STREAM */ * from bid) group by item, bidder
    )
) where place <= 1"""


@pytest.mark.parametrize(
    ("delay", "cuts", "leaders"),
    [
        # Rows ahead of the watermark: the watermark is half a day short of where G is forgotten.
        (
            DAY,
            [["10 00 x G", "10 00 x G"], ["12 12 y Z"], ["12 12 x H"], ["12 12 x G"]],
            [("G", 2), ("G", 2), ("G", 2), ("G", 3)],
        ),
        # Rows behind it: that of G is gone at noon of the 12th.
        (
            0,
            [["12 00 y Z"], ["10 12 x G"] * 3, ["13 00 y Z"], ["13 01 x H"], ["13 02 x H"]],
            [None, ("G", 3), ("G", 3), ("H", 1), ("H", 2)],
        ),
    ],
    ids=["ahead", "behind"],
)
@pytest.mark.parametrize("folds", mostly_thorough([False, True], [True]))
def test_a_ranking_of_groups_forgets_with_them(
    delay: int, cuts: list[list[str]], leaders: list[tuple[str, int] | None], folds: bool
) -> None:
    rows = [
        [
            (datetime(2024, 1, int(day), int(hour)), item, bidder)
            for day, hour, item, bidder in map(str.split, cut)
        ]
        for cut in cuts
    ]
    laboratory = Laboratory()
    laboratory.put("bid", COLUMNS, rows)
    program = generate.generate_program(
        plan_query.plan(LEADERS, {"bid": RelationInfo("ts")}, 2 * DAY), ttl=2 * DAY
    )
    model = Model(
        Written(LEADERS, tuple(Column(name, "bigint") for name in ("item", "bidder", "n", "place")))
    )
    stream = Streamed(model, program, laboratory.base.cursor(), folds, delay=delay)
    for number, leader in enumerate(leaders):
        stream.take((number, number + 1))
        of_x = [(row[1], row[2]) for row in stream.rows() if row[0] == "x"]
        assert of_x == ([] if leader is None else [leader]), number


BEHIND = """select * from (
    select *, row_number() over (partition by item order by n desc, bidder) as place from (
        select item, bidder, count(*) as n, max(ts) as last from (select /*+ STREAM */ * from bid) group by item, bidder
    ) where n % 2 = 0
) where place <= 1"""


@pytest.mark.parametrize("folds", mostly_thorough([False, True], [True]))
def test_a_group_that_begins_anew_where_the_ranking_does_not_see_it(folds: bool) -> None:
    """Its first row is behind the condition; the member that it was is of its life before."""
    times = [(10, 0, "x"), (10, 6, "x"), (13, 0, "y"), (13, 2, "x"), (13, 5, "x")]
    cuts = [[(datetime(2024, 1, day, hour), item, "A")] for day, hour, item in times]
    laboratory = Laboratory()
    laboratory.put("bid", COLUMNS, cuts)
    program = generate.generate_program(
        plan_query.plan(BEHIND, {"bid": RelationInfo("ts")}, 2 * DAY), ttl=2 * DAY
    )
    names = ("item", "bidder", "n", "last", "place")
    model = Model(Written(BEHIND, tuple(Column(name, "bigint") for name in names)))
    stream = Streamed(model, program, laboratory.base.cursor(), folds, delay=0)
    found = []
    for number in range(len(cuts)):
        stream.take((number, number + 1))
        found.append([(row[2], str(row[3])[8:13]) for row in stream.rows()])
    assert [each for (each,) in found[1:]] == [(2, "10T06"), (2, "10T06"), (2, "10T06"), (2, "13T05")]


LAGS = """select ts, item, bidder, lag(bidder) over (partition by item order by ts) as before,
    count(*) over (partition by item order by ts) as n from (select /*+ STREAM */ * from bid)"""


@pytest.mark.parametrize("delay", mostly_thorough([0, DAY // 2], [DAY // 2]))
@pytest.mark.parametrize("together", mostly_thorough([1, 2, 9], [2]))
@pytest.mark.parametrize("folds", [False, True])
def test_a_partition_begins_anew_after_a_gap_however_rows_come(
    delay: int, together: int, folds: bool
) -> None:
    # Days between rows of one item: 2 are a gap.
    rows = [
        (datetime(2024, 1, day, hour), item, bidder)
        for day, hour, item, bidder in (
            (10, 0, "x", "A"), (10, 5, "y", "B"), (11, 0, "x", "C"), (12, 23, "x", "D"), (13, 0, "y", "E"),
            (14, 23, "x", "F"), (15, 1, "x", "G"), (19, 0, "y", "H"),
        )
    ]  # fmt: skip
    before = {"A": None, "B": None, "C": "A", "D": "C", "E": None, "F": None, "G": "F", "H": None}
    counts = {"A": 1, "B": 1, "C": 2, "D": 3, "E": 1, "F": 1, "G": 2, "H": 1}
    cuts = [rows[n : n + together] for n in range(0, len(rows), together)]
    laboratory = Laboratory()
    laboratory.put("bid", COLUMNS, cuts)
    program = generate.generate_program(
        plan_query.plan(LAGS, {"bid": RelationInfo("ts")}, 2 * DAY), ttl=2 * DAY
    )
    names = ("ts", "item", "bidder", "before", "n")
    model = Model(Written(LAGS, tuple(Column(name, "bigint") for name in names)))
    stream = Streamed(model, program, laboratory.base.cursor(), folds, delay=delay)
    for number in range(len(cuts)):
        stream.take((number, number + 1))
    assert len(stream.rows()) < len(rows)  # the last one waits
    stream.flush()
    found = {row[2]: (row[3], row[4]) for row in stream.rows()}
    assert found == {name: (before[name], counts[name]) for name in before}


@pytest.mark.parametrize(
    "name",
    mostly_thorough(IN_TIME, ["rows of two streams"]),
)
def test_rows_that_can_find_no_others_are_let_go(name: str) -> None:
    case, laboratory = IN_TIME[name], Laboratory()
    laboratory.show(tables.make(1))
    program = planning.planned(case.model)
    stream = Streamed(case.model, program, laboratory.base.cursor(), fold=True)

    parts = [table for part, table in stream.parts.items() if part.startswith("rows_")]
    assert len(parts) > 1

    def asked(text: str) -> int:
        ((found,),) = stream.database.execute(text).fetchall()
        return int(found)

    everything = asked("select (select count(*) from clicks) + (select count(*) from orders)")
    kept = []
    for cut in cuts(6):
        stream.take(cut)
        kept.append(sum(asked(f"select count(*) from {each}") for each in parts))
        for each in parts:
            late = f"{EXPIRES_AT} <= make_timestamp({stream.clock.after}::bigint)"
            assert asked(f"select count(*) from {each} where {late}") == 0
    # Minutes of three hours, in two or three parts.
    assert 0 < max(kept) < everything / 3
