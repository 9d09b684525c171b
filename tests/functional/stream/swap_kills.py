"""A model whose new version takes over its name again and again, and that is cloned, until it is killed.

``python -m … ROOT``: ROOT/life.json says how this process dies: ``who`` (``python``, ``jvm``, ``both``), ``after`` seconds,
or at the ``nth`` named point that is reached; without ``who`` it takes one more round and ends. ROOT/at.json says what is to
be done next: what a process was killed in is done again by the next one, as the guide says. After each step the tables are
compared with plain Spark; what is wrong is in ROOT/problems.txt. It ends with 0 when through, 3 when its JVM was killed,
and 1 when something is wrong.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import get_environment
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.lifecycle.cloning import clone
from dbt.adapters.spark_streaming.stream.lifecycle.promoting import (
    clean_up,
    promote,
    roll_back,
    stage_deployment,
    swap_progress,
)
from dbt.adapters.spark_streaming.stream.run.runner import reset, run_stream
from dbt.adapters.spark_streaming.stream.storage import deployments
from dbt.adapters.spark_streaming.stream.storage.deployments import PROMOTED, STAGED, version_of_model
from tests.planned import plan_of

from .harness import EVENTS, made_for, replayed, sorted_rows
from .kills import credentials

SCHEMA = "swaps"
STEPS = (
    "events",
    "run",
    "init",
    "events",
    "run",
    "await",
    "promote",
    "events",
    "run new",
    "roll back",
    "run",
    "await",
    "promote",
    "clean up",
    "clone",
    "events",
    "run clone",
    "run new",
    "forget clone",
)
_COLUMNS = {"k": "k string, c bigint, s bigint", "v": "v bigint, c bigint"}
_TEXTS = {
    "k": "select k, count(*) as c, sum(v) as s from events group by k",
    "v": "select v, count(*) as c from events group by v",
}
_KILLS = {
    "python": failpoints.kill_python,
    "jvm": failpoints.kill_jvm,
    "both": failpoints.kill_both,
}


class Wrong(Exception):
    """Rows were lost, or came twice, or a command was refused that should do."""


class Swaps:
    """The model, its versions, and its clone.

    Args:
        spark: the session.
        storage: of the environment.
        root: where `at.json` is.
    """

    def __init__(self, spark: Any, storage: Any, root: Path) -> None:
        self.spark, self._file = spark, root / "at.json"
        self._at = json.loads(self._file.read_text()) if self._file.exists() else {"round": 0, "step": 0}
        catalog = spark.conf.get("spark.sql.defaultCatalog")
        self.source = f"{catalog}.{SCHEMA}.events"
        spark.sql(f"create namespace if not exists {SCHEMA}")
        spark.sql(f"create table if not exists {self.source} ({EVENTS}) using iceberg")
        self.model, self.copy = (
            StreamModel(
                name=name,
                target=f"{catalog}.{SCHEMA}.{name}",
                state=f"{catalog}.{SCHEMA}.{name}__state",
                storage=storage,
                sources=(StreamSource("events", self.source),),
                changelog=True,
            )
            for name in ("swapped", "copied")
        )
        self._repeated = self._file.exists()
        """Whether the next step may have been begun by a process that was killed."""

    @property
    def round(self) -> int:
        """How often a new version has the name for good."""
        return int(self._at["round"])

    @property
    def step(self) -> str:
        """What is to be done next."""
        return STEPS[self._at["step"]]

    def take(self, chance: random.Random) -> str:
        """Do the next step; which one it was."""
        step = self.step
        getattr(self, step.replace(" ", "_"))(chance)
        at = self._at
        if at["step"] + 1 == len(STEPS):
            at = {"round": at["round"] + 1, "step": 0}
        else:
            at = {**at, "step": at["step"] + 1}
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps(at))
        os.replace(written, self._file)
        self._at, self._repeated = at, False
        return step

    # -- versions ----------------------------------------------------------------------------------

    def _key(self, new: bool) -> str:
        """What the old version, or the new one, groups by in this round."""
        return "kv"[(self.round + new) % 2]

    def _program(self, new: bool) -> Program:
        text = _TEXTS[self._key(new)].replace("events", "(select /*+ STREAM */ * from events)")
        return generate.generate_program(plan_of(text))

    def _is_right(self, model: StreamModel, new: bool) -> None:
        self.spark.catalog.refreshTable(model.target)
        wanted = sorted_rows(self.spark.sql(_TEXTS[self._key(new)].replace("events", self.source)).collect())
        found = sorted_rows(self.spark.table(model.target).collect())
        changes = sorted_rows(replayed(self.spark, model, until=10**9))
        if not found == wanted == changes:
            raise Wrong(
                f"{model.target} after '{self.step}' of round {self.round}:\n{found}\nin its changelog\n{changes}\nand by "
                f"plain Spark\n{wanted}"
            )

    def _run(self, model: StreamModel, new: bool) -> None:
        run_stream(self.spark, model, self._program(new))
        self._is_right(model, new)

    def _done_before(self, action: Callable[..., object], said: str, *arguments: object) -> None:
        """Do something that a process which was killed may have done."""
        try:
            action(self.spark, *arguments)
        except StreamError as problem:
            if not (self._repeated and said in problem.msg):
                raise

    def _made(self, table: str, new: bool) -> None:
        columns = _COLUMNS[self._key(new)]
        self.spark.sql(f"create table if not exists {table} ({columns}) using iceberg {made_for(table)}")

    # -- steps -------------------------------------------------------------------------------------

    def events(self, chance: random.Random) -> None:
        """Rows come."""
        rows = ", ".join(
            f"({self.round * 100 + n}, '{chance.choice('abc')}', {chance.randint(1, 4)})" for n in range(20)
        )
        self.spark.sql(
            f"insert into {self.source} select timestamp_seconds(t), k, cast(v as bigint), 0L "
            f"from values {rows} as new(t, k, v)"
        )

    def run(self, chance: random.Random) -> None:
        """The old version takes them in."""
        if not self.round:
            self._made(self.model.target, False)
        self._run(self.model, False)

    def init(self, chance: random.Random) -> None:
        """The new version is built beside it."""
        found = stage_deployment(self.spark, self.model, self._repeated and chance.random() < 0.3)
        self._made(found.new, True)
        self._run(version_of_model(self.model, found.new), True)

    def wait(self, chance: random.Random) -> None:
        """The new version takes in what came."""
        found = swap_progress(self.spark, self.model)
        self._run(found.new, True)
        if swap_progress(self.spark, self.model).lags != ():
            raise Wrong("the new version has read all, and is said to be behind")

    def promote(self, chance: random.Random) -> None:
        """It takes the name over."""
        self._cut_short(PROMOTED, chance)
        self._done_before(promote, "has the name already", self.model)
        self._is_right(self.model, True)

    def run_new(self, chance: random.Random) -> None:
        """It goes on under the name."""
        self._run(self.model, True)

    def roll_back(self, chance: random.Random) -> None:
        """The old version has the name again."""
        self._cut_short(STAGED, chance)
        self._done_before(roll_back, "isn't promoted", self.model)

    def _cut_short(self, to: str, chance: random.Random) -> None:
        """A change of names that was cut short is said, and undone as well as ended."""
        found = deployments.read_deployment(self.model.storage, self.model.target)
        if found is None or found.swap is None:
            return
        try:
            run_stream(self.spark, self.model, self._program(to == PROMOTED))
        except StreamError as problem:
            if "was interrupted" not in problem.msg:
                raise
        else:
            raise Wrong("a run goes on in the middle of a change of names")
        if chance.random() < 0.5:
            (roll_back if to == PROMOTED else promote)(self.spark, self.model)
            self._repeated = False

    def clean_up(self, chance: random.Random) -> None:
        """The old version goes."""
        self._done_before(clean_up, "no new version of it was begun, or it was cleaned up", self.model)
        self._is_right(self.model, True)

    def clone(self, chance: random.Random) -> None:
        """A copy of the model goes on from where it is."""
        if self._repeated and self.spark.catalog.tableExists(self.copy.target):
            self._half_a_clone()
        self.forget_clone(chance)
        self._made(self.copy.target, True)
        clone(self.spark, self.copy, self._program(True), self.model, None)
        self._same_as_model()

    def _half_a_clone(self) -> None:
        """One that was cut short is whole, or says that it isn't."""
        try:
            run_stream(self.spark, self.copy, self._program(True))
        except StreamError:
            return
        self._same_as_model()

    def _same_as_model(self) -> None:
        rows = [sorted_rows(self.spark.table(each.target).collect()) for each in (self.model, self.copy)]
        if rows[0] != rows[1]:
            raise Wrong(f"the clone has {rows[1]}, and the model {rows[0]}")

    def run_clone(self, chance: random.Random) -> None:
        """It takes in what came since."""
        self._run(self.copy, True)

    def forget_clone(self, chance: random.Random) -> None:
        """It is forgotten."""
        reset(self.spark, self.copy)
        self.spark.sql(f"drop table if exists {self.copy.target} purge")


