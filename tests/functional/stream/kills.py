"""Streams of every kind side by side in one process, aborted at fail points or killed: ``python -m … ROOT``.

A *life* is one process: it takes in what is there, and closes all windows. ROOT/life.json says what happens to it on
the way (`Life`). What has happened is in ROOT/kills.jsonl: a line for every abort and every kill, written before it.
An abort is an exception at a fail point: the stream drops everything and is begun again with what is on disk. A silent
commit is one of which nobody is told whether it succeeded; the stream finds out, or ends as well. A kill is a SIGKILL of
Python, of its JVM, or of both.

The process ends with 0 when all streams got to the end, 3 when its JVM was killed, 1 when something is wrong; then
ROOT/problems.txt says what.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import get_environment
from dbt.adapters.spark_streaming.environment.packages import (
    LOCAL_FILES,
    LOCAL_FILES_CLASS,
    SQLITE,
    default_cache,
)
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError, readable_errors
from dbt.adapters.spark_streaming.stream.common.lookup_source import LookupSource
from dbt.adapters.spark_streaming.stream.common.model import Retention, StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.iceberg import maintenance
from dbt.adapters.spark_streaming.stream.microbatch import splitter
from dbt.adapters.spark_streaming.stream.progress.position import Position, read_position
from dbt.adapters.spark_streaming.stream.progress.report import read_progress
from dbt.adapters.spark_streaming.stream.run.runner import flush, reset, run_stream
from dbt.adapters.spark_streaming.stream.state import table as state

from .harness import made_for, sorted_rows, written
from .kinds import CUSTOMERS, EVENTS, KINDS, Kind

SCHEMA = "kills"
DELAY = 30_000_000

COMMITS = {
    "state.append": "state",
    "state.fold": "state",
    "state.compact": "state",
    "state.expire": "state",
    "state.migrate": "state",
    "table.append": "target",
    "table.overwrite": "target",
    "table.change": "target",
    "table.merge": "target",
    "table.compact": "target",
    "table.expire": "target",
    "changelog.append": "changes",
    "changelog.compact": "changes",
    "changelog.expire": "changes",
    "changelog.retention": "changes",
}
"""The steps that are commits of Iceberg, and of which table of a model."""

STAGES = ("rows", "manifests", "metadata", "committed")
"""How far a commit has come: it has written files of rows, manifests, the table's metadata; the catalog has made it, and
hasn't said so yet."""
SILENT = ("unknown", "lost")
"""A commit that is made and nobody is told of, and one that isn't."""

_FEW_SNAPSHOTS = Retention(max_snapshots=4)


def do_often(patch: Callable[[Any, str, Any], object] = setattr) -> None:
    """Have streams do often what they do now and then: fold, compact, expire.

    Args:
        patch: sets an attribute of a module or a class.
    """
    for name, value in (("_COMMITS", 2), ("_ROWS", 10), ("_LOOSE_FILES", 3)):
        patch(state, name, value)
    patch(state, "_RETENTION", _FEW_SNAPSHOTS)
    patch(maintenance, "EVERY", 2)


def cut(names: Collection[str], rows: int, patch: Callable[[Any, str, Any], object] = setattr) -> None:
    """Have models take in their micro-batches in pieces, of a few rows each.

    Args:
        names: the models.
        rows: of a piece.
        patch: as in `do_often`.
    """
    most_rows = splitter.BatchSplitter._rows_that_fit

    def few(cutter: splitter.BatchSplitter, batch: Any) -> int:
        return rows if cutter._model.name in names else most_rows(cutter, batch)

    patch(splitter.BatchSplitter, "_rows_that_fit", few)


@dataclass(frozen=True)
class Kill:
    """When a process kills itself or its JVM."""

    who: str
    """``python``, ``jvm`` or ``both``."""
    point: str = ""
    """A fail point; or, with `stage`, a step that is a commit; or, with `after`, nothing."""
    nth: int = 1
    """At which passing."""
    model: str | None = None
    """Whose; None: anyone's."""
    stage: str = ""
    """One of `STAGES`: in the middle of the commit."""
    after: float = 0.0
    """At whatever point the streams are, so many seconds after they were begun."""


