"""A streaming model's contract holds of every row: a micro-batch that breaks it changes neither table nor state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.tests.util import run_dbt, write_file

WINDOWS = (
    "select window_start, window_end, sum(v) as v from {{ tumble(source('raw', 'events'), 'ts', '1 hour') }} "
    "group by window_start, window_end"
)
STREAM = "{{ stream(source('raw', 'events')) }}"
QUERIES = {
    "rows_": f"select k, v from {STREAM}",
    "logged": f"select k, v from {STREAM}",
    "groups": f"select k, sum(v) as v from {STREAM} group by k",
    "all_of_it": f"select sum(v) as v from {STREAM}",
    "latest": "select k, v from (select *, row_number() over (partition by k order by ts desc) as n "
    f"from {STREAM}) where n = 1",
    "windows": WINDOWS,
    "early": WINDOWS,
}
KEYED = ", constant_domains=['k']"
CONFIGS = {
    "logged": ", changelog=true",
    "groups": KEYED + ", changelog=true",
    "latest": KEYED,
    "early": ", first_result_offset='-50 minutes', update_rate='10 minutes'",
}
TYPES = {"k": "string", "v": "bigint", "window_start": "timestamp", "window_end": "timestamp"}


def contract(name: str, expression: str = "v >= 0", kind: str = "bigint") -> dict[str, Any]:
    columns = {
        "windows": ("window_start", "window_end", "v"),
        "early": ("window_start", "window_end", "v"),
        "all_of_it": ("v",),
    }.get(name, ("k", "v"))
    return {
        "name": name,
        "config": {"contract": {"enforced": True}},
        "constraints": [{"type": "check", "name": "not_less", "expression": expression}],
        "columns": [
            {
                "name": each,
                "data_type": kind if each == "v" else TYPES[each],
                "constraints": [{"type": "not_null"}, {"type": "unique", "warn_unsupported": False}],
            }
            for each in columns
        ],
    }


AFTER = {
    "rows_": [("x", 1), ("x", 3), ("y", 2), ("y", 30), ("z", 0)],
    "logged": [("x", 1), ("x", 3), ("y", 2), ("y", 30), ("z", 0)],
    "groups": [("x", 4), ("y", 32), ("z", 0)],
    "latest": [("x", 3), ("y", 30), ("z", 0)],
    "all_of_it": [(36,)],
}
"""The rows of each once all are in that break no contract; of windows it is their sums."""


class Contracts:
    """A project with some of the models."""

    NAMES: tuple[str, ...] = ()

    def models_yml(self, **changed: Any) -> str:
        return yaml.safe_dump({"models": [contract(name, **changed.get(name, {})) for name in self.NAMES]})

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("events")

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        self.write(folder, "a", ("00:10", "x", 1), ("00:20", "y", 2))
        stream = {"format": "json", "path": str(folder), "schema": "ts timestamp, k string, v bigint"}
        table = {"name": "events", "config": {"event_time": "ts", "meta": {"stream": stream}}}
        return {
            "sources.yml": yaml.safe_dump({"sources": [{"name": "raw", "tables": [table]}]}),
            "models.yml": self.models_yml(),
            **{
                f"{name}.sql": "{{ config(materialized='streaming_table'"
                + CONFIGS.get(name, "")
                + ") }}\n"
                + QUERIES[name]
                for name in self.NAMES
            },
        }

    def write(self, folder: Path, name: str, *rows: tuple[str, str | None, int | None]) -> None:
        lines = [json.dumps({"ts": f"2024-03-04 {time}:00", "k": k, "v": v}) for time, k, v in rows]
        (folder / f"{name}.json").write_text("\n".join(lines) + "\n")

    def rows(self, spark: Any, project: Any) -> dict[str, list[tuple[Any, ...]]]:
        found = {}
        for name in self.NAMES:
            for table in (name, f"{name}__state", f"{name}__changes"):
                full = f"{project.test_schema}.{table}"
                if spark.catalog.tableExists(full):
                    found[table] = sorted(map(tuple, spark.sql(f"select * from {full}").collect()), key=repr)
        return found

    def run(self, *arguments: str, fails: bool = False) -> dict[str, str]:
        results = run_dbt(["run", *arguments], expect_pass=not fails)
        return {result.node.name: f"{result.status}: {result.message}" for result in results}

    def test_rows_are_checked(self, spark: Any, project: Any, folder: Path) -> None:
        self.run()
        before = self.rows(spark, project)
        if "groups" in self.NAMES:
            assert before["groups"] == [("x", 1), ("y", 2)]
        self.write(folder, "b", ("00:30", "x", 3), ("00:40", "y", -30), ("02:00", "z", 0))
        for _ in range(2):
            said = self.run(fails=True)
            assert self.rows(spark, project) == before
            for name, message in said.items():
                assert message.startswith("error"), (name, message)
                assert (
                    f"Model {name}: its query gives a row that breaks its contract: Constraint not_less"
                    in message
                )
                assert '"v":-' in message and "the next run continues" in message and " at " not in message, (
                    message
                )
        self.write(folder, "b", ("00:30", "x", 3), ("00:40", "y", None), ("02:00", "z", 0))
        nulls = [name for name in ("rows_", "latest") if name in self.NAMES]
        said = self.run("--select", *nulls, fails=True)
        assert [*said] == nulls
        assert all(
            'Column v must not be null. The row is {"k":"y","v":null}.' in each for each in said.values()
        )
        assert self.rows(spark, project) == before
        self.write(folder, "b", ("00:30", "x", 3), ("00:40", "y", 30), ("02:00", "z", 0))
        self.run()
        after = self.rows(spark, project)
        for name in self.NAMES:
            found = after[name]
            assert ([row[-1] for row in found] if name in ("windows", "early") else found) == AFTER.get(
                name, [36]
            )
        self.run()
        assert self.rows(spark, project) == after


class TestContractsOfStreams(Contracts):
    NAMES = ("rows_", "groups")

    def test_contract_is_edited(self, spark: Any, project: Any) -> None:
        write_file(
            self.models_yml(rows_={"expression": "v > 0"}, groups={"kind": "int"}),
            *(project.project_root, "models", "models.yml"),
        )
        said = self.run("--select", "rows_", "groups", fails=True)
        assert (
            "has a row that breaks its contract: Constraint not_less is broken: v > 0. The row is"
            in said["rows_"]
        )
        assert "contract" in said["groups"] and said["groups"].startswith("error")


@pytest.mark.thorough
class TestContractsOfOtherStreams(Contracts):
    NAMES = ("logged", "latest", "all_of_it", "windows", "early")

    def test_flush(self, spark: Any, project: Any, folder: Path) -> None:
        self.write(folder, "c", ("03:00", "w", -5))
        said = self.run("--select", "windows", "--vars", "{flush: true}", fails=True)
        assert "breaks its contract: Constraint not_less" in said["windows"]
        write_file(
            self.models_yml(windows={"expression": "v > -10"}), project.project_root, "models", "models.yml"
        )
        self.run("--select", "windows", "--vars", "{flush: true}")
        assert [row[-1] for row in self.rows(spark, project)["windows"]] == [36, 0, -5]