setattr(Swaps, "await", Swaps.wait)


def armed(life: dict[str, Any]) -> None:
    """Have this process die."""
    kill = _KILLS[life["who"]]
    if life.get("nth"):
        passed = itertools.count(1)

        def handler(point: str, model: str) -> None:
            if next(passed) == life["nth"]:
                kill()

        failpoints.arm(handler)
        return

    def wait() -> None:
        time.sleep(life["after"])
        kill()

    threading.Thread(target=wait, daemon=True).start()


def main() -> int:
    """Take steps until the end; what the process ends with."""
    root = Path(sys.argv[1])
    life = json.loads((root / "life.json").read_text())
    environment = get_environment(SparkStreamingCredentials(**credentials(root)))
    spark = environment.session()
    spark.sparkContext.setLogLevel("OFF")
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current()
    swaps, chance = Swaps(spark, environment.storage, root), random.Random(life["seed"])
    if life.get("who"):
        armed(life)
    last = swaps.round + 1
    try:
        while life.get("who") or swaps.round <= last:
            with (root / "steps.log").open("a") as log:
                log.write(f"{swaps.round} {swaps.step}\n")
            swaps.take(chance)
    except Exception:
        time.sleep(1)
        try:
            is_alive = bool(jvm.isAlive())
        except Exception:
            is_alive = False
        if life.get("who") == "jvm" and not is_alive:
            return 3
        (root / "problems.txt").write_text(
            f"in round {swaps.round}, '{swaps.step}': {traceback.format_exc()}"
        )
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
