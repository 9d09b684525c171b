"""A new aggregate that is computed from the source's history: what a run from scratch would have, for what is open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.program import StreamInput
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.lifecycle.restoring import undo
from dbt.adapters.spark_streaming.stream.sources import replay
from tests.functional.stream.harness import Stream, replayed, sorted_rows
from tests.functional.stream.test_evolution import (
    _LIKE,
    _LIKED,
    _RANK,
    AFTER,
    BEFORE,
    CASES,
    EDITED,
    KEPT,
    NEW,
    OLD,
    THEN,
    WINDOWS,
    Edited,
    Event,
    _by_key,
    _listed,
    cut_short_at,
    few,
    folded,  # noqa: F401
    grouped,
    in_order,
    of_groups,
    ranked,
    windowed,
)
from tests.functional.stream.test_two_runs import Remote, meanwhile
from tests.planned import plan_of
from tests.thorough import mostly_thorough

KEYS = ("window_start", "window_end", "k")
COLUMNS = [*EDITED]


def backfilling(spark: Any, root: Path, **config: Any) -> Edited:
    found = Edited(spark, root, **config)
    found.model = replace(found.model, on_new_metric="backfill")
    return found


@pytest.mark.parametrize("name", mostly_thorough(CASES, []))
def test_windows(spark: Any, storage_root: Path, name: str) -> None:
    kind, config = CASES[name]
    s = backfilling(spark, storage_root, **config)
    s.add(BEFORE[:12])
    s.run(windowed(kind, OLD))
    s.add(BEFORE[12:])
    s.run(windowed(kind, OLD))
    sent = s.rows(*KEYS)
    assert sent
    # New rows are there when the query is edited: they come once.
    s.add(AFTER)
    s.run(windowed(kind, EDITED))
    s.add(THEN)
    s.run(windowed(kind, EDITED), closing=True)
    found, expected = s.rows(*KEYS), _by_key(s.batch(windowed(kind, EDITED)), KEYS)
    assert found.keys() == expected.keys()
    filled = 0
    for key, row in found.items():
        row = {item: row[item] for item in COLUMNS}
        if key in sent and row["c"] is None:
            # It was put out, and stays.
            assert {item: row[item] for item in KEPT} == {item: sent[key][item] for item in KEPT}
            assert all(row[item] is None for item in NEW if item != "same_name")
            continue
        assert row == expected[key], key
        filled += key not in sent
    assert filled
    if config:
        again = {tuple(map(repr, row)) for row in replayed(spark, s.model)}
        assert again == {tuple(map(repr, row)) for row in s.table().collect()}


@pytest.mark.parametrize("ttl", mostly_thorough([False, True], []))
def test_groups(spark: Any, storage_root: Path, ttl: bool) -> None:
    config: dict[str, Any] = {"state_ttl": "20 minutes"} if ttl else {"constant_domains": ["k"]}
    s = backfilling(spark, storage_root, changelog=True, **config)
    gone = Event(-60, "gone", 5, 5, False)
    s.add([gone])
    s.run(grouped(few(OLD)))
    s.add([*BEFORE, Event(14, "idle", 1, 1, False)])
    s.run(grouped(few(OLD)))
    s.add([Event(14.5, "a", 2, 3, False)])
    s.run(grouped(few(OLD)))
    sent = s.rows("k")
    # No row comes, and all groups that are there have what is new.
    s.run(grouped(few(EDITED)))

    def is_right() -> None:
        found, expected = s.rows("k"), _by_key(s.batch(grouped(few(EDITED))), ("k",))
        assert found.keys() == expected.keys()
        for key, row in found.items():
            if ttl and key == ("gone",):
                assert {item: row[item] for item in few(OLD) if item != "same_name"} == {
                    item: sent[key][item] for item in few(OLD) if item != "same_name"
                }
                assert row["c"] is None
            else:
                assert {item: row[item] for item in few(EDITED)} == expected[key], key
        again = {tuple(map(repr, row)) for row in replayed(spark, s.model)}
        assert again == {tuple(map(repr, row)) for row in s.table().collect()}

    is_right()
    s.add([*AFTER, *THEN])
    s.run(grouped(few(EDITED)))
    is_right()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["tumble", "hop", "cumulate", "dynamic_cumulate"])
def test_late_rows(spark: Any, storage_root: Path, kind: str) -> None:
    """A row that came late counts in the windows that a stream which had the query from the beginning has it in."""
    one, other = backfilling(spark, storage_root), Edited(spark, storage_root)
    late = [Event(0.3, "a", 7, 9, False), Event(9.3, "b", 8, 9, False), Event(13.95, "a", 9, 9, False)]
    for s in (one, other):
        for rows in (BEFORE[:20], [*BEFORE[20:], late[0]], late[1:]):
            s.add(rows)
            s.run(windowed(kind, OLD if s is one else EDITED))
    sent = one.rows(*KEYS)
    for s in (one, other):
        for rows in ([], AFTER, [Event(12, "b", 6, 6, False)], THEN):
            if rows:
                s.add(rows)
            s.run(windowed(kind, EDITED), closing=rows == THEN)
    found, expected = one.rows(*KEYS), other.rows(*KEYS)
    assert found.keys() == expected.keys() and found.keys() > sent.keys()
    for key, row in found.items():
        for item in COLUMNS if key not in sent else KEPT:
            exact = row[item] == expected[key][item]
            # In which order values are added up is no matter.
            assert exact or row[item] == pytest.approx(expected[key][item], rel=1e-8), (key, item)


AT = ["state.migrate:written", "state.migrate:after", "batch.finish:before", "state.migrate:before"]
PLACES = [(kind, point) for kind in ("tumble", "groups") for point in AT]


@pytest.mark.parametrize("place", mostly_thorough(PLACES, []), ids="-".join)
@pytest.mark.usefixtures("failing")
def test_cut_short(spark: Any, storage_root: Path, place: tuple[str, str]) -> None:
    """Until the one commit the old query goes on as if nothing had been; after it all of the history is there."""
    kind, point = place
    if kind == "tumble" and point == "batch.finish:before":
        pytest.skip("nothing is put out of open windows")
    keys = ("k",) if kind == "groups" else KEYS

    def text(items: dict[str, str]) -> str:
        return grouped(items) if kind == "groups" else windowed("tumble", items)

    old = {"n": "count(*)", "m": "max(v)"}
    new = {"s": "sum(x)", "u": "count(distinct v)", "n": "count(*)"}
    config = {"constant_domains": ["k"]} if kind == "groups" else {}
    is_in = point in ("state.migrate:after", "batch.finish:before")
    for after in [new] if is_in else [old, new]:
        s = backfilling(spark, storage_root, **config)
        s.add(BEFORE)
        s.run(text(old))
        before, sent = s.snapshots(), s.rows(*keys)
        with cut_short_at(point):
            s.run(text(new))
        assert s.snapshots() == before + is_in
        s.run(text(after))
        s.add(AFTER)
        s.run(text(after), closing=kind == "tumble")
        expected = _by_key(s.batch(text(after)), keys)
        found = s.rows(*keys)
        assert found.keys() == expected.keys()
        for key, row in found.items():
            if kind == "groups" or key not in sent:
                assert {name: row[name] for name in after} == expected[key], key
            else:
                assert row["n"] == expected[key]["n"]


@pytest.mark.parametrize("kind", mostly_thorough(["tumble", "groups"], []))
@pytest.mark.usefixtures("failing")
def test_a_step_that_was_cut_short(spark: Any, storage_root: Path, kind: str) -> None:
    """What had not been put out when the query was edited has what is new."""
    keys = ("k",) if kind == "groups" else KEYS

    def text(items: dict[str, str]) -> str:
        return grouped(items) if kind == "groups" else windowed("tumble", items)

    old, new = {"n": "count(*)"}, {"s": "sum(x)", "u": "count(distinct v)", "n": "count(*)"}
    s = backfilling(spark, storage_root, **({"constant_domains": ["k"]} if kind == "groups" else {}))
    s.add(BEFORE)
    with cut_short_at("state.append:after"):
        s.run(text(old))
    assert not s.rows(*keys)
    s.run(text(new))
    assert s.rows(*keys)
    s.add(AFTER)
    s.run(text(new), closing=kind == "tumble")
    assert s.rows(*keys) == _by_key(s.batch(text(new)), keys)


@pytest.mark.thorough
def test_a_ranking_of_groups(spark: Any, storage_root: Path) -> None:
    s = backfilling(spark, storage_root, constant_domains=["v", "x"], changelog=True)
    s.add(BEFORE)
    s.run(ranked("n desc", 2, "count(*) as n"))
    new = ranked("ks desc, sd", 2, "sum(d) as sd, count(*) as n, count(distinct k) as ks")
    for rows in ([], [*AFTER, *THEN]):
        if rows:
            s.add(rows)
        s.run(new)
        columns = s.batch(new).columns
        assert in_order(s.table().select(*columns)) == in_order(s.batch(new).select(*columns))
        again = {tuple(map(repr, row)) for row in replayed(spark, s.model)}
        assert again == {tuple(map(repr, row)) for row in s.table().collect()}


@pytest.mark.thorough
def test_one_from_now_and_another_from_the_past(spark: Any, storage_root: Path) -> None:
    """What lacks rows itself doesn't speak against the history, and is left as it is."""
    s = Edited(spark, storage_root, constant_domains=["k"])
    s.add(BEFORE)
    s.run(grouped({"n": "count(*)"}))
    s.run(grouped({"n": "count(*)", "s": "sum(x)"}))
    s.add(AFTER)
    s.run(grouped({"n": "count(*)", "s": "sum(x)"}))
    s.model = replace(s.model, on_new_metric="backfill")
    all_three = {"m": "max(x)", "n": "count(*)", "s": "sum(x)"}
    s.run(grouped(all_three))
    expected = {**all_three, "s": "sum(x) filter (where late)"}
    assert s.rows("k") == _by_key(s.batch(grouped(expected)), ("k",))
    s.add(THEN)
    s.run(grouped(all_three))
    assert s.rows("k") == _by_key(s.batch(grouped(expected)), ("k",))


