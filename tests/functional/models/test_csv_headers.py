"""CSV files whose header names other columns than are declared at these places: no value comes into another column."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file

CASES = {
    "swapped": "b,a\n1,2\n",
    "swapped_gz": "b,a\n1,2\n",
    "swapped_lines": "b,a\n1,2\n",
    "swapped_drop": "b,a\n1,2\n",
    "shifted": "b\n2\n",
    "between": "a,x,b\n1,0,2\n",
    "undeclared": "b,a\n1,2\n",
    "upper": "A,B\n1,2\n",
    "by_place": "b,a\n1,2\n",
}
GOOD = ("upper", "by_place")
SCHEMA = 'schema: "a int, b int"'
OPTIONS = {"swapped_lines": ", multiLine: true", "by_place": ", EnforceSchema: true"}


def sources(folder: Path) -> str:
    tables = "".join(
        f"""
      - name: {name}
        config:
          meta:
            stream:
              format: csv
              options: {{path: "{folder}/{name}", header: true{OPTIONS.get(name, "")}}}
              {"" if name == "undeclared" else SCHEMA}
              on_error: {"drop" if name.endswith("_drop") else "warn"}"""
        for name in CASES
    )
    return f"sources:\n  - name: raw\n    tables:{tables}\n"


class Headers:
    """A project with some of the cases."""

    NAMES: tuple[str, ...] = ()

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("csv")

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        found = {"sources.yml": sources(folder)}
        for name in self.NAMES:
            text = CASES[name]
            (folder / name).mkdir()
            if name.endswith("_gz"):
                (folder / name / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
            else:
                (folder / name / "a.csv").write_text(text)
            if name == "undeclared":
                (folder / name / "b.csv").write_text("a,b\n1,2\n")
            for kind, of in (
                ("streaming_table", "stream(source('raw', '%s'))"),
                ("table", "source('raw', '%s')"),
            ):
                found[f"{name}_{kind[0]}.sql"] = (
                    f"{{{{ config(materialized='{kind}') }}}} select a, b from {{{{ {of % name} }}}}"
                )
        return found

    def test_fields_come_into_the_columns_that_the_header_names(self, project: Any, folder: Path) -> None:
        results = run_dbt(["run"], expect_pass=False)
        assert len(results) == 2 * len(self.NAMES)
        for result in results:
            name = result.node.name.rpartition("_")[0]
            if name in GOOD:
                assert str(result.status) == "success", (name, result.message)
                rows = project.run_sql(f"select a, b from {result.node.relation_name}", fetch="all")
                assert rows == [(1, 2)]
                continue
            message = str(result.message)
            assert "the header of the file" in message.lower() and f"/{name}/" in message, (
                name,
                message,
            )
            assert "'enforceSchema: true'" in message and "Caused by" not in message, (name, message)


class TestHeaders(Headers):
    NAMES = ("swapped", "between", "upper", "by_place")

    def test_the_columns_are_declared_in_the_order_of_the_header(self, project: Any, folder: Path) -> None:
        write_file(
            sources(folder).replace(SCHEMA, 'schema: "b int, a int"'),
            project.project_root,
            "models",
            "sources.yml",
        )
        run_dbt(["run", "--select", "swapped_s", "swapped_t"])
        for table in ("swapped_s", "swapped_t"):
            assert project.run_sql(f"select a, b from {project.test_schema}.{table}", fetch="all") == [(2, 1)]


@pytest.mark.thorough
class TestOtherHeaders(Headers):
    NAMES = ("swapped_gz", "swapped_lines", "swapped_drop", "shifted", "undeclared")
