"""Compiled models, made fit for pytest-dbt.

pytest-dbt runs a model's SQL in sqlglot's executor, which is plain Python: no Spark, milliseconds,
and less SQL. It reads all models of a manifest and stops at the first it can't parse. So it gets a
manifest of its own with the chosen models only, changed as trees:

- a window function gives all rows of a test the same window,
- `agg(x) FILTER (WHERE c)` becomes `agg(CASE WHEN c THEN x END)`, which is the same,
- tables lose their schema, for the tables of a test have none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dbt.cli.main import dbtRunner
from sqlglot import exp, parse_one

WINDOW = {"window_start": "its start", "window_end": "its end"}
"""The window of all rows."""


def write_manifest(project: Path, models: Iterable[str], path: Path) -> None:
    """Compile `models` of a project without Spark, and write what pytest-dbt reads to `path`."""
    chosen = list(models)
    places = [
        "--project-dir",
        str(project),
        "--profiles-dir",
        str(project),
        "--target-path",
        str(path.parent / "dbt"),
    ]
    without_spark = ["--no-populate-cache", "--no-introspect"]
    result = dbtRunner().invoke(["--quiet", "compile", *places, *without_spark, "--select", *chosen])
    if not result.success:
        raise result.exception or RuntimeError("dbt compile failed")
    manifest = json.loads((path.parent / "dbt" / "manifest.json").read_text())
    nodes = {key: _readable(node) for key, node in manifest["nodes"].items() if node["name"] in chosen}
    path.write_text(json.dumps({"nodes": nodes}))


def _readable(node: dict[str, Any]) -> dict[str, Any]:
    kept = ("resource_type", "name", "alias", "original_file_path", "compiled_path", "refs")
    return {**{key: node[key] for key in kept}, "compiled_code": plain(node["compiled_code"])}


def plain(sql: str) -> str:
    """Compiled Spark SQL as the executor can run it.

    >>> plain("select count(*) filter (where `late`) from (select /*+ STREAM */ * from example.flights) as f")
    'SELECT COUNT(CASE WHEN "late" THEN 1 END) FROM (SELECT * FROM flights) AS f'
    """
    tree = parse_one(sql, read="spark")
    for hint in list(tree.find_all(exp.Hint)):
        select = hint.parent
        table = select.find(exp.Table) if select else None
        assert select is not None and table is not None
        rows = exp.select("*").from_(table.copy())
        if hint.expressions[0].name.upper() != "STREAM":
            rows = rows.select(*(f"'{value}' AS {column}" for column, value in WINDOW.items()))
        select.replace(rows)
    for filtered in list(tree.find_all(exp.Filter)):
        aggregate, condition = filtered.this, filtered.expression.this
        argument = aggregate.this
        counted = exp.Literal.number(1) if isinstance(argument, exp.Star) else argument
        aggregate.set("this", exp.Case().when(condition, counted))
        filtered.replace(aggregate)
    for table in tree.find_all(exp.Table):
        table.set("db", None)
        table.set("catalog", None)
    return tree.sql()
