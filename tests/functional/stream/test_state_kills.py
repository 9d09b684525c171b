"""Python and its JVM are killed in the middle of a migration, a backfill, an edit, a savepoint, a restore: nothing is lost,
nothing comes twice, and what was cut short is whole or not there.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.lifecycle.restoring import restore
from dbt.adapters.spark_streaming.stream.run.runner import run_stream
from dbt.adapters.spark_streaming.stream.run.saving import save
from dbt.adapters.spark_streaming.stream.storage.savepoints import stored_savepoints
from tests.thorough import mostly_thorough

from .harness import EVENTS, SCHEMA, replayed, sorted_rows
from .state_kills import model_of, program_of

REPOSITORY = Path(__file__).parents[3]
_numbers = itertools.count()
ROWS = "(0, 'a', 1), (1, 'a', 2), (2, 'b', 3), (3, 'c', 4)"
MORE = "(4, 'a', 10), (5, 'd', 20)"
LAST = "(6, 'a', 100), (7, 'b', 200)"
OLD = {"n": "count(*)", "s": "sum(v)"}
NEW = {"m": "max(v)", "n": "count(*)", "s": "sum(v)"}
CASES = [
    ("migrate", "state.migrate:before"),
    ("migrate", "state.migrate:written"),
    ("migrate", "state.migrate:after"),
    ("backfill", "table.columns:after"),
    ("backfill", "state.migrate:written"),
    ("backfill", "state.migrate:after"),
    ("edit", "savepoint.note:after"),
    ("edit", "state.edit:written"),
    ("edit", "state.edit:after"),
    ("edit", "changelog.append:after"),
    ("savepoint", "savepoint.checkpoint:after"),
    ("savepoint", "savepoint.branch:after"),
    ("savepoint", "savepoint.note:before"),
    ("restore", "restore.begin:after"),
    ("restore", "restore.checkpoint:deleted"),
    ("restore", "restore.state:after"),
    ("restore", "restore.table:after"),
    ("restore", "restore.end:before"),
    ("undo", "restore.state:after"),
]


class Killed:
    """A model of which a process is killed.

    Args:
        spark: the session of this process.
        target: of the profile.
        folder: for what the process is told.
    """

    def __init__(self, spark: Any, target: dict[str, Any], folder: Path) -> None:
        self.spark, self._target, self._folder = spark, target, folder
        spark.sql(f"create namespace if not exists {SCHEMA}")
        self.name = f"{SCHEMA}.killed_{next(_numbers)}"
        self._events = f"{self.name}_events"
        spark.sql(f"create table {self._events} ({EVENTS}) using iceberg")
        spark.sql(f"create table {self.name} (k string, n bigint, s bigint) using iceberg")

    def add(self, rows: str) -> None:
        """Append events: seconds, k, v."""
        self.spark.sql(
            f"insert into {self._events} select timestamp_seconds(t), k, cast(v as bigint), 0L "
            f"from values {rows} as new(t, k, v)"
        )

    def told(self, items: dict[str, str], done: str = "") -> dict[str, Any]:
        """What there is to know of the model."""
        listed = ", ".join(f"{text} as {name}" for name, text in items.items())
        return {
            "target": self._target,
            "model": self.name,
            "events": self._events,
            "columns": {"k": "string", **dict.fromkeys(items, "bigint")},
            "text": f"select k, {listed} from (select /*+ STREAM */ * from events) group by k",
            "on_new_metric": "backfill" if done == "backfill" else "from_now",
            "done": done,
        }

    def run(self, items: dict[str, str], done: str = "") -> None:
        """Take in what is there, in this process."""
        told = self.told(items, done)
        run_stream(self.spark, model_of(told, self.spark), program_of(told["text"]))

    def kill(self, items: dict[str, str], done: str, point: str) -> None:
        """Have another process do something to the state, and be killed at a point."""
        file = self._folder / f"{done}.json"
        file.write_text(json.dumps(self.told(items, done)))
        arming = {failpoints.ENVIRONMENT: f"kill-both {point} 1 {self.name.rpartition('.')[2]}"}
        ended = subprocess.run(
            [sys.executable, "-m", "tests.functional.stream.state_kills", str(file)],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **arming},
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == -9, ended.stderr[-2000:]

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """The table's rows, which its changelog makes, too."""
        self.spark.catalog.refreshTable(self.name)
        return sorted_rows(self.spark.table(self.name).select(*columns).collect())

    def expected(self, items: dict[str, str], of: str = "true") -> list[tuple[Any, ...]]:
        """The rows of the query over all events."""
        listed = ", ".join(f"{text} as {name}" for name, text in items.items())
        return sorted_rows(
            self.spark.sql(f"select k, {listed} from {self._events} where {of} group by k").collect()
        )


@pytest.mark.parametrize("case", mostly_thorough(CASES, []), ids=" at ".join)
def test_killed(spark: Any, spark_target: dict[str, Any], tmp_path: Path, case: tuple[str, str]) -> None:
    done, point = case
    killed = Killed(spark, spark_target, tmp_path)
    model = model_of(killed.told(OLD), spark)
    killed.add(ROWS)
    killed.run(OLD)
    save(spark, model, "first")
    killed.add(MORE)
    killed.run(OLD)
    items = NEW if done in ("migrate", "backfill") else OLD
    program = program_of(killed.told(OLD)["text"])
    if done == "undo":
        restore(spark, model, program, "first")
    killed.kill(items, done, point)
    killed.add(LAST)
    columns = ("k", *items)
    names = {each.name for each in stored_savepoints(model.storage, model.savepoints)}

    if done in ("restore", "undo"):
        with pytest.raises(StreamError, match=r"the restore of its savepoint '\S+' was interrupted"):
            killed.run(OLD)
        restore(spark, model, program, "first")
        killed.run(OLD)
        wanted = killed.expected(OLD)
    elif done == "savepoint":
        assert "second" not in names
        killed.run(OLD)
        save(spark, model, "second")
        wanted = killed.expected(OLD)
    elif done == "edit":
        killed.run(OLD)
        is_in = point in ("state.edit:after", "changelog.append:after")
        wanted = [
            (k, n, s + 1000 * is_in * (k == "a")) if k == "a" else (k, n, s)
            for k, n, s in killed.expected(OLD)
        ]
    else:
        is_in = point == "state.migrate:after"
        if not is_in:
            # As if nothing had been, the old query goes on.
            killed.run(OLD)
            assert killed.rows("k", *OLD) == killed.expected(OLD)
        killed.run(NEW, done)
        if done == "backfill":
            wanted = killed.expected(NEW)
        else:
            # It counts from then on: what came after the edit is in, where its key has rows since.
            columns, wanted = ("k", *OLD), killed.expected(OLD)
            newest = {k: m for k, m in killed.rows("k", "m") if m is not None}
            assert newest == ({"a": 100, "b": 200} if is_in else {})
    assert killed.rows(*columns) == wanted
    changes = sorted_rows(replayed(spark, model, until=10**9))
    assert changes == sorted_rows(spark.table(killed.name).collect())
