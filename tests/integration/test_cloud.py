"""A model whose tables, state and checkpoints are in a bucket, and whose catalog is a REST catalog: machines come and go."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
import xml.etree.ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from dbt.adapters.spark_streaming.environment.packages import ICEBERG_VERSION
from dbt.adapters.spark_streaming.stream import failpoints
from tests.integration.project import ROOT

pytestmark = pytest.mark.cloud

SCRIPT = ROOT / "integration_tests" / "cloud"
NOT_TO_BE_HAD = 3
"""The script's exit status where moto or jars can't be had."""

KEY, SECRET = "AKIAOFNOBODY42", "aSecret/OfNobody+42"
SCHEMA = "shop"

GROUPS = """
select {key}, count(*) as views, count(distinct device) as devices{more}
from {{{{ stream(source('raw', 'events')) }}}} group by {key}
"""
PAGES, DEVICES = GROUPS.format(key="page", more=""), GROUPS.format(key="device", more="")
WITH_AMOUNT = GROUPS.format(key="page", more=", sum(amount) as amount")
HOURS = """
select window_start, window_end, page, count(*) as views, count(distinct device) as devices
from {{ cumulate(source('raw', 'events'), 'ts', '10 minutes', '1 hour') }}
group by window_start, window_end, page
"""
STREAM = "{{ config(materialized='streaming_table', changelog=true, constant_domains=['page', 'device']) }}"
BATCH = "{{ config(materialized='table') }}"
MODELS = {
    "pages": STREAM + PAGES,
    "pages_in_batch": BATCH + PAGES,
    "hours": "{{ config(materialized='cumulate') }}" + HOURS,
    "hours_in_batch": BATCH + HOURS,
    "again": STREAM + PAGES,
    "total": STREAM + "select sum(views) as views from {{ stream(ref('pages')) }}",
}
# A stream has the rows of a table of the same text.
TESTS = {
    "version": 2,
    "models": [
        {"name": "pages", "data_tests": [{"same_rows_as": {"arguments": {"other": "ref('pages_in_batch')"}}}]},
        {
            "name": "hours",
            "data_tests": [
                {"same_rows_as": {"arguments": {"other": "ref('hours_in_batch')", "until": "window_end"}}}
            ],
        },
    ],
    "sources": [
        {
            "name": "raw",
            "tables": [
                {
                    "name": "events",
                    "config": {
                        "event_time": "ts",
                        "meta": {
                            "stream": {
                                "format": "json",
                                "options": {"path": "s3a://shop/events", "maxFilesPerTrigger": 1},
                                "schema": "ts timestamp, page string, device string, amount bigint",
                            }
                        },
                    },
                }
            ],
        }
    ],
}

# As the guide tells it.
MOVING = """
{% macro copies(table, source, target) %}
  {% set found = run_query("call lakehouse.system.rewrite_table_path(table => '" ~ table ~ "', source_prefix => '" ~ source
      ~ "', target_prefix => '" ~ target ~ "')") %}
  {{ print(found.rows[0]['latest_version'] ~ ' ' ~ found.rows[0]['file_list_location']) }}
{% endmacro %}

