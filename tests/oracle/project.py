"""A dbt project made of the cases: each as a stream whose input comes at once, and as a batch table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml
from dbt.cli.main import dbtRunner

from tests.oracle.cases import CONFIGS
from tests.oracle.translate import model_text

# The disorder of the data: with this no row is late.
WATERMARK = "5 seconds"
BATCH = 0
"""Instead of a number of cuts: the case as a batch table."""


def settings_of(case: str) -> dict[str, Any]:
    """The configs of a case as a streaming model."""
    return {"materialized": "streaming_table", "watermark": WATERMARK, **CONFIGS.get(case, {})}


def model_name(case: str, cuts: int) -> str:
    """The model of a case whose input comes in `cuts` micro-batches."""
    return f"{case}__{cuts}" if cuts != BATCH else f"{case}__batch"


@dataclass(frozen=True)
class Outcome:
    """What `dbt run` said of each model: None if it was made, else why not."""

    schema: str
    problems: Mapping[str, str | None]


def run_cases(
    folder: Path, oracle: Path, size: str, runs: Iterable[tuple[str, int]], target: Mapping[str, Any]
) -> Outcome:
    """Write the project for these cases and cuts into `folder`, run all of it and close all windows."""
    runs = list(runs)
    schema = f"oracle_{size}"
    tables = frozenset(path.stem for path in (oracle / "data" / size).glob("*.parquet"))
    all_cuts = sorted({cuts for _, cuts in runs})
    models = folder / "models"
    models.mkdir(parents=True)
    for cuts in all_cuts:
        for table in tables:
            write_cuts(
                oracle / "data" / size / f"{table}.parquet", folder / f"cut_{cuts}" / table, max(cuts, 1)
            )
    for case, cuts in runs:
        select = model_text((oracle / "cases" / f"{case}.sql").read_text(), tables, f"cut_{cuts}")
        settings = settings_of(case) if cuts != BATCH else {"materialized": "table"}
        config = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        (models / f"{model_name(case, cuts)}.sql").write_text(f"{{{{ config({config}) }}}}\n{select}\n")
    _write_yaml(models / "sources.yml", _sources(folder, schema, all_cuts, tables))
    _write_yaml(
        folder / "dbt_project.yml",
        {"name": "oracle", "version": "1.0", "config-version": 2, "profile": "oracle"},
    )
    _write_yaml(
        folder / "profiles.yml",
        {"oracle": {"target": "test", "outputs": {"test": {**target, "schema": schema}}}},
    )
    return Outcome(schema, _run(folder))


def write_cuts(parquet: Path, folder: Path, cuts: int) -> None:
    """The rows of a file, in their order, in `cuts` files that arrived a second apart."""
    rows = pq.read_table(parquet)
    folder.mkdir(parents=True)
    for cut in range(cuts):
        start, end = len(rows) * cut // cuts, len(rows) * (cut + 1) // cuts
        path = folder / f"{cut:03}.parquet"
        pq.write_table(rows.slice(start, end - start), path)
        os.utime(path, (1_700_000_000 + cut, 1_700_000_000 + cut))


def _sources(folder: Path, schema: str, all_cuts: Iterable[int], tables: Iterable[str]) -> dict[str, Any]:
    def stream(cuts: int, table: str) -> dict[str, Any]:
        options = {"path": str(folder / f"cut_{cuts}" / table), "maxFilesPerTrigger": 1}
        return {"stream": {"format": "parquet", "options": options}}

    return {
        "version": 2,
        "sources": [
            {
                "name": f"cut_{cuts}",
                "schema": f"{schema}_cut_{cuts}",
                "tables": [
                    {"name": table, "config": {"event_time": "ts", "meta": stream(cuts, table)}}
                    for table in sorted(tables)
                ],
            }
            for cuts in all_cuts
        ],
    }


def _run(folder: Path) -> dict[str, str | None]:
    places = ["--project-dir", str(folder), "--profiles-dir", str(folder)]
    result = dbtRunner().invoke(["--quiet", "run", *places, "--vars", "{flush: true}"])
    if result.exception is not None and result.result is None:
        raise result.exception
    results: Any = result.result
    return {
        one.node.name: None if one.status == "success" else str(one.message or one.status) for one in results
    }


def _write_yaml(path: Path, content: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(content, sort_keys=False))
