"""Random windows on the clocks of time zones, about the days on which these are put forward and back.

A stream's rows are compared with those of the same text in batch, in DuckDB. Repeat with:

    python bench/zones.py --queries 900 --seed 1
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.differential import zones


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found: Counter[str] = Counter()
    for number in range(options.queries):
        case = zones.make(f"{options.seed} {number}")
        try:
            said = zones.run(case)
        except Exception as problem:
            said = f"{type(problem).__name__}: {problem}"
        found["equal" if said is None else "refused" if said == "refused" else "different"] += 1
        if said not in (None, "refused"):
            print(f"query {number} of seed {options.seed}: {said}\n{case}\n", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(found.items())))
    sys.exit(bool(found["different"]))


if __name__ == "__main__":
    main()
