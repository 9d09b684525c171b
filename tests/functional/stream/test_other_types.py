"""A column of a source becomes of another type: the state's columns follow, or the run stops; no value is cut off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from tests.functional.stream.test_evolution import Edited, cut_short_at
from tests.thorough import mostly_thorough

STREAM = expansion.expand_stream("events")


COUNTED = f"select k, count(distinct p) as n from {STREAM} group by k"


@pytest.mark.thorough
def test_distinct_values_of_a_wider_type(spark: Any, storage_root: Path) -> None:
    """The state's column becomes of that type, too: what was read has the same values in it."""
    s = Edited(spark, storage_root, constant_domains=["k"])
    spark.sql(f"alter table {s.events} add columns (p float, i int)")
    text = COUNTED.replace(" as n", " as n, count(distinct i) as m")
    insert = f"insert into {s.events} (ts, k, p, i) select timestamp_millis(0), 'a', "
    spark.sql(f"{insert} p, 1 from values (float(0.5)), (float(0.1)) as new(p)")
    s.run(text)
    for column, kind in (("p", "double"), ("i", "bigint")):
        spark.sql(f"alter table {s.events} alter column {column} type {kind}")
    # What was there is known, though it has another hash as a value of that type.
    spark.sql(f"{insert} 0.5D, 1")
    s.run(text)
    assert [tuple(row) for row in s.table().collect()] == [("a", 2, 1)]
    for _ in range(2):
        spark.sql(f"{insert} 0.1D, 5000000000")
        s.run(text)
        assert [tuple(row) for row in s.table().collect()] == [tuple(row) for row in s.batch(text).collect()]
    assert [tuple(row) for row in s.table().collect()] == [("a", 3, 2)]
    # With another query, too.
    spark.sql(f"{insert} 0.2D, 1")
    edited = text.replace(" as m", " as m, count(*) as c")
    s.run(edited)
    assert [tuple(row) for row in s.table().collect()] == [("a", 4, 2, 1)]


@pytest.mark.parametrize(
    "point", mostly_thorough(["state.migrate:before", "state.migrate:after"], ["state.migrate:after"])
)
def test_cut_short_when_the_state_becomes_wider(spark: Any, storage_root: Path, point: str) -> None:
    """Types and the snapshot that has them come in one commit: a value that is there is known whenever the run ends."""
    s = Edited(spark, storage_root, constant_domains=["k"])
    spark.sql(f"alter table {s.events} add columns (p float)")
    insert = f"insert into {s.events} (ts, k, p) select timestamp_millis(0), 'a', "
    spark.sql(f"{insert} float(0.5)")
    s.run(COUNTED)
    spark.sql(f"alter table {s.events} alter column p type double")
    spark.sql(f"{insert} 0.5D")
    with cut_short_at(point):
        s.run(COUNTED)
    s.run(COUNTED)
    assert [tuple(row) for row in s.table().collect()] == [("a", 1)]


@pytest.mark.parametrize("windowed", mostly_thorough([False, True], []), ids=["groups", "windows"])
def test_distinct_values_of_a_narrower_type(
    spark: Any, storage_root: Path, tmp_path: Path, windowed: bool
) -> None:
    """The state's column stays as it is: a value that is there is known, though it has another hash as one of that type."""
    s = Edited(spark, storage_root, **({} if windowed else {"constant_domains": ["k"]}))
    spark.sql(f"alter table {s.events} add column p bigint")
    tumble = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "1 hour"))
    text = COUNTED
    if windowed:
        text = (
            f"select window_end, k, count(distinct p) as n from {tumble} group by window_start, window_end, k"
        )

    def put(kind: str, value: int, ts: str) -> None:
        row = f'{{"ts": "2024-03-04T{ts}Z", "k": "a", "p": {value}}}'
        (tmp_path / f"{len(list(tmp_path.iterdir()))}.json").write_text(row)
        source = StreamSource("events", str(tmp_path), "json", f"ts timestamp, k string, p {kind}")
        s.model = replace(s.model, sources=(source,))
        s.run(text)

    put("bigint", 1, "00:00:01")
    put("int", 1, "00:00:02")
    put("int", 2, "03:00:00")
    counts = [row["n"] for row in s.table().orderBy("n").collect()]
    assert counts == ([1] if windowed else [2])


@pytest.mark.thorough
def test_distinct_values_that_would_be_rounded(spark: Any, storage_root: Path, tmp_path: Path) -> None:
    s = Edited(spark, storage_root, constant_domains=["k"])
    spark.sql(f"alter table {s.events} add column p double")

    def read(kind: str, keep_state: bool = False) -> None:
        source = StreamSource("events", str(tmp_path), "json", f"ts timestamp, k string, p {kind}")
        s.model = replace(s.model, sources=(source,), keep_state=keep_state)

    def put(value: str) -> None:
        row = f'{{"ts": "2024-03-04T00:00:00Z", "k": "a", "p": {value}}}'
        (tmp_path / f"{len(list(tmp_path.iterdir()))}.json").write_text(row)

    read("bigint")
    put("1")
    s.run(COUNTED)
    read("double")
    put("1.5")
    for _ in range(2):
        with pytest.raises(StreamError) as refused:
            s.run(COUNTED)
    assert (
        f"Model {s.model.name}: its query gives values of DOUBLE for p of its state, which is BIGINT, so they would be "
        "cut off or lost: most likely the type of a source's column has changed. Nothing of this micro-batch "
        "was ingested. Convert it where it is read, as in cast(p as BIGINT) as p, and continue the state with that: "
        f"`dbt run --select {s.model.name} --vars '{{keep_state: true}}'`. To rebuild it: "
    ) in str(refused.value.msg)
    assert [tuple(row) for row in s.table().collect()] == [("a", 1)]
    converted = (
        f"select k, count(distinct p) as n from (select k, cast(p as bigint) as p from {STREAM}) group by k"
    )
    read("double", keep_state=True)
    s.run(converted)
    read("double")
    put("2")
    s.run(converted)
    assert [tuple(row) for row in s.table().collect()] == [("a", 2)]


@pytest.mark.parametrize(
    "case",
    mostly_thorough(
        [
            ("decimal(5,0)", "bigint", "5000000000"),
            ("array<decimal(5,0)>", "array<bigint>", "[5000000000]"),
            ("array<int>", "array<bigint>", "[5000000007]"),
        ],
        [("decimal(5,0)", "bigint", "5000000000")],
    ),
)
def test_values_too_large_for_the_state(
    spark: Any, storage_root: Path, tmp_path: Path, case: tuple[str, str, str]
) -> None:
    """They are refused, or the state becomes wider; they are never cut off."""
    was, becomes, value = case
    s = Edited(spark, storage_root, constant_domains=["k"])
    spark.sql(f"alter table {s.events} add column p {was}")
    text = f"select k, to_json(struct(max(p) as p)) as p from {STREAM} group by k"

    def put(kind: str, written: str) -> None:
        row = f'{{"ts": "2024-03-04T00:00:00Z", "k": "a", "p": {written}}}'
        (tmp_path / f"{len(list(tmp_path.iterdir()))}.json").write_text(row)
        source = StreamSource("events", str(tmp_path), "json", f"ts timestamp, k string, p {kind}")
        s.model = replace(s.model, sources=(source,))

    put(was, "[1]" if "<" in was else "1")
    s.run(text)
    put(becomes, value)
    if was == "array<int>":
        s.run(text)
        assert [row["p"] for row in s.table().collect()] == [f'{{"p":{value}}}']
    else:
        with pytest.raises(StreamError, match="they would be cut off or lost"):
            s.run(text)
