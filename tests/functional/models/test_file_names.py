"""Files whose names Spark takes for patterns: it would read the other files of their micro-batch twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.sources.file_names import check_folder

SOURCE = """
sources:
  - name: raw
    tables:
      - name: files
        config:
          meta:
            stream:
              format: json
              options: {{path: "{folder}"{options}}}
              schema: id int
"""


@pytest.mark.thorough
class TestNamesThatArePatterns:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("names")

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        model = (
            "{{ config(materialized='streaming_table') }} select id from {{ stream(source('raw', 'files')) }}"
        )
        return {"sources.yml": SOURCE.format(folder=folder, options=""), "ids.sql": model}

    def ids(self, project: Any) -> list[int]:
        rows = project.run_sql(f"select id from {project.test_schema}.ids order by id", fetch="all")
        return [row[0] for row in rows]

    def test_no_row_comes_twice(self, project: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def problem() -> str:
            (result,) = run_dbt(["run"], expect_pass=False)
            return str(result.message)

        for number, name in enumerate(("a.json", "b % 1.json")):
            (folder / name).write_text(f'{{"id": {number}}}')
        run_dbt(["run"])
        (folder / "c.json").write_text('{"id": 2}')
        (folder / "d[1].json").write_text('{"id": 3}')
        assert "d[1].json has one of the letters" in problem()
        assert self.ids(project) == [0, 1]
        sources = Path(project.project_root) / "models" / "sources.yml"
        before = sources.read_text()
        sources.write_text(SOURCE.format(folder=folder, options=", maxFilesPerTrigger: 1"))
        run_dbt(["run"])
        assert self.ids(project) == [0, 1, 2, 3]
        # Those that were read are no reason to stop.
        sources.write_text(before)
        (folder / "e.json").write_text('{"id": 4}')
        run_dbt(["run"])
        assert self.ids(project) == [0, 1, 2, 3, 4]
        # One that comes when the run has begun.
        (folder / "f{1}.json").write_text('{"id": 5}')
        (folder / "g.json").write_text('{"id": 6}')
        monkeypatch.setattr(
            "dbt.adapters.spark_streaming.stream.sources.readers.check_folder", lambda *_: None
        )
        assert "was planned with it already" in problem()
        assert self.ids(project) == [0, 1, 2, 3, 4]


def test_in_folders_of_partitions(spark: Any, tmp_path: Path) -> None:
    """Their names may be odd themselves; Spark reads no other folders, unless it is told to."""
    model = StreamModel("ids", "db.ids", "db.ids__state", Storage(str(tmp_path), lambda: spark), ())

    def problem(**options: str) -> str:
        with pytest.raises(StreamError) as caught:
            check_folder(spark, model, StreamSource("raw.files", str(tmp_path), "json", options=options))
        return str(caught.value)

    for place in ("day=1/h[1].json", "day=2/hour=*/i.json", "apart/j[1].json", "ap[a]rt/k.json"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text('{"id": 9}')
    assert "day=1/h[1].json has one of the letters" in problem()
    (tmp_path / "day=1/h[1].json").unlink()
    assert "day=2/hour=*/i.json has one of the letters" in problem()
    (tmp_path / "day=2/hour=*/i.json").unlink()
    check_folder(spark, model, StreamSource("raw.files", str(tmp_path), "json"))
    assert "ap[a]rt/k.json has one of the letters" in problem(recursiveFileLookup="true")
    (tmp_path / "ap[a]rt/k.json").unlink()
    assert "apart/j[1].json has one of the letters" in problem(recursiveFileLookup="true")
