"""Golden master of the planner: digests of program, signature and batch text of every query in the test corpora.

A refactoring leaves all digests as they are. A change that means to alter programs records them again in a commit
of its own, with the differential tests as the judges of rows.

    uv run python -m tests.golden            # lists the queries whose digests differ from tests/golden.json
    uv run python -m tests.golden --write    # records today's digests
    uv run python -m tests.golden --show NAME > before.txt   # prints what the digests of one query are of
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.state_signature import to_json
from tests.corpus.entries import CORPUS, Entry
from tests.differential import planning
from tests.differential.generate import Generator

RECORDED = Path(__file__).with_suffix(".json")
RANDOM_QUERIES = 200

Parts = Mapping[str, str]
"""What the planner makes of one query: the texts by ``program``, ``signature``, ``batch``; or ``refused``."""


def parts_of(program: Program, batch: str | None = None) -> Parts:
    """Returns the plain texts of a program. Closures are called where they take no arguments, and left out otherwise."""
    found = {
        "program": _plain(program),
        "signature": json.dumps(to_json(program.signature), sort_keys=True, indent=1),
    }
    if program.fingerprints is not None:
        found["fingerprints"] = json.dumps(to_json(program.fingerprints()), sort_keys=True, indent=1)
    if batch is not None:
        found["batch"] = batch
    return found


def _plain(value: Any, indent: str = "") -> str:
    if is_dataclass(value) and not isinstance(value, type):
        lines = [
            f"{indent} {each.name}: {_plain(getattr(value, each.name), indent + ' ')}"
            for each in fields(value)
            if each.name not in ("signature", "open_windows") and not callable(getattr(value, each.name))
        ]
        return "\n".join((type(value).__name__, *lines))
    if isinstance(value, Mapping):
        return str(sorted((str(key), _plain(each)) for key, each in value.items()))
    if isinstance(value, frozenset | set):
        return str(sorted(map(_plain, value)))
    if isinstance(value, tuple | list):
        return "".join(f"\n{indent} - {_plain(each, indent + ' ')}" for each in value)
    return str(value)


def corpus() -> Iterator[tuple[str, Callable[[], Parts]]]:
    """Yields each query's name and a function that plans it: the corpus, and random queries."""
    for name, entry in CORPUS.items():
        yield name, partial(_parts_of_entry, entry)
    for number in range(RANDOM_QUERIES):
        yield f"random: {number}", partial(_random, number)


def _parts_of_entry(entry: Entry) -> Parts:
    made = entry.planned()
    return parts_of(made.program, made.batch)


def _random(number: int) -> Parts:
    case = planning.advised(Generator(f"golden {number}").case())
    upstream = None if case.upstream is None else planning.planned(case.upstream)
    return parts_of(planning.planned(case.model, known=planning.known_of(case, upstream)))


def of(made: Callable[[], Parts]) -> Parts:
    """Returns the texts of one query; a refusal is a text as well."""
    try:
        return made()
    except QueryError as problem:
        return {"refused": str(problem)}


def digests_of(made: Callable[[], Parts]) -> dict[str, str]:
    """Returns twelve hexadecimal digits for each text of one query."""
    return {part: hashlib.sha256(text.encode()).hexdigest()[:12] for part, text in of(made).items()}


def digests() -> dict[str, dict[str, str]]:
    """Returns the digests of all queries."""
    return {name: digests_of(made) for name, made in corpus()}


def recorded() -> dict[str, dict[str, str]]:
    """Returns the digests in tests/golden.json."""
    found: dict[str, dict[str, str]] = json.loads(RECORDED.read_text())
    return found


def differences(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Lists the queries that differ, each with the texts that do.

    >>> differences({"a": {"program": "1", "batch": "2"}, "c": {}}, {"a": {"program": "1", "batch": "3"}, "b": {}})
    ['a: batch', 'b: no longer in the corpus', 'c: new in the corpus']
    """
    found = []
    for name in sorted({*now, *before}):
        if name not in now:
            found.append(f"{name}: no longer in the corpus")
        elif name not in before:
            found.append(f"{name}: new in the corpus")
        elif now[name] != before[name]:
            parts = [
                part
                for part in {**before[name], **now[name]}
                if now[name].get(part) != before[name].get(part)
            ]
            found.append(f"{name}: {', '.join(parts)}")
    return found


def main() -> None:
    """Compares, records or shows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="record today's digests")
    parser.add_argument("--show", metavar="NAME", help="print the texts of one query")
    options = parser.parse_args()
    if options.show:
        for part, text in of(dict(corpus())[options.show]).items():
            print(f"== {part}\n{text}")
    elif options.write:
        rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in digests().items())
        RECORDED.write_text(f"{{\n{rows}\n}}\n")
    else:
        print("\n".join(differences(digests(), recorded())) or "All queries are planned as recorded.")


if __name__ == "__main__":
    main()
