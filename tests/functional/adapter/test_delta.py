"""Delta and Parquet tables in Spark's own catalog, written by batch models and read by them and by streams."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.functional.adapter.delta_runs import FOUND, NOT_TO_BE_HAD

pytestmark = pytest.mark.thorough

NAME = '\'{{ var("name", "old") }}\''
MORE = "{% if var('more', false) %}, 7 as more{% endif %}"
FEWER = "where id = 1 or not {{ var('more', false) }}"
TIMES = (
    "select * from values (timestamp'2024-01-01 00:00:10', 1), (timestamp'2024-01-01 10:00:00', 2), "
    "(timestamp'2024-01-02 00:00:10', {{ var('n', 3) }}) t(ts, n)"
)


def incremental(strategy: str, query: str, **configs: str) -> str:
    given = {"materialized": "incremental", "incremental_strategy": strategy, **configs}
    return f"{{{{ config({', '.join(f'{k}={v!r}' for k, v in given.items())}) }}}}\n{query}"


BATCHES = {"event_time": "ts", "begin": "2024-01-01", "batch_size": "day", "tags": "batches"}
NAMES = f"select id, {NAME} as name from {{{{ ref('names') }}}} {FEWER}"
STREAM = "{{ config(materialized='streaming_table', schema=none, file_format='iceberg') }}"
MODELS = {
    "delta": {
        "plain.sql": "{{ config(materialized='table') }} select id, name from {{ ref('names') }}",
        "seen.sql": "{{ config(materialized='view') }} select * from {{ ref('plain') }}",
        "in_python.py": "def model(dbt, session):\n    dbt.config(materialized='table')\n    return dbt.ref('plain')",
        "added.sql": incremental(
            "append", f"select id{MORE} from {{{{ ref('names') }}}}", on_schema_change="append_new_columns"
        ),
        "merged.sql": incremental("merge", NAMES, unique_key="id"),
        "replaced.sql": incremental("delete+insert", NAMES, unique_key="id"),
        "parts.sql": incremental("insert_overwrite", NAMES, partition_by="id"),
        "whole.sql": incremental("insert_overwrite", f"select id from ({NAMES}) where name = 'old'"),
        "synced.sql": "{{ config(materialized='incremental', on_schema_change='sync_all_columns', tblproperties={"
        "'delta.columnMapping.mode': 'name', 'delta.enableTypeWidening': 'true'}) }}\n"
        "select {% if var('more', false) %}cast(1 as bigint) as a, 3 as c{% else %}1 as a, 2 as b{% endif %}",
        "times.sql": f"{{{{ config(materialized='table', event_time='ts') }}}} {TIMES}",
        "days.sql": incremental("microbatch", "select ts, n from {{ ref('times') }}", **BATCHES),
        "windows.sql": incremental(
            "window_overwrite",
            "select window_start, window_end, sum(n) as n from {{ tumble(ref('times'), 'ts', '1 hour') }} "
            "group by window_start, window_end",
        ),
        "delta_stream.sql": STREAM.replace("iceberg", "delta") + " select * from {{ stream(ref('events')) }}",
    },
    "parquet": {
        "files.sql": "{{ config(materialized='table') }} select id, name from {{ ref('plain') }}",
        "files_added.sql": incremental("append", "select id from {{ ref('plain') }}"),
        "files_parts.sql": incremental("insert_overwrite", NAMES, partition_by="id"),
        "files_days.sql": incremental(
            "microbatch",
            "select ts, n, date(ts) as day from {{ ref('times') }}",
            partition_by="day",
            **BATCHES,
        ),
        "files_merged.sql": incremental("merge", NAMES, unique_key="id"),
    },
    "iceberg": {
        "events.sql": incremental(
            "append", "select timestamp'2024-01-01 00:00:10' as ts, {{ var('more', false) }} as late"
        ),
        "named.sql": "{{ config(materialized='streaming_table') }} select e.late, p.name from "
        "{{ stream(ref('events')) }} e join {{ ref('plain') }} p on p.id = 2",
        "by_path.sql": "{{ config(materialized='table') }} select * from {{ source('paths', 'times') }}\n"
        "-- depends_on: {{ ref('times') }}",
        "by_name.sql": "{{ config(materialized='table') }} select * from {{ source('lake', 'files') }}\n"
        "-- depends_on: {{ ref('files') }}",
        "iceberg_in_parquet.sql": "{{ config(materialized='table', file_format='parquet') }} select 1 as id",
        "delta_in_iceberg.sql": "{{ config(materialized='table', file_format='delta') }} select 1 as id",
        "stream_of_delta.sql": "{{ config(materialized='streaming_table') }} select * from {{ stream(ref('times')) }}",
        "stream_of_path.sql": "{{ config(materialized='streaming_table') }} select * from "
        "{{ stream(source('paths', 'times')) }}\n-- depends_on: {{ ref('times') }}",
    },
}
REFUSED = {
    "delta_stream": "a streaming model's table is an Iceberg table",
    "files_merged": "changes rows in place, which file_format 'parquet' can't",
    "delta_in_iceberg": "lakehouse only holds Iceberg tables. Write iceberg, or schema='spark_catalog.shop'",
    "stream_of_delta": "is a table in another format than Iceberg's, so it can't be read as a stream",
    "stream_of_path": "is a table in another format than Iceberg's, so it can't be read as a stream",
}


def project(folder: Path) -> dict[str, Any]:
    """Returns the project's files: path → text, or a structure for YAML."""
    root = folder / ".spark"
    delta = {"+file_format": "delta", "+schema": "spark_catalog.{{ target.schema }}"}
    target = {
        "type": "spark_streaming",
        "schema": "shop",
        "master": "local[2]",
        "storage_root": str(root),
        "packages": ["delta"],
        "server_side_parameters": {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={root}/metastore;create=true",
            "spark.sql.codegen.wholeStage": "false",
        },
    }
    columns = [
        {"name": "id", "data_type": "bigint", "description": "the 'key'"},
        {"name": "name", "data_type": "string"},
    ]
    checked = {**columns[0], "constraints": [{"type": "not_null"}], "data_tests": ["unique", "not_null"]}
    times = root / "spark-warehouse" / "shop.db" / "times"
    return {
        "profiles.yml": {"p": {"target": "dev", "outputs": {"dev": target}}},
        "dbt_project.yml": {
            "name": "p",
            "profile": "p",
            "models": {
                "p": {
                    "+persist_docs": {"relation": True, "columns": True},
                    "delta": delta,
                    "parquet": {**delta, "+file_format": "parquet"},
                }
            },
            "seeds": {"p": delta},
            "snapshots": {"p": delta},
        },
        "seeds/names.csv": "id,name\n1,a\n2,b\n",
        "models/models.yml": {
            "models": [
                {
                    "name": "plain",
                    "description": "it's a table",
                    "config": {"contract": {"enforced": True}},
                    "columns": [checked, columns[1]],
                }
            ],
            "sources": [
                {
                    "name": "lake",
                    "schema": "spark_catalog.shop",
                    "config": {"freshness": {"warn_after": {"count": 1, "period": "day"}}},
                    "tables": [{"name": "files"}],
                },
                {
                    "name": "paths",
                    "schema": "spark_catalog.delta",
                    "tables": [{"name": "times", "identifier": str(times)}],
                },
            ],
        },
        "snapshots/history.yml": {
            "snapshots": [
                {
                    "name": "history",
                    "relation": "ref('merged')",
                    "config": {"unique_key": "id", "strategy": "check", "check_cols": "all"},
                }
            ]
        },
        **{f"models/{kind}/{name}": text for kind, models in MODELS.items() for name, text in models.items()},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("delta")


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Any]:
    """What `delta_runs` found: step → messages of nodes, and rows of tables."""
    for path, content in project(folder).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    command = [sys.executable, "-m", "tests.functional.adapter.delta_runs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    if done.returncode == NOT_TO_BE_HAD:
        pytest.skip(f"Delta's package can't be had: {done.stdout.splitlines()[-1]}")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    found: dict[str, Any] = json.loads((folder / FOUND).read_text())
    return found


def rows(runs: dict[str, Any], step: str, name: str) -> Any:
    found = runs[step]["rows"]
    return found.get(f"spark_catalog.shop.{name}", found.get(f"shop.{name}"))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_be_is_refused(runs: dict[str, Any], name: str) -> None:
    assert REFUSED[name] in runs["built"]["messages"][name]
    assert rows(runs, "built", name) is None


@pytest.mark.parametrize("step", ["built", "built again", "batches", "batches again", "empty", "refreshed"])
def test_all_else_runs(runs: dict[str, Any], step: str) -> None:
    errors = {name: text for name, text in runs[step]["messages"].items() if "Error" in text}
    assert errors.keys() == (REFUSED.keys() if step.startswith("built") else set()), errors


def test_tables_are_replaced(runs: dict[str, Any]) -> None:
    for name in ("plain", "seen", "in_python", "files", "by_name"):
        assert rows(runs, "built", name) == [[1, "a"], [2, "b"]], name
        assert rows(runs, "built again", name) == [[1, "a"], [2, "bb"], [3, "c"]], name
    assert rows(runs, "built again", "by_path") == rows(runs, "built again", "times")


def test_incremental_models(runs: dict[str, Any]) -> None:
    old, new = "old", "new"
    both: dict[str, tuple[list[Any], list[Any]]] = {
        "added": ([[1], [2]], [[1, 7], [1, None], [2, 7], [2, None], [3, 7]]),
        "merged": ([[1, old], [2, old]], [[1, new], [2, old]]),
        "replaced": ([[1, old], [2, old]], [[1, new], [2, old]]),
        "parts": ([[1, old], [2, old]], [[1, new], [2, old]]),
        "whole": ([[1], [2]], []),
        "synced": ([[1, 2]], [[1, 3], [1, None]]),
        "files_added": ([[1], [2]], [[1], [1], [2], [2], [3]]),
        "files_parts": ([[old, 1], [old, 2]], [[new, 1], [old, 2]]),
    }
    for name, (first, second) in both.items():
        assert sorted(rows(runs, "built", name), key=str) == sorted(first, key=str), name
        assert sorted(rows(runs, "built again", name), key=str) == sorted(second, key=str), name
    assert rows(runs, "empty", "added") == rows(runs, "built again", "added")
    assert rows(runs, "refreshed", "added") == [[1], [2], [3]]
    assert rows(runs, "refreshed", "merged") == [[1, old], [2, old], [3, old]]


def test_ranges_of_time(runs: dict[str, Any]) -> None:
    for name in ("days", "files_days"):
        assert [row[1] for row in rows(runs, "batches", name)] == [1, 2, 3], name
        assert [row[1] for row in rows(runs, "batches again", name)] == [1, 2, 30], name
    assert [row[2] for row in rows(runs, "built", "windows")] == [1, 2, 3]
    assert [row[2] for row in rows(runs, "built again", "windows")] == [1, 2, 30]


def test_a_snapshot_keeps_what_was(runs: dict[str, Any]) -> None:
    found = [(row[0], row[1], row[-1] is None) for row in rows(runs, "built again", "history")]
    assert sorted(found) == [(1, "new", True), (1, "old", False), (2, "old", True)]


def test_a_stream_reads_the_newest_version_of_a_joined_table(runs: dict[str, Any]) -> None:
    assert [row[1] for row in rows(runs, "built", "named")] == ["b"]
    assert [row[1] for row in rows(runs, "built again", "named")] == ["b", "bb"]


def test_freshness_needs_a_column(runs: dict[str, Any]) -> None:
    assert "isn't an Iceberg table" in runs["freshness"]["messages"]["files"]


def test_docs_have_columns_and_comments(runs: dict[str, Any], folder: Path) -> None:
    found = json.loads((folder / "target" / "catalog.json").read_text())["nodes"]["model.p.plain"]
    assert found["metadata"]["comment"] == "it's a table"
    assert [(each["name"], each["comment"]) for each in found["columns"].values()] == [
        ("id", "the 'key'"),
        ("name", None),
    ]