def refused(s: Edited, text: str, sentence: str) -> None:
    """Nothing is changed, and one may go on without the past."""
    before, columns, rows = s.snapshots(), s.table().columns, in_order(s.table())
    with pytest.raises(StreamError, match=sentence) as found:
        s.run(text)
    assert "Nothing was changed. Write on_new_metric='from_now'" in str(found.value)
    assert (s.snapshots(), s.table().columns, in_order(s.table())) == (before, columns, rows)
    s.model = replace(s.model, on_new_metric="from_now")
    s.run(text)
    s.model = replace(s.model, on_new_metric="backfill")


@pytest.mark.thorough
def test_what_the_history_does_not_tell(spark: Any, storage_root: Path) -> None:
    counts, more = {"n": "count(*)"}, {"n": "count(*)", "s": "sum(x)"}
    s = backfilling(spark, storage_root, constant_domains=["k"])
    s.add(BEFORE)
    s.run(grouped(counts))
    # A stream may be told to pass over that.
    option = {"streaming-skip-overwrite-snapshots": "true"}
    s.model = replace(s.model, sources=(replace(s.model.sources[0], options=option),))
    spark.sql(f"delete from {s.events} where k = 'a' and ts < timestamp_millis(120000)")
    s.add(AFTER)
    s.run(grouped(counts))
    refused(
        s,
        grouped(more),
        r"1 of 2 windows or groups have another COUNT\(\*\) there than in the state \(as k a\): rows of the sources "
        "were changed or deleted, the state was edited, or a key had expired and came again",
    )


