"""Killed at any point, a stream ends in the rows of an undisturbed run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .programs import MINUTE
from .test_cuts import naive

FILES = 10
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def root(spark: Any, tmp_path: Path) -> Path:
    """Ten files of events."""
    for number in range(FILES):
        spark.range(number * 100, number * 100 + 100, numPartitions=1).selectExpr(
            "timestamp_micros((id * 43 - pmod(hash(id), 30)) * 1000000L) as ts",
            "if(pmod(hash(id, 1), 7) = 0, null, concat('k', pmod(hash(id, 2), 5))) as k",
            "bigint(pmod(hash(id, 3), 1000)) as v",
            "bigint(pmod(hash(id, 5), 70)) as x",
        ).write.mode("append").parquet(f"{tmp_path}/events")
    return tmp_path


def run(root: Path, *point: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.functional.stream.victim", str(root), *point],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_killed_at_each_commit(spark: Any, root: Path) -> None:
    for point, batch in [
        ("after state", 1),
        ("after table", 3),
        ("after fold", 5),
        ("after compaction", 6),
    ]:
        killed = run(root, point, str(batch))
        assert (killed.returncode, killed.stdout) == (-9, ""), f"{point}: {killed.stderr}"
    finished = run(root)
    assert finished.stdout == "done\n", finished.stderr
    expected = naive(spark, spark.read.parquet(f"{root}/events"), 10 * MINUTE, 120 * MINUTE)
    assert (root / "rows").read_text() == "\n".join(map(repr, expected))
