"""How long random queries take to be planned: CPU time of Python from a model's text to its program.

The queries are those of bench/differential.py. What Spark is asked on the way (types of sums, columns of relations) is
answered from memory: that is Spark's time, not the planner's. The least of three, with no text kept from one to the next.

    python bench/planning.py --queries 600 --seed 14003
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import cache
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from differential import numbered

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.sql import dialect
from tests.differential import duck, planning

WORTH_SHOWING = 12


def seconds_of(seed: int, number: int, laboratory: duck.Laboratory) -> tuple[float, int] | None:
    """CPU seconds, and how many characters were planned; None: the query is refused."""
    case, rows = numbered(seed, number)
    laboratory.show(rows)
    # DuckDB doesn't know of a model upstream.
    ask = cache(laboratory.ask) if case.upstream is None else None
    took = []
    try:
        upstream = None if case.upstream is None else planning.planned(case.upstream)
        known = planning.known_of(case, upstream)
        for _ in range(4):
            dialect._TEXTS.clear()
            dialect._parse_once.cache_clear()
            began = time.process_time()
            planning.planned(case.model, known={**known}, ask=ask)
            took.append(time.process_time() - began)
    except QueryError:
        return None
    # The first one asks.
    return min(took[1:]), len(case.model.text())


def main() -> None:
    """Plan all, print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    laboratory = duck.Laboratory()
    measured = {number: seconds_of(options.seed, number, laboratory) for number in range(options.queries)}
    found = sorted(((*each, number) for number, each in measured.items() if each is not None), reverse=True)
    times = [took for took, _, _ in found]
    print(
        f"{len(found)} planned of {options.queries}: median {median(times):.3f} s, at most {times[0]:.3f} s,"
    )
    print(f"{sum(took > 0.1 for took in times)} take more than 0.1 s. The slowest:")
    for took, characters, number in found[:WORTH_SHOWING]:
        print(f"  {took:.3f} s: #{number} of seed {options.seed}, {characters} characters")


if __name__ == "__main__":
    main()