def test_a_key_that_came_again(spark: Any, storage_root: Path) -> None:
    """Which of its rows came since it was forgotten, the history doesn't say."""
    counts = {"n": "count(*)", "m": "max(v)"}
    s = backfilling(spark, storage_root, state_ttl="20 minutes")
    s.add([Event(-60, "back", 5, 5, False)])
    s.run(grouped(counts))
    s.add([*BEFORE])
    s.run(grouped(counts))
    s.add([Event(14.5, "back", 5, 5, False)])
    s.run(grouped(counts))
    refused(
        s,
        grouped({**counts, "s": "sum(x)"}),
        r"from them: 1 of 3 .* have another COUNT\(\*\) .* \(as k back\)",
    )
    # What is kept then doesn't say it at all.
    refused(
        s,
        grouped({"m": "max(v)", "lo": "min(v)"}),
        r"with state_ttl, it keeps no COUNT\(\*\) to show",
    )


@pytest.mark.thorough
def test_a_folder_and_a_table(spark: Any, storage_root: Path, tmp_path: Path) -> None:
    """Of each what was read, and no more: rows and files that are there already come as the stream's next."""
    folder = tmp_path / "in come"
    text = "select k, {} from ({} union all {}) group by k"
    branches = [f"select k, day, x from (select /*+ STREAM */ * from {name})" for name in ("files", "lines")]

    def put(day: int, *values: int) -> None:
        rows = spark.createDataFrame([(f"k{v % 2}", v) for v in values], "k string, x int")
        rows.coalesce(1).write.mode("append").parquet(str(folder / f"day={day}"))

    def add(*values: int) -> None:
        listed = ", ".join(f"('k{v % 2}', 9, {v})" for v in values)
        spark.sql(f"insert into {lines} values {listed}")

    def run(items: str) -> None:
        plan = plan_of(text.format(items, *branches))
        stream.program = generate.generate_program(plan)
        columns = {"k": "string", "n": "bigint", **({"s": "bigint", "d": "bigint"} if "sum" in items else {})}
        stream.model = replace(stream.model, columns=columns, on_new_metric="backfill")
        stream.run()

    def rows() -> list[tuple[Any, ...]]:
        made = f"select k, day, x from {lines} union all select k, cast(day as int), x from files_there"
        spark.read.parquet(str(folder)).createOrReplaceTempView("files_there")
        batch = spark.sql(f"select k, {more} from ({made}) group by k")
        assert sorted_rows(spark.table(stream.model.target).select(batch.columns).collect()) == sorted_rows(
            batch.collect()
        )
        return sorted_rows(batch.collect())

    counts, more = "count(*) as n", "sum(x) as s, count(*) as n, count(distinct day) as d"
    plan = plan_of(text.format(counts, *branches))
    stream = Stream(spark, storage_root, generate.generate_program(plan), "k string, n bigint")
    lines = f"{stream.model.target}_lines"
    spark.sql(f"create table {lines} (k string, day int, x int) using iceberg")
    put(1, 1, 2, 3)
    sources = (
        StreamSource("files", str(folder), "parquet", "k string, x int, day int"),
        StreamSource("lines", lines),
    )
    stream.model = replace(stream.model, sources=sources)
    add(4, 5)
    run(counts)
    put(1, 6)
    put(2, 7, 8)
    run(counts)
    put(3, 9)
    add(10)
    run(more)
    assert rows()
    # One that was read is gone.
    next(folder.glob("day=2/*.parquet")).unlink()
    with pytest.raises(
        StreamError, match=r"1 file that it has read of files is gone, as .*day=2.* Nothing was changed"
    ):
        run(f"{more}, max(x) as m")


