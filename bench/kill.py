"""Kills streams of every kind again and again, and compares their tables with undisturbed ones and with plain Spark.

Streams of `tests/functional/stream/kinds.py` run side by side in one process, which lives until it is killed:
Python, its JVM or both, by SIGKILL, at a named step, in the middle of one of Iceberg's commits or anywhere. In between,
streams are aborted one by one at every named step, and commits are made whose success nobody is told. Each life
brings new input; the last one is left alone.

    python bench/kill.py --seeds 4 --lives 12
    python bench/kill.py --deaths 30

The second has one model be deployed, promoted, rolled back and cloned (`tests/functional/stream/swap_kills.py`), and kills
it so often, anywhere or at a named step; each next process does again what the last one was killed in, as the guide says.

A kill of the process is counted once. Told apart from it are the streams that it hit (each has state, table and
checkpoint of its own), the aborts and the silent commits.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))

from tests.functional.stream import kills, kinds  # noqa: E402

ROWS = 40
HANGS = 600.0
"""Seconds after which a life that neither ends nor is killed has hung."""
_POINT = re.compile(
    r"\b(around|reached|commit\.(?:append|overwrite|insert_and_delete|replace_files|create|migrate))"
    r'\(\s*(?:spark, )?"([\w.:]+)"'
)
_MAINTAINED = re.compile(r'\b(?:Maintenance|maintenance_of_read_table)\(\s*"(\w+)"')
_WRITTEN = {"table.change": "by place", "table.merge": "merge"}
"""How tables are written that come to a point."""
_RESETS = ("state.drop", "changelog.drop", "checkpoint.delete", "progress.delete")
"""What a stream does when it is built anew."""
_NOT_HERE = (
    "savepoint",
    "state.clone",
    "state.take_back",
    "table.columns",
    "table.widen",
    "changelog.columns",
)
"""What a stream does only when a command or another schema asks for it."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--seed", type=int, default=1, help="the first")
    arguments.add_argument("--seeds", type=int, default=1, help="how many")
    arguments.add_argument("--lives", type=int, default=12, help="of each seed")
    arguments.add_argument(
        "--aborts", type=float, default=0.2, help="the chance of one where that kind of model had none there"
    )
    arguments.add_argument("--anywhere", type=float, default=0.35, help="the share of kills at no named step")
    arguments.add_argument("--minutes", type=float, default=None, help="after which no other seed is begun")
    arguments.add_argument("--kinds", default=",".join(kinds.KINDS), help="of models")
    arguments.add_argument(
        "--models", type=int, default=10, help="of these, how many a seed takes side by side"
    )
    arguments.add_argument(
        "--deaths", type=int, default=0, help="of deployments and clones; with it nothing else is killed"
    )
    arguments.add_argument("--root", default="/tmp/dbt-spark-streaming-kill")
    options = arguments.parse_args()
    if options.deaths:
        root = Path(options.root) / f"swaps_{options.seed}"
        if not swap(root, options.seed, options.deaths, options.anywhere, options.minutes):
            raise SystemExit(1)
        return
    began, found = time.time(), []
    for seed in range(options.seed, options.seed + options.seeds):
        if options.minutes is not None and time.time() - began > 60 * options.minutes:
            break
        root = Path(options.root) / str(seed)
        names = some(options.kinds.split(","), options.models, seed)
        lives = Lives(options.lives, options.aborts, options.anywhere, names)
        if not run(root, seed, lives):
            raise SystemExit(1)
        found += kills.read_log(root / "kills.jsonl")
        summarize(found, time.time() - began)


def some(names: Sequence[str], count: int, seed: int) -> tuple[str, ...]:
    """As many kinds of models, and those that they read. One seed after the other takes the next ones."""
    mixed = random.Random(0).sample(names, len(names))
    first = (seed - 1) * count % len(mixed)
    taken = {*(mixed + mixed)[first : first + count]}
    taken |= {above for name in taken for above in kinds.KINDS[name].upstream}
    return tuple(name for name in kinds.KINDS if name in taken)


def points() -> list[str]:
    """All named points that a stream reaches by itself, by the source."""
    stream, found = REPOSITORY / "adapter" / "stream", set()
    for file in stream.rglob("*.py"):
        if file.is_relative_to(stream / "lifecycle"):
            continue
        text = file.read_text(encoding="utf-8")
        for how, name in _POINT.findall(text):
            found |= {name} if how == "reached" else {f"{name}:before", f"{name}:after"}
            if how.startswith("commit.") and how != "commit.create":
                found.add(f"{name}:written")
        for table in _MAINTAINED.findall(text):
            steps = ("expire",) if table == "state" else ("compact", "expire")
            found |= {f"{table}.{step}:{side}" for step in steps for side in ("before", "after")}
    return sorted(point for point in found if not point.startswith(_NOT_HERE))


@dataclass(frozen=True)
class Lives:
    """The lives of a seed."""

    count: int
    aborts: float
    """The chance of one where that kind of model had none there."""
    anywhere: float
    """The share of kills at no named step."""
    names: tuple[str, ...]
    """Of the models."""