@dataclass(frozen=True)
class Life:
    """What happens to one process."""

    seed: int = 0
    kinds: tuple[str, ...] = tuple(KINDS)
    new_aborts: float = 0.0
    """The chance of an abort where that kind of model was never aborted."""
    aborts: float = 0.0
    """The chance of one elsewhere."""
    each: int | None = None
    """How many kinds are aborted at a point; None: all of them."""
    faults: tuple[str, ...] = ("abort", *SILENT)
    """What an abort may be."""
    kill: Kill | None = None
    written: str = "at once"
    """How tables are, as `harness.written` says."""
    cut: tuple[str, ...] = ()
    """Models whose micro-batches are cut into pieces."""
    refresh: tuple[str, ...] = ()
    """Models that are built anew, by what `dbt run --full-refresh` does."""
    edition: int = 0
    """Which of their queries models have that are edited, see `Kind.at`."""
    verify: bool = False
    """Whether the rows are compared in the end."""


def is_faulty_catalog_there() -> bool:
    """Whether the catalog whose commits fail can be compiled."""
    from shutil import which

    return which("javac") is not None


def make_faulty_catalog(jar: Path) -> None:
    """Compile the catalog whose commits fail."""
    classes = jar.parent / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    (iceberg,) = (default_cache() / "ivy" / "jars").glob("*iceberg-spark-runtime*.jar")
    source = Path(__file__).with_name("FaultyCatalog.java")
    subprocess.run(
        ["javac", "-nowarn", "--release", "17", "-cp", str(iceberg), "-d", str(classes), str(source)],
        check=True,
    )
    with zipfile.ZipFile(jar, "w") as archive:
        for file in classes.rglob("*.class"):
            archive.write(file, file.relative_to(classes))


class World:
    """The models in a session.

    Args:
        spark: the session.
        storage: where checkpoints are.
        root: the folder of the input.
        schema: where the models are.
        location: where the schema is; None: where the catalog has it.
        catalog: where it is kept; None: in the session's own.
        kinds: the models that are asked for, and those they read; all others would be planned for nothing.
    """

    def __init__(
        self,
        spark: Any,
        storage: Any,
        root: Path,
        schema: str = SCHEMA,
        location: Path | None = None,
        catalog: str | None = None,
        kinds: Collection[str] = tuple(KINDS),
    ) -> None:
        self.spark, self.storage, self.root = spark, storage, root
        asked = {*kinds}.union(*(KINDS[name].upstream for name in kinds))
        self._kinds = [kind for kind in KINDS.values() if kind.name in asked]
        # In full: a thread of Python's has no session by which Spark would know the catalog.
        self.schema = f"{catalog or spark.conf.get('spark.sql.defaultCatalog')}.{schema}"
        where = f" location '{location}'" if location is not None else ""
        spark.sql(f"create namespace if not exists {self.schema}{where}")
        self._customers = root / "customers.db"
        if not self._customers.exists():
            self._make_customers()
        self.see_all()

    def see_all(self) -> None:
        """Have plain Spark read all files that are there by now."""
        self.plain = self._make_views()

    def model(self, kind: Kind) -> StreamModel:
        """A model of a kind."""
        target = f"{self.schema}.{kind.name}"
        return StreamModel(
            name=kind.name,
            target=target,
            state=f"{target}__state",
            storage=self.storage,
            sources=tuple(map(self._source, kind.reads)),
            lookups=(self._lookup(),) if "customers" in kind.text else (),
            watermark_delay=DELAY,
            changelog=kind.changelog,
            retention=_FEW_SNAPSHOTS,
            changelog_retention=0,
            columns=self._columns[kind.name],
        )

    def make_table(self, kind: Kind, how: str = "create table if not exists") -> None:
        """Make a model's table, as its materialization does."""
        columns = ", ".join(f"`{name}` {type_}" for name, type_ in self._columns[kind.name].items())
        table = f"{self.schema}.{kind.name}"
        self.spark.sql(f"{how} {table} ({columns}) using iceberg {made_for(table)}")

    def expected(self, kind: Kind) -> list[tuple[Any, ...]]:
        """The rows of a model's table, by plain Spark on the whole input."""
        return sorted_rows(self.plain.sql(kind.batch).collect())

    def rows(self, kind: Kind) -> list[tuple[Any, ...]]:
        """The rows of a model's table."""
        return sorted_rows(self.spark.table(f"{self.schema}.{kind.name}").collect())

    def _source(self, name: str) -> StreamSource:
        if name not in KINDS:
            return StreamSource(name, str(self.root / name), "parquet", EVENTS, {"maxFilesPerTrigger": "1"})
        # Rows that are only added are read from the table itself.
        table = f"{self.schema}.{name}"
        return StreamSource(name, table if KINDS[name].program.upsert is None else f"{table}__changes")

    def _lookup(self) -> LookupSource:
        config = {"url": f"jdbc:sqlite:{self._customers}"}
        return LookupSource.from_config("customers", "customers", config, "customers")

    def _make_customers(self) -> None:
        import sqlite3

        with sqlite3.connect(self._customers) as connection:
            connection.execute("create table customers (id integer primary key, region text)")
            connection.executemany("insert into customers values (?, ?)", CUSTOMERS)

    def _make_views(self) -> Any:
        plain = self.spark.newSession()
        for name in ("events", "orders"):
            plain.read.schema(EVENTS).parquet(str(self.root / name)).createOrReplaceTempView(name)
        plain.createDataFrame(list(CUSTOMERS), "id int, region string").createOrReplaceTempView("customers")
        # Asked once: when the JVM was killed nothing can be asked, and what goes wrong then is to be the stream's.
        self._columns: dict[str, dict[str, str]] = {}
        for kind in self._kinds:
            rows = plain.sql(kind.batch)
            rows.createOrReplaceTempView(kind.name)
            self._columns[kind.name] = {f.name: f.dataType.simpleString() for f in rows.schema.fields}
        return plain