@pytest.mark.parametrize("name", mostly_thorough(["groups of groups", "ranking", "exists"], []))
def test_trees_of_operators(spark: Any, storage_root: Path, name: str) -> None:
    """The groups at the bottom have it, and what stands on them is made anew from these."""
    config = {"constant_domains": ["k", "v", "n", "x"], "changelog": True}
    lower, more = "count(*) as n", "sum(x) as s, count(*) as n, count(distinct k) as ks, avg(d) as mean"
    old, new = {
        "groups of groups": (
            of_groups("n, count(*) as c", lower),
            of_groups("n, count(*) as c, max(s) as most, sum(ks) as ks, max(mean) as mean", more),
        ),
        "ranking": (
            f"select * from {_RANK.format(of_groups('n, count(*) as s', lower, _LIKED), 2)}",
            f"select * from {_RANK.format(of_groups('n, max(s) as s, sum(ks) as ks', more, _LIKED), 2)}",
        ),
        "exists": (
            of_groups("k, v, n", lower, f"where exists ({_LIKE})"),
            of_groups("k, v, s, n, ks, mean", more, f"where exists ({_LIKE})"),
        ),
    }[name]
    s = backfilling(spark, storage_root, **config)
    s.add(BEFORE)
    s.run(old)
    s.add(AFTER)
    s.run(new)
    for rows in ([], THEN):
        if rows:
            s.add(rows)
            s.run(new)
        expected = s.batch(new)
        assert in_order(s.table().select(expected.columns)) == in_order(expected)
        again = {tuple(map(repr, row)) for row in replayed(spark, s.model)}
        assert again == {tuple(map(repr, row)) for row in s.table().collect()}


