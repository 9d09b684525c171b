"""Columns whose names Iceberg has for its own: refused before anything is made; a state may have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

SOURCES = """
sources:
  - name: raw
    tables:
      - name: files
        config:
          event_time: ts
          meta: {{stream: {{format: json, path: "{folder}", schema: "id int, _file string, ts timestamp"}}}}
"""
FILES = "source('raw', 'files')"
MODELS = {
    "s_stream": f"{{{{ config(materialized='streaming_table') }}}} select id, _file from {{{{ stream({FILES}) }}}}",
    "s_star": f"{{{{ config(materialized='streaming_table') }}}} select * from {{{{ stream({FILES}) }}}}",
    "s_agg": f"{{{{ config(materialized='streaming_table', state_ttl='1 day') }}}} select _file as name, count(*) as `_Pos` "
    f"from {{{{ stream({FILES}) }}}} group by _file",
    "t_table": "{{ config(materialized='table') }} select 1 as id, 2 as `_ROW_ID`",
    "t_star": f"{{{{ config(materialized='table') }}}} select * from {{{{ {FILES} }}}}",
    "t_incremental": "{{ config(materialized='incremental') }} select 1 as id, 2 as _spec_id",
}
LATER = (
    "{{ config(materialized='incremental', on_schema_change='append_new_columns') }} "
    "select 1 as id {{ ', 2 as _partition' if var('later', false) }}"
)
PYTHON = """
def model(dbt, session):
    dbt.config(materialized="table")
    return session.sql("select 1 as id, 2 as _deleted")
"""
SNAPSHOT = """
{% snapshot kept %}
{{ config(unique_key='id', strategy='check', check_cols='all') }}
select 1 as id, 2 as _last_updated_sequence_number
{% endsnapshot %}
"""
# In the state, where nobody chose the names of columns, it is no reason to stop.
STATE = (
    f"{{{{ config(materialized='streaming_table', state_ttl='1 day') }}}} select _file as name, count(*) as n "
    f"from {{{{ stream({FILES}) }}}} group by _file"
)


@pytest.mark.thorough
class TestMetadataColumns:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("files")
        (folder / "a.json").write_text('{"id": 1, "_file": "x", "ts": "2024-03-04 00:00:00"}\n')
        return folder

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        more = {"later.sql": LATER, "t_python.py": PYTHON, "state.sql": STATE}
        return {
            "sources.yml": SOURCES.format(folder=folder),
            **{f"{name}.sql": text for name, text in MODELS.items()},
            **more,
        }

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"codes.csv": "id,_pos\n1,2\n"}

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"kept.sql": SNAPSHOT}

    def test_no_table_is_made_that_could_not_be_read(self, project: Any, spark: Any, folder: Path) -> None:
        results = run_dbt(["build", "--exclude", "later", "state"], expect_pass=False)
        messages = {result.node.name: str(result.message) for result in results}
        assert messages.keys() == {*MODELS, "t_python", "codes", "kept"}
        for name, message in messages.items():
            assert "the name of one of Iceberg's metadata columns" in message, (name, message)
            assert name in message
        assert spark.sql(f"show tables in {project.test_schema}").collect() == []
        run_dbt(["run", "--select", "later", "state"])
        (result,) = run_dbt(["run", "--select", "later", "--vars", "later: true"], expect_pass=False)
        assert "its column _partition has the name" in str(result.message)
        assert project.run_sql(f"select * from {project.test_schema}.later", fetch="all") == [(1,)]
        (folder / "b.json").write_text('{"id": 2, "_file": "x", "ts": "2024-03-04 00:00:00"}\n')
        run_dbt(["run", "--select", "state"])
        assert project.run_sql(f"select * from {project.test_schema}.state", fetch="all") == [("x", 2)]
