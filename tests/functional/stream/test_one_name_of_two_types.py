"""One name of two types in a query: each has a column of its own in the state, and keeps it when the query is edited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.state_signature import VERSION
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.iceberg.table import load_table
from dbt.adapters.spark_streaming.stream.lifecycle.restoring import restore, undo
from dbt.adapters.spark_streaming.stream.run.saving import save
from dbt.adapters.spark_streaming.stream.state.inspect import inspect_stored_state
from tests.functional.stream.harness import replayed
from tests.functional.stream.test_evolution import (
    AFTER,
    BEFORE,
    STREAM,
    THEN,
    Edited,
    _by_key,
    cut_short_at,
    folded,
    in_order,
)

__all__ = ["folded"]  # a fixture that has the state folded after each micro-batch

_GROUPS = f"select ts, k, count(*) as n, count(distinct x) as s from {STREAM} group by ts, k"


def above(key: str, metrics: str = "count(*) as c, sum(s) as s") -> str:
    """Groups of the groups, by a key of theirs that is made of `ts`."""
    rows = f"select date(ts) as {key}, n, s, string(n) as x from ({_GROUPS})"
    return f"select {key} as d, {metrics} from ({rows}) group by {key}"


APART = above("ts", "count(*) as c, sum(s) as s, count(distinct x) as x")
"""`ts` is a TIMESTAMP and a DATE, and the distinct values of `x` are numbers and texts."""


class Model(Edited):
    """A model over groups, with what it says of its state."""

    def __init__(self, spark: Any, root: Path, **config: Any) -> None:
        domains = {"constant_domains": ["ts", "day", "d", "k", "v", "n", "x"], "changelog": True}
        super().__init__(spark, root, **(config or domains))

    def is_right(self, text: str) -> None:
        """Its table has the rows that the query has in batch, and so has its changelog."""
        expected = self.batch(text)
        assert in_order(self.table().select(expected.columns)) == in_order(expected)
        again = {tuple(map(repr, row)) for row in replayed(self.spark, self.model)}
        assert again == {tuple(map(repr, row)) for row in self.table().collect()}

    def apart(self) -> dict[str, dict[str, str]]:
        """What its parts call otherwise than the table does."""
        table = load_table(self.spark, self.model.state)
        assert table is not None
        found: dict[str, dict[str, str]] = json.loads(table.property("stream.columns") or "{}")
        assert table.property("stream.version") == str(VERSION)
        return found

    def of(self, name: str) -> dict[str, str]:
        """The columns of a name, and their types."""
        return {
            column: kind
            for column, kind in self.state().items()
            if column == name or column.startswith(f"{name}__")
        }


POINTS = ["state.append:after", "state.fold:after"]


@pytest.mark.thorough
def test_what_is_cut_short(spark: Any, storage_root: Path, failing: None) -> None:
    s = Model(spark, storage_root)
    for rows, point in zip((BEFORE, AFTER), POINTS, strict=True):
        s.add(rows)
        with cut_short_at(point):
            s.run(APART)
        s.run(APART)
        s.is_right(APART)
    assert s.of("ts") == {"ts__timestamp": "timestamp", "ts__date": "date"}
    assert s.of("x") == {"x__bigint": "bigint", "x__string": "string"}


@pytest.mark.thorough
def test_an_edit_makes_a_conflict_and_another_one_ends_it(
    spark: Any, storage_root: Path, failing: None
) -> None:
    s = Model(spark, storage_root)
    plain = above("day")
    s.add(BEFORE)
    s.run(plain)
    s.is_right(plain)
    assert (s.of("ts"), s.of("day"), s.apart()) == ({"ts": "timestamp"}, {"day": "date"}, {})
    # The column that is there keeps its name, so nothing is written anew.
    with cut_short_at("state.migrate:after"):
        s.run(APART)
    s.run(APART)
    s.is_right(APART)
    assert (s.of("ts"), s.of("day")) == ({"ts": "timestamp", "ts__date": "date"}, {})
    assert {tuple(each.items()) for each in s.apart().values()} == {
        (("ts", "ts__date"),),
        (("ts", "ts__date"), ("x", "x__string")),
    }
    s.add(AFTER)
    s.run(APART)
    s.is_right(APART)
    with cut_short_at("batch.rebuild:before"):
        s.run(plain)
    s.run(plain)
    s.is_right(plain)
    assert (s.of("ts"), s.of("day"), s.apart()) == ({"ts": "timestamp"}, {"day": "date"}, {})
    # And back, to the state of before: its columns are its own again.
    undo(spark, s.model, s._planned(APART)[1])
    assert s.of("ts") == {"ts": "timestamp", "ts__date": "date"} and s.apart()
    s.add(THEN)
    s.run(APART)
    s.is_right(APART)


@pytest.mark.thorough
def test_a_key_is_what_is_in_it(spark: Any, storage_root: Path) -> None:
    """Another alias is no other key, and where something else is under an alias all rows of the table are compared."""

    def keyed(columns: str, shown: str = "x, y", by: str = "x, y") -> str:
        rows = f"select {columns}, n from ({_GROUPS})"
        return f"select {shown}, count(*) as c, sum(n) as n from ({rows}) group by {by}"

    three, five = "minute(ts) % 3", "minute(ts) % 5"
    first = keyed(f"{three} as x, {five} as y")
    s = Model(spark, storage_root)
    s.add(BEFORE)
    s.run(first)
    for text, rows in {
        keyed(f"{three} as v, {five} as ts", "v as x, ts as y", "v, ts"): AFTER,
        keyed(f"{three} as y, {five} as x"): THEN,
        keyed(f"{three} + 1 as y, {five} as x"): [],
    }.items():
        s.run(text)
        s.is_right(text)
        if rows:
            s.add(rows)
            s.run(text)
            s.is_right(text)
    # The state is the same one, and rows of the table would have to be found by other columns.
    with pytest.raises(StreamError, match=r"would be identified by x \(y\), y \(x\), and were by x, y"):
        s.run(keyed(f"{three} + 1 as y, {five} as x", "y as x, x as y"))


@pytest.mark.thorough
def test_what_began_with_two_types_goes_on_with_one(spark: Any, storage_root: Path) -> None:
    s = Model(spark, storage_root)
    s.add(BEFORE)
    s.run(APART)
    s.run(plain := above("day"))
    s.is_right(plain)
    assert s.of("ts") == {"ts__timestamp": "timestamp"}  # not written anew, nor renamed
    save(spark, s.model, "before")
    s.add(AFTER)
    s.run(plain)
    s.is_right(plain)
    s.run(APART)
    s.is_right(APART)
    assert s.of("ts") == {"ts__timestamp": "timestamp", "ts__date": "date"}
    restore(spark, s.model, s._planned(plain)[1], "before")
    assert s.of("ts") == {"ts__timestamp": "timestamp"}
    s.add(THEN)
    s.run(plain)
    s.is_right(plain)


@pytest.mark.thorough
def test_aggregates_come_and_go(spark: Any, storage_root: Path) -> None:
    """The groups above stay the same ones."""
    s = Model(spark, storage_root)
    old, new = APART, above("ts", "count(distinct n) as dn, sum(s) as s")
    s.add(BEFORE)
    s.run(old)
    for text in (new, old):
        s.run(text)
        s.is_right(text)
        s.add(AFTER if text == new else THEN)
        s.run(text)
        s.is_right(text)
    assert s.of("x") == {"x__bigint": "bigint", "x__string": "string"}


def joined(*order: str) -> str:
    """Groups of a number and of its text, called the same."""
    groups = f"(select ts, k, count(*) as n from {STREAM} group by ts, k)"
    sides = {
        "l": f"(select x, sum(n) as n from (select minute(ts) as x, n from {groups}) group by x) as l",
        "r": f"(select x, count(*) as m from (select string(minute(ts)) as x, n from {groups}) group by x) as r",
    }
    first, second = (sides[each] for each in order)
    return f"select n, count(*) as c, sum(m) as m from {first} join {second} on string(l.x) = r.x group by n"


@pytest.mark.thorough
def test_sides_in_another_order(spark: Any, storage_root: Path) -> None:
    """Columns are what is in them, whichever side is read first."""
    s, other = Model(spark, storage_root), Model(spark, storage_root)
    s.add(BEFORE)
    s.run(joined("l", "r"))
    other.add(BEFORE)
    other.run(joined("r", "l"))
    assert s.of("x") == other.of("x") == {"x__int": "int", "x__string": "string"}
    apart = s.apart()
    assert apart == other.apart()
    s.run(joined("r", "l"))
    s.is_right(joined("r", "l"))
    assert s.apart() == apart
    s.add(AFTER)
    s.run(joined("r", "l"))
    s.is_right(joined("r", "l"))
    assert s.apart() == apart


@pytest.mark.thorough
def test_windows(spark: Any, storage_root: Path) -> None:
    """A part that comes to a window operator has its keys in the columns that the operator has them in."""
    by = "window_start, window_end, k"
    tumble = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "5 minutes"))

    def text(items: str) -> str:
        numbers = f"select window_start, window_end, x as k, v, late from {tumble}"
        return f"""select l.window_start, l.window_end, l.k, r.* except (window_start, window_end, k), r.k as x
            from (select {by}, count(*) as n from {tumble} group by {by}) as l
            join (select {by}, count(*) as m{items} from ({numbers}) group by {by}) as r
                on l.window_start = r.window_start and l.window_end = r.window_end and length(l.k) = r.k"""

    s = Model(spark, storage_root, changelog=True)
    s.add(BEFORE[:-3])
    s.run(text(""))
    apart = s.apart()
    of_numbers, of_texts = sorted(apart, key=lambda part: apart[part]["k"])
    assert apart == {of_texts: {"k": "k__string"}, of_numbers: {"k": "k__bigint"}}
    more = ", count(distinct v) as d, count(distinct v) filter (where late) as dl"
    s.run(text(more))
    # The values that they count are kept beside the keys, by both their names.
    assert s.apart() == {**apart, of_numbers.replace("slices", "distinct_v"): {"k": "k__bigint"}}
    s.add([*BEFORE[-3:], *AFTER])
    s.run(text(more), closing=True)
    expected = s.batch(f"select * from ({text(more)})")
    keys = ("window_start", "k", "x")
    found, wanted = s.rows(*keys), _by_key(expected, keys)
    assert found.keys() == wanted.keys() and len(found) > 4
    for key, row in found.items():
        assert row["m"] == wanted[key]["m"]
        if key[0].minute >= 15:
            assert row == wanted[key]


def test_what_is_shown(spark: Any, storage_root: Path) -> None:
    s = Model(spark, storage_root)
    s.add(BEFORE)
    s.run(APART)
    shown = inspect_stored_state(spark, s.model, sample=2)
    assert shown is not None
    assert {each.name: (each.type, each.what) for each in shown.columns if "ts" in each.name} == {
        "ts__date": ("date", "the key ts"),
        "ts__timestamp": ("timestamp", "the key ts"),
    }
