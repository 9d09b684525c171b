"""A model kept under a name and put back: rows, changes, state and sources together, wherever it is cut short."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import Retention, StreamSource
from dbt.adapters.spark_streaming.stream.iceberg import maintenance
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable
from dbt.adapters.spark_streaming.stream.lifecycle.restoring import Restored, restore, undo
from dbt.adapters.spark_streaming.stream.progress.report import read_progress
from dbt.adapters.spark_streaming.stream.run.evolve import effect_of_edit
from dbt.adapters.spark_streaming.stream.run.lock import model_lock
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from dbt.adapters.spark_streaming.stream.run.saving import delete, save
from dbt.adapters.spark_streaming.stream.state import table as state
from dbt.adapters.spark_streaming.stream.storage.savepoints import checkpoint_copy, stored_savepoints
from tests.functional.stream.test_evolution import AFTER, BEFORE, THEN, Edited, _by_key, grouped
from tests.planned import plan_of
from tests.thorough import mostly_thorough

from . import programs
from .harness import EVENTS, TUMBLE, Stream, replayed, sorted_rows
from .kills import World, do_often
from .kinds import KINDS, write_events
from .programs import SECOND

GROUPS = "select k, count(*) as c, sum(v) as s from (select /*+ STREAM */ * from events) group by k"
OPERATORS = f"select c, count(*) as keys, max(s) as most from ({GROUPS}) group by c"
OF_CHANGES = f"select c, count(*) as keys from {expansion.expand_stream('counts')} group by c"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A storage root of its own."""
    return tmp_path


def take(stream: Stream, name: str) -> None:
    save(stream.spark, stream.model, name)


def back(stream: Stream, name: str) -> Restored:
    return restore(stream.spark, stream.model, stream.program, name)


def both(stream: Stream, name: str, to: str) -> None:
    take(stream, name)
    back(stream, to)


def groups(spark: Any, root: Path) -> Stream:
    program = generate.generate_program(plan_of(GROUPS))
    return Stream(spark, root, program, "k string, c bigint, s bigint", changelog=True)


def expected(stream: Stream, text: str) -> list[tuple[Any, ...]]:
    """The rows of a query over all events."""
    return sorted_rows(stream.spark.sql(re.sub(r"\bevents\b", stream.events, text)).collect())


