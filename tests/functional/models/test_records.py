"""Values that a source's records have and its columns can't: counted by source and column, in the stream as in batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main
from tests.functional.models.commands import Commands

JSON = """
{"id": 1, "ts": "2025-06-01 10:00:00", "cents": 50, "meta": {"a": 1}}
{"id": 2, "ts": "2025-06-01 10:01:00", "cents": 10.5, "meta": {"a": 1}}
{"id": 3, "ts": "2025-06-01 10:02:00", "cents": "a lot", "meta": {"a": "x"}}
not json
{"id": 5, "ts": "soon", "cents": 7}
[{"id": 6, "cents": 6}, {"id": 7, "cents": "x"}]

{"id": 8, "ts": null, "cents": null}
"""
CSV = "id,shop,cents\n1,a,50\n2,b,10.5\n3,c\n4,d,4,5\n5,,\n"
XML = "<all><row><id>1</id><cents>5</cents></row><row><id>2</id><cents>x</cents></row></all>"
COLUMNS = "id bigint, ts timestamp, cents bigint, meta struct<a: int>"
OF_CSV = "id bigint, shop string, cents bigint"
OF_JSON = {"cents": 3, "ts": 1, "meta": 1, "(whole record)": 1}


def source(name: str, folder: Path, format: str, schema: str, more: str = "", options: str = "") -> str:
    return f"""
      - name: {name}
        config:
          meta:
            stream:
              format: {format}
              options: {{path: "{folder}"{options}}}
              schema: "{schema}"{
        more
        and f'''
              {more}'''
    }
