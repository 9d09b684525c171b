"""A model that is renamed in case only is another model, where the catalog tells the two names apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.models.conftest import sources

BY_PAGE = """{{ config(materialized='streaming_table', constant_domains=['page']) }}
select page, count(*) as n from {{ stream(source('raw', 'events')) }} group by page"""
MODELS = {
    "Pages": BY_PAGE,
    "Grown": "{{ config(materialized='incremental') }} select 1 as one",
    "Whole": "{{ config(materialized='table') }} select 1 as one",
    "Seen": "{{ config(materialized='view') }} select 1 as one",
}


@pytest.mark.thorough
class TestRenamedInCase:
    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        return {"sources.yml": sources(events), **{f"{name}.sql": text for name, text in MODELS.items()}}

    def test_renamed(self, spark: Any, project: Any) -> None:
        schema, folder = project.test_schema, Path(project.project_root) / "models"
        run_dbt(["run"])
        before = sorted(map(tuple, spark.table(f"{schema}.Pages").collect()))
        for name in MODELS:
            (folder / f"{name}.sql").rename(folder / f"{name.lower()}.sql")
        for number in (1, 2):
            run_dbt(["run"])
            assert sorted(map(tuple, spark.table(f"{schema}.pages").collect())) == before
            assert spark.table(f"{schema}.grown").count() == number
            assert spark.table(f"{schema}.whole").count() == spark.table(f"{schema}.seen").count() == 1
        run_dbt(["run", "--full-refresh"])
        assert sorted(map(tuple, spark.table(f"{schema}.pages").collect())) == before
        assert sorted(map(tuple, spark.table(f"{schema}.Pages").collect())) == before