def refused(action: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(StreamError) as raised:
        action(*arguments)
    return str(raised.value.msg)


def data_files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*.parquet") if not path.name.startswith(".")}


def total_rows_out(stream: Stream) -> int:
    return int((read_progress(stream.model) or {})["total"]["rows_out"])


def location(spark: Any, name: str) -> Path:
    return Path(re.sub(r"^file:/+", "/", str(IcebergTable(spark, name).java.location())))


class Kind:
    """A stream of a kind, and the query that its rows are compared by."""

    def __init__(self, stream: Stream, text: str) -> None:
        self.stream, self.text = stream, text

    def is_right(self) -> None:
        assert self.stream.rows() == expected(self.stream, self.text)
        if self.stream.model.changelog:
            changes = sorted_rows(replayed(self.stream.spark, self.stream.model, until=10**9))
            assert changes == self.stream.rows()


NAMES = ["groups", "operators", "folder"]


def kinds(spark: Any, root: Path) -> Iterator[Kind]:
    """One for each of `NAMES`."""
    yield Kind(groups(spark, root), GROUPS)
    operators = generate.generate_program(plan_query.plan(OPERATORS, domains=["k", "c"]))
    yield Kind(Stream(spark, root, operators, "c bigint, keys bigint, most bigint"), OPERATORS)
    # Of a folder Spark keeps a log of files, which it sums up now and then.
    folder = Stream(spark, root, programs.pass_through(), "ts timestamp, k string, doubled bigint")
    files = root / "files of events"
    add, written = folder.add, list[Any]()

    def add_files(*rows: tuple[Any, ...]) -> None:
        add(*rows)
        table = spark.table(folder.events)
        (table.exceptAll(written[-1]) if written else table).coalesce(1).write.mode("append").parquet(
            str(files)
        )
        written.append(spark.createDataFrame(table.collect(), table.schema))

    folder.add = add_files  # type: ignore[method-assign]
    folder.reads(StreamSource("events", str(files), "parquet", EVENTS, {"maxFilesPerTrigger": "1"}))
    yield Kind(folder, "select ts, k, v * 2 as doubled from events")


@pytest.mark.parametrize("name", mostly_thorough(NAMES, []))
def test_back_and_on_again(spark: Any, root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    # What the state holds is folded, compacted and expired all the time.
    for setting, value in (("_COMMITS", 1), ("_ROWS", 1), ("_RETENTION", Retention(max_snapshots=1))):
        monkeypatch.setattr(state, setting, value)
    monkeypatch.setattr(maintenance, "EVERY", 2)
    kind = dict(zip(NAMES, kinds(spark, root), strict=True))[name]
    stream = kind.stream
    stream.model = replace(stream.model, retention=Retention(max_snapshots=1))
    assert "it has read nothing yet" in refused(take, stream, "early")
    for number in range(2):
        stream.add((number * 1000, f"k{number % 2}", number))
        stream.run()
    files = data_files(root)
    take(stream, "kept")
    assert data_files(root) == files, "no file of rows is written or copied"
    was, batch = stream.rows(), stored_savepoints(stream.model.storage, stream.model.savepoints)[0].batch
    emitted = total_rows_out(stream)
    for number in range(2, 5):
        stream.add((number * 1000, f"k{number % 3}", number))
        stream.run()
    kind.is_right()
    later = stream.rows()
    done = back(stream, "kept")
    assert (stream.rows(), done.kept_as, done.readers) == (was, "before-restore-1", ())
    progress = read_progress(stream.model)
    assert progress is not None
    assert (progress["batch"], progress["total"]["rows_out"]) == (batch, emitted)
    assert stream.run().rows_in == 3, "the rows since then, and no others"
    kind.is_right()
    # There and back, and on with new rows.
    back(stream, "kept")
    back(stream, "before-restore-1")
    assert stream.rows() == later
    assert stream.run().rows_in == 0
    back(stream, "kept")
    stream.add((13_000, "new", 1))
    assert stream.run().rows_in == 4
    kind.is_right()
    assert stream.run().rows_in == 0
    delete(spark, stream.model, "kept")
    assert "there is no savepoint 'kept'" in refused(back, stream, "kept")


POINTS = [
    ("savepoint.checkpoint:after", 1),
    ("savepoint.branch:after", 1),
    ("savepoint.branch:before", 3),
    ("savepoint.note:after", 1),
    ("restore.begin:after", 1),
    ("restore.checkpoint:deleted", 1),
    ("restore.checkpoint:after", 1),
    ("restore.state:after", 1),
    ("restore.changelog:after", 1),
    ("restore.table:after", 1),
    ("restore.end:after", 1),
]


@pytest.mark.parametrize("first", mostly_thorough([0, 1, 2], []))
@pytest.mark.usefixtures("failing")
def test_cut_short_anywhere(spark: Any, root: Path, first: int) -> None:
    kind = Kind(groups(spark, root), GROUPS)
    stream, name = kind.stream, kind.stream.model.name
    stream.add((0, "a", 1), (0, "b", 2))
    stream.run()
    take(stream, "first")
    for number, (point, nth) in enumerate(POINTS[first::3]):
        stream.add((0, "a", number), (0, f"k{number}", number))
        stream.run()
        failpoints.arm(failpoints.parse(f"raise {point} {nth} {name}"))
        assert point in refused(both, stream, f"second{number}", "first")
        failpoints.arm(None)
        try:
            stream.run()
            was_cut_short = False
        except StreamError as problem:
            was_cut_short = True
            assert "the restore of its savepoint 'first' was interrupted" in problem.msg
            assert f"Run it again: `dbt-stream state restore {name} first`" in problem.msg
            assert "the restore of its savepoint 'first' was interrupted" in refused(take, stream, "no")
            assert "was interrupted" in str(effect_of_edit(spark, stream.model, stream.program).refused)
            (before,) = re.findall(r"To go back instead: `dbt-stream state restore \S+ (\S+)`", problem.msg)
            back(stream, before if number % 2 else "first")
            stream.run()
        assert was_cut_short == (point.startswith("restore.") and point != "restore.end:after")
        kind.is_right()
        # Nothing is left of a savepoint that never came about.
        names = {each.name for each in stored_savepoints(stream.model.storage, stream.model.savepoints)}
        take(stream, f"whole{number}")
        names.add(f"whole{number}")
        kept = {each.name for each in stored_savepoints(stream.model.storage, stream.model.savepoints)}
        assert kept == names
        for table in (stream.model.state, stream.model.changes, stream.model.target):
            tags = {
                row.name for row in spark.sql(f"select name from {table}.refs where name <> 'main'").collect()
            }
            assert tags == {f"savepoint_{each}" for each in kept}
        for each in kept - {"first"}:
            delete(spark, stream.model, each)


@pytest.mark.thorough
def test_an_undo_of_an_interrupted_restore(spark: Any, root: Path) -> None:
    stream = groups(spark, root)
    stream.add((0, "a", 1))
    stream.run()
    take(stream, "first")
    stream.add((0, "b", 2))
    stream.run()
    later = stream.rows()
    failpoints.arm(failpoints.parse(f"raise restore.state:after 1 {stream.model.name}"))
    assert "restore.state:after" in refused(back, stream, "first")
    failpoints.arm(None)
    done = undo(spark, stream.model, stream.program)
    assert stream.rows() == later
    there = [each.name for each in stored_savepoints(stream.model.storage, stream.model.savepoints)]
    assert (there, done.kept_as) == (["first"], None), "the savepoint that it went back to is deleted"
    assert stream.run().rows_in == 0


@pytest.mark.thorough
def test_what_cannot_be_restored_is_told_and_nothing_is_changed(spark: Any, root: Path) -> None:
    kind = Kind(groups(spark, root), GROUPS)
    stream = kind.stream
    model, storage = stream.model, stream.model.storage
    stream.add((0, "a", 1))
    stream.run()
    take(stream, "good")
    stream.add((0, "b", 2))
    stream.run()
    rows = stream.rows()

    def told(*sentences: str, name: str = "good") -> None:
        said = refused(back, stream, name)
        for sentence in sentences:
            assert sentence in said
        assert stream.rows() == rows

    told(f"Model {model.name}: there is no savepoint 'bad' of it; it has good.", name="bad")
    assert "there is a savepoint 'good' of it already" in refused(take, stream, "good")
    assert "'a b' can't be the name of a savepoint" in refused(take, stream, "a b")
    assert "'before-edit-1' is reserved for savepoints that are taken automatically" in refused(
        take, stream, "before-edit-1"
    )
    with model_lock(spark, model):
        told("another run of it is in progress")
        assert "another run of it is in progress" in refused(take, stream, "x")
        assert "another run of it is in progress" in refused(delete, spark, model, "good")
    assert "there is nothing to undo" in refused(undo, spark, model, stream.program)

    # Another query.
    program = stream.program
    stream.program = generate.generate_program(
        plan_of(GROUPS.replace("k,", "v as k,").replace("by k", "by v"))
    )
    told(
        "its savepoint 'good' can't be continued with the query as it is now",
        "the group key",
        "Put the query back",
    )
    stream.program = programs.pass_through()
    told("its query keeps no state, and kept some then")
    stream.program = program

    # Notes and copies that somebody has changed.
    file = Path(model.savepoints) / "good" / "savepoint.json"
    noted = file.read_text()
    file.write_text(noted.replace('"format": 1', '"format": 2'))
    told("was made by a newer dbt-spark-streaming (its format is 2, this one knows 1)")
    file.write_text("{")
    told("savepoint.json can't be read")
    changed = json.loads(noted)
    changed["tables"]["state"]["properties"]["stream.version"] = "99"
    file.write_text(json.dumps(changed))
    told("the state of its savepoint 'good' was made by a newer dbt-spark-streaming (layout 99")
    changed["tables"]["state"]["properties"]["stream.version"] = "1"
    file.write_text(json.dumps(changed))
    told("the state of its savepoint 'good' was made by an earlier dbt-spark-streaming")
    file.write_text(noted)
    copy = Path(checkpoint_copy(model, "good"))
    shutil.move(copy / "offsets", root / "offsets")
    told("can't be restored: its copy of the checkpoint", "isn't whole")
    shutil.move(root / "offsets", copy / "offsets")

    # Files and snapshots that somebody has removed.
    for folder in ("data", "metadata"):
        files = [
            path
            for path in (location(spark, model.state) / folder).rglob("*")
            if path.suffix in (".parquet", ".avro")
        ]
        oldest = min(files, key=lambda path: path.stat().st_mtime)
        oldest.rename(root / "away")
        told(
            "can't be restored:",
            f"of its state {model.state}",
            "`dbt-stream state savepoint",
            "--delete good`",
        )
        (root / "away").rename(oldest)
    spark.sql(f"alter table {model.target} drop branch savepoint_good")
    told(f"a snapshot has expired, or its branch was moved or dropped, of its table {model.target}")
    delete(spark, model, "good")

    # Sources that can't be read again. Here they still can:
    take(stream, "later")
    stream.add((0, "c", 3))
    stream.run()
    rows = stream.rows()
    catalog = spark.conf.get("spark.sql.defaultCatalog")
    expire = f"call {catalog}.system.expire_snapshots(table => '{stream.events}', older_than => now(), retain_last =>"
    for number in range(2):
        stream.add((0, "c", number))
    spark.sql(f"{expire} 4)")
    back(stream, "later")
    stream.run()
    kind.is_right()
    rows = stream.rows()
    # And here not.
    spark.sql(f"{expire} 1)")
    told(
        f"the table {stream.events} that it streams from was rebuilt",
        "its snapshots have expired",
        "Nothing was changed.",
        name="later",
    )
    spark.sql(f"drop table {stream.events}")
    told(f"the table {stream.events} that it streams from doesn't exist", name="later")
    state_table = model.state
    spark.sql(f"alter table {state_table} rename to {state_table}_away")
    told(f"its state {state_table} was dropped since", name="later")
    spark.sql(f"alter table {state_table}_away rename to {state_table}")
    # A reset forgets savepoints and their tags too.
    stream.reset()
    assert stored_savepoints(storage, model.savepoints) == []
    assert not spark.sql(f"select * from {model.target}.refs where name <> 'main'").collect()


def test_files_that_were_moved(spark: Any, root: Path) -> None:
    *_, kind = kinds(spark, root)
    stream = kind.stream
    for number in range(2):
        stream.add((0, "a", number))
        stream.run()
        if number == 0:
            take(stream, "first")
    (folder,) = (StreamSource(each.relation, each.location).location for each in stream.model.sources)
    newest = max(Path(folder).glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    newest.rename(root / "away")
    assert "1 file of its source events is gone or was moved" in refused(back, stream, "first")
    (root / "away").rename(newest)
    back(stream, "first")
    assert stream.run().rows_in == 1
    kind.is_right()


@pytest.mark.thorough
def test_a_restore_brings_back_what_is_broken(spark: Any, root: Path) -> None:
    """It goes by the savepoint alone, not by what there is."""
    kind = Kind(groups(spark, root), GROUPS)
    stream = kind.stream
    stream.add((0, "a", 1))
    stream.run()
    take(stream, "good")
    stream.add((0, "b", 2))
    stream.run()
    shutil.rmtree(stream.model.checkpoint)
    assert "checkpoint" in refused(stream.run)
    done = back(stream, "good")
    assert done.kept_as is None
    assert "checkpoint" in str(done.not_kept)
    assert stream.run().rows_in == 1
    kind.is_right()
    # A changelog that is begun after the savepoint begins again; one that was dropped isn't missed.
    spark.sql(f"drop table {stream.model.changes}")
    stream.model = replace(stream.model, changelog=False)
    stream.run()
    take(stream, "without")
    stream.model = replace(stream.model, changelog=True)
    stream.add((0, "c", 3))
    stream.run()
    for name in ("without", "good"):
        back(stream, name)
        stream.run()
        kind.is_right()


@pytest.mark.thorough
def test_models_downstream_notice(spark: Any, root: Path) -> None:
    up = groups(spark, root)
    changes = plan_query.plan(OF_CHANGES, {"counts": RelationInfo(key=("k",), changes=True)})
    down = Stream(spark, root, generate.generate_program(changes), "c bigint, keys bigint")
    up.add((0, "a", 1))
    up.run()
    down.reads(StreamSource("counts", up.model.changes))
    down.run()
    take(up, "s")
    take(down, "s")
    assert back(up, "s").readers == (), "it has read nothing that isn't there"
    up.add((0, "b", 1), (0, "a", 1))
    up.run()
    down.run()
    take(down, "too_late")
    was = down.rows()
    (reader,) = back(up, "s").readers
    assert reader == down.model.key
    for _ in range(2):
        said = refused(down.run)
        assert f"the table {up.model.changes} that it streams from was put back" in said
        assert f"`dbt-stream state restore {down.model.name} s`" in said
        assert down.rows() == was
        up.run()
    assert "that it streams from was rebuilt or rolled back" in refused(back, down, "too_late")
    back(down, "s")
    down.run()
    text = f"select c, count(*) as keys from {up.model.target} group by c"
    assert down.rows() == sorted_rows(spark.sql(text).collect())
    # One that has no savepoint to go back to is to be built anew.
    up.add((0, "c", 1))
    up.run()
    down.run()
    for name in ("s", "too_late"):
        delete(spark, down.model, name)
    back(up, "s")
    assert f"Rebuild this model too: {down.model.rebuild}" in refused(down.run)


OLD = {"n": "count(*)", "sv": "sum(v)", "d": "count(distinct x)"}
NEW = {"n": "count(*)", "most": "max(x)"}


@pytest.mark.thorough
@pytest.mark.usefixtures("failing")
def test_a_migration_taken_back(spark: Any, root: Path) -> None:
    s = Edited(spark, root, changelog=True, constant_domains=["k"])
    s.add(BEFORE)
    s.run(grouped(OLD))
    # Cut short on the way, it is as it was for the old query.
    failpoints.arm(failpoints.parse(f"raise savepoint.note:before 1 {s.model.name}"))
    refused(s.run, grouped(NEW))
    failpoints.arm(None)
    s.run(grouped(OLD))
    assert stored_savepoints(s.model.storage, s.model.savepoints) == []
    s.add(AFTER)
    s.run(grouped(NEW))
    (made,) = stored_savepoints(s.model.storage, s.model.savepoints)
    assert (made.name, made.cause) == ("before-migration-1", "migration")
    assert "sum_v" not in s.state()
    _, program = s._planned(grouped(OLD))
    told = effect_of_edit(spark, s.model, program)
    assert (told.found.new, told.undo) == (["SUM(v)", "COUNT(DISTINCT x)"], "before-migration-1")
    # Under the query of now it goes back as well, and would go on with it again.
    _, edited = s._planned(grouped(NEW))
    done = undo(spark, s.model, edited)
    assert "new from here on: MAX(x)" in str(done.next_run)
    s.run(grouped(NEW))
    assert undo(spark, s.model, program).next_run is None
    assert "undo" in refused(undo, spark, s.model, program)
    s.add(THEN)
    s.run(grouped(OLD))
    assert list(s.state()).count("max_x") == 0
    assert _by_key(s.table().drop("most"), ("k",)) == _by_key(s.batch(grouped(OLD)), ("k",))
    assert "most" not in s.table().columns


def test_windows_that_were_closed_are_open_again(spark: Any, root: Path) -> None:
    stream = Stream(spark, root, programs.tumble(SECOND), TUMBLE)
    stream.add((0, "a", 1), (1500, "a", 1))
    stream.run()
    take(stream, "open")
    stream.flush()
    assert len(stream.rows()) == 2
    back(stream, "open")
    assert stream.rows() == [(0, 1000, "a", 1, 1)]
    stream.add((1800, "a", 1))
    stream.run()
    stream.flush()
    assert stream.rows() == [(0, 1000, "a", 1, 1), (1000, 2000, "a", 2, 2)]


@pytest.mark.parametrize("name", mostly_thorough(KINDS, []))
def test_every_kind_of_model(spark: Any, root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Rows are read twice, and counted once: as plain Spark has them over the whole input."""
    do_often(monkeypatch.setattr)

    def come(*numbers: int) -> None:
        for folder in ("events", "orders"):
            for number in numbers:
                write_events(root / folder, number, 20, name)

    come(0, 1)
    world = World(spark, Storage(str(root), lambda: spark), root, f"savepoints_{name}", kinds=[name])
    kinds = [KINDS[each] for each in (*KINDS[name].upstream, name)]
    models = {kind.name: world.model(kind) for kind in kinds}
    for kind in kinds:
        world.make_table(kind)
        run_stream(spark, models[kind.name], kind.program)
        save(spark, models[kind.name], "s")
    was = {kind.name: world.rows(kind) for kind in kinds}
    come(2, 3)
    for kind in kinds:
        run_stream(spark, models[kind.name], kind.program)
        flush(spark, models[kind.name], kind.program)
    for kind in kinds:
        restore(spark, models[kind.name], kind.program, "s")
        assert world.rows(kind) == was[kind.name]
    come(4, 5)
    world.see_all()
    for kind in kinds:
        run_stream(spark, models[kind.name], kind.program)
        flush(spark, models[kind.name], kind.program)
        assert world.rows(kind) == world.expected(kind)
