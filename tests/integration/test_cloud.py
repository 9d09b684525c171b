"""A model whose tables, state and checkpoints are in a bucket, and whose catalog is a REST catalog: machines come and go."""

from __future__ import annotations

import json
import os
import re
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

from dbt.adapters.spark_streaming.stream.common import failpoints
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
        {
            "name": "pages",
            "data_tests": [{"same_rows_as": {"arguments": {"other": "ref('pages_in_batch')"}}}],
        },
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
{% macro copies(table) %}
  {% set found = run_query("call lakehouse.system.rewrite_table_path(table => '" ~ table
      ~ "', source_prefix => 's3://shop/', target_prefix => 's3://other/')") %}
  {{ log("copies of " ~ table ~ ": " ~ found.rows[0]['latest_version'] ~ " " ~ found.rows[0]['file_list_location']) }}
{% endmacro %}

{% macro register(table, metadata_file) %}
  {% do run_query("drop table " ~ table) %}
  {% do run_query("call lakehouse.system.register_table(table => '" ~ table
      ~ "', metadata_file => '" ~ metadata_file ~ "')") %}
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
        # moto takes others for forms, and looks at who asks, whoever that is.
        signed = f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        headers = {"Content-Type": "application/octet-stream", "Authorization": signed, **headers}
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
        lines = [
            json.dumps({**dict(zip(names, row, strict=True)), "ts": f"2026-03-02T{row[0]}Z"}) for row in rows
        ]
        self.ask("PUT", f"shop/events/{name}.json", "\n".join(lines).encode())

    def asked_for(self) -> list[str]:
        """What was read of the bucket so far, in order."""
        return re.findall(r"GET (/\S+) HTTP", (self.folder / "s3.log").read_text())

    def target(self, **more: Any) -> dict[str, Any]:
        """The profile's target."""
        return {
            "type": "spark_streaming",
            "schema": SCHEMA,
            "threads": 2,
            "master": "local[2]",
            "storage_root": "s3a://shop/dbt",
            "packages": ["s3"],
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


PROCESS = """
import json, pathlib, sys
from click.testing import CliRunner
from dbt.cli.main import dbtRunner
from dbt.adapters.spark_streaming.cli.commands import main

for number, command in enumerate(json.loads(sys.argv[1])):
    if command[0] == "dbt":
        done = dbtRunner().invoke(["--debug", *command[1:]])
        code, said, found = int(not done.success), str(done.exception or ""), pathlib.Path("target/run_results.json")
        results = json.loads(found.read_text())["results"] if found.exists() else []
    else:
        done = CliRunner().invoke(main, command[1:])
        code, said, results = done.exit_code, done.output + str(done.exception or ""), []
    pathlib.Path(f"told-{number}.json").write_text(json.dumps([code, said, results]))
"""
"""Starting Spark takes longest, so a machine does several things in one process."""


@dataclass(frozen=True)
class Told:
    """What became of a command."""

    code: int
    said: str
    results: list[dict[str, Any]]

    @property
    def messages(self) -> dict[str, str]:
        """What dbt says of each node, by name."""
        return {each["unique_id"].split(".")[2]: str(each["message"]) for each in self.results}

    @property
    def rows_in(self) -> dict[str, int]:
        """How many rows each stream has taken in."""
        told = {
            each["unique_id"].split(".")[2]: each["adapter_response"].get("rows_in") for each in self.results
        }
        return {name: rows for name, rows in told.items() if rows is not None}


@dataclass(frozen=True)
class Machine:
    """A checkout of the project, where nothing was run before."""

    folder: Path

    def write(self, name: str, text: str) -> None:
        """A model's text."""
        (self.folder / "models" / f"{name}.sql").write_text(text)

    def process(self, *commands: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run commands in a process. No key is in what it says, nor in its logs."""
        done = subprocess.run(
            [sys.executable, "-c", PROCESS, json.dumps([command.split(" ") for command in commands])],
            cwd=self.folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=900,
        )
        kept = [path for path in self.folder.rglob("*") if path.suffix in (".log", ".json")]
        for text in (done.stdout, done.stderr, *(path.read_text() for path in kept)):
            for secret in (KEY, SECRET):
                where = text.find(secret)
                assert where < 0, text[max(0, where - 300) : where + 100]
        return done

    def tries(self, *commands: str) -> list[Told]:
        """What became of commands."""
        done = self.process(*commands)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        told = [self.folder / f"told-{number}.json" for number in range(len(commands))]
        return [Told(*json.loads(path.read_text())) for path in told]

    def does(self, *commands: str) -> list[Told]:
        """What became of commands, which do what they are asked."""
        found = self.tries(*commands)
        for command, told in zip(commands, found, strict=True):
            assert told.code == 0, (command, told.said, told.messages)
        return found


class Machines:
    """Makes machines, each with nothing but the project's text."""

    def __init__(self, cloud: Cloud, root: Path) -> None:
        self._cloud, self._root, self._made = cloud, root, 0

    def another(self, **target: Any) -> Machine:
        self._made += 1
        folder = self._root / f"machine-{self._made}"
        (folder / "models").mkdir(parents=True)
        shutil.copytree(ROOT / "integration_tests" / "tests", folder / "tests")
        project = {"name": "shop", "version": "1.0.0", "profile": "shop", "model-paths": ["models"]}
        profile = {"shop": {"target": "dev", "outputs": {"dev": self._cloud.target(**target)}}}
        for name, content in (
            ("dbt_project.yml", project),
            ("profiles.yml", profile),
            ("models/schema.yml", TESTS),
        ):
            (folder / name).write_text(yaml.safe_dump(content))
        made = Machine(folder)
        (folder / "macros").mkdir()
        (folder / "macros" / "moving.sql").write_text(MOVING)
        for name, text in MODELS.items():
            made.write(name, text)
        return made


@pytest.fixture(scope="module")
def machines(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Machines:
    return Machines(cloud, tmp_path_factory.mktemp("machines"))


BUILD = "dbt build --select pages hours pages_in_batch hours_in_batch total"
PAGES_ALONE = "dbt build --select pages pages_in_batch"


def test_another_machine_goes_on(cloud: Cloud, machines: Machines) -> None:
    cloud.put("a", ("08:01:00", "p1", "d1", 1), ("08:04:00", "p2", "d1", 2))
    cloud.put("b", ("08:12:00", "p1", "d2", 3))
    (built,) = machines.another().does(BUILD)
    assert built.rows_in == {"pages": 3, "hours": 3, "total": 4}
    cloud.put("c", ("09:05:00", "p1", "d1", 4), ("09:06:00", "p2", "d3", 5))
    # With another number of cores, and of shuffle partitions.
    settings = cloud.target()["server_side_parameters"] | {"spark.sql.shuffle.partitions": 5}
    other = machines.another(master="local[1]", server_side_parameters=settings)
    assert [each.rows_in for each in other.does(BUILD, BUILD)] == [
        {"pages": 2, "hours": 2, "total": 4},
        {"pages": 0, "hours": 0, "total": 0},
    ]


def test_a_restart_reads_no_state(cloud: Cloud, machines: Machines) -> None:
    before = len(cloud.asked_for())
    (run,) = machines.another().does("dbt run --select pages hours total")
    assert run.rows_in == dict.fromkeys(("pages", "hours", "total"), 0)
    read = cloud.asked_for()[before:]
    assert any("/dbt/checkpoints/" in path for path in read)
    assert not [path for path in read if "/data/" in path], "files of rows, of state or table"


def test_a_machine_that_is_killed(cloud: Cloud, machines: Machines) -> None:
    cloud.put("d", ("09:20:00", "p1", "d4", 1), ("09:21:00", "p3", "d1", 2))
    killed = machines.another().process(
        "dbt run --select pages", **{failpoints.ENVIRONMENT: "kill-both state.append:after 1 pages"}
    )
    assert killed.returncode == -signal.SIGKILL, killed.stdout
    # What it has taken in is put out, by the machine that follows, which takes a savepoint too.
    machines.another().does(BUILD, "dbt-stream state savepoint pages before")


def test_savepoints(cloud: Cloud, machines: Machines) -> None:
    cloud.put("e", ("10:05:00", "p1", "d5", 1))
    edited = machines.another()
    edited.write("pages", STREAM + WITH_AMOUNT)
    (run,) = edited.does("dbt run --select pages")
    assert run.rows_in == {"pages": 1}
    listed, restored, built, shown = machines.another().does(
        "dbt-stream state savepoint pages --json",
        "dbt-stream state restore pages before",
        PAGES_ALONE,
        "dbt-stream state show pages",
    )
    assert [each["name"] for each in json.loads(listed.said)] == ["before", "before-migration-1"]
    assert "back at savepoint 'before'" in restored.said
    assert built.rows_in == {"pages": 1}
    assert "_groups" in shown.said


def test_a_clone_and_a_deployment(cloud: Cloud, machines: Machines) -> None:
    (cloned,) = machines.another().does("dbt-stream state clone again --from pages")
    assert "again: continues from pages" in cloned.said
    cloud.put("f", ("10:15:00", "p4", "d5", 1))
    edited = machines.another()
    run, _ = edited.does("dbt run --select again", PAGES_ALONE)
    assert run.rows_in == {"again": 1}
    for name, config in (("pages", STREAM), ("pages_in_batch", BATCH)):
        edited.write(name, config + DEVICES)
    staged, promoted, built, _ = edited.does(
        "dbt-stream deploy init pages",
        "dbt-stream deploy promote pages",
        PAGES_ALONE,
        "dbt-stream deploy rollback pages",
    )
    assert "It has caught up" in staged.said
    assert "pages__previous_" in promoted.said
    assert built.rows_in == {"pages": 0}
    built, cleaned = machines.another().does(PAGES_ALONE, "dbt-stream deploy cleanup pages --yes")
    assert built.rows_in == {"pages": 0}
    assert cleaned.said.startswith("pages: ")


def test_the_other_commands(cloud: Cloud, machines: Machines) -> None:
    status, stop, _, _, clean, _ = machines.another().does(
        "dbt-stream status --json",
        "dbt-stream stop pages",
        "dbt-stream flush hours",
        "dbt-stream verify pages",
        "dbt-stream clean --dry-run",
        "dbt-stream reset again --yes",
    )
    assert {each["model"] for each in json.loads(status.said)} >= {"pages", "hours"}
    assert "locks on s3a://shop/dbt can't be seen from here" in stop.said
    assert "pages: 0 files that no commit refers to" in clean.said


def test_a_storage_root_that_the_other_does_not_see(cloud: Cloud, machines: Machines) -> None:
    """Tables are there, and how far they have come isn't."""
    (run,) = machines.another(storage_root="./.spark").tries("dbt run --select pages hours")
    assert run.code == 1
    for message in run.messages.values():
        assert "is gone" in message
        assert "is a folder of this machine; both need a 'storage_root'" in message


def test_all_of_it_in_another_bucket(cloud: Cloud, machines: Machines) -> None:
    tables = ("pages", "pages__state", "pages__changes")
    machine = machines.another()
    names = [json.dumps({"table": f"shop.{each}"}, separators=(",", ":")) for each in tables]
    machine.does(*(f"dbt run-operation copies --args {each}" for each in names))
    log = (machine.folder / "logs" / "dbt.log").read_text()
    registered = []
    for table in tables:
        version, listed = re.findall(rf"copies of shop.{table}: (\S+) (\S+)", log)[-1]
        for each in cloud.objects("shop", listed.removeprefix("s3://shop/")):
            for line in cloud.ask("GET", f"shop/{each}").decode().splitlines():
                source, _, target = line.partition(",")
                cloud.copy(source.removeprefix("s3://"), target.removeprefix("s3://"))
        (metadata,) = (
            name
            for name in cloud.objects("other", "warehouse")
            if name.endswith(f"/{table}/metadata/{version}")
        )
        arguments = {"table": f"shop.{table}", "metadata_file": f"s3://other/{metadata}"}
        registered.append(json.dumps(arguments, separators=(",", ":")))
    for each in cloud.objects("shop", "dbt/"):
        cloud.copy(f"shop/{each}", f"other/{each}")
    machine.does(*(f"dbt run-operation register --args {each}" for each in registered))
    for each in [*cloud.objects("shop", "dbt/"), *cloud.objects("shop", "warehouse/shop/pages")]:
        if "in_batch" not in each:
            cloud.ask("DELETE", f"shop/{each}")
    cloud.put("g", ("10:25:00", "p4", "d6", 1))
    built, listed, _, again = machines.another(storage_root="s3a://other/dbt").does(
        PAGES_ALONE,
        "dbt-stream state savepoint pages --json",
        "dbt-stream state restore pages before",
        PAGES_ALONE,
    )
    assert built.rows_in == {"pages": 1}
    assert "before" in [each["name"] for each in json.loads(listed.said)]
    assert again.rows_in["pages"] > 1