{% macro register(table, metadata_file) %}
  {% do run_query("drop table " ~ table) %}
  {% do run_query("call lakehouse.system.register_table(table => '" ~ table ~ "', metadata_file => '" ~ metadata_file ~ "')") %}
{% endmacro %}
"""


@dataclass(frozen=True)
class Cloud:
    """What all machines have in common."""

    s3: str
    catalog: str
    folder: Path

    def ask(self, method: str, path: str, data: bytes | None = None, **headers: str) -> bytes:
        """A request to the S3 API."""
        request = urllib.request.Request(f"{self.s3}/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    def objects(self, bucket: str, prefix: str) -> list[str]:
        """The names of a bucket's objects."""
        listed = xml.etree.ElementTree.fromstring(self.ask("GET", f"{bucket}?list-type=2&prefix={prefix}"))
        return [str(each.text) for each in listed.iter() if each.tag.endswith("}Key")]

    def copy(self, source: str, to: str) -> None:
        """Copy an object, each with its bucket before it."""
        self.ask("PUT", to, b"", **{"x-amz-copy-source": f"/{source}"})

    def put(self, name: str, *rows: tuple[str, str, str, int]) -> None:
        """One more file of events."""
        names = ("ts", "page", "device", "amount")
        lines = [json.dumps({**dict(zip(names, row, strict=True)), "ts": f"2026-03-02T{row[0]}Z"}) for row in rows]
        self.ask("PUT", f"shop/events/{name}.json", "\n".join(lines).encode())

    def asked_for(self) -> list[str]:
        """What was read of the bucket so far, in order."""
        lines = (self.folder / "s3.log").read_text().splitlines()
        return [line.split('"GET ')[1].split(" ")[0] for line in lines if '"GET /' in line]

    def target(self, **more: Any) -> dict[str, Any]:
        """The profile's target."""
        return {
            "type": "spark_streaming",
            "schema": SCHEMA,
            "threads": 2,
            "master": "local[2]",
            "storage_root": "s3a://shop/dbt",
            "packages": [
                "org.apache.hadoop:hadoop-aws:3.4.2",
                f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}",
                # What Hadoop needs of the SDK that is in there, and isn't.
                "software.amazon.awssdk:apache-client:2.54.17",
                "software.amazon.awssdk:s3-transfer-manager:2.54.17",
            ],
            "catalog_options": {
                "type": "rest",
                "uri": self.catalog,
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "client.region": "us-east-1",
                "s3.endpoint": self.s3,
                "s3.path-style-access": True,
                "s3.access-key-id": KEY,
                "s3.secret-access-key": SECRET,
            },
            "server_side_parameters": {
                "spark.jars.excludes": "software.amazon.awssdk:bundle",
                "spark.hadoop.fs.s3a.endpoint": self.s3,
                "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
                "spark.hadoop.fs.s3a.path.style.access": True,
                "spark.hadoop.fs.s3a.access.key": KEY,
                "spark.hadoop.fs.s3a.secret.key": SECRET,
            },
            **more,
        }


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A bucket and a catalog on this machine."""
    folder = tmp_path_factory.mktemp("cloud")
    command = [sys.executable, str(SCRIPT)]
    started = subprocess.run([*command, "start", str(folder)], capture_output=True, text=True)
    if started.returncode == NOT_TO_BE_HAD:
        pytest.skip(started.stderr)
    assert started.returncode == 0, started.stderr
    s3, catalog = started.stdout.strip().splitlines()[-2:]
    yield Cloud(s3, catalog, folder)
    subprocess.run([*command, "stop", str(folder)], check=True)


@dataclass(frozen=True)
class Machine:
    """A checkout of the project, where nothing was run before."""

    folder: Path

    def write(self, name: str, text: str) -> None:
        (self.folder / "models" / f"{name}.sql").write_text(text)

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `dbt` or `dbt-stream`; what became of it. No key is in what it says."""
        done = subprocess.run(
            [str(Path(sys.executable).with_name(command[0])), *command[1:]],
            cwd=self.folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=400,
        )
        logs = [path.read_text() for path in self.folder.rglob("*.log*") if path.is_file()]
        kept = [path.read_text() for path in self.folder.glob("target/run_results.json")]
        for text in (done.stdout, done.stderr, *logs, *kept):
            for secret in (KEY, SECRET):
                where = text.find(secret)
                assert where < 0, text[max(0, where - 300) : where + 100]
        return done

    def dbt(self, *arguments: str, **environment: str) -> dict[str, dict[str, Any]]:
        """Run dbt, which does what it is asked; what it says of each node, by name."""
        done = self.run("dbt", "--debug", *arguments, **environment)
        assert done.returncode == 0, done.stdout[-6000:]
        return self.results()

    def results(self) -> dict[str, dict[str, Any]]:
        found = json.loads((self.folder / "target" / "run_results.json").read_text())["results"]
        return {one["unique_id"].split(".")[2]: one for one in found}

    def rows_in(self, *arguments: str) -> dict[str, int]:
        """Run models; how many rows each stream has taken in."""
        done = self.dbt(*arguments).items()
        told = {name: one["adapter_response"].get("rows_in") for name, one in done}
        return {name: rows for name, rows in told.items() if rows is not None}

    def stream(self, *arguments: str) -> str:
        """What `dbt-stream` says, which does what it is asked."""
        done = self.run("dbt-stream", *arguments)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def refused(self, *arguments: str) -> str:
        """What `dbt-stream` says, which doesn't."""
        done = self.run("dbt-stream", *arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        return done.stderr


class Machines:
    """Makes machines, each with nothing but the project's text."""

    def __init__(self, cloud: Cloud, root: Path) -> None:
        self._cloud, self._root, self._made = cloud, root, 0
        self.models = dict(MODELS)
        self._target: dict[str, Any] = {}

    def moved(self, **target: Any) -> None:
        """Have the machines that come find things elsewhere."""
        self._target = target

    def another(self, **target: Any) -> Machine:
        self._made += 1
        folder = self._root / f"machine-{self._made}"
        (folder / "models").mkdir(parents=True)
        shutil.copytree(ROOT / "integration_tests" / "tests", folder / "tests")
        project = {"name": "shop", "version": "1.0.0", "profile": "shop", "model-paths": ["models"]}
        profile = {"shop": {"target": "dev", "outputs": {"dev": self._cloud.target(**{**self._target, **target})}}}
        for name, content in (
            ("dbt_project.yml", project),
            ("profiles.yml", profile),
            ("models/schema.yml", TESTS),
        ):
            (folder / name).write_text(yaml.safe_dump(content))
        made = Machine(folder)
        (folder / "macros").mkdir()
        (folder / "macros" / "moving.sql").write_text(MOVING)
        for name, text in self.models.items():
            made.write(name, text)
        return made

    def edit(self, name: str, text: str) -> None:
        """Change a model on the machines that come."""
        self.models[name] = text


@pytest.fixture(scope="module")
def machines(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Machines:
    return Machines(cloud, tmp_path_factory.mktemp("machines"))


BOTH = ("--select", "pages", "hours", "pages_in_batch", "hours_in_batch", "total")


def test_another_machine_goes_on(cloud: Cloud, machines: Machines) -> None:
    cloud.put("a", ("08:01:00", "p1", "d1", 1), ("08:04:00", "p2", "d1", 2))
    cloud.put("b", ("08:12:00", "p1", "d2", 3))
    assert machines.another().rows_in("build", *BOTH) == {"pages": 3, "hours": 3, "total": 4}
    cloud.put("c", ("09:05:00", "p1", "d1", 4), ("09:06:00", "p2", "d3", 5))
    # With another number of cores, and of shuffle partitions.
    partitions = cloud.target()["server_side_parameters"] | {"spark.sql.shuffle.partitions": 5}
    other = machines.another(master="local[1]", server_side_parameters=partitions)
    assert other.rows_in("build", *BOTH) == {"pages": 2, "hours": 2, "total": 4}
    assert other.rows_in("build", *BOTH) == {"pages": 0, "hours": 0, "total": 0}


def test_a_restart_reads_no_state(cloud: Cloud, machines: Machines) -> None:
    before = len(cloud.asked_for())
    streams = ("pages", "hours", "total")
    assert machines.another().rows_in("run", "--select", *streams) == dict.fromkeys(streams, 0)
    read = cloud.asked_for()[before:]
    assert any("/dbt/checkpoints/" in path for path in read)
    assert not [path for path in read if "/data/" in path], "files of rows, of state or table"


def test_a_machine_that_is_killed(cloud: Cloud, machines: Machines) -> None:
    cloud.put("d", ("09:20:00", "p1", "d4", 1), ("09:21:00", "p3", "d1", 2))
    killed = machines.another().run(
        "dbt", "run", "--select", "pages", **{failpoints.ENVIRONMENT: "kill-both state.append:after 1 pages"}
    )
    assert killed.returncode == -signal.SIGKILL, killed.stdout
    assert set(machines.another().rows_in("build", *BOTH)) == {"pages", "hours", "total"}


def test_savepoints(cloud: Cloud, machines: Machines) -> None:
    machines.another().stream("state", "savepoint", "pages", "before")
    cloud.put("e", ("10:05:00", "p1", "d5", 1))
    machines.edit("pages", STREAM + WITH_AMOUNT)
    machines.edit("pages_in_batch", BATCH + WITH_AMOUNT)
    assert machines.another().rows_in("run", "--select", "pages") == {"pages": 1}
    machines.edit("pages", STREAM + PAGES)
    machines.edit("pages_in_batch", BATCH + PAGES)
    other = machines.another()
    listed = json.loads(other.stream("state", "savepoint", "pages", "--json"))
    assert [each["name"] for each in listed] == ["before", "before-migration-1"]
    assert "back at savepoint 'before'" in other.stream("state", "restore", "pages", "before")
    assert other.rows_in("build", "--select", "pages", "pages_in_batch") == {"pages": 1}
    assert "state" in other.stream("state", "show", "pages")


def test_a_clone(cloud: Cloud, machines: Machines) -> None:
    assert "again: goes on from pages" in machines.another().stream(
        "state", "clone", "again", "--from", "pages"
    )
    cloud.put("f", ("10:15:00", "p4", "d5", 1))
    assert machines.another().rows_in("build", "--select", "again", "pages", "pages_in_batch") == {
        "again": 1,
        "pages": 1,
    }


def test_a_deployment(cloud: Cloud, machines: Machines) -> None:
    machines.edit("pages", STREAM + DEVICES)
    machines.edit("pages_in_batch", BATCH + DEVICES)
    assert "It has caught up" in machines.another().stream("deploy", "init", "pages")
    other = machines.another()
    assert "pages__previous_" in other.stream("deploy", "promote", "pages")
    assert other.rows_in("build", "--select", "pages", "pages_in_batch") == {"pages": 0}
    other.stream("deploy", "rollback", "pages")
    machines.edit("pages", STREAM + PAGES)
    machines.edit("pages_in_batch", BATCH + PAGES)
    other = machines.another()
    assert other.rows_in("build", "--select", "pages", "pages_in_batch") == {"pages": 0}
    other.stream("deploy", "cleanup", "pages", "--yes")


def test_all_of_it_in_another_bucket(cloud: Cloud, machines: Machines) -> None:
    machine = machines.another()
    for table in ("pages", "pages__state", "pages__changes"):
        names = json.dumps({"table": f"shop.{table}", "source": "s3://shop/", "target": "s3://other/"})
        said = machine.run("dbt", "run-operation", "copies", "--args", names).stdout.splitlines()
        (version, listed) = next(line for line in said if ".metadata.json" in line).split(" ")
        lists = cloud.objects("shop", listed.removeprefix("s3://shop/"))
        assert lists, said
        for each in lists:
            for line in cloud.ask("GET", f"shop/{each}").decode().splitlines():
                source, _, target = line.partition(",")
                cloud.copy(source.removeprefix("s3://"), target.removeprefix("s3://"))
        metadata = next(
            name for name in cloud.objects("other", "warehouse") if name.endswith(f"/{version}")
        )
        names = json.dumps({"table": f"shop.{table}", "metadata_file": f"s3://other/{metadata}"})
        machine.run("dbt", "run-operation", "register", "--args", names)
        for each in cloud.objects("shop", f"warehouse/shop/{table}/"):
            cloud.ask("DELETE", f"shop/{each}")
    for each in cloud.objects("shop", "dbt/"):
        cloud.copy(f"shop/{each}", f"other/{each}")
        cloud.ask("DELETE", f"shop/{each}")
    cloud.put("g", ("10:25:00", "p4", "d6", 1))
    moved = machines.another(storage_root="s3a://other/dbt")
    assert moved.rows_in("build", "--select", "pages", "pages_in_batch") == {"pages": 1}
    listed = json.loads(moved.stream("state", "savepoint", "pages", "--json"))
    assert "before" in [each["name"] for each in listed]
    moved.stream("state", "restore", "pages", "before")
    assert moved.rows_in("build", "--select", "pages", "pages_in_batch")["pages"] > 1
    machines.moved(storage_root="s3a://other/dbt")


def test_the_other_commands(cloud: Cloud, machines: Machines) -> None:
    machine = machines.another()
    assert {each["model"] for each in json.loads(machine.stream("status", "--json"))} >= {"pages", "hours"}
    assert "locks on s3a://other/dbt can't be seen from here" in machine.stream("stop", "pages")
    machine.stream("flush", "hours")
    machine.stream("verify", "pages")
    assert "pages: 0 files that no commit knows" in machine.stream("clean", "--dry-run")
    machine.stream("reset", "again", "--yes")


def test_a_storage_root_that_the_other_does_not_see(cloud: Cloud, machines: Machines) -> None:
    """Tables are there, and how far they have come isn't."""
    apart = machines.another(storage_root="./.spark")
    done = apart.run("dbt", "run", "--select", "pages", "hours")
    assert done.returncode == 1
    messages = {name: str(one["message"]) for name, one in apart.results().items()}
    for message in messages.values():
        assert "is gone" in message
        assert "is a folder of this machine" in message
