"""Paths of file sources that are patterns, and folders whose own names look like one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.project import DbtProject
from dbt.adapters.spark_streaming.service.failures import Failure, classify_failure
from dbt.adapters.spark_streaming.service.preparation import Outcome, PreparationError, _preparation_error

PATTERNS = {
    "star": "day*",
    "mark": "day?",
    "either": "{day1,day2}",
    "one_of": "day[12]",
    "below": "day?/*.json",
}
TWICE = {"folder_too": "day1{,/a.json}", "two_ways": "{day1/a.json,day1/a*.json}"}
ODD = {"braces": "o{b}", "odd_mark": "what?", "brackets": "x[1]", "odd_star": "st*r"}

GONE = {"gone": "connection refused"}


class TestPathPatterns:
    @pytest.fixture(scope="class")
    def models(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("patterns")
        for number, name in enumerate(("day1", "day2", *ODD.values(), "ob", "whatX", "x1", "star")):
            (folder / name).mkdir()
            (folder / name / "a.json").write_text(f'{{"id": {number}}}\n')
        table = "\n      - name: {}\n        config: {{meta: {{stream: {{format: json, path: '{}', schema: id int}}}}}}"
        tables = "".join(
            table.format(name, folder / path) for name, path in {**PATTERNS, **TWICE, **ODD, **GONE}.items()
        )
        found = {"sources.yml": f"sources:\n  - name: raw\n    tables:{tables}\n"}
        for name in (*PATTERNS, *TWICE, *ODD, *GONE):
            found[f"{name}_t.sql"] = (
                f"{{{{ config(materialized='table') }}}} select id from {{{{ source('raw', '{name}') }}}}"
            )
            found[f"{name}_s.sql"] = (
                "{{ config(materialized='streaming_table') }} select id from "
                f"{{{{ stream(source('raw', '{name}')) }}}}"
            )
        return found

    def test_a_pattern_is_read_and_a_folder_that_looks_like_one_is_refused(self, project: Any) -> None:
        results = run_dbt(["run", "--exclude", "gone_s", "gone_t"], expect_pass=False)
        assert len(results) == 2 * len(PATTERNS | TWICE | ODD)
        for result in results:
            name = result.node.name[:-2]
            if name in PATTERNS:
                rows = project.run_sql(f"select id from {result.node.relation_name} order by id", fetch="all")
                assert (name, rows) == (name, [(0,), (1,)])
            elif name in TWICE:
                assert "day1/a.json twice, or together with the folder" in str(result.message)
            else:
                message = str(result.message)
                assert f"/{ODD[name]} has one of the letters" in message, (name, message)
                assert "Give the folder another name" in message

    def test_a_folder_that_is_named_like_an_outage_is_not_waited_for(self, project: Any) -> None:
        told = DbtProject(Path(project.project_root), Path(project.profiles_dir), None, None, None)
        manifest, found = told.parsed_manifest(), []

        def note(unique_id: str, status: str, message: str, problem: BaseException | None) -> None:
            found.append(_preparation_error(Outcome(unique_id, status, message, None, problem)))

        nodes = [node for node in told.streaming_models(manifest=manifest) if node["name"] == "gone_s"]
        told.run_each(manifest, nodes, note, quiet=True)
        for problem in found:
            assert isinstance(problem, PreparationError) and "connection refused" in problem.msg
            assert problem.__cause__ is not None
            assert classify_failure(problem) is Failure.PERMANENT
        assert found