class Faults:
    """What happens at fail points.

    Args:
        world: the models.
        life: what is to happen.
        jvm: the process to kill.
        catalog: the class of the faulty catalog; None where there is none.
        points: where streams are aborted; None: anywhere.
    """

    def __init__(
        self,
        world: World,
        life: Life,
        jvm: int,
        catalog: Any = None,
        points: Collection[str] | None = None,
    ) -> None:
        self._world, self._life, self._jvm, self._catalog = world, life, jvm, catalog
        self._points = points
        self._log = world.root / "kills.jsonl"
        self._chance = random.Random(life.seed)
        self._lock = threading.Lock()
        self._passed = 0
        self._watched: tuple[str, threading.Event] | None = None
        self._done = {(entry["model"], entry["what"]) for entry in read_log(self._log)}
        self._often = Counter(what for _, what in self._done)
        self.fired: dict[str, str] = {}
        """By model: what it was aborted at."""
        self.running: set[str] = set()
        self.jvm_is_dead = False

    def __call__(self, point: str, model: str) -> None:
        """See `failpoints.Handler`."""
        with self._lock:
            self._kill_at(point, model)
            if model in self.fired or self.jvm_is_dead:
                return
            what = self._abort_of(point, model)
            if what is None:
                return
            self.fired[model] = what
            step, _, fault = what.partition(":")
            if fault not in SILENT:
                self.log("abort", model, what)
                raise failpoints.FailPointError(f"{model} at {what}")
            # Logged when it has come about: a commit may turn out not to be needed.
            self._catalog.arm(self._table(model, step), fault)

    def begin(self) -> None:
        """Have the process killed after a time, if that is to happen."""
        kill = self._life.kill
        if kill is not None and kill.after:
            timer = threading.Timer(kill.after, lambda: self._kill(kill.who, "", "anywhere"))
            timer.daemon = True
            timer.start()

    def aborted(self, model: str) -> bool:
        """Whether a model failed of what was done to it."""
        what = self.fired.pop(model, None)
        self._note_silent_commit(model, what)
        return what is not None

    def passed(self, model: str) -> str | None:
        """What a model was aborted at and yet got to its end."""
        what = self.fired.pop(model, None)
        self._note_silent_commit(model, what)
        return what

    def _note_silent_commit(self, model: str, what: str | None) -> None:
        if what is None or what.partition(":")[2] not in SILENT or self.jvm_is_dead:
            return
        if not self._catalog.arm(self._table(model, what.partition(":")[0]), None):
            self.log("silent commit", model, what)

    def log(self, action: str, model: str, what: str) -> None:
        """Note what is about to happen."""
        running = sorted(self.running.copy())
        line = json.dumps({"action": action, "model": model, "what": what, "running": running})
        with open(self._log, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        self._done.add((model, what))
        self._often[what] += 1

    def _abort_of(self, point: str, model: str) -> str | None:
        if self._points is not None and point not in self._points:
            return None
        step, _, side = point.partition(":")
        possible = [point] if "abort" in self._life.faults else []
        if self._catalog is not None and side == "before" and step in COMMITS:
            possible += [f"{step}:{fault}" for fault in SILENT if fault in self._life.faults]
        new = [what for what in possible if (model, what) not in self._done]
        if self._life.each is not None:
            new = [what for what in new if self._often[what] < self._life.each]
        if new and self._chance.random() < self._life.new_aborts:
            return self._chance.choice(new)
        return (
            self._chance.choice(possible) if possible and self._chance.random() < self._life.aborts else None
        )

    def _kill_at(self, point: str, model: str) -> None:
        kill = self._life.kill
        if kill is None or kill.model not in (None, model):
            return
        step, _, side = point.partition(":")
        if kill.stage:
            if step != kill.point:
                return
            if side == "after":
                self._leave_commit(model, step)
            if side != "before":
                return
        elif point != kill.point:
            return
        self._passed += 1
        if self._passed != kill.nth:
            return
        if kill.stage:
            self._watch_commit(kill, model, step)
        else:
            self._kill(kill.who, model, kill.point)

    def _watch_commit(self, kill: Kill, model: str, step: str) -> None:
        """Have the process killed in the middle of the commit that is about to be made."""
        table = self._table(model, step)
        if kill.stage == "rows":
            folder = self._world.root / "storage" / "warehouse" / SCHEMA / table
            before = set(folder.rglob("*.parquet"))

            def is_there() -> bool:
                return not before.issuperset(folder.rglob("*.parquet"))
        else:
            marker = self._world.root / "held"
            marker.unlink(missing_ok=True)
            # When only Python is killed, the JVM finishes the commit, if it gets to that.
            self._catalog.hold(table, kill.stage, str(marker), 1_000 if kill.who == "python" else 600_000)
            is_there = marker.exists
        over = threading.Event()
        self._watched = (model, over)

        def watch() -> None:
            while not is_there():
                if over.is_set():
                    return
                time.sleep(0.0005)
            self._kill(kill.who, model, f"{kill.point}:{kill.stage}")

        threading.Thread(target=watch, daemon=True).start()

    def _leave_commit(self, model: str, step: str) -> None:
        """The commit is over, without having got there: nothing was to be written, say. The next one may."""
        if self._watched is None or self._watched[0] != model:
            return
        self._watched[1].set()
        self._watched = None
        self._passed -= 1
        if self._life.kill is not None and self._life.kill.stage != "rows":
            self._catalog.hold(self._table(model, step), None, None, 0)

    def _kill(self, who: str, model: str, what: str) -> None:
        self.log(f"kill {who}", model, what)
        if who != "python":
            self.jvm_is_dead = True
            os.kill(self._jvm, signal.SIGKILL)
        if who != "jvm":
            os.kill(os.getpid(), signal.SIGKILL)

    def _table(self, model: str, step: str) -> str:
        which = COMMITS[step]
        return model if which == "target" else f"{model}__{which}"


class Drive:
    """Takes the streams of some kinds to their end, whatever is done to them on the way.

    Args:
        world: the models.
        kinds: those to run. Whoever reads another comes after it.
        faults: what is done to them.
    """

    def __init__(self, world: World, kinds: Sequence[Kind], faults: Faults | None) -> None:
        self._world, self._kinds, self._faults = world, kinds, faults
        self._refreshed = {kind.name: threading.Event() for kind in kinds}
        self._over = {kind.name: threading.Event() for kind in kinds}
        self.problems: list[str] = []
        self.failed: dict[str, Exception] = {}
        """What streams ended with that weren't taken to their end, by model."""
        self.aborts = 0

    def run(self, threads: bool = True) -> None:
        """Run them all to their end."""
        failpoints.arm(self._faults)
        try:
            if not threads:
                for kind in self._kinds:
                    self._run(kind)
                return
            workers = [threading.Thread(target=self._run, args=(kind,), daemon=True) for kind in self._kinds]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        finally:
            failpoints.arm(None)

    def _run(self, kind: Kind) -> None:
        try:
            self._to_the_end(kind)
        except Exception as problem:
            if self._faults is None or not self._faults.jvm_is_dead:
                self.problems.append(f"{kind.name}: {''.join(traceback.format_exception(problem))}")
            self.failed[kind.name] = problem
        finally:
            self._refreshed[kind.name].set()
            self._over[kind.name].set()
            if self._faults is not None:
                self._faults.running.discard(kind.name)

    def _to_the_end(self, kind: Kind) -> None:
        world, model = self._world, self._world.model(kind)
        if self._faults is not None:
            self._faults.running.add(kind.name)
        self._refresh_first(kind)
        upstream = [name for name in kind.upstream if name in self._over]
        while True:
            last = all(self._over[name].is_set() for name in upstream)
            if all(self._is_there(source) for source in model.sources):
                self._attempt(kind, lambda: run_stream(world.spark, world.model(kind), kind.program))
            elif last:
                return
            if last:
                break
            time.sleep(0.2)
        self._attempt(kind, lambda: flush(world.spark, world.model(kind), kind.program))

    def _refresh_first(self, kind: Kind) -> None:
        """What `dbt run --full-refresh` does; after a crash in it again, and before that what `dbt run` does."""
        world = self._world
        marker = world.root / "refresh" / kind.name
        if not marker.exists():
            world.make_table(kind)
            self._refreshed[kind.name].set()
            return
        for name in kind.upstream:
            if name in self._refreshed:
                self._refreshed[name].wait()

        def build() -> None:
            reset(world.spark, world.model(kind))
            failpoints.reached("refresh:reset", kind.name)
            with readable_errors(world.model(kind)):  # as dbt tells what its own statement died of
                world.make_table(kind, "create or replace table")
            failpoints.reached("refresh:replaced", kind.name)
            if not kind.upstream:
                run_stream(world.spark, world.model(kind).without_source_limits(), kind.program)

        self._attempt(kind, build, between=None if kind.upstream else self._plain_run)
        marker.unlink()
        self._refreshed[kind.name].set()

    def _plain_run(self, kind: Kind) -> None:
        """A run between two tries to build a model anew: it is refused, or goes on with nothing lost or doubled."""
        world = self._world
        try:
            run_stream(world.spark, world.model(kind), kind.program)
            flush(world.spark, world.model(kind), kind.program)
        except StreamError as problem:
            if self._faults is not None and not self._faults.aborted(kind.name):
                self._note(f"{kind.name}: refused between two refreshes: {problem}")
            return
        if self._faults is not None:
            self._faults.passed(kind.name)
        if (found := world.rows(kind)) != (expected := world.expected(kind)):
            self.problems.append(
                f"{kind.name}: a run after a refresh that was cut short gave {len(found)} rows, not {len(expected)}"
            )

    def _note(self, text: str) -> None:
        with open(self._world.root / "notes.txt", "a", encoding="utf-8") as file:
            file.write(text + "\n")

    def _attempt(
        self, kind: Kind, what: Callable[[], Any], between: Callable[[Kind], None] | None = None
    ) -> None:
        while True:
            try:
                what()
            except Exception as problem:
                if (
                    self._faults is not None
                    and self._faults.jvm_is_dead
                    and not isinstance(problem, StreamError)
                ):
                    self.problems.append(f"{kind.name}, JVM killed, not a sentence: {problem!r}")
                if self._faults is None or not self._faults.aborted(kind.name):
                    raise
                self.aborts += 1
                if not isinstance(problem, StreamError | failpoints.FailPointError):
                    self.problems.append(f"{kind.name}: not a sentence: {problem!r}")
                if between is not None:
                    between(kind)
                continue
            if self._faults is not None and (swallowed := self._faults.passed(kind.name)) is not None:
                if swallowed.partition(":")[2] not in SILENT:
                    self.problems.append(f"{kind.name}: went on after it failed at {swallowed}")
            return

    def _is_there(self, source: StreamSource) -> bool:
        return not source.is_table or bool(self._world.spark.catalog.tableExists(source.location))


def verify(world: World, kinds: Sequence[Kind], rows_in: int) -> list[str]:
    """What is wrong with tables, changes and counts, after all windows were closed.

    Args:
        world: the models.
        kinds: which of them.
        rows_in: how many rows a stream has.
    """
    problems = []
    for kind in kinds:
        found, expected = world.rows(kind), world.expected(kind)
        if found != expected:
            problems.append(f"{kind.name}: {_difference(found, expected)}")
        progress: Any = read_progress(world.model(kind))
        if not kind.upstream and kind.program.keeps_state:
            total = {name: progress["total"][name] for name in ("rows_in", "late_rows", "null_time_rows")}
            if total != {"rows_in": rows_in * len(kind.reads), "late_rows": 0, "null_time_rows": 0}:
                problems.append(f"{kind.name}: counts {total}, and its streams have {rows_in} rows each")
        if kind.changelog:
            problems += _differences_of_changes(world, kind)
    return problems


def _differences_of_changes(world: World, kind: Kind) -> list[str]:
    """Where replaying the changes doesn't give the table, at any version of the two that is still there."""
    model = world.model(kind)
    tables, changes = (_versions(world.spark, name) for name in (model.target, model.changes))
    problems, compared = [], 0
    for number, (step, snapshot) in enumerate(changes):
        of_table = [each for at, each in tables if at == step]
        if not of_table:
            # The last changes are in the table; ones of a step before it, too, unless its snapshot is gone.
            if number == len(changes) - 1:
                problems.append(f"{kind.name}: changes of step {step}, of which the table has none")
            continue
        found = Counter(
            map(
                tuple, world.spark.sql(f"select * from {model.target} version as of {of_table[-1]}").collect()
            )
        )
        replayed: Counter[tuple[Any, ...]] = Counter()
        for change in world.spark.sql(f"select * from {model.changes} version as of {snapshot}").collect():
            row = change.asDict()
            sign = 1 if row.pop("_change_type") in ("insert", "update_after") else -1
            row = {name: value for name, value in row.items() if not name.startswith("_")}
            replayed[tuple(row.values())] += sign
        compared += 1
        if {row: n for row, n in replayed.items() if n} != dict(found):
            problems.append(f"{kind.name}: at step {step} the changes make another table")
    if not compared:
        problems.append(f"{kind.name}: no version of changes and table to compare")
    return problems


def _versions(spark: Any, name: str) -> list[tuple[tuple[int, int], int]]:
    """The steps that a table's snapshots are of, oldest first, and the snapshots."""
    found = spark.sql(f"select snapshot_id, summary from {name}.snapshots order by committed_at").collect()
    positions: list[tuple[Position | None, int]] = [(read_position(row[1]), row[0]) for row in found]
    return [(position.step, snapshot) for position, snapshot in positions if position is not None]


def _difference(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> str:
    lost, more = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    return f"{lost.total()} rows lost {list(lost)[:3]}, {more.total()} rows too many {list(more)[:3]}"


def read_log(file: Path) -> list[dict[str, Any]]:
    """What was done so far; a line that a kill cut short doesn't count."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("}")]


def live(root: Path) -> int:
    """One life; what the process ends with."""
    told = json.loads((root / "life.json").read_text(encoding="utf-8"))
    kill = Kill(**told.pop("kill")) if told.get("kill") else told.pop("kill", None)
    listed = {name: tuple(value) for name, value in told.items() if isinstance(value, list)}
    life = Life(**{**told, "kill": kill, **listed})
    do_often()
    cut(life.cut, 20)
    written(life.written, setattr)
    environment = get_environment(SparkStreamingCredentials(**credentials(root)))
    spark = environment.session()
    gateway = vars(spark.sparkContext._gateway)
    # Of two streams that begin at once, one would begin it, and close the other's connection in the middle of a command.
    assert gateway.get("_callback_server") is not None, "streams can't call Python yet"
    jvm: Any = spark._jvm
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    spark.sparkContext.setLogLevel("OFF")
    world = World(spark, environment.storage, root, kinds=life.kinds)
    catalog = jvm.kills.FaultyCatalog if (root / "faults.jar").exists() else None
    faults = Faults(world, life, pid, catalog)
    (root / "started").write_text(json.dumps({"python": os.getpid(), "jvm": pid}))
    kinds = [KINDS[name].at(life.edition) for name in life.kinds]
    drive = Drive(world, kinds, faults)
    faults.begin()
    drive.run()
    problems = drive.problems
    if faults.jvm_is_dead:
        _write_problems(root, problems)
        return 3
    if life.verify and not problems:
        files = len(list((root / "events").glob("*.parquet")))
        problems += verify(world, kinds, files * int((root / "rows").read_text()))
        problems += _calm(world, environment.storage, kinds)
    _write_problems(root, problems)
    return 1 if problems else 0


def _calm(world: World, storage: Any, kinds: Sequence[Kind]) -> list[str]:
    """Where an undisturbed stream, with its whole input in one micro-batch, gives other rows."""
    calm = World(world.spark, storage, world.root, "calm", kinds=[kind.name for kind in kinds])
    problems = []
    for kind in kinds:
        calm.make_table(kind)
        run_stream(calm.spark, calm.model(kind).without_source_limits(), kind.program)
        flush(calm.spark, calm.model(kind), kind.program)
        if (found := world.rows(kind)) != (expected := calm.rows(kind)):
            problems.append(f"{kind.name}: not as undisturbed: {_difference(found, expected)}")
    return problems


def _write_problems(root: Path, problems: Sequence[str]) -> None:
    if problems:
        with open(root / "problems.txt", "a", encoding="utf-8") as file:
            file.write("\n".join(problems) + "\n")


def credentials(root: Path) -> dict[str, Any]:
    """A target with a JVM that starts quickly, and with the faulty catalog where it was made."""
    settings = {
        "spark.sql.shuffle.partitions": "1",
        # No life is long enough for more. With this compiler alone Java would have a fifth of the room for code, and
        # end when it is full.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=400m -XX:+UseSerialGC",
        # Hadoop's own starts a chmod for each file.
        "spark.jars.packages": LOCAL_FILES,
        "spark.hadoop.fs.file.impl": LOCAL_FILES_CLASS,
    }
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "master": "local[2]",
        "storage_root": str(root / "storage"),
        "server_side_parameters": settings,
    }
    if (root / "faults.jar").exists():
        settings["spark.driver.extraClassPath"] = str(root / "faults.jar")
        made["packages"] = [SQLITE]
        made["catalog_options"] = {
            "catalog-impl": "kills.FaultyCatalog",
            "uri": f"jdbc:sqlite:{root}/storage/catalog.db?busy_timeout=60000&journal_mode=WAL",
            "jdbc.schema-version": "V1",
            "warehouse": str(root / "storage" / "warehouse"),
            "cache-enabled": "false",
        }
    return made


def write_life(root: Path, life: Life) -> None:
    """Say what is to happen to the next life."""
    for name in life.refresh:
        # It stays until that is done, in whichever life.
        (root / "refresh").mkdir(exist_ok=True)
        (root / "refresh" / name).touch()
    (root / "life.json").write_text(json.dumps(asdict(life)), encoding="utf-8")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    try:
        code = live(folder)
    except BaseException as problem:
        _write_problems(folder, ["".join(traceback.format_exception(problem))])
        code = 1
    sys.stdout.flush()
    # Whatever is left of a JVM that was killed isn't waited for.
    os._exit(code)
