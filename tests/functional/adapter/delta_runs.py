"""Runs dbt with Delta in a process of its own, for `test_delta.py`: `python -m tests.functional.adapter.delta_runs PROJECT`.

It writes `FOUND` into the project: for each step the nodes' messages, and the rows of all tables after it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dbt.adapters.factory import reset_adapters
from dbt.cli.main import dbtRunner

from dbt.adapters.spark_streaming import environment

FOUND = "found.json"
NOT_TO_BE_HAD = 3
"""The exit status where Delta's package can't be fetched."""
WINDOW = ("--event-time-start", "2024-01-01", "--event-time-end", "2024-01-03")
CHANGED = ("--vars", '{"name": "new", "more": true, "n": 30}')
STEPS: dict[str, tuple[str, ...]] = {
    "built": ("build", "--exclude", "tag:batches"),
    "batches": ("run", "--select", "tag:batches", *WINDOW),
    "built again": ("build", "--exclude", "tag:batches", *CHANGED),
    "batches again": ("run", "--select", "tag:batches", *WINDOW, *CHANGED),
    "empty": ("run", "--empty", "--select", "added", "merged"),
    "refreshed": ("run", "--full-refresh", "--select", "added", "merged", "parts", "windows"),
    "freshness": ("source", "freshness"),
    "docs": ("docs", "generate"),
}


def main(project: Path) -> int:
    found: dict[str, Any] = {}
    for step, arguments in STEPS.items():
        if step == "built again":
            (project / "seeds" / "names.csv").write_text("id,name\n1,a\n2,bb\n3,c\n")
        reset_adapters()
        folders = ("--project-dir", str(project), "--profiles-dir", str(project))
        done = dbtRunner().invoke([*arguments, *folders])
        if "couldn't be fetched" in str(done.exception):
            print(done.exception)
            return NOT_TO_BE_HAD
        messages = {each.node.name: str(each.message) for each in getattr(done.result, "results", ())}
        found[step] = {"messages": messages, "rows": _rows()}
        (project / FOUND).write_text(json.dumps(found, default=str))
    environment.close_environments()
    return 0


def _rows() -> dict[str, list[list[Any]]]:
    """Returns the rows of all tables and views: name → rows."""
    (own,) = environment._environments.values()
    spark, found = own.session(), {}
    for schema in ("shop", "spark_catalog.shop"):
        catalog, _, name = schema.rpartition(".")
        schemas = spark.sql(f"show schemas in {catalog or own.catalog}").collect()
        if not any(row[0] == name for row in schemas):
            continue
        for _, name, temporary in spark.sql(f"show tables in {schema}").collect():
            if not temporary:
                rows = spark.table(f"{schema}.{name}").collect()
                found[f"{schema}.{name}"] = sorted(([*map(_plain, row)] for row in rows), key=str)
    return found


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | None) else str(value)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
