"""The same work on this project and on its peers, in one run: wall and CPU seconds, as ratios with their spread.

ours           a stream of this project, in pieces and with its flush
flink          Apache Flink, its state in memory, no checkpoints
flink_rocksdb  Apache Flink on RocksDB, a checkpoint every minute
native         Structured Streaming's own operators, where it has them for the work
recompute      plain Spark, by hand where that is better, that computes all anew after each piece

Each is a process of its own that stays; its start is measured by itself. Each work is done once on a tenth of the rows to
warm up, then `--rounds` times by all peers in turn. `backfill` takes all rows at once, `pieces` in 12 micro-batches (Flink,
which has none, does the same job in both); `trickle` takes 1,000 rows a second for `--seconds`, and asks how long it is from
an event until its row is there. All peers' rows are compared: one that has others gets no ratio.

    python bench/compare.py                          # some of it, unattended: 12 minutes
    python bench/compare.py --quick                  # does it run?
    python bench/compare.py --only q5 q7 --modes backfill pieces trickle --rounds 3 --rows 5000000
    uv run --group pictures python bench/compare.py --write      # into docs/project/performance.md

Flink comes from the registries into an environment of its own. What is measured is kept with `--write` in
docs/project/performance.json, each work in place of what was there of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import report
from compared import Rows, from_print, moments
from protocol import Failed, Peer, TooSlow
from workloads import BEGIN_MICROS, SCHEMAS, SPANS, WORKLOADS, Flink, Workload

from dbt.adapters.spark_streaming.environment.java import find_java, spark_home
from dbt.adapters.spark_streaming.environment.packages import default_cache, jars_of_packages

FLINK = "2.3.0"
# What it needs of Hadoop to read Parquet comes with Spark.
FROM_SPARK = ("hadoop-client-*.jar", "snappy-java-*.jar", "commons-logging-*.jar")
MODES = ("backfill", "pieces", "trickle")
PEERS = ("ours", "flink", "flink_rocksdb", "native", "recompute")
DEFAULT = ("cumulate", "tumble", "topn_count", "topn_sum", "topn_rows")
PIECES = 12
RATE, FILES_A_SECOND = 1000, 4
QUIET = 3
"""Seconds in which Flink prints nothing when it is done."""
NEXT_TO_NOTHING = 50
"""Rows, among which each source has some."""
SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.memory.managed.size": "1g",
    # As Nexmark's own benchmark has it. Splitting distinct counts, which that does too, costs more on two cores.
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
}


class Comparison:
    """The peers' processes, the data, and what was measured."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.root = options, Path(options.root)
        self.peers: dict[str, Peer] = {}
        self.data: dict[tuple[str, int, int, int], str] = {}
        self.rows = Rows()
        self.outputs = 0
        self.results: list[dict[str, Any]] = []
        self.load = round(os.getloadavg()[1], 1)
        """Of the machine before we begin: other work makes figures worth less."""

    def begin(self) -> None:
        """Starts the peers, one after the other."""
        for name in self.options.peers:
            self.peers[name] = self.started(name)
            print(f"start {name:14}{_seconds(self.peers[name].start)}", flush=True)

    def started(self, name: str) -> Peer:
        """A peer's process, ready for work."""
        folder = self.root / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        here, environment = Path(__file__).parent, dict(os.environ)
        if name.startswith("flink"):
            command = [self.python(), str(here / "flink_peer.py"), json.dumps(self.flink(name, folder))]
            environment["JVM_ARGS"] = "-Xmx4g"
            environment["JAVA_HOME"] = str(find_java().executable.resolve().parents[1])
            environment.pop("VIRTUAL_ENV", None)
        else:
            settings = {"root": str(folder), "memory": self.options.memory}
            command = [sys.executable, str(here / "spark_peer.py"), name, json.dumps(settings)]
        return Peer(name, command, self.root / f"{name}.log", environment)

    def python(self) -> str:
        """That of an environment with PyFlink, and nothing of this project."""
        made = self.root / "pyflink"
        if not made.exists():
            subprocess.run(["uv", "venv", "--quiet", "--python", self.options.python, made], check=True)
            # Beam, which PyFlink brings, asks for what setuptools had once.
            packages = [f"apache-flink=={FLINK}", "setuptools<81"]
            subprocess.run(["uv", "pip", "install", "--quiet", "--python", made, *packages], check=True)
        return str(made / "bin" / "python")

    def flink(self, name: str, folder: Path) -> dict[str, Any]:
        """What Flink's process is told."""
        needed = jars_of_packages([f"org.apache.flink:flink-parquet:{FLINK}"], find_java(), default_cache())
        for pattern in FROM_SPARK:
            needed += (spark_home() / "jars").glob(pattern)
        settings = {**SETTINGS, "state.backend.type": "hashmap"}
        if name == "flink_rocksdb":
            settings |= {
                "state.backend.type": "rocksdb",
                "execution.checkpointing.interval": "1 min",
                "execution.checkpointing.incremental": "true",
                "execution.checkpointing.dir": f"file://{folder}/checkpoints",
            }
        return {"jars": [str(jar) for jar in needed], "settings": settings}

    def folder(self, source: str, rows: int, files: int, step: int) -> str:
        """The files of a source."""
        known = source, rows, files, step
        if known not in self.data:
            self.data[known] = str(self.root / "data" / "_".join(map(str, known)))
            self.peers["ours"].ask(
                "make", source=source, folder=self.data[known], rows=rows, files=files, step=step
            )
        return self.data[known]

    def folders(self, workload: Workload, rows: int) -> dict[str, str]:
        """The files of its sources, for `backfill` and `pieces`."""
        return {
            source: self.folder(source, rows, self.options.pieces, SPANS.get(source, 0) // rows or 1000)
            for source in workload.sources
        }

    def output(self) -> str:
        """A folder that isn't there yet."""
        self.outputs += 1
        (self.root / "out").mkdir(exist_ok=True)
        return str(self.root / "out" / str(self.outputs))

    def run(self, name: str, workload: Workload, rows: int, pieces: int, keep: bool = True) -> dict[str, Any]:
        """One run of a peer, and the rows it has."""
        peer, folders, path = self.peers[name], self.folders(workload, rows), self.output()
        if name.startswith("flink"):
            sources = {source: SCHEMAS[source] for source in workload.sources}
            query, updates = workload.text(Flink()), workload.updates
            peer.ask("prepare", sources=sources, folders=folders, query=query, updates=updates, path=path)
        else:
            peer.ask("prepare", workload=workload.name, folders=folders, pieces=pieces)
        found = peer.measured("run", limit=self.options.limit)
        if not name.startswith("flink"):
            if keep:
                peer.ask("dump", path=path)
            peer.ask("drop")
        if keep:
            found["rows"] = self.rows.read(path, changelog=name.startswith("flink") and workload.updates)
        shutil.rmtree(path, ignore_errors=True)
        return found

    def able(self, workload: Workload, mode: str) -> list[str]:
        """The peers that can do it."""
        found = [name for name in self.peers if name != "native" or workload.native]
        if mode == "trickle" and not workload.updates:
            # Each time it shows windows that aren't over.
            found = [name for name in found if name != "recompute"]
        return found

    def whole(self, workload: Workload) -> None:
        """Backfill and pieces."""
        modes = [mode for mode in self.options.modes if mode != "trickle"]
        if not modes:
            return
        able = self.able(workload, "")
        starts: dict[str, dict[str, Any]] = {}
        for name in able:
            self.tried(name, workload, self.options.rows // 10, self.options.pieces, keep=False)
            if name.startswith("flink"):
                # Each job is a cluster of its own, planned and started anew: what it costs without rows.
                starts[name] = self.tried(name, workload, NEXT_TO_NOTHING, 1, keep=False)
        found: dict[str, dict[str, list[dict[str, Any]]]] = {
            mode: {name: [] for name in able} for mode in modes
        }
        for number in range(self.options.rounds):
            of_flink: dict[str, dict[str, Any]] = {}
            for mode in modes:
                for name in able if number % 2 == 0 else reversed(able):
                    if name in of_flink:
                        each = of_flink[name]
                    else:
                        pieces = self.options.pieces if mode == "pieces" else 1
                        each = self.tried(name, workload, self.options.rows, pieces)
                        if name in starts:
                            each = of_flink[name] = without(each, starts[name])
                        print(f"{workload.name:16}{mode:10}{number + 1:3} {name:14}{_told(each)}", flush=True)
                    found[mode][name].append(each)
        for mode, runs in found.items():
            self.keep(workload, mode, runs)

    def tried(
        self, name: str, workload: Workload, rows: int, pieces: int, keep: bool = True
    ) -> dict[str, Any]:
        """A run, or why there is none."""
        try:
            return self.run(name, workload, rows, pieces, keep)
        except TooSlow:
            spent = self.peers[name].cpu()
            self.peers[name].kill()
            self.peers[name] = self.started(name)
            return {"limit": self.options.limit, "spent": spent}
        except Failed as problem:
            if name == "ours":
                raise
            print(f"{workload.name}: {problem}", flush=True)
            return {"problem": str(problem)}

    def keep(self, workload: Workload, mode: str, runs: dict[str, list[dict[str, Any]]]) -> None:
        """What was measured, without the rows; peers that have other rows don't count."""
        ours = runs["ours"][0].get("rows")
        for name, each in runs.items():
            for run in each:
                if ours and "rows" in run and (problem := self.rows.difference(ours, run["rows"])):
                    run["problem"] = problem
                    print(f"{workload.name} {mode}: {name} HAS OTHER ROWS: {problem}", flush=True)
        if ours:
            print(f"{workload.name:16}{mode:10}    {self.rows.count(ours):,} rows", flush=True)
        plain = {
            name: [{k: v for k, v in run.items() if k != "rows"} for run in e] for name, e in runs.items()
        }
        self.add(workload, mode, plain, self.options.rows)

    def add(self, workload: Workload, mode: str, runs: dict[str, list[dict[str, Any]]], rows: int) -> None:
        """A line of the table."""
        line = {
            "workload": workload.name,
            "title": workload.title,
            "mode": mode,
            "events": rows,
            "on": date.today().isoformat(),
            "load": self.load,
            "runs": runs,
        }
        self.results.append(line)
        for text in report.ratios(line):
            print(f"  {text}", flush=True)

    def trickle(self, workload: Workload) -> None:
        """1,000 rows a second: from an event until its row is there."""
        if workload.moment is None:
            return
        runs: dict[str, list[dict[str, Any]]] = {}
        reference: Counter[Any] | None = None
        for name in self.able(workload, "trickle"):
            if not set(self.options.modes) & {"backfill", "pieces"}:
                self.tried(name, workload, self.options.rows // 10, self.options.pieces, keep=False)
            try:
                found, rows = self.trickled(name, workload)
            except Failed as problem:
                if name == "ours":
                    raise
                found, rows = {"problem": str(problem)}, reference or Counter()
            if reference is None:
                reference = rows
            elif rows != reference:
                lacks, more = sum((reference - rows).values()), sum((rows - reference).values())
                found["problem"] = f"{lacks} rows missing, {more} that ours hasn't"
            runs[name] = [found]
            print(f"{workload.name:16}trickle      {name:14}{_told(found)}", flush=True)
        self.add(workload, "trickle", runs, RATE * self.options.seconds)

    def trickled(self, name: str, workload: Workload) -> tuple[dict[str, Any], Counter[Any]]:
        """How long a peer took for each row, and its rows in the end, of windows that are over."""
        peer, seconds = self.peers[name], self.options.seconds
        step = workload.speed * 1_000_000 // RATE
        made = {
            source: sorted(
                Path(self.folder(source, RATE * seconds, FILES_A_SECOND * seconds, step)).iterdir()
            )
            for source in workload.sources
        }
        folders = {source: f"{self.output()}_{source}" for source in workload.sources}
        for folder in folders.values():
            Path(folder).mkdir()
        # Flink finds files in any order, where it finds some at once: all wait for half a second.
        delay = workload.speed // 2
        columns: list[str] = []
        if name.startswith("flink"):
            peer.listen(True)
            sources = {source: SCHEMAS[source] for source in workload.sources}
            query = workload.text(Flink(trickle=True))
            columns = peer.ask("begin", sources=sources, folders=folders, query=query, delay=delay)
        else:
            peer.ask("begin", workload=workload.name, folders=folders, delay=delay)
        time.sleep(2)
        began, spent = time.time(), peer.cpu()
        for number in range(FILES_A_SECOND * seconds):
            # A row is there when its time has come, at the earliest.
            time.sleep(max(0.0, began + (number + 1) / FILES_A_SECOND - time.time()))
            for source, files in made.items():
                partial = Path(folders[source]) / f".{files[number].name}"
                shutil.copyfile(files[number], partial)
                partial.rename(partial.with_name(files[number].name))
        spent = peer.cpu() - spent
        while name.startswith("flink") and (not peer.lines or peer.lines[-1][0] > time.time() - QUIET):
            time.sleep(0.1)
            if time.time() > began + seconds + self.options.limit:
                raise Failed(f"{name} is still printing, or hasn't begun")
        peer.ask("end", limit=self.options.limit)
        peer.listen(False)
        last = BEGIN_MICROS + RATE * seconds * step
        over = None if workload.updates else last - 2_000_000 * workload.speed
        if name.startswith("flink"):
            rows, at = from_print(peer.lines, columns, workload.key, workload.moment or "", over)
        else:
            path = self.output()
            peer.ask("dump", path=path)
            rows = self.rows.counted(path, workload.moment or "", over)
            peer.ask("seen", key=list(workload.key), moment=workload.moment, path=f"{path}_seen")
            at = moments(f"{path}_seen")
            peer.ask("drop")
        # Of the first quarter classes are loaded and compiled.
        first = BEGIN_MICROS + (last - BEGIN_MICROS) // 4
        taken = [
            there - began - (moment - BEGIN_MICROS) / 1e6 / workload.speed
            for moment, there in at
            if first < moment <= last
        ]
        return {**report.latencies(taken), "cpu": spent, "seconds": seconds}, rows

    def close(self) -> None:
        """Ends the peers."""
        for peer in self.peers.values():
            peer.close()


def without(run: dict[str, Any], start: dict[str, Any]) -> dict[str, Any]:
    """A job without its start. A figure of which that leaves next to nothing can't be told."""
    if "cpu" not in run or "cpu" not in start:
        return run
    found = {**run, "start": {figure: start[figure] for figure in ("wall", "cpu")}}
    for figure in found["start"]:
        found[figure] -= start[figure]
        if found[figure] < 0.1 * run[figure]:
            del found[figure]
    return found


def _seconds(run: dict[str, Any]) -> str:
    wall, cpu = (f"{run[figure]:8.1f}" if figure in run else f"{'–':>8}" for figure in ("wall", "cpu"))
    return f"{wall} s {cpu} CPU-s"


def _told(run: dict[str, Any]) -> str:
    if "problem" in run:
        return f" {run['problem']}"
    if "limit" in run:
        return f" not done after {run['limit']:g} s"
    if "p50" in run:
        return f"{run['p50']:8.2f} s p50 {run['p95']:8.2f} s p95 {run['cpu']:8.1f} CPU-s, of {run['shown']:,} rows"
    more = f"  {len(run['batches'])} micro-batches" if "batches" in run else ""
    if "start" in run:
        more += f"  without its start, {run['start']['wall']:.1f} s {run['start']['cpu']:.1f} CPU-s"
    return _seconds(run) + more


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(DEFAULT), metavar="WORK")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["backfill", "pieces"])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), metavar="PEER")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120, help="of a trickle")
    parser.add_argument("--limit", type=int, default=180, help="seconds after which a run counts as not done")
    parser.add_argument("--quick", action="store_true", help="few rows, one round: does it run?")
    parser.add_argument("--write", action="store_true", help="the table and the plot into docs/")
    parser.add_argument("--memory", default="2g", help="of a Spark driver; Flink has 4 GB and 1 beside it")
    parser.add_argument("--python", default="3.11", help="for PyFlink, which needs 3.9 to 3.12")
    parser.add_argument("--root", default="/tmp/dbt-spark-streaming-compare")
    options = parser.parse_args()
    options.pieces = PIECES
    if options.quick:
        options.rows, options.pieces, options.rounds, options.seconds = 20_000, 3, 1, 20
        if options.write:
            parser.error(
                "--quick is no measurement, so nothing is written: leave out one of --quick and --write"
            )
    if "ours" not in options.peers:
        parser.error("--peers needs ours: the others are measured against it")
    return options


def main() -> None:
    """Run, print and write."""
    options = parsed()
    if options.write:
        report.check()
    shutil.rmtree(options.root, ignore_errors=True)
    comparison = Comparison(options)
    try:
        comparison.begin()
        starts = {name: peer.start for name, peer in comparison.peers.items()}
        for name in options.only:
            comparison.whole(WORKLOADS[name])
            if "trickle" in options.modes:
                comparison.trickle(WORKLOADS[name])
            if options.write:
                # Work by work, so that a run that is ended early isn't lost.
                report.write(comparison.results, starts)
    finally:
        comparison.close()
    for text in report.goals(comparison.results):
        print(text)


if __name__ == "__main__":
    main()
