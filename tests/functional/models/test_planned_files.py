"""Files of a planned micro-batch that are gone: the run stops, and goes on once they are back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.stream.common.errors import StreamError

TWO = """
sources:
  - name: raw
    tables:
      - {{name: one, config: {{meta: {{stream: {{format: json, path: "{folder}/one", schema: id int}}}}}}}}
      - name: two
        config:
          meta:
            stream: {{format: json, options: {{path: "{folder}/two"{options}}}, schema: id int}}
"""
IDS = (
    "{{{{ config(materialized='streaming_table') }}}} select id from {{{{ stream(source('raw', '{}')) }}}} "
    "union all select id from {{{{ stream(source('raw', '{}')) }}}}"
)


@pytest.mark.thorough
class TestTwoFolders:
    """Each has a log of its own in the checkpoint, whose numbers aren't those of the micro-batches."""

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("two")

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        return {"sources.yml": TWO.format(folder=folder, options=""), "ids.sql": IDS.format("one", "two")}

    def ids(self, project: Any) -> list[int]:
        rows = project.run_sql(f"select id from {project.test_schema}.ids order by id", fetch="all")
        return [row[0] for row in rows]

    def put(self, folder: Path, *files: str) -> None:
        for name in files:
            (folder / name).parent.mkdir(exist_ok=True)
            number = "".join(filter(str.isdigit, name))
            (folder / name).write_text(f'{{"id": {number}}}')

    def test_names_and_files_that_are_gone(
        self, project: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def problem() -> str:
            (result,) = run_dbt(["run"], expect_pass=False)
            return str(result.message)

        self.put(folder, "one/1.json", "two/2.json")
        run_dbt(["run"])
        self.put(folder, "one/3.json")
        run_dbt(["run"])
        # A crash after a micro-batch was planned.
        self.put(folder, "two/4.json", "two/5.json", "two/6.json")
        with monkeypatch.context() as crash:
            crash.setattr("dbt.adapters.spark_streaming.stream.microbatch.loop.check_files_exist", fails)
            assert "crash" in problem()
        for name in ("two/4.json", "two/5.json"):
            (folder / name).unlink()
        # In another order of the query each of them still has its own log.
        (Path(project.project_root) / "models" / "ids.sql").write_text(IDS.format("two", "one"))
        message = problem()
        assert "Model ids: micro-batch 2 was planned with the file " in message
        assert "two/4.json and 1 more of its source raw.two, which are no longer there" in message
        assert self.ids(project) == [1, 2, 3]
        self.put(folder, "two/4.json")
        assert "two/5.json of its source raw.two, which is no longer there" in problem()
        sources = Path(project.project_root) / "models" / "sources.yml"
        before = sources.read_text()
        sources.write_text(TWO.format(folder=folder, options=", ignoreMissingFiles: true"))
        run_dbt(["run"])
        sources.write_text(before)
        assert self.ids(project) == [1, 2, 3, 4, 6]
        # Spark would read the other file twice.
        self.put(folder, "two/7.json", "two/[8].json")
        monkeypatch.setattr(
            "dbt.adapters.spark_streaming.stream.sources.readers.check_folder", lambda *_: None
        )
        assert "was planned with it already" in problem()
        assert self.ids(project) == [1, 2, 3, 4, 6]


def fails(*_: Any) -> None:
    raise StreamError("crash")