SETS = "group by window_start, window_end, grouping sets ((k, x), (k))"
SHAPES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "grouping sets": ("cumulate", f"select window_start, window_end, k, x, {{}} from {{}} {SETS}", {}),
    "of hops": ("hop", f"select window_start, window_end, k, x, {{}} from {{}} {SETS}", {}),
    "few keys": (
        "cumulate",
        "select window_start, window_end, k, {} from {} where k in ('a', 'b') group by window_start, window_end, k",
        {"enum_distinct": True},
    ),
    "few keys of a tumble": (
        "tumble",
        "select window_start, window_end, k, {} from {} where k in ('a', 'b') group by window_start, window_end, k",
        {"enum_distinct": True},
    ),
    "no key": ("", "select {} from {}", {}),
    "no key of windows": (
        "tumble",
        "select window_start, window_end, {} from {} group by window_start, window_end",
        {},
    ),
    "a NULL key": ("", "select v, {} from {} group by v", {"constant_domains": ["v"]}),
}


@pytest.mark.parametrize("name", mostly_thorough(SHAPES, []))
def test_shapes(spark: Any, storage_root: Path, name: str) -> None:
    """Sets that are kept for some keys, values that few keys have, one group of all rows."""
    kind, shape, config = SHAPES[name]
    lengths, options = WINDOWS[kind] if kind else ((), {})
    source = (
        expansion.expand_window("events", window_arguments.make_window(kind, "ts", *lengths, **options))
        if kind
        else expansion.expand_stream("events")
    )
    items = {
        "uf": "count(distinct x) filter (where v > 1)",
        "n": "count(*)",
        "u": "count(distinct x)",
        "w": "count(distinct v)",
        "s": "sum(x)",
    }
    text = shape.format(_listed(items), source)
    s = backfilling(spark, storage_root, **config)
    s.add(BEFORE)
    s.run(shape.format(_listed({"u": items["u"], "n": items["n"]}), source))
    sent = {row.asDict()["n"] for row in s.table().collect()} if not kind else set()
    before = in_order(s.table())
    s.run(text)
    columns = s.batch(text).columns
    if kind:
        assert len(in_order(s.table())) == len(before)
    else:
        assert sent and in_order(s.table().select(columns)) == in_order(s.batch(text))
    s.add([*AFTER, *THEN])
    s.run(text, closing=bool(kind))
    if not kind:
        assert in_order(s.table().select(columns)) == in_order(s.batch(text))
        return
    # Of windows that had closed what is new is NULL.
    old = s.table().where("s is null").select("window_end").distinct()
    closed = [row[0] for row in old.collect()]
    found = in_order(s.table().where("s is not null").select(columns))
    expected = s.batch(text)
    assert found == in_order(expected.where(~expected["window_end"].isin(closed)) if closed else expected)
    assert len(found) > 0


