"""A seed's table stays while its file only grows, so that streams which read it go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

SEED = "id,at,k,v\n1,2025-01-01 00:00:00,a,1.50\n2,2025-01-01 00:01:00,,\n2,2025-01-01 00:01:00,,\n"
TYPES = """
seeds:
  - name: given
    config: {{alias: given_rows, column_types: {{id: {id}, at: timestamp, k: string, v: double}}}}
"""
READER = """
{{ config(materialized='streaming_table', constant_domains=['k']) }}
select k, count(*) as n, sum(v) as total from {{ stream(ref('given')) }} group by k
"""


class TestSeedsAsStreams:
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"given.csv": SEED, "types.yml": TYPES.format(id="bigint")}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"reader.sql": READER}

    def build(self, project: Any, *args: str, seed: str | None = None, passes: bool = True) -> Any:
        if seed is not None:
            (Path(project.project_root) / "seeds" / "given.csv").write_text(seed)
        return {each.node.name: each for each in run_dbt(["build", *args], expect_pass=passes)}

    def rows(self, project: Any, table: str = "reader") -> Any:
        return sorted(project.run_sql(f"select * from {{schema}}.{table}", fetch="all"), key=str)

    def snapshots(self, project: Any) -> Any:
        return project.run_sql("select snapshot_id from {schema}.given_rows.snapshots", fetch="all")

    def test_a_file_that_is_as_it_was_and_one_that_grew(self, project: Any) -> None:
        self.build(project)
        first = self.snapshots(project)
        assert self.build(project)["reader"].status == "success"
        assert self.snapshots(project) == first
        # Rows in the middle, another one of two alike, and other blanks.
        grown = SEED.replace("1.50", "1.5").replace("\n2,", "\n3,2025-01-01 00:02:00,b,2\n2,", 1)
        result = self.build(project, seed=grown + "2,2025-01-01 00:01:00,,\n")["reader"]
        assert result.status == "success" and "2 rows in" in result.message
        assert self.rows(project) == [("a", 1, 1.5), ("b", 1, 2.0), (None, 3, None)]
        assert len(self.rows(project, "given_rows")) == 5

    @pytest.mark.thorough
    @pytest.mark.parametrize("changed", ["1,2025-01-01 00:00:00,a,9", "", "columns", "types"])
    def test_a_file_that_changed_otherwise(self, project: Any, changed: str) -> None:
        path = Path(project.project_root) / "seeds" / "types.yml"
        path.write_text(TYPES.format(id="bigint"))
        self.build(project, "--full-refresh", seed=SEED)
        lines = SEED.splitlines()
        if changed == "columns":
            lines = [f"{line},{5 if place else 'w'}" for place, line in enumerate(lines)]
        elif changed == "types":
            path.write_text(TYPES.format(id="string"))
        else:
            lines[1:2] = [changed] if changed else []
        found = self.build(project, seed="\n".join(lines) + "\n", passes=False)["reader"]
        assert found.status == "error"
        assert "of the seed that it streams from was recreated" in found.message
        assert "Rebuild this model too: `dbt run --full-refresh --select reader`" in found.message
        assert "`dbt build --full-refresh --select given+`" in found.message
        assert self.build(project, "--full-refresh", "--select", "given+")["reader"].status == "success"
        expected = {"1,2025-01-01 00:00:00,a,9": ("a", 1, 9.0), "": None}.get(changed, ("a", 1, 1.5))
        assert self.rows(project) == [*([expected] if expected else []), (None, 2, None)]

    @pytest.mark.thorough
    def test_rows_that_others_took_out_or_put_in(self, project: Any) -> None:
        self.build(project, "--full-refresh", seed=SEED)
        project.run_sql("insert into {schema}.given_rows values (7, timestamp'2025-01-01', 'x', 1)")
        run_dbt(["seed"])
        assert len(self.rows(project, "given_rows")) == 3
        project.run_sql("delete from {schema}.given_rows where id = 1")
        run_dbt(["seed"])
        assert len(self.rows(project, "given_rows")) == 3
        project.run_sql("alter table {schema}.given_rows add column w int")
        run_dbt(["seed"])
        assert len(self.rows(project, "given_rows")[0]) == 4
        run_dbt(["seed"])
        self.build(project, "--full-refresh", "--select", "reader")
