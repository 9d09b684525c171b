"""integration_tests/ on a cluster of a master and two workers, and then on this machine alone: one project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner

from dbt.adapters.spark_streaming.environment.java import find_java
from tests.integration.project import ROOT, copy_project

SCRIPT = ROOT / "integration_tests" / "cluster"


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Of all processes: a Java that Spark's own scripts can start, and addresses of this machine alone."""
    java = find_java()
    if java.from_wheel:
        pytest.skip("Spark's own scripts can't start the Java of a wheel, and there is no other")
    home = java.executable.resolve().parents[1]
    more = {"JAVA_HOME": str(home), "PYTHON": sys.executable, "PORT": "0", "SPARK_LOCAL_IP": "127.0.0.1"}
    # Six JVMs that live for a minute at most: compiling well doesn't pay.
    more["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return {**os.environ, **more}


@dataclass(frozen=True)
class Cluster:
    """A master and two workers."""

    master: str
    folder: Path

    def executors(self) -> list[Path]:
        """The folder of each executor that there was."""
        return list(self.folder.glob("work/app-*/*/"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[Cluster]:
    """A cluster on this machine."""
    folder = tmp_path_factory.mktemp("cluster")
    started = subprocess.run([SCRIPT, "start", folder], env=environment, capture_output=True, text=True)
    assert started.returncode == 0, started.stderr
    yield Cluster(started.stdout.strip(), folder)
    subprocess.run([SCRIPT, "stop", folder], check=True)


def dbt(folder: Path, environment: dict[str, str], *arguments: str) -> dict[str, Any]:
    """Run a command in a process of its own, for this one has another Spark; the result of each node of the project."""
    done = subprocess.run(
        [Path(sys.executable).with_name("dbt"), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    found = json.loads((folder / "target" / "run_results.json").read_text())["results"]
    return {one["unique_id"]: one for one in found if ".shop." in one["unique_id"]}


@pytest.mark.cluster
def test_only_the_profile_differs(tmp_path: Path, cluster: Cluster, environment: dict[str, str]) -> None:
    project = tmp_path / "shop"
    target = {"type": "spark_streaming", "threads": 2}
    targets = {"cluster": {**target, "master": cluster.master}, "alone": {**target, "master": "local[1]"}}
    copy_project(project, targets)
    assert dbtRunner().invoke(["--quiet", "deps", "--project-dir", str(project)]).success
    # Table, ranges of windows and streams, and tests that each has the rows that are expected.
    built = dbt(project, environment, "build")
    assert {one["status"] for one in built.values()} == {"success", "pass"}, built
    assert len(cluster.executors()) == 2, "one on each worker"

    # Elsewhere a stream goes on where it is.
    order = {"order_id": 1001, "ordered_at": "2026-03-02T09:00:00Z", "shop": "north", "customer": "ada"}
    (project / "data" / "orders" / "new.json").write_text(json.dumps({**order, "cents": 100}) + "\n")
    gone_on = dbt(project, environment, "run", "--target", "alone", "--select", "revenue_since_midnight")
    assert [one["adapter_response"]["rows_in"] for one in gone_on.values()] == [1]
