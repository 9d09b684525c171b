"""A lookup join with PostgreSQL, in a dbt of its own: its driver has to be there before Spark starts."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DRIVER = "org.postgresql:postgresql:42.7.7"
SOURCES = """
sources:
  - name: raw
    tables:
      - name: orders
        config:
          meta:
            stream:
              format: json
              options: {path: orders, maxFilesPerTrigger: 1}
              schema: id string, customer string, day string
  - name: crm
    tables:
      - name: customers
        config:
          meta:
            lookup:
              url: "jdbc:postgresql://127.0.0.1:{{ env_var('CRM_PORT') }}/postgres"
              options: {user: postgres}
              chunk_size: 2
"""
MODEL = """{{ config(materialized='streaming_table') }}
select o.id, c.name, c.since from {{ stream(source('raw', 'orders')) }} as o
left join {{ source('crm', 'customers') }} as c on c.id = o.customer and c.day = cast(o.day as date)"""
TEST = """with expected as (
    select * from values
        ('1', 'Ada', timestamp('2020-01-01 00:00:00.25Z')), ('2', "it's", null), ('3', 'Bob', null),
        ('4', null, null), ('5', null, null), ('6', 'Ada', timestamp('2020-01-01 00:00:00.25Z')),
        ('7', null, null), ('8', null, null), ('9', "it's", null) as t(id, name, since)
)
(select * from {{ ref('named') }} except all select * from expected)
union all (select * from expected except all select * from {{ ref('named') }})"""
IDS = [f"00000000-0000-0000-0000-00000000000{number}" for number in range(4)]


class Server:
    """A PostgreSQL for one test."""

    def __init__(self, root: Path, user: str | None) -> None:
        self._root, self._user = root, user
        self._run("initdb", "-D", str(root / "data"), "-U", "postgres", "-A", "trust")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        options = f"-p {self.port} -k {root} -c listen_addresses=127.0.0.1 -c log_statement=all -c fsync=off"
        self._run("pg_ctl", "-D", str(root / "data"), "-l", str(root / "log"), "-w", "-o", options, "start")

    def _run(self, program: str, *arguments: str) -> str:
        folder = Path(os.path.realpath(shutil.which("postgres") or "")).parent
        command = [str(folder / program), *arguments]
        done = subprocess.run(
            command, cwd=self._root, user=self._user, capture_output=True, text=True, check=True
        )
        return done.stdout

    def sql(self, text: str) -> None:
        self._run("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-c", text)

    def requests(self) -> list[str]:
        """The statements with keys."""
        return [line for line in (self._root / "log").read_text().splitlines() if "where (" in line]

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._root / "data"), "-m", "immediate", "stop")


@pytest.fixture
def server() -> Iterator[Server]:
    if shutil.which("postgres") is None:
        pytest.skip("there is no postgres on this machine")
    user = None
    root = Path(tempfile.mkdtemp(prefix="postgres"))
    if os.geteuid() == 0:  # as whom it refuses to run
        user = "postgres"
        try:
            shutil.chown(root, pwd.getpwnam(user).pw_uid)
        except KeyError:
            pytest.skip("postgres can't be run as root, and there is no user postgres")
    server = Server(root, user)
    yield server
    server.stop()
    shutil.rmtree(root)


@pytest.mark.thorough
def test_uuids_dates_and_what_is_missing(server: Server, tmp_path: Path) -> None:
    server.sql(
        "create table customers (id uuid, day date, name text, since timestamptz, primary key (id, day)); "
        f"insert into customers values ('{IDS[0]}', '2024-03-04', 'Ada', '2020-01-01 00:00:00.25Z'), "
        f"('{IDS[1]}', '2024-03-04', 'it''s', null), ('{IDS[1]}', '2024-03-05', 'Bob', null)"
    )
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "sources.yml").write_text(SOURCES)
    (tmp_path / "models" / "named.sql").write_text(MODEL)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "as_expected.sql").write_text(TEST)
    (tmp_path / "dbt_project.yml").write_text("name: shop\nprofile: shop\nversion: 1.0.0\n")
    output = {"type": "spark_streaming", "schema": "shop", "master": "local[2]", "packages": [DRIVER]}
    (tmp_path / "profiles.yml").write_text(
        json.dumps({"shop": {"target": "dev", "outputs": {"dev": output}}})
    )
    orders = tmp_path / "orders"
    orders.mkdir()

    def order(file: str, *rows: tuple[str, str | None, str]) -> None:
        lines = [json.dumps(dict(zip(("id", "customer", "day"), row, strict=True))) for row in rows]
        (orders / file).write_text("\n".join(lines))

    order("a.json", ("1", IDS[0], "2024-03-04"), ("2", IDS[1], "2024-03-04"), ("3", IDS[1], "2024-03-05"))
    order("b.json", ("4", IDS[2], "2024-03-04"), ("5", None, "2024-03-04"), ("6", IDS[0], "2024-03-04"))
    # No UUIDs: one of them can't be in any text of PostgreSQL's.
    order("c.json", ("7", "n/a", "2024-03-04"), ("8", "\0", "2024-03-04"), ("9", IDS[1], "2024-03-04"))
    dbt = [str(Path(sys.executable).with_name("dbt"))]
    where = ["--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path)]
    environment = {**os.environ, "CRM_PORT": str(server.port)}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [*dbt, *arguments, *where], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        if f"{DRIVER} couldn't be fetched" in done.stdout:
            pytest.skip("PostgreSQL's JDBC driver can't be fetched")
        assert done.returncode == 0, done.stdout[-2000:]
        return done.stdout

    assert "9 rows in, 9 out, 3 batches, 7 lookups of 8 keys" in run("build")
