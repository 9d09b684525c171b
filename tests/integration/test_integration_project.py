"""integration_tests/ as its user would run it, then again, then with new files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner

from tests.integration.project import SCHEMA, copy_project
from tests.spark_rows import rows_of

STREAMED = ("orders", "orders_per_shop", "revenue_since_midnight")


class Project:
    """A copy of the project that shares this process's Spark."""

    def __init__(self, folder: Path, target: Mapping[str, Any]) -> None:
        self.folder = folder
        copy_project(folder, {"dev": target})

    def dbt(self, *arguments: str) -> dict[str, str]:
        """Run a command; the status of each node."""
        places = ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder)]
        result = dbtRunner().invoke([*arguments, *places])
        assert result.exception is None, result.exception
        found: Any = result.result
        return {one.node.name: str(one.status) for one in found} if hasattr(found, "results") else {}

    def add_orders(self, name: str, *orders: dict[str, Any]) -> None:
        path = self.folder / "data" / "orders" / name
        path.write_text("".join(json.dumps(order) + "\n" for order in orders))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, spark_target: dict[str, Any], spark: Any) -> Project:
    project = Project(tmp_path_factory.mktemp("integration") / "shop", spark_target)
    project.dbt("deps")
    return project


def snapshots(spark: Any) -> dict[str, int]:
    return {name: spark.table(f"{SCHEMA}.{name}.snapshots").count() for name in STREAMED}


def contents(spark: Any) -> dict[str, list[str]]:
    return {name: sorted(map(repr, rows_of(spark.table(f"{SCHEMA}.{name}")))) for name in STREAMED}


def test_everything_passes_twice_and_the_second_run_changes_nothing(project: Project, spark: Any) -> None:
    first = project.dbt("build")
    assert {status for status in first.values()} == {"success", "pass"}, first
    assert not [name for name in first if "midnight_in_batch" in name or name == "flights"], (
        "the examples of the package are off in other projects"
    )
    before = snapshots(spark), contents(spark)
    assert project.dbt("build") == first
    assert (snapshots(spark), contents(spark)) == before


@pytest.mark.thorough
def test_new_files_add_their_rows_and_change_no_other(project: Project, spark: Any) -> None:
    before = contents(spark)
    project.add_orders(
        "2026-03-02.json",
        {
            "order_id": 1001,
            "ordered_at": "2026-03-02T09:00:00Z",
            "shop": "south",
            "customer": "ada",
            "cents": 100,
        },
        # Long after its windows were closed: counted as late, and in no window.
        {
            "order_id": 1002,
            "ordered_at": "2026-03-01T08:00:00Z",
            "shop": "south",
            "customer": "bo",
            "cents": 100,
        },
    )
    os.utime(project.folder / "data" / "orders" / "2026-03-02.json")
    status = project.dbt("run", "--select", *STREAMED)
    assert set(status.values()) == {"success"}, status
    after = contents(spark)
    for name in STREAMED:
        assert set(before[name]) <= set(after[name]), f"rows of {name} have changed"
    assert len(after["orders"]) == len(before["orders"]) + 2
    new = [
        row
        for row in rows_of(spark.table(f"{SCHEMA}.orders_per_shop"))
        if repr(row) not in before["orders_per_shop"]
    ]
    assert not [row for row in new if row[0].hour == 8], "a late row has opened a window again"
