"""Two targets live under one storage root: whatever one of them does, the other's files stay."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

PROFILE = """shop:
  target: first
  outputs:
    first: {type: spark_streaming, schema: shop, storage_root: ROOT}
    second: {type: spark_streaming, schema: shop, storage_root: ROOT, catalog: other}
"""
SOURCES = """sources:
  - name: raw
    tables:
      - name: events
        config: {meta: {stream: {format: json, path: in, schema: "k string, v bigint"}}}
"""
MODEL = """{{ config(materialized='streaming_table', changelog=true, constant_domains=['k']) }}
select k, sum(v) as v from {{ stream(source('raw', 'events')) }} group by k
"""
COMMANDS = """
import sys
from click.testing import CliRunner
from dbt.cli.main import dbtRunner
from dbt.adapters.spark_streaming.cli.commands import main
target, *commands = sys.argv[1:]
for command in commands:
    words = command.split("|")
    if words[0] == "run":
        found = dbtRunner().invoke(["--quiet", *words, "--target", target])
        print([entry.message for entry in found.result or ()], found.exception)
    else:
        done = CliRunner().invoke(main, ["--target", target, *words])
        print(command, done.exit_code, done.output)
"""
EVERYTHING = (
    "clean|--older-than|1 millisecond|--dropped|--yes",
    "state|savepoint|orders|one",
    "reset|--yes|gone",
    "clean|--older-than|1 millisecond|--dropped|--yes",
    "run|--full-refresh",
)


@pytest.mark.thorough
def test_one_target_never_touches_the_other(tmp_path: Path) -> None:
    """Two embedded catalogs of one storage root put tables of one name into one folder."""
    root = tmp_path / "root"
    for name, text in {
        "dbt_project.yml": "name: shop\nprofile: shop\n",
        "profiles.yml": PROFILE.replace("ROOT", str(root)),
        "models/sources.yml": SOURCES,
        "models/orders.sql": MODEL,
        "models/gone.sql": MODEL,
        "in/1.json": '{"k": "a", "v": 1}\n',
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def on(target: str, *commands: str) -> str:
        command = [sys.executable, "-c", COMMANDS, target, *commands]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    def files() -> dict[Path, str]:
        """The content of all files by path, without those of catalogs and locks, which the targets share."""
        return {
            path: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in root.rglob("*")
            if path.is_file() and ".db" not in path.name and path.parent.name != "locks"
        }

    def stay(were: dict[Path, str]) -> None:
        now = files()
        assert not [path for path, content in were.items() if now.get(path) != content]

    said = on("first", "run")
    assert said.count("1 row in, 1 out") == 2, said
    of_first = files()
    said = on("second", "run", *EVERYTHING)
    assert said.count("1 row in, 1 out") == 4 and "savepoint 'one'" in said and "gone is forgotten" in said
    stay(of_first)
    of_second = {path: content for path, content in files().items() if path not in of_first}
    (tmp_path / "in" / "2.json").write_text('{"k": "a", "v": 10}\n')
    said = on("first", "run", *EVERYTHING)
    assert said.count("1 row in, 1 out") == 2 and said.count("2 rows in, 1 out") == 2, said
    stay(of_second)
