"""A table that is read with `*` gets a column while rows of it are kept: these have NULL there, and the model goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from tests.functional.stream.test_evolution import (
    AFTER,
    BEFORE,
    THEN,
    Edited,
    Event,
    cut_short_at,
    folded,  # noqa: F401
    in_order,
)
from tests.thorough import mostly_thorough

STREAM = expansion.expand_stream("events")
TENS = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "10 minutes"))
SESSIONS = expansion.expand_window(
    "events", window_arguments.make_window("session", "ts", "90 seconds", partition_by=["k"])
)
_RANK = "row_number() over (partition by {} order by v desc nulls last, x, ts) as place"
QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "ranking": (
        f"select * from (select *, {_RANK.format('k')} from {STREAM}) where place <= 3",
        {"constant_domains": ["k"]},
    ),
    "ranking, all of it inside": (
        f"select k, place, v from (select *, {_RANK.format('k')} from {STREAM}) where place <= 3",
        {"constant_domains": ["k"]},
    ),
    "ranking of windows": (
        f"select * from (select *, {_RANK.format('window_start, window_end, k')} from {TENS}) where place <= 3",
        {},
    ),
    "windows": (f"select * from {TENS} where v > 1", {}),
    "sessions": (
        f"select * from (select *, {_RANK.format('window_start, window_end, k')} from {SESSIONS}) where place <= 3",
        {},
    ),
    "join": (
        f"select a.*, b.v as w from {STREAM} as a join {STREAM} as b "
        "on a.k = b.k and b.ts between a.ts - interval 2 minutes and a.ts + interval 2 minutes",
        {},
    ),
    "tree": (
        f"select e.* from {STREAM} as e where exists (select 1 from (select x, count(*) as n from {STREAM} group by x) "
        "as h where h.n > 9 and h.x = e.x)",
        {"constant_domains": ["k", "x"], "state_ttl": "10 days"},
    ),
}


def put(s: Edited, rows: list[Event], note: str | None) -> None:
    """Rows, the first of them with a note."""
    s.add(rows)
    if note is not None:
        first, values = rows[0], "timestamp_millis({}), 'a', 9, 9, cast(1 as decimal(10,2)), 1.0D, true, '{}'"
        columns = "ts, k, v, x, d, f, late, note"
        s.spark.sql(
            f"insert into {s.events} ({columns}) select {values.format(round(first.minute * 60_000), note)}"
        )


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, []))
@pytest.mark.usefixtures("failing")
def test_a_column_more(spark: Any, storage_root: Path, name: str) -> None:
    text, config = QUERIES[name]
    s = Edited(spark, storage_root, **config)
    s.add(BEFORE)
    s.run(text)
    spark.sql(f"alter table {s.events} add column note string after k")
    put(s, AFTER, "one")
    if name.startswith("ranking"):
        with cut_short_at("state.migrate:written"):
            s.run(text)
    s.run(text)
    assert s.run(text).batches == 0
    put(s, THEN, "two")
    s.run(text, closing="constant_domains" not in config)
    expected = s.batch(text)
    assert in_order(s.table().select(expected.columns)) == in_order(expected)
    snapshots = s.snapshots() if name != "windows" else 0
    s.run(text)
    assert name == "windows" or s.snapshots() == snapshots


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ranking", "what the rows that it keeps are made of"),
        pytest.param(
            "ranking of windows", r"\(the ranking: \* in a select list is gone", marks=pytest.mark.thorough
        ),
    ],
)
def test_not_where_the_query_says_what_is_in_it(
    spark: Any, storage_root: Path, name: str, sentence: str
) -> None:
    """What the rows that are there would have in it isn't NULL."""
    text, config = QUERIES[name]
    s = Edited(spark, storage_root, **config)
    s.add(BEFORE)
    s.run(text)
    spark.sql(f"alter table {s.events} add column note string")
    edited = text.replace("select *, row", "select * except (note), coalesce(note, 'none') as note, row")
    before = s.snapshots()
    with pytest.raises(StreamError, match=sentence):
        s.run(edited)
    assert s.snapshots() == before
    s.run(text)
    put(s, AFTER, "one")
    s.run(text, closing="constant_domains" not in config)
    assert in_order(s.table()) == in_order(s.batch(text).select(s.table().columns))
