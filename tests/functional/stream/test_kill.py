"""Aborted at any step, or killed, streams end in the rows of plain Spark, and their changes in the same table."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment.session import catalog_settings
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.sink import upsert
from tests.thorough import mostly_thorough

from . import kills
from .harness import written
from .kills import Drive, Faults, Kill, Life, World, verify
from .kinds import KINDS, write_events

ROWS = 30
REPOSITORY = Path(__file__).parents[3]
STEPS = {
    *(f"{step}:{side}" for step in kills.COMMITS for side in ("before", "after")),
    *("state.create:before", "changelog.create:after", "flush:before", "progress.write:after"),
    *("batch:begun", "batch:cut", "batch:done", "batch.finish:before"),
    *("lookup.ask:after", "table.property:before", "checkpoint.move:before"),
    *(
        "refresh:reset",
        "refresh:replaced",
        "state.drop:after",
        "checkpoint.delete:before",
        "changelog.drop:after",
    ),
}
"""Where streams are aborted at the least."""


def add(root: Path, *numbers: int) -> None:
    for number in numbers:
        for stream in ("events", "orders"):
            write_events(root / stream, number, ROWS, 0)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "points", [pytest.param(STEPS, id="these"), pytest.param(None, id="all", marks=pytest.mark.thorough)]
)
def test_aborted_at_every_step(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: set[str] | None
) -> None:
    kills.do_often(monkeypatch.setattr)
    kills.cut(["counts"], 10, monkeypatch.setattr)
    written("by place", monkeypatch.setattr)
    monkeypatch.setattr(upsert, "are_possible", lambda table, _: "of_counts" not in table.name)
    names = ("regions", "unkeyed", "counts", "of_counts", "edited")
    kinds = [KINDS[name].at(1) for name in names]
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    storage = Storage(str(tmp_path / "storage"), lambda: spark)
    add(tmp_path, 0, 1, 2, 3)
    world = World(session, storage, tmp_path, f"kill_tests_{points is None}", kinds=names)
    for edition, some in enumerate((names, ("unkeyed", "edited"))):
        life = Life(new_aborts=1.0, each=1, refresh=("unkeyed",) if edition else ())
        kills.write_life(tmp_path, life)
        run = [KINDS[name].at(edition) for name in some]
        drive = Drive(world, run, Faults(world, life, jvm=0, points=points))
        drive.run()
        assert not drive.problems, "\n".join(drive.problems)
    aborted = {each["what"] for each in kills.read_log(tmp_path / "kills.jsonl")}
    assert not STEPS - aborted, "not reached: " + ", ".join(sorted(STEPS - aborted))
    problems = verify(world, kinds, 4 * ROWS)
    assert not problems, "\n".join(problems)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.thorough
def test_a_full_disk_and_one_that_is_read_only(spark: Any, tmp_path: Path, small_disk: Path) -> None:
    kinds = [KINDS[name] for name in ("passed", "cumulated", "counts")]
    add(tmp_path, 0, 1)
    storage = Storage(str(small_disk / "storage"), lambda: spark)
    names = [kind.name for kind in kinds]
    world = World(spark, storage, tmp_path, "full_disk_tests", small_disk / "warehouse", kinds=names)

    def failed() -> dict[str, Exception]:
        drive = Drive(world, kinds, None)
        drive.run()
        return drive.failed

    assert failed() == {}
    add(tmp_path, 2, 3)
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space"), open(filler, "wb", buffering=0) as file:
        while file.write(bytes(1 << 12)):
            pass
    full = failed()
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    read_only = failed()
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    assert failed() == {}
    world.see_all()
    assert verify(world, kinds, 4 * ROWS) == []
    for found, why in ((full, "No space left on device"), (read_only, "Read-only file system")):
        assert set(found) == {kind.name for kind in kinds}
        for name, problem in found.items():
            assert isinstance(problem, StreamError)
            assert problem.msg.startswith(f"Model {name}: ")
            assert why in problem.msg


@pytest.mark.parametrize("who", mostly_thorough(["both", "jvm"], ["both"]))
def test_killed(spark: Any, tmp_path: Path, who: str) -> None:
    """Python and its JVM in the middle of a commit, or the JVM alone between two steps. More: bench/kill.py."""
    with_catalog = kills.is_faulty_catalog_there()
    if with_catalog:
        kills.make_faulty_catalog(tmp_path / "faults.jar")
    names = ("counts", "of_counts")
    kill = {
        "both": Kill("both", "state.append", 2, "counts", "metadata" if with_catalog else "rows"),
        "jvm": Kill("jvm", "changelog.append:after", 1, "counts"),
    }[who]
    add(tmp_path, 0, 1)
    kills.write_life(tmp_path, Life(kinds=names, new_aborts=0.5, each=1, faults=kills.SILENT, kill=kill))
    ended = subprocess.run(
        [sys.executable, "-m", "tests.functional.stream.kills", str(tmp_path)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        check=False,
    )
    told = tmp_path / "problems.txt"
    assert not told.exists(), told.read_text()
    assert ended.returncode == {"both": -9, "jvm": 3}[who]
    assert "Traceback" not in ended.stderr
    silent = [each for each in kills.read_log(tmp_path / "kills.jsonl") if each["action"] == "silent commit"]
    assert silent or not with_catalog

    # What is left is taken in by this process.
    storage = Storage(str(tmp_path / "storage"), lambda: spark)
    catalog = SparkStreamingCredentials(schema="unused", catalog="killed", storage_root=storage.root)
    session = spark.newSession()
    for key, value in catalog_settings(catalog, storage).items():
        session.conf.set(key, value)
    world = World(session, storage, tmp_path, catalog="killed", kinds=names)
    kinds = [KINDS[name] for name in names]
    drive = Drive(world, kinds, None)
    drive.run()
    assert drive.problems == []
    problems = verify(world, kinds, 2 * ROWS)
    assert not problems, "\n".join(problems)
