"""Kills a stream again and again at random moments, and compares its table with an undisturbed run's.

cumulate   windows that grow, with distinct counts
ranking    a general ranking over a whole stream; its change feed is compared too

    python bench/kill.py --kills 30 --query ranking
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FILES, ROWS = 60, 200


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--kills", type=int, default=30)
    arguments.add_argument("--query", choices=("cumulate", "ranking"), default="cumulate")
    arguments.add_argument("--root", default="/tmp/dbt-spark-streaming-kill")
    arguments.add_argument("--seed", type=int, default=None)
    options = arguments.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    os.environ["VICTIM"] = options.query
    root = Path(options.root)
    shutil.rmtree(root, ignore_errors=True)
    make_events(root / "disturbed" / "events")
    shutil.copytree(root / "disturbed" / "events", root / "undisturbed" / "events")

    if run(root / "undisturbed").wait() != 0:
        raise SystemExit("the undisturbed stream failed")
    whole = time.time() - (root / "undisturbed" / "started").stat().st_mtime
    for kills in range(1, options.kills + 1):
        victim = run(root / "disturbed")
        # What is worth killing comes after Spark's start. A young JVM is slow, so the stream lasts out the kills.
        wait_for(root / "disturbed" / "started", victim)
        patience = chance.uniform(0, 2.5) * whole / options.kills
        time.sleep(patience)
        if victim.poll() is not None:
            raise SystemExit(f"the stream ended before kill {kills}; run it again with --seed {seed}")
        both = kill(victim, chance)
        print(f"kill {kills} after {patience:.1f} s{' with its JVM' if both else ''}", flush=True)
    if run(root / "disturbed").wait() != 0:
        raise SystemExit(f"the stream failed after {kills} kills; run it again with --seed {seed}")
    same = (root / "disturbed" / "rows").read_text() == (root / "undisturbed" / "rows").read_text()
    print(f"{kills} kills: {'the same rows' if same else f'OTHER ROWS, see {root}'}")
    raise SystemExit(0 if same else 1)


def make_events(folder: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    chance = random.Random(0)
    folder.mkdir(parents=True)
    for number in range(FILES):
        rows = [
            {
                "ts": (number * ROWS + row) * 20_000_000 - chance.randrange(30) * 1_000_000,
                "k": chance.choice([None, "a", "b", "c", "d", "e"]),
                "v": chance.randrange(1000),
                "x": chance.randrange(500),
            }
            for row in range(ROWS)
        ]
        table = pyarrow.Table.from_pylist(rows)
        times = table["ts"].cast(pyarrow.timestamp("us", tz="UTC"))
        file = folder / f"{number:04}.parquet"
        pyarrow.parquet.write_table(table.set_column(0, "ts", times), file)
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))


def wait_for(file: Path, victim: subprocess.Popen[bytes]) -> None:
    """Until a process has made a file; removes it."""
    while not file.exists():
        if victim.poll() is not None:
            raise SystemExit("the stream didn't start")
        time.sleep(0.05)
    file.unlink()


def run(root: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.functional.stream.victim", str(root)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.DEVNULL,
    )


def kill(victim: subprocess.Popen[bytes], chance: random.Random) -> bool:
    """Kill a process by a signal that can't be caught, one time in two with its JVM."""
    children = Path(f"/proc/{victim.pid}/task/{victim.pid}/children").read_text().split()
    both = chance.random() < 0.5
    for pid in map(int, children if both else []):
        os.kill(pid, signal.SIGKILL)
    victim.kill()
    victim.wait()
    return both


if __name__ == "__main__":
    main()
