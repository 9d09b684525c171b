"""Session, JVM and signals of a dbt process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.connections import Handle
from dbt.adapters.spark_streaming.environment import get_environment
from dbt.adapters.spark_streaming.environment.class_data import LoadedClasses
from dbt.adapters.spark_streaming.stream.common.session import working_session
from tests.thorough import mostly_thorough

# So slow that it ends only if it is stopped: each row waits.
SLOW = "select sum(crc32(sha2(repeat(cast(id as string), 2000), 512))) from range(100000000)"


def test_one_session_for_all(spark_environment: Any, spark: Any) -> None:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(spark_environment.session())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [spark] * 4
    same = replace(
        spark_environment.credentials,
        server_side_parameters=dict(reversed(spark_environment.credentials.server_side_parameters.items())),
    )
    assert get_environment(same) is spark_environment


def test_what_the_session_is_made_of(spark: Any, spark_environment: Any) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.catalog.currentCatalog() == "lakehouse"
    versions = spark_environment.versions()
    assert versions["Spark"].startswith("4.1.")
    assert versions["Iceberg"].startswith("1.12.")
    assert spark_environment.storage.unwritable_reason() is None


def test_the_jvm_takes_diagnostic_commands(spark: Any) -> None:
    """Class data is written with one."""
    assert "JDK" in LoadedClasses(spark).run_diagnostic_command("vmVersion")


def test_an_error_is_a_sentence(spark_environment: Any) -> None:
    handle = Handle(spark_environment, "test")
    with pytest.raises(DbtRuntimeError) as refused:
        handle.execute("select nothing from range(1)")
    assert "A column, variable, or function parameter with name `nothing` cannot be resolved" in str(
        refused.value
    )
    assert "Project" not in str(refused.value)
    with pytest.raises(DbtRuntimeError) as failed:
        handle.cursor().execute("select raise_error('stop: ' || id) from range(1)")
        handle.fetchall()
    assert "stop: 0" in str(failed.value)
    assert "\tat " not in str(failed.value)
    assert "org.apache" not in str(failed.value)


@pytest.mark.thorough
def test_cancel_stops_what_runs_and_what_comes(spark_environment: Any) -> None:
    handle, other = Handle(spark_environment, "slow"), Handle(spark_environment, "other")
    problems: list[str] = []

    def work() -> None:
        try:
            handle.execute(SLOW)
            handle.fetchall()
        except DbtRuntimeError as problem:
            problems.append(str(problem))

    worker = threading.Thread(target=work)
    worker.start()
    time.sleep(3)
    started = time.monotonic()
    handle.cancel()
    worker.join(20)
    assert not worker.is_alive()
    assert time.monotonic() - started < 15
    assert "Cancelled" in problems[0]
    with pytest.raises(DbtRuntimeError, match="Cancelled"):
        handle.cursor().execute("select 1")
    # Only that one.
    other.execute("select 1 as one")
    assert other.fetchall()[0].one == 1


def test_cancel_stops_streams(spark_environment: Any, spark: Any, tmp_path: Path) -> None:
    """Also those of models, each of which works in a session of its own."""
    query = (
        working_session(spark)
        .readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 1)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    Handle(spark_environment, "any").cancel()
    assert not query.isActive


PROGRAM = """
import os, sys, time
from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import get_environment
environment = get_environment(SparkStreamingCredentials(schema="s", storage_root=sys.argv[1], master="local[1]"))
environment.session()
print(environment._jvm.process.pid, flush=True)
if sys.argv[2] == "stay":
    time.sleep(300)
"""


@pytest.mark.parametrize("end", mostly_thorough(["killed", "ended"], ["killed"]))
def test_the_jvm_ends_with_its_process(tmp_path: Path, end: str) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "root"), "stay" if end == "killed" else "go"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    jvm = int(program.stdout.readline())
    assert (tmp_path / "root" / "warehouse").is_dir()
    if end == "killed":
        os.kill(program.pid, signal.SIGKILL)
    program.wait(60)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{jvm}").exists() and "Z" not in Path(f"/proc/{jvm}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline, "the JVM outlived its process"
        time.sleep(0.2)


SLOW_PROJECT = {
    "dbt_project.yml": "name: project\nversion: 1.0.0\nprofile: slow\n",
    "profiles.yml": (
        "slow:\n  target: dev\n  outputs:\n    dev:\n      type: spark_streaming\n      schema: s\n"
        "      threads: 2\n      master: local[2]\n"
    ),
    # After what the stream reads: it has both of Spark's cores to itself.
    "models/slow.sql": f"{{{{ config(materialized='table') }}}}\n-- depends on {{{{ ref('rows') }}}}\n{SLOW}\n",
    "models/rows.sql": "{{ config(materialized='table') }}\nselect 1 as id, current_timestamp() as ts\n",
    "models/slow_stream.sql": (
        "{{ config(materialized='streaming_table') }}\n"
        f"select s.id, n.* from {{{{ stream(ref('rows')) }}}} as s cross join ({SLOW}) as n\n"
    ),
    "models/broken.sql": "{{ config(materialized='table') }}\nselect raise_error('broken') from range(1)\n",
}


@pytest.mark.parametrize("how", mostly_thorough(["ctrl-c", "fail-fast"], []))
def test_dbt_stops_what_runs(tmp_path: Path, how: str) -> None:
    """A model that would run for hours ends with Ctrl-C, or with the first that fails."""
    for name, text in SLOW_PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    command = (
        ["run", "--select", "rows", "slow", "slow_stream"] if how == "ctrl-c" else ["run", "--fail-fast"]
    )
    dbt = subprocess.Popen(
        [str(Path(sys.executable).with_name("dbt")), "--no-use-colors", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert dbt.stdout is not None
    output = []
    if how == "ctrl-c":
        for line in dbt.stdout:
            output.append(line)
            if "START sql streaming_table model s.slow_stream" in line:
                break
        time.sleep(5)
        dbt.send_signal(signal.SIGINT)
    started = time.monotonic()
    try:
        output.append(dbt.communicate(timeout=240)[0])
    finally:
        dbt.kill()
    assert dbt.returncode not in (0, None), "".join(output)
    if how == "ctrl-c":
        assert time.monotonic() - started < 60
    assert "ERROR creating sql table model s.slow" in "".join(output)
