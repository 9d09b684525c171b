"""What windows cost as they become more: steps of a cumulate, grouping sets, and a ranking of rows.

Page views of a day as in `backfill`, in `--pieces` micro-batches. In one run, in one JVM:

steps    cumulate over a day in 4, 24, 144 and 1440 steps, with an exact distinct count. What is taken in
         should cost the same, however many steps there are; what is put out grows with them.
sets     GROUPING SETS with 4 sets against 1 (aim: less than 2.5 times the time)
topn     the 10 rows of greatest v of each page and hour: rows of state after each micro-batch (aim: at
         most 10 for each open group, and one micro-batch more)

    python bench/windows.py --rows 5000000
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from day import EVENTS, Bench, arguments, timed

from dbt.adapters.spark_streaming.environment import close_environments
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.run.runner import flush

STEPS = {4: "6 hours", 24: "1 hour", 144: "10 minutes", 1440: "1 minute"}
AGGREGATES = "count(*) as views, sum(v) as total, count(distinct device) as devices"
PUT_OUT = ("emission",)


class Windows(Bench):
    """Runs a query over the events and keeps the figures of its micro-batches."""

    def run(self, name: str, folder: Path, text: str) -> list[dict[str, Any]]:
        """The figures of each micro-batch, and of the flush."""
        model, program, found = self.streamed(name, "raw.events", folder, EVENTS, text)
        flush(self.spark, replace(model, sources=()), program)
        return found


def seconds(figures: list[dict[str, Any]], put_out: bool) -> float:
    """Of all micro-batches: of what takes rows in, or of what puts them out."""
    return sum(
        taken for each in figures for phase, taken in each["seconds"].items() if (phase in PUT_OUT) == put_out
    )


def cumulate(step: str) -> str:
    """A cumulate over a day."""
    return expansion.expand_window(
        "raw.events", window_arguments.make_window("cumulate", "ts", step, "1 day")
    )


def tumble(size: str) -> str:
    """Fixed windows."""
    return expansion.expand_window("raw.events", window_arguments.make_window("tumble", "ts", size))


def by_steps(bench: Windows, folder: Path) -> None:
    """Cost by the number of steps."""
    print(f"{'steps':>6} {'rows in, s':>11} {'rows out, s':>12} {'rows out':>10}")
    for steps, step in STEPS.items():
        text = (
            f"select window_start, window_end, page, {AGGREGATES} from {cumulate(step)} "
            "group by window_start, window_end, page"
        )
        figures = bench.run(f"steps_{steps}", folder, text)
        out = sum(each["rows_out"] for each in figures)
        print(
            f"{steps:6} {seconds(figures, False):11.1f} {seconds(figures, True):12.1f} {out:10,}", flush=True
        )


def by_sets(bench: Windows, folder: Path) -> None:
    """Four grouping sets against one."""
    taken = {}
    for name, clause in (
        ("one", "page, v % 4"),
        ("four", "grouping sets ((page, v % 4), (page), (v % 4), ())"),
    ):
        text = (
            f"select window_start, window_end, page, v % 4 as part, {AGGREGATES} from {cumulate('1 hour')} "
            f"group by window_start, window_end, {clause}"
        )
        taken[name], _ = timed(lambda name=name, text=text: len(bench.run(f"sets_{name}", folder, text)))  # type: ignore[misc]
    ratio = taken["four"] / taken["one"]
    print(f"4 sets {taken['four']:.1f} s, 1 set {taken['one']:.1f} s: {ratio:.2f}   (aim 2.5)", flush=True)


def of_rows(bench: Windows, folder: Path, rows: int, pieces: int) -> None:
    """The state of a ranking."""
    text = (
        "select * from (select *, row_number() over (partition by window_start, window_end, page order by v desc) as rn "
        f"from {tumble('1 hour')}) where rn <= 10"
    )
    figures = bench.run("topn", folder, text)
    most = max(each["state"]["rows"] for each in figures)
    taken = seconds(figures, False) + seconds(figures, True)
    print(
        f"topn: {rows:,} rows in {taken:.1f} s; at most {most:,} rows of state "
        f"(10 for each of 200 pages: 2,000; a micro-batch: {rows // pieces:,})"
    )


def main() -> None:
    """Run all and print the tables."""
    parser = arguments("Windows as they become more.", "windows")
    parser.add_argument("--only", choices=["steps", "sets", "topn"], action="append")
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    bench = Windows(options)
    try:
        warm = bench.events("warm", options.rows // 20, options.pieces)
        bench.run(
            "warm",
            warm,
            f"select window_start, window_end, {AGGREGATES} from {cumulate('1 hour')} group by 1, 2",
        )
        folder = bench.events("day", options.rows, options.pieces)
        wanted = options.only or ["steps", "sets", "topn"]
        if "steps" in wanted:
            by_steps(bench, folder)
        if "sets" in wanted:
            by_sets(bench, folder)
        if "topn" in wanted:
            of_rows(bench, folder, options.rows, options.pieces)
    finally:
        close_environments()


if __name__ == "__main__":
    main()