"""


class TestUnreadable:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("unreadable")
        for name, text in {"json": JSON, "csv": CSV, "xml": XML}.items():
            (folder / name).mkdir()
            (folder / name / f"part.{name}").write_text(text)
        return folder

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        as_json, header = folder / "json", ", header: true"
        declared = [
            source("warned", as_json, "json", COLUMNS),
            source("failed", as_json, "json", COLUMNS, "on_error: fail"),
            source(
                "failfast",
                folder / "csv",
                "csv",
                "id bigint, shop string, cents bigint",
                "",
                f"{header}, mode: FAILFAST",
            ),
            source("dropped", as_json, "json", COLUMNS, "on_error: drop"),
            source("kept", as_json, "json", COLUMNS, "on_error: keep_raw"),
            source("own", as_json, "json", f"{COLUMNS}, bad string", "", ", columnNameOfCorruptRecord: bad"),
            source("csv", folder / "csv", "csv", OF_CSV, "", header),
            source(
                "texts",
                folder / "csv",
                "csv",
                "id string, shop string, cents string",
                "on_error: keep_raw",
                header,
            ),
            source("xml", folder / "xml", "xml", "id bigint, cents bigint", "", ", rowTag: row"),
        ]
        stream = (
            "{{ config(materialized='streaming_table') }} select * from {{ stream(source('raw', 'NAME')) }}"
        )
        table = "{{ config(materialized='table') }} select * from {{ source('raw', 'NAME') }}"
        names = ("warned", "failed", "failfast", "dropped", "kept", "own", "csv", "texts", "xml")
        models = {f"{name}_s.sql": stream.replace("NAME", name) for name in names}
        models |= {f"{name}_t.sql": table.replace("NAME", name) for name in names}
        models["counts.sql"] = (
            "{{ config(materialized='streaming_table') }} "
            "select count(*) as n, count(bad) as bad from {{ stream(source('raw', 'own')) }}"
        )
        models["counts_t.sql"] = "select count(*) as n, count(bad) as bad from {{ source('raw', 'own') }}"
        models["sums.sql"] = (
            "{{ config(materialized='streaming_table') }} "
            "select count(*) as n, sum(a.cents) as cents from {{ stream(source('raw', 'dropped')) }} as a"
        )
        models["some_columns.sql"] = (
            "{{ config(materialized='streaming_table') }} select id from {{ stream(source('raw', 'warned')) }}"
        )
        return {**models, "sources.yml": "sources:\n  - name: raw\n    tables:" + "".join(declared)}

    @pytest.fixture(scope="class")
    def results(self, project: Any) -> dict[str, Any]:
        results = run_dbt(["run"], expect_pass=False)
        return {result.node.name: result for result in results}

    def rows(self, project: Any, name: str, columns: str = "*") -> list[str]:
        found = project.run_sql(f"select {columns} from {project.test_schema}.{name}", fetch="all")
        return sorted(str(tuple(row)) for row in found)

    @pytest.mark.parametrize(
        ("name", "source", "rows", "columns"),
        [
            ("warned_s", "warned", 5, OF_JSON),
            ("dropped_s", "dropped", 5, OF_JSON),
            ("sums", "dropped", 5, OF_JSON),
            ("kept_s", "kept", 5, OF_JSON),
            ("own_s", "own", 5, OF_JSON),
            ("counts", "own", 5, OF_JSON),
            ("some_columns", "warned", 1, {"(whole record)": 1}),
            ("csv_s", "csv", 3, {"cents": 1, "(whole record)": 2}),
            ("texts_s", "texts", 2, {"(whole record)": 2}),
            ("xml_s", "xml", 1, {"cents": 1}),
        ],
    )
    def test_they_are_counted(
        self, results: dict[str, Any], name: str, source: str, rows: int, columns: dict[str, int]
    ) -> None:
        response = results[name].adapter_response
        assert response["unreadable"] == {f"raw.{source}": {"rows": rows, "columns": columns}}
        assert response["unreadable_rows"] == rows
        listed = ", ".join(f"{column} {count}" for column, count in sorted(columns.items()))
        assert f"unreadable values in {rows} row" in results[name].message
        assert f"of raw.{source} ({listed})" in results[name].message

    @pytest.mark.parametrize("name", ["warned", "dropped", "kept", "own", "csv", "texts", "xml"])
    def test_batch_has_the_same_rows(self, project: Any, results: dict[str, Any], name: str) -> None:
        rows = self.rows(project, f"{name}_s")
        assert rows and rows == self.rows(project, f"{name}_t")

    def test_what_is_in_them(self, project: Any, results: dict[str, Any]) -> None:
        assert len(self.rows(project, "warned_s")) == 8
        assert self.rows(project, "sums") == ["(3, 56)"]
        assert self.rows(project, "dropped_s", "id") == ["(1,)", "(6,)", "(8,)"]
        assert "('not json',)" in self.rows(project, "kept_s", "_raw_record")
        assert self.rows(project, "kept_s", "count(_raw_record)") == ["(5,)"]
        assert self.rows(project, "texts_s", "_raw_record").count("(None,)") == 3
        # The author's own column is Spark's: a record that is an array is one that can't be read, whichever of its rows.
        assert self.rows(project, "counts") == self.rows(project, "counts_t") == ["(8, 6)"]

    def test_a_run_stops(self, results: dict[str, Any]) -> None:
        for name in ("failed_s", "failed_t"):
            message = results[name].message
            assert (
                "Source raw.failed: the value '10.5' of its column cents can't be read as BIGINT (file file:"
                in message
            )
            assert "part.json). Correct the record" in message and "USER_RAISED" not in message
            assert "\tat " not in message and "Traceback" not in message
        assert "Model failed_s: Source raw.failed" in results["failed_s"].message
        for name in ("failfast_s", "failfast_t"):
            assert "Source raw.failfast: the value '10.5' of its column cents" in results[name].message

    def test_status_says_it(self, project: Any, results: dict[str, Any]) -> None:
        def status(*arguments: str) -> str:
            command = [*Commands.options(project), "status", "--select", "warned_s", *arguments]
            return CliRunner().invoke(main, command, catch_exceptions=False).stdout

        (model,) = json.loads(status("--json"))
        total = model["progress"]["unreadable"]["total"]
        assert total == {"raw.warned": {"rows": 5, "columns": OF_JSON}}
        assert "warned_s: unreadable values in 5 rows of raw.warned ((whole record) 1, cents 3" in status()
