"""Rows of a state changed by hand: in one commit, checked before, put out after, and taken back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query import state_edit
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.iceberg.table import load_table
from dbt.adapters.spark_streaming.stream.lifecycle.editing import Edited, edit
from dbt.adapters.spark_streaming.stream.lifecycle.restoring import undo
from tests.planned import plan_of

from .harness import Stream, replayed, sorted_rows

GROUPS = "select k, count(*) as n, sum(v) as s, count(distinct x) as d from (select /*+ STREAM */ * from events) group by k"
RANKED = f"select * from (select *, row_number() over (order by n desc, k) as place from ({GROUPS})) where place <= 2"
_BY_KEY = "select k, count(*) as n from (select /*+ STREAM */ * from events) group by k"
OF_COUNTS = f"select n, count(*) as c from ({_BY_KEY}) group by n"
_WINDOW = expansion.expand_window(
    "events", window_arguments.make_window("cumulate", "ts", "1 second", "4 seconds")
)
WINDOWS = (
    "select window_start, window_end, k, count(*) as n, count(distinct x) as d "
    f"from {_WINDOW} group by window_start, window_end, k"
)


def changed(stream: Stream, text: str, dry: bool = False) -> Edited:
    change = state_edit.parse_state_edit(text)
    return edit(stream.spark, stream.model, stream.program, change.rows, change.more, dry)


def refused(stream: Stream, text: str) -> str:
    table = load_table(stream.spark, stream.model.state)
    with pytest.raises(StreamError) as raised:
        changed(stream, text)
    if table is not None:
        before = table.snapshot_id
        table.refresh()
        assert table.snapshot_id == before
    return str(raised.value.msg)


def batch(stream: Stream, text: str, where: str = "true") -> list[tuple[Any, ...]]:
    text = re.sub(r"\bevents\b", f"(select * from {stream.events} where {where})", text)
    return sorted_rows(stream.spark.sql(text).collect())


@pytest.mark.thorough
@pytest.mark.usefixtures("failing")
def test_groups(spark: Any, tmp_path: Path) -> None:
    program = generate.generate_program(plan_query.plan(GROUPS, domains=["k"]))
    stream = Stream(spark, tmp_path, program, "k string, n bigint, s bigint, d bigint", changelog=True)
    assert "it has no state yet" in refused(stream, "delete from state where k = 'a'")
    stream.add((0, "a", 1), (0, "a", 2), (0, "b", 3), (0, "c", 4))
    stream.run()
    stream.add((0, "a", 5))
    stream.run()
    before = stream.rows()
    groups, values = stream.part("groups"), stream.part("distinct_x")

    # What would make it no state of the query is refused, and nothing is changed.
    for text, said in {
        "update state set n = 1": "",
        "update state set sum_v = 'x' where k = 'a'": "sum_v is BIGINT in the state, and STRING in the new rows",
        "update state set count_all = count_all - 9 where k = 'a'": f"count_all of {groups} would be less than 0",
        "update state set part = 'other' where k = 'a'": f"it has no part other; its parts are {groups}",
        f"update state set x = 1 where part = '{groups}'": f"a row of {groups} would have x",
        "update state set step = 99999 where k = 'a'": "a row would have the step 99999, and the last step is 1000",
        "update state set count_distinct_x = 7 where k = 'b' and count_distinct_x is not null": (
            f"for k b the count_distinct_x of {groups} would differ from the number of values in "
            f"{values}. Change both, or all rows of a key."
        ),
        f"delete from state where part = '{values}' and x = 1": "would differ from the number of values",
        f"insert into state (part, k, nothing) values ('{groups}', 'z', 1)": "it has no column nothing",
        "select k from state": "the query gives no count_all",
        "delete from state where nothing = 1": "nothing",
    }.items():
        assert said in refused(stream, text), text
    assert stream.rows() == before

    # A dry run says what would change.
    told = changed(stream, "delete from state where k = 'c'", dry=True)
    assert (told.removed, told.added, told.kept_as) == (
        {values: 1, groups: 2},
        {},
        None,
    )
    assert changed(stream, "delete from state where k = 'nobody'").kept_as is None

    # What is changed comes into the table and the changelog with the edit.
    done = changed(stream, "update state set sum_v = sum_v + 100 where k = 'a' and sum_v = 5")
    assert (done.removed, done.added, done.kept_as) == (
        {groups: 1},
        {groups: 1},
        "before-edit-1",
    )
    expected = sorted([("a", 3, 108, 3), ("b", 1, 3, 1), ("c", 1, 4, 1)], key=repr)
    assert stream.rows() == expected
    assert sorted_rows(replayed(spark, stream.model, until=10**9)) == expected
    stream.add((0, "a", 1))
    assert stream.run().rows_in == 1
    assert ("a", 4, 109, 3) in stream.rows()
    # A key that is forgotten begins again; its row stays until then.
    changed(stream, "delete from state where k = 'b'")
    assert ("b", 1, 3, 1) in stream.rows()
    stream.add((0, "b", 3))
    stream.run()
    assert ("b", 1, 3, 1) in stream.rows()
    # From another table, with what belongs to it.
    spark.sql("create or replace temp view fixes as select 'n' as k, 7L as times")
    changed(stream, f"insert into state (part, k, count_all) select '{groups}', k, times from fixes")
    assert ("n", 7, None, 0) in stream.rows()

    # Taken back, one after the other; what was read since is read again.
    for _ in range(3):
        undo(spark, stream.model, stream.program)
    assert stream.rows() == before
    assert stream.run().rows_in == 2
    assert stream.rows() == batch(stream, GROUPS)

    # Cut short, the next run puts out what was written, or goes on as before.
    name = stream.model.name
    for point, came in (("state.edit:written", 0), ("changelog.append:after", 1)):
        rows = stream.rows()
        failpoints.arm(failpoints.parse(f"raise {point} 1 {name}"))
        with pytest.raises(StreamError, match=re.escape(point)):
            changed(stream, "update state set sum_v = sum_v + 1 where k = 'c' and sum_v is not null")
        failpoints.arm(None)
        stream.run()
        (was,), (now,) = ([row[2] for row in each if row[0] == "c"] for each in (rows, stream.rows()))
        assert now - was == came, point
        assert sorted_rows(replayed(spark, stream.model, until=10**9)) == stream.rows()


def test_windows_that_are_open(spark: Any, tmp_path: Path) -> None:
    program = generate.generate_program(plan_of(WINDOWS, {"events": RelationInfo("ts")}))
    columns = "window_start timestamp, window_end timestamp, k string, n bigint, d bigint"
    stream = Stream(spark, tmp_path, program, columns)
    stream.add((100, "a", 1), (100, "wrong", 2), (1100, "a", 1))
    stream.run()
    before = stream.rows()
    shifted = "update state set slice_end = slice_end + interval 1 millisecond"
    assert "An edit changes the rows of windows that are there" in refused(stream, shifted)
    slices, values = stream.part("slices"), stream.part("distinct_x")
    assert f"a row of {slices} would have no expires_at" in refused(
        stream, f"insert into state (part, k, count_all) values ('{slices}', 'a', 1L)"
    )
    done = changed(stream, "delete from state where k = 'wrong'")
    assert set(done.removed) == {slices, values}
    assert stream.rows() == before, "what was put out stays"
    stream.add((2100, "a", 3), (4100, "a", 3))
    stream.run()
    stream.flush()
    ends = "window_end > timestamp_millis(1000)"
    wanted = batch(stream, f"select * from ({WINDOWS}) where {ends}", "k <> 'wrong'")
    assert [row for row in stream.rows() if row[1] > 1000] == wanted


@pytest.mark.thorough
def test_a_name_of_two_types(spark: Any, tmp_path: Path) -> None:
    """Each type has a column of its own, which is changed and checked by the name that it has in the table."""
    by = "window_start, window_end, k"
    tumble = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "1 second"))
    numbers = f"select window_start, window_end, x as k from {tumble}"
    text = f"""select l.window_start, l.window_end, l.k, l.n, r.n as m, r.d
        from (select {by}, count(*) as n from {tumble} group by {by}) as l
        join (select {by}, count(*) as n, count(distinct k) as d from ({numbers}) group by {by}) as r
            on l.window_start = r.window_start and l.window_end = r.window_end and length(l.k) = r.k"""
    program = generate.generate_program(plan_of(text, {"events": RelationInfo("ts")}))
    of_texts, of_numbers = (f"{each.name}_slices" for each in program.signature.windows)
    columns = "window_start timestamp, window_end timestamp, k string, n bigint, m bigint, d bigint"
    stream = Stream(spark, tmp_path, program, columns)
    stream.add((100, "a", 1), (200, "a", 1), (300, "wrong", 2), (400, "right", 5))
    stream.run()
    assert f"a row of {of_texts} would have k__bigint, which is a column of other parts" in refused(
        stream, f"update state set k__bigint = 1L where part = '{of_texts}'"
    )
    assert "with name `k` cannot be resolved" in refused(stream, "update state set k = 'x'")
    done = changed(stream, "delete from state where k__string = 'wrong'")
    assert done.removed == {of_texts: 1}
    assert changed(stream, "delete from state where k__bigint = 2").removed.keys() >= {of_numbers}
    stream.add((2100, "a", 1))
    stream.run()
    stream.flush()
    assert stream.rows() == batch(stream, text, "k <> 'wrong'") and len(stream.rows()) == 3


def test_states_of_other_kinds_are_left_alone(spark: Any, tmp_path: Path) -> None:
    for text, what in (
        (RANKED, r"Its state has top_\w+_members"),
        (OF_COUNTS, "Its state has several operators"),
        ("select k, v from (select /*+ STREAM */ * from events)", "keeps no state"),
    ):
        program = generate.generate_program(plan_query.plan(text, domains=["k", "n"]))
        stream = Stream(spark, tmp_path, program, "k string, n bigint, s bigint, d bigint, place int")
        with pytest.raises(StreamError, match=what):
            changed(stream, "delete from state where k = 'a'")
