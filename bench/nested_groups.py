"""A GROUP BY over a GROUP BY against the lower one alone: a small micro-batch on many groups.

A history makes `--groups` groups, taken in as one micro-batch; then `--batches` micro-batches of `--rows` rows each. In one
JVM, one after the other and again, so that each is measured warm:

lower   select category, product, count(*), sum(amount) … group by category, product
nested  select category, max(total), sum(sales), count(*) from (lower) group by category

Groups above groups are computed from what changed: the aim is less than twice the time of the lower ones alone.

    python bench/nested_groups.py --groups 100000 --rows 1000
"""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

from day import EVENTS, Bench, arguments

from dbt.adapters.spark_streaming.environment import close_environments

LOWER = (
    "select page as category, pmod(device, {products}) as product, count(*) as sales, sum(v - 20) as total "
    "from (select /*+ STREAM */ * from raw.events) group by page, pmod(device, {products})"
)
NESTED = "select category, max(total) as most, sum(sales) as sales, count(*) as products from ({lower}) group by category"
PAGES = 200


def small(bench: Bench, options_rows: int, batches: int, history: Path) -> Path:
    """The history's file and, after it, so many small ones."""
    folder = bench.events("small", options_rows * batches, batches)
    for number, file in enumerate(sorted(folder.glob("*.parquet"), reverse=True)):
        file.rename(folder / f"{batches - number:04}.parquet")
    (first,) = history.glob("*.parquet")
    first.rename(folder / "0000.parquet")
    return folder


def main() -> None:
    """Run both twice and print the second runs."""
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "", "nested-groups")
    parser.set_defaults(rows=1000)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=24)
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    bench = Bench(options)
    try:
        # Some ten rows for each group; the skewed pages leave few without any.
        history = bench.events("history", options.groups * 10, 1)
        folder = small(bench, options.rows, options.batches, history)
        lower = LOWER.format(products=-(-options.groups // PAGES))
        texts = {"lower": lower, "nested": NESTED.format(lower=lower)}
        medians: dict[str, tuple[float, float]] = {}
        print(f"{'':8} {'seconds':>8} {'CPU s':>7} {'jobs':>5} {'state rows':>11}")
        for time in ("first", "second"):
            for name, text in texts.items():
                *_, found = bench.streamed(
                    f"{name}_{time}",
                    "raw.events",
                    folder,
                    EVENTS,
                    text,
                    domains=("category", "product", "page", "device"),
                )
                warm = found[len(found) // 2 :]
                seconds, cpu = (statistics.median(each[what] for each in warm) for what in ("wall", "cpu"))
                jobs = statistics.median(each["jobs"] for each in warm)
                medians[name] = seconds, cpu
                print(
                    f"{name:8} {seconds:8.2f} {cpu:7.2f} {jobs:5.0f} {found[-1]['state']['rows']:11,}",
                    flush=True,
                )
        ratios = [above / below for above, below in zip(medians["nested"], medians["lower"], strict=True)]
        print(f"nested / lower: {ratios[0]:.2f} (CPU {ratios[1]:.2f}), aim 2")
    finally:
        close_environments()


if __name__ == "__main__":
    main()