def run(root: Path, seed: int, lives: Lives) -> bool:
    """All lives of a seed; whether nothing was lost or doubled."""
    chance = random.Random(seed)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    (root / "rows").write_text(str(ROWS))
    if kills.is_faulty_catalog_there():
        kills.make_faulty_catalog(root / "faults.jar")
    days, ended = 0, True
    for number in range(lives.count + 1):
        last = number == lives.count
        # Streams that were cut short have something left to do.
        if ended or number % 4 == 0:
            for stream in ("events", "orders"):
                for file in (2 * days, 2 * days + 1):
                    kinds.write_events(root / stream, file, ROWS, seed)
            days += 1
        life = (
            kills.Life(seed, lives.names, edition=number, verify=True)
            if last
            else replace(next_life(chance, seed * 1000 + number, lives), edition=number)
        )
        kills.write_life(root, life)
        before = len(kills.read_log(root / "kills.jsonl"))
        began = time.time()
        code = live(root)
        ended = code == 0
        log = kills.read_log(root / "kills.jsonl")[before:]
        what = next(
            (
                f"{each['action']} at {each['model']} {each['what']}"
                for each in log
                if "kill" in each["action"]
            ),
            "",
        )
        aborted = sum("kill" not in each["action"] for each in log)
        print(
            f"seed {seed} life {number}: {time.time() - began:.0f} s, {aborted} aborts, {what or f'ended with {code}'}",
            flush=True,
        )
        if code not in (0, 3, -9) or (root / "problems.txt").exists() or (last and code):
            problems = root / "problems.txt"
            print(problems.read_text() if problems.exists() else f"ended with {code}")
            return False
    return True


def swap(root: Path, seed: int, deaths: int, anywhere: float, minutes: float | None) -> bool:
    """Deployments and clones that are killed; whether nothing was lost or doubled."""
    chance, began = random.Random(seed), time.time()
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    killed_in: Counter[str] = Counter()
    for number in range(deaths + 1):
        last = number == deaths or (minutes is not None and time.time() - began > 60 * minutes)
        life: dict[str, object] = {"seed": seed * 1000 + number}
        if not last:
            life["who"] = chance.choice(("python", "jvm", "both"))
            if chance.random() < anywhere:
                life["after"] = chance.uniform(0.2, 12)
            else:
                life["nth"] = chance.randint(1, 120)
        (root / "life.json").write_text(json.dumps(life))
        started = time.time()
        code = live(root, "swap_kills")
        lines = (root / "steps.log").read_text().splitlines() if (root / "steps.log").exists() else []
        at = lines[-1] if lines else "nothing"
        print(f"death {number}: {time.time() - started:.0f} s, {life}, ended with {code} in {at}", flush=True)
        killed_in[at.partition(" ")[2]] += not last
        if code not in (0, 3, -9) or (root / "problems.txt").exists() or (last and code):
            problems = root / "problems.txt"
            print(problems.read_text() if problems.exists() else f"ended with {code}")
            return False
        if last:
            break
    print(
        f"{sum(killed_in.values())} kills in {(time.time() - began) / 60:.0f} minutes, by step: {dict(killed_in)}"
    )
    return True


def next_life(chance: random.Random, seed: int, lives: Lives) -> kills.Life:
    """A life that is cut short somewhere."""
    names = lives.names
    who = chance.choice(("python", "jvm", "both"))
    how = chance.random()
    if how < lives.anywhere:
        kill = kills.Kill(who, after=chance.uniform(0.5, 20))
    elif how < (1 + lives.anywhere) / 2:
        stages = kills.STAGES if kills.is_faulty_catalog_there() else kills.STAGES[:1]
        kill = kills.Kill(
            who, chance.choice(list(kills.COMMITS)), chance.randint(1, 2), stage=chance.choice(stages)
        )
    else:
        kill = kills.Kill(who, chance.choice(points()), chance.randint(1, 2))
    resets = kill.point.startswith(_RESETS)
    refresh = tuple(chance.sample(names, 2)) if resets or chance.random() < 0.3 else ()
    # Who reads a table that is built anew is built anew after it.
    readers = tuple(
        each.name for each in kinds.KINDS.values() if set(each.reads) & set(refresh) and each.name in names
    )
    return kills.Life(
        seed,
        names,
        new_aborts=lives.aborts,
        aborts=lives.aborts / 10,
        kill=kill,
        written=_WRITTEN.get(kill.point.partition(":")[0]) or chance.choice(["by place", "merge", "at once"]),
        # A query that changes between two pieces is refused.
        cut=tuple(name for name in chance.sample(names, len(names) // 4) if not kinds.KINDS[name].edits),
        refresh=tuple({*refresh, *readers}),
    )


def live(root: Path, module: str = "kills") -> int:
    """One life; what it ended with."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.functional.stream.{module}", str(root)], cwd=REPOSITORY
    )
    try:
        return process.wait(HANGS)
    except subprocess.TimeoutExpired:
        process.kill()
        (root / "problems.txt").write_text(
            f"hung for {HANGS:.0f} seconds: {(root / 'life.json').read_text()}"
        )
        return process.wait()


def summarize(log: list[dict[str, object]], seconds: float) -> None:
    """What was done so far, and what never was."""
    actions = Counter(str(each["action"]) for each in log)
    deaths = [each for each in log if str(each["action"]).startswith("kill")]
    hit = sum(len(list(each["running"])) for each in deaths)  # type: ignore[call-overload]
    print(
        f"{len(deaths)} kills of processes, which hit {hit} streams, in {seconds / 60:.0f} minutes: {dict(actions)}"
    )
    print(json.dumps(Counter(str(each["what"]) for each in log), indent=1, sort_keys=True))
    print("by kind:", dict(Counter(str(each["model"]) for each in log)))
    print("never:", [point for point in points() if not any(each["what"] == point for each in log)])


if __name__ == "__main__":
    main()