@pytest.mark.thorough
def test_taken_back(spark: Any, storage_root: Path) -> None:
    """`undo` has state and table as they were, and the old query goes on; and the new one, once more."""
    old, new = grouped({"n": "count(*)"}), grouped({"n": "count(*)", "u": "count(distinct v)"})
    s = backfilling(spark, storage_root, constant_domains=["k"], changelog=True)
    s.add(BEFORE)
    s.run(old)
    before = in_order(s.table())
    s.run(new)
    undo(spark, replace(s.model, columns={"k": "string", "n": "bigint"}), s._planned(old)[1])
    assert in_order(s.table()) == before
    s.add(AFTER)
    s.run(old)
    assert in_order(s.table()) == in_order(s.batch(old))
    s.run(new)
    assert in_order(s.table()) == in_order(s.batch(new).select(s.table().columns))
    again = {tuple(map(repr, row)) for row in replayed(spark, s.model)}
    assert again == {tuple(map(repr, row)) for row in s.table().collect()}


@pytest.mark.thorough
def test_another_run_meanwhile(spark: Any, storage_root: Path) -> None:
    """What the state has got since the history was read isn't lost: the one that comes second writes nothing."""
    old, new = grouped({"n": "count(*)"}), grouped({"n": "count(*)", "s": "sum(x)"})
    s = backfilling(spark, storage_root, constant_domains=["k"])
    s.model = replace(s.model, storage=Remote(s.model.storage.root, lambda: spark))
    s.add(BEFORE)
    s.run(old)
    s.add(AFTER)
    with (
        meanwhile("state.migrate:written", lambda: s.run(old)),
        pytest.raises(StreamError, match="was written by another run meanwhile"),
    ):
        s.run(new)
    assert in_order(s.table().select("k", "n")) == in_order(s.batch(old))
    s.run(new)
    assert in_order(s.table()) == in_order(s.batch(new).select(s.table().columns))


@pytest.mark.thorough
def test_a_table_of_which_nothing_was_read(spark: Any, storage_root: Path) -> None:
    """Rows that it has by then are the stream's next."""
    branches = [f"select k, v, x from (select /*+ STREAM */ * from {name})" for name in ("one", "two")]
    text = f"select k, {{}} from ({' union all '.join(branches)}) group by k"
    counts, more = "count(*) as n", "count(*) as n, sum(x) as s"
    stream = Stream(
        spark, storage_root, generate.generate_program(plan_of(text.format(counts))), "k string, n bigint"
    )
    other = f"{stream.events}_other"
    spark.sql(f"create table {other} (ts timestamp, k string, v bigint, x bigint) using iceberg")
    sources = (StreamSource("one", stream.events), StreamSource("two", other))
    stream.model = replace(stream.model, sources=sources)
    stream.add((0, "a", 1), (1, "b", 2))
    stream.run()
    spark.sql(f"insert into {other} values (null, 'a', 3, 4)")
    stream.program = generate.generate_program(plan_of(text.format(more)))
    columns = {"k": "string", "n": "bigint", "s": "bigint"}
    stream.model = replace(stream.model, columns=columns, on_new_metric="backfill")
    assert stream.run().rows_in == 1
    assert stream.rows() == [("a", 2, 5), ("b", 1, 2)]


@pytest.mark.thorough
@pytest.mark.parametrize("pattern", ["[ab]", "?", "*"])
def test_files_of_folders_that_a_pattern_names(spark: Any, tmp_path: Path, pattern: str) -> None:
    for name in "ab":
        spark.createDataFrame([(name,)], "k string").coalesce(1).write.parquet(str(tmp_path / name))
    source = StreamSource("files", str(tmp_path / pattern), "parquet", "k string")
    model = StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: spark), (source,))
    stream = StreamInput("files", "files", None, None)
    files = tuple(map(str, tmp_path.glob("*/*.parquet")))
    read = replay.History(model, (stream,), (replay._Read(source, stream, files=files),), ())
    assert sorted_rows(read.rows(spark).collect()) == [("a",), ("b",)]
