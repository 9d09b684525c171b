"""What a command costs before it does anything: dbt's and ours, beside the same with dbt-spark's session method.

Two projects of one small model each: a stream that has nothing new, and a table of dbt-spark's. The commands are run in
turn, ours and dbt-spark's; what is printed is the smallest CPU time of each, of all processes that it starts, and the
smallest wall time until it returns. `status` and `explain` have no peer; they stand beside dbt-spark's `dbt parse`.

    python bench/start.py --times 5
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PROJECT = "name: start\nversion: 0.1.0\nconfig-version: 2\nprofile: start\n"
PROFILE = "start:\n  target: dev\n  outputs:\n    dev: {}\n"
SOURCE = """
version: 2
sources:
  - name: raw
    tables:
      - name: orders
        config: {event_time: ordered_at}
        meta:
          stream:
            format: json
            options: {path: orders}
            schema: ordered_at timestamp, shop string, cents bigint
"""
STREAM = """
{{ config(materialized='streaming_table') }}
select window_start, window_end, shop, count(*) as orders, sum(cents) as cents
from {{ tumble(source('raw', 'orders'), 'ordered_at', '10 minutes') }}
group by window_start, window_end, shop
"""
TABLE = "{{ config(materialized='table') }}\nselect 'a' as shop, 3L as orders, 600L as cents\n"

BIN = Path(sys.executable).parent
COMMANDS = {
    "dbt parse": (("dbt", "parse"), ("dbt", "parse")),
    "dbt ls": (("dbt", "ls"), ("dbt", "ls")),
    "dbt-stream --help": (("dbt-stream", "--help"), ("dbt", "parse")),
    "dbt-stream status": (("dbt-stream", "status"), ("dbt", "parse")),
    "dbt-stream explain": (("dbt-stream", "explain", "shops"), ("dbt", "parse")),
    "dbt run": (("dbt", "run"), ("dbt", "run")),
}
"""Ours and the one of dbt-spark that it is paired with."""


class Cost(NamedTuple):
    """Seconds."""

    cpu: float
    wall: float


def make(root: Path) -> tuple[Path, Path]:
    """The folders of the two projects."""
    shutil.rmtree(root, ignore_errors=True)
    ours, peer = root / "ours", root / "dbt_spark"
    for folder, profile in (
        (ours, "{type: spark_streaming, schema: start, threads: 2}"),
        (peer, "{type: spark, method: session, host: NA, schema: start, threads: 2}"),
    ):
        (folder / "models").mkdir(parents=True)
        (folder / "dbt_project.yml").write_text(PROJECT)
        (folder / "profiles.yml").write_text(PROFILE.format(profile))
    (ours / "models" / "sources.yml").write_text(SOURCE)
    (ours / "models" / "shops.sql").write_text(STREAM)
    (ours / "orders").mkdir()
    orders = [
        {"ordered_at": f"2026-03-01T10:{minute:02}:00Z", "shop": "ab"[minute % 2], "cents": minute}
        for minute in range(0, 60, 3)
    ]
    (ours / "orders" / "1.json").write_text("\n".join(map(json.dumps, orders)))
    (peer / "models" / "shops.sql").write_text(TABLE)
    return ours, peer


def cost(command: Sequence[str], folder: Path) -> Cost:
    """Runs a command to its end.

    Raises:
        SystemExit: it fails.
    """
    output = folder / "output.txt"
    began = time.monotonic()
    with output.open("w") as into:
        started = subprocess.Popen(
            [str(BIN / command[0]), *command[1:]],
            cwd=folder,
            stdout=into,
            stderr=into,
            stdin=subprocess.DEVNULL,
        )
        cpu, wall, status = 0.0, 0.0, 0
        # pyspark leaves its JVM to itself. What is left becomes a child of this process (`main`), and its time counts too.
        while True:
            try:
                pid, ended, used = os.wait4(-1, 0)
            except ChildProcessError:
                break
            cpu += used.ru_utime + used.ru_stime
            if pid == started.pid:
                wall, status = time.monotonic() - began, ended
    started.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"`{' '.join(command)}` in {folder} failed:\n{output.read_text()}")
    return Cost(cpu, wall)


def least(costs: Sequence[Cost]) -> Cost:
    """The smallest of each: whatever else the machine does only adds to it."""
    return Cost(min(each.cpu for each in costs), min(each.wall for each in costs))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS), metavar="COMMAND")
    parser.add_argument("--root", type=Path, default=Path("/tmp/dbt-spark-streaming-start"))
    options = parser.parse_args()
    PR_SET_CHILD_SUBREAPER = 36
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("This bench needs Linux: it asks for what commands leave running.")
    ours, peer = make(options.root)
    for folder in (ours, peer):
        cost(("dbt", "parse"), folder)
        if "dbt run" in options.only:
            cost(("dbt", "run"), folder)
    alone = least([cost(("dbt", "--version"), peer) for _ in range(options.times)])
    print(f"dbt --version: {alone.cpu:.2f} CPU seconds, {alone.wall:.2f} s\n")
    print(f"{'':<20}{'CPU s':>8}{'dbt-spark':>11}{'ratio':>7}{'wall s':>9}{'dbt-spark':>11}{'ratio':>7}")
    for name in options.only:
        mine, theirs = COMMANDS[name]
        pairs = [(cost(mine, ours), cost(theirs, peer)) for _ in range(options.times)]
        a, b = least([each for each, _ in pairs]), least([each for _, each in pairs])
        cpu = f"{a.cpu:>8.2f}{b.cpu:>11.2f}{a.cpu / b.cpu:>7.2f}"
        print(f"{name:<20}{cpu}{a.wall:>9.2f}{b.wall:>11.2f}{a.wall / b.wall:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
