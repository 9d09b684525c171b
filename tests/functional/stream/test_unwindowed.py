"""State of queries without windows: what is kept, forgotten, and put out once."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.progress.report import read_progress
from dbt.adapters.spark_streaming.stream.sink import upsert as upsert_module
from dbt.adapters.spark_streaming.stream.sink.changelog import Changes
from dbt.adapters.spark_streaming.stream.sink.upsert import UpsertSink
from dbt.adapters.spark_streaming.stream.state import table as state_module
from dbt.adapters.spark_streaming.stream.state.table import StateTable
from tests.functional.stream.harness import Stream, sorted_rows, written
from tests.planned import plan_of
from tests.thorough import mostly_thorough

E = "(select /*+ STREAM */ * from events)"
SECOND = 1_000_000
GROUPS = f"select k, count(*) as n, count(distinct x) as d from {E} group by k"
OF_GROUPS = "k string, n bigint, d bigint"


def stream(spark: Any, root: Path, text: str, columns: str, ttl: int | None = None, **options: Any) -> Stream:
    plan = plan_of(text, {"events": RelationInfo("ts")}, ttl)
    return Stream(spark, root, generate.generate_program(plan, ttl=ttl), columns, **options)


def state(s: Stream, part: str) -> list[tuple[Any, ...]]:
    return sorted_rows(s.spark.table(s.model.state).where(f"part = '{part}'").drop("part").collect())


@pytest.mark.parametrize("way", mostly_thorough(["by place", "merge", "anew", "at once"], ["by place"]))
def test_only_rows_that_changed_are_written(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    spark.catalog.clearCache()  # of what others left in this session: at the end it is asked what this one leaves
    written(way, monkeypatch.setattr)
    s = stream(spark, storage_root, GROUPS, OF_GROUPS)
    s.add((0, "a", 1), (1, "b", 1), (2, "c", 1))
    assert s.run().rows_out == 3
    s.add((3, "b", 1))
    assert s.run().rows_out == 1
    assert s.rows() == [("a", 1, 1), ("b", 2, 1), ("c", 1, 1)]
    s.add((4, None, 1))
    assert s.run().rows_out == 1
    # Rows that a merge writes again as they are don't count, after a restart neither.
    progress = read_progress(s.model)
    assert progress is not None and progress["total"]["rows_out"] == 5
    # What Spark computes anew after a commit it also keeps, whoever gives it back.
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


@pytest.mark.parametrize("tiny", mostly_thorough([0, 20_000], [0]), ids=["compared first", "at once"])
def test_a_table_that_stays_as_it_is_gets_no_commit(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, tiny: int
) -> None:
    """And what was written to see that is gone again."""
    monkeypatch.setattr(upsert_module, "_TINY", tiny)
    top = "select k, x from (select *, row_number() over (partition by k order by x desc) as n from {}) where n = 1"
    s = stream(spark, storage_root, top.format(E), "k string, x bigint")
    s.add((0, "a", 5), (1, "b", 7), (2, None, 1))
    s.run()

    def there() -> tuple[int, set[str]]:
        (folder,) = (
            path for path in storage_root.rglob("data") if s.model.target.split(".")[-1] == path.parent.name
        )
        files = {str(file) for file in folder.rglob("*.parquet")}
        return spark.sql(f"select * from {s.model.target}.snapshots").count(), files

    before = there()
    s.add((3, "a", 4), (4, "b", 7))
    assert s.run().rows_out == 0
    assert there() == before
    # One goes to another key, one comes, and rows that stay aren't counted.
    s.add((5, "a", 9), (6, "c", 1))
    assert s.run().rows_out == 2
    assert s.rows() == sorted_rows([("a", 9), ("b", 7), ("c", 1), (None, 1)])


@pytest.mark.thorough
def test_an_idle_key_is_forgotten_and_begins_anew(spark: Any, storage_root: Path) -> None:
    s = stream(spark, storage_root, GROUPS, OF_GROUPS, ttl=10 * SECOND)
    s.add((0, "a", 1), (1_000, "b", 1))
    s.run()
    s.add((9_000, "b", 2))
    s.run()
    # a is idle since 0 and the watermark at 12: its next row is its first.
    s.add((12_000, "c", 1))
    s.run()
    groups = spark.table(s.model.state).where(f"part = '{s.part('groups')}'")
    assert {row["k"] for row in groups.collect()} == {"b", "c"}
    s.add((12_500, "a", 1), (12_600, "b", 1))
    s.run()
    assert s.rows() == [("a", 1, 1), ("b", 3, 2), ("c", 1, 1)]


@pytest.mark.thorough
def test_a_total_is_never_idle(spark: Any, storage_root: Path) -> None:
    text = f"select k, x from {E} where x > (select avg(x) from {E} where k = 'a')"
    s = stream(spark, storage_root, text, "k string, x bigint", ttl=10 * SECOND)
    s.add((0, "a", 2), (1_000, "b", 3))
    s.run()
    for second in (15, 25, 60):
        s.add((second * 1_000, "b", second))
        s.run()
    s.add((61_000, "a", 28))
    s.run()
    # The average is of both rows of 'a': 15.
    assert s.rows() == [("a", 28), ("b", 25), ("b", 60)]


OF_A = f"(select max(x) as m from {E} where k = 'a')"
OTHERS = f"(select * from {E} where k <> 'a')"
MET = {
    "outer join": (
        f"select t.m, e.k from {OF_A} as t left join {OTHERS} as e on e.x > t.m",
        "m bigint, k string",
    ),
    "exists": (
        f"select t.m from {OF_A} as t where exists (select 1 from {OTHERS} as e where e.x > t.m)",
        "m bigint",
    ),
    "intersect": (f"select m from {OF_A} intersect select x + 0L as m from {OTHERS}", "m bigint"),
}


@pytest.mark.parametrize("name", mostly_thorough(MET, []))
def test_what_a_total_has_met_is_kept(spark: Any, storage_root: Path, name: str) -> None:
    text, columns = MET[name]
    s = stream(spark, storage_root, text, columns, ttl=10 * SECOND)
    s.add((0, "a", 9), (1_000, "b", 9), (2_000, "c", 12))
    s.run()
    for second in (15, 40, 90):
        s.add((second * 1_000, "d", 1))
        s.run()
    before, after = {
        "outer join": ([(9, "c")], [(12, None)]),
        "exists": ([(9,)], []),
        "intersect": ([(9,)], []),
    }[name]
    assert s.rows() == before
    s.add((91_000, "a", 12))
    s.run()
    assert s.rows() == after


@pytest.mark.thorough
def test_forgotten_without_folding(spark: Any, storage_root: Path) -> None:
    """The state may still have the rows of a forgotten key: they count no more."""
    s = stream(spark, storage_root, GROUPS, OF_GROUPS, ttl=10 * SECOND)
    s.add((0, "a", 1), (9_000, "b", 1))
    s.run()
    s.add((11_000, "b", 1))
    s.run()  # forgets a; the watermark hasn't come far enough for the state to be folded
    assert len(state(s, s.part("groups"))) == 5
    s.add((11_500, "a", 1))
    s.run()
    assert s.rows() == [("a", 1, 1), ("b", 2, 1)]


@pytest.mark.thorough
def test_the_first_row_of_a_key_comes_out_once_none_can_be_before_it(spark: Any, storage_root: Path) -> None:
    text = f"select k, v from (select *, row_number() over (partition by k order by ts) as rn from {E}) where rn = 1"
    s = stream(spark, storage_root, text, "k string, v bigint", delay=5 * SECOND)
    assert s.program.upsert is None
    s.add((10_000, "a", 1), (11_000, "b", 2))
    s.run()
    assert s.rows() == []
    s.add((8_000, "a", 3), (20_000, "c", 4))
    s.run()
    assert s.rows() == [("a", 3), ("b", 2)]
    s.add((7_000, "a", 5), (12_000, "a", 6))  # too late, and not the first
    s.run()
    assert s.rows() == [("a", 3), ("b", 2)]
    s.flush()
    assert s.rows() == [("a", 3), ("b", 2), ("c", 4)]


def test_a_ranking_of_rows_keeps_its_members_alone(spark: Any, storage_root: Path) -> None:
    text = f"select * from (select k, v, row_number() over (partition by k order by v desc) as rn from {E}) where rn <= 2"
    s = stream(spark, storage_root, text, "k string, v bigint, rn int")
    s.add(*((n, "a", n) for n in range(100)))
    s.run()
    assert len(state(s, s.part("members"))) == 2
    s.add(*((n, "a", n % 50) for n in range(100)))
    result = s.run()
    assert (result.rows_out, len(state(s, s.part("members")))) == (0, 2)
    assert s.rows() == [("a", 98, 2), ("a", 99, 1)]


@pytest.mark.thorough
def test_a_member_that_falls_makes_way_for_one_that_was_none(spark: Any, storage_root: Path) -> None:
    text = f"""select k, s, rn from (select *, row_number() over (order by s desc) as rn from (
        select k, sum(v) as s from {E} group by k)) where rn <= 2"""
    s = stream(spark, storage_root, text, "k string, s bigint, rn int")
    s.add((0, "a", 10), (0, "b", 9), (0, "c", 8), (0, "d", 7))
    s.run()
    assert s.rows() == [("a", 10, 1), ("b", 9, 2)]
    s.add((1, "a", -5))
    s.run()
    assert s.rows() == [("b", 9, 1), ("c", 8, 2)]
    s.add((2, "d", 1), (2, "c", -9))
    s.run()
    assert s.rows() == [("b", 9, 1), ("d", 8, 2)]


@pytest.mark.thorough
def test_members_are_forgotten_with_their_groups(spark: Any, storage_root: Path) -> None:
    """A ranking of each day, say, is kept no longer than its groups."""
    text = f"""select x, k, s, rn from (select *, row_number() over (partition by x order by s desc) as rn from (
        select x, k, sum(v) as s from {E} group by x, k)) where rn <= 2"""
    s = stream(spark, storage_root, text, "x bigint, k string, s bigint, rn int", ttl=10 * SECOND)
    s.add((0, "a", 5, 1), (0, "b", 6, 1), (0, "c", 7, 1))
    s.run()
    s.add((30_000, "a", 1, 2))
    s.run()
    s.add((31_000, "a", 1, 2))
    s.run()
    part = s.part("members")
    members = spark.table(s.model.state).where(f"part = '{part}'").collect()
    assert {row[f"{part}_row"]["x"] for row in members} == {2}
    # What was put out stays, until something new comes to its ranking.
    assert s.rows() == [(1, "b", 6, 2), (1, "c", 7, 1), (2, "a", 2, 1)]
    s.add((31_000, "d", 1, 1))
    s.run()
    assert s.rows() == [(1, "d", 1, 1), (2, "a", 2, 1)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "small",
    [
        pytest.param({"_TINY": 0}, id="compared first"),
        pytest.param({}, id="at once", marks=pytest.mark.thorough),
    ],
)
def test_a_wide_table_is_planned_at_once(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, small: dict[str, int]
) -> None:
    """Spark's optimizer mustn't look at each choice of its columns."""
    for name, rows in small.items():
        monkeypatch.setattr(upsert_module, name, rows)
    sums = [f"sum(v + {n}) as s{n}" for n in range(40)]
    text = f"select k, {', '.join(sums)} from {E} group by k"
    s = stream(spark, storage_root, text, ", ".join(["k string", *(f"s{n} bigint" for n in range(40))]))
    s.add((0, "a", 1), (1, "b", 2))
    s.run()
    s.add((2, "a", 3))
    assert s.run().rows_out == 1
    assert [row[:3] for row in s.rows()] == [("a", 4, 6), ("b", 2, 3)]


_RANKINGS = [
    f"{rank}() over ({by}" for rank in ("row_number", "rank", "dense_rank") for by in ("partition by x ", "")
]


@pytest.mark.parametrize("over", mostly_thorough(_RANKINGS, []))
def test_a_group_moves_up_where_a_member_is_forgotten(spark: Any, storage_root: Path, over: str) -> None:
    text = f"""select x, k, s, rn from (select *, {over}order by s desc) as rn from (
        select x, k, sum(v) as s from {E} group by x, k)) where rn <= 2"""
    s = stream(spark, storage_root, text, "x bigint, k string, s bigint, rn int", ttl=10 * SECOND)
    s.add((0, "a", 10, 1))
    s.run()
    s.add((9_000, "b", 6, 1), (9_000, "d", 3, 1), (9_000, "e", 2, 1))
    s.run()
    assert s.rows() == [(1, "a", 10, 1), (1, "b", 6, 2)]
    s.add((12_000, "c", 1, 1))
    s.run()
    # The watermark is at 12, and a is idle since 0: it makes way for d, though only c has come.
    s.add((13_000, "c", 1, 1))
    s.run()
    assert s.rows() == [(1, "b", 6, 1), (1, "d", 3, 2)]


@pytest.mark.thorough
def test_rows_leave_as_time_goes_by(spark: Any, storage_root: Path) -> None:
    text = f"select k, count(*) as n from {E} where ts > current_timestamp() - interval 10 seconds group by k"
    s = stream(spark, storage_root, text, "k string, n bigint")
    s.add((0, "a", 1), (5_000, "a", 1), (5_000, "b", 1))
    s.run()
    assert s.rows() == [("a", 2), ("b", 1)]
    s.add((10_000, "b", 1))
    s.run()
    assert s.rows() == [("a", 1), ("b", 2)]
    s.add((20_000, "c", 1))
    s.run()
    assert s.rows() == [("c", 1)]


OVER_GROUPS = f"""select k, s, rn from (select *, row_number() over (order by s desc, k) as rn from (
    select k, sum(v) as s from {E} group by k)) where rn <= 3"""
LAST = f"select k, v, x from (select *, row_number() over (partition by k order by ts desc) as rn from {E}) where rn = 1"
ACTS = [
    (StateTable, "append", False),
    (StateTable, "append", True),
    (Changes, "append", True),
    (UpsertSink, "_write", True),
    (StateTable, "fold", True),
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "columns"),
    [
        pytest.param(GROUPS, OF_GROUPS, id="groups", marks=pytest.mark.thorough),
        pytest.param(OVER_GROUPS, "k string, s bigint, rn int", id="topn"),
        pytest.param(LAST, "k string, v bigint, x bigint", id="last", marks=pytest.mark.thorough),
        pytest.param(
            f"select count(*) as n, max(d) as d from ({GROUPS})",
            "n bigint, d bigint",
            id="anew",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_power_cuts(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, text: str, columns: str
) -> None:
    """Cut short at every act in turn, and folded often: nothing is lost or there twice."""
    monkeypatch.setattr(state_module, "_COMMITS", 2)
    monkeypatch.setattr(state_module, "_ROWS", 4)
    monkeypatch.setattr(upsert_module, "_SMALL", 3)
    s = stream(spark, storage_root, text, columns, changelog=True)
    numbers = itertools.cycle([3, -7, 5, -2, 8, -1, 4, -9, 6])
    cuts = 0
    for number, (owner, name, done) in enumerate(ACTS):
        s.add(*((number * 10 + n, "abcde"[(number + n) % 5], next(numbers)) for n in range(4)))
        act = getattr(owner, name)

        def crash(self: Any, *arguments: Any, act: Any = act, done: bool = done, **named: Any) -> None:
            if done:
                act(self, *arguments, **named)
            raise RuntimeError("power cut")

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, crash)
            try:
                s.run()
            except StreamError as problem:
                assert "power cut" in str(problem)
                cuts += 1
    s.run()
    assert cuts >= 4
    spark.table(s.events).createOrReplaceTempView("events")
    expected = sorted_rows(
        spark.sql(whole_query.batch_sql(plan_of(text, {"events": RelationInfo("ts")}))).collect()
    )
    assert s.rows() == expected
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, kind, _ in s.spark.table(s.model.changes).collect():
        found[tuple(row)] += 1 if kind in ("insert", "update_after") else -1
    assert sorted(found.elements(), key=repr) == expected


@pytest.mark.thorough
def test_a_feed_that_begins_later_has_what_was_there(spark: Any, storage_root: Path) -> None:
    s = stream(spark, storage_root, GROUPS, OF_GROUPS)
    s.add((0, "a", 1), (1, "b", 1))
    s.run()
    s.model = replace(s.model, changelog=True)
    s.run()  # nothing new
    s.add((2, "b", 1))
    s.run()
    changes = sorted_rows(spark.table(s.model.changes).drop("d").collect())
    assert changes == [
        ("a", 1, "insert", 0),
        ("b", 1, "insert", 0),
        ("b", 1, "update_before", 1000),
        ("b", 2, "update_after", 1000),
    ]


def test_two_rows_of_one_key_are_a_sentence(spark: Any, storage_root: Path) -> None:
    text = f"select g.k, n, t.name from ({GROUPS}) as g join values ('a', 'x'), ('a', 'y') as t(k, name) on g.k = t.k"
    s = stream(spark, storage_root, text, "k string, n bigint, name string")
    assert s.program.upsert is not None
    s.add((0, "a", 1))
    with pytest.raises(
        StreamError,
        match=r"two rows of its result have the same key \(k 'a'\).*as the model's config unique_key",
    ):
        s.run()


_M = f"(select ts, k, v, x, if(k is null, null, map(k, string(v))) as m, array(map('x', string(x))) as nested from {E})"
_OF_MAPS = {
    "the last row": (
        "select * except (n, ts, x) from (select *, {rank} as n from {m}) where n = 1",
        "ts desc",
    ),
    "named": (
        "select k, v, m, nested from (select k, v, m, nested, {rank} as n from {m}) where n = 1",
        "ts desc",
    ),
    "the first row": ("select k, v, m, nested from (select *, {rank} as n from {m}) where n = 1", "ts"),
    "beside chance": (
        "select k, v, m, nested from (select k, v, m, nested, substr(uuid(), 1, 0) as no, {rank} as n from {m}) where n = 1",
        "ts desc",
    ),
    "two rankings": (
        "select k, v, m, nested from (select k, v, m, nested, {rank} as n,\n"
        "row_number() over (partition by k order by v) as o from {m}) where n = 1 and o <= 9",
        "ts desc",
    ),
    "of a window": (
        "select k, v, m, nested from (select *, {window} as n from {tumble}) where n = 1",
        "ts desc",
    ),
}


_LAST = (
    "select k, v, m, nested from "
    "(select *, row_number() over (partition by {p} order by ts desc) as n from {m}) where n = 1"
)
_OF_MAPS |= {
    "put together": (
        f"{_LAST.format(p='k', m='{m}')} union all {_LAST.format(p='v', m='{m}')}",
        "ts",
    ),
    "beside groups": (
        f"select a.k, g.n as v, a.m, a.nested from ({_LAST.format(p='k', m='{m}')}) as a "
        "left join (select k, count(*) as n from {m} group by k) as g on g.k = a.k",
        "ts",
    ),
    "beside a table": (
        f"select a.k, d.v, a.m, a.nested from ({_LAST.format(p='k', m='{m}')}) as a "
        "left join values ('a', 7L) as d(k, v) on d.k = a.k where a.v > 0",
        "ts",
    ),
}


def test_maps_of_numbers_among_rows_that_change_are_refused(spark: Any, storage_root: Path) -> None:
    """Spark 4.1 reads 0 for each NULL in such a MAP once rows are grouped by it."""
    text = (
        f"select a.k, a.m, b.v from (select k, map('x', x) as m from {E}) as a left join (select k, v from {E}) as b "
        "on a.k = b.k"
    )
    plan = plan_query.plan(text, {"events": RelationInfo("ts")}, 86_400 * SECOND)
    program = generate.generate_program(plan, ttl=86_400 * SECOND)
    s = Stream(spark, storage_root, program, "k string, m map<string, bigint>, v bigint")
    s.add((0, "a", 5))
    with pytest.raises(StreamError, match=r"keeps a MAP<STRING,BIGINT>, as a key.* Spark groups by it"):
        s.run()


@pytest.mark.thorough
@pytest.mark.parametrize("name", mostly_thorough(_OF_MAPS, ["of a window"]))
def test_rows_with_maps_are_ranked_and_replaced(spark: Any, storage_root: Path, name: str) -> None:
    """Ties are broken by all columns, and of maps Spark knows no order; stream and batch choose the same row."""
    text, order = _OF_MAPS[name]
    rank, windowed = (
        f"row_number() over (partition by {keys} order by {order})"
        for keys in ("k", "window_start, window_end, k")
    )
    tumble = expansion.expand_window(_M, window_arguments.make_window("tumble", "ts", "1 hour"))
    text = text.format(m=_M, rank=rank, window=windowed, tumble=tumble)
    spark.sql(
        "create or replace temp view events as select timestamp'2024-01-01' as ts, 'a' as k, 1L as v, 1L as x"
    )

    def ask(query: str) -> tuple[object, ...]:
        (row,) = spark.sql(query).collect()
        return tuple(row)

    plan = plan_query.plan(text, {"events": RelationInfo("ts")}, 86_400 * SECOND, ask=ask)
    columns = "k string, v bigint, m map<string, string>, nested array<map<string, string>>"
    s = Stream(spark, storage_root, generate.generate_program(plan, ttl=86_400 * SECOND), columns)
    rows = [(0, "a", 5), (0, "a", 40), (500, "b", 4), (500, None, 3)]
    s.add(*rows)
    s.run()
    s.add((1_000, "a", 7), (1_000, "a", 10), (1_500, "b", 4))
    s.run()
    s.flush()
    spark.table(s.events).createOrReplaceTempView("events")
    expected = sorted_rows(spark.sql(whole_query.batch_text(text, ask)).collect())
    assert len(expected) == 3 or name == "put together"
    assert s.rows() == expected
