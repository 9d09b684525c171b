"""What is built again and again doesn't leave a copy of itself each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.stream.iceberg import maintenance
from dbt.adapters.spark_streaming.stream.iceberg.maintenance import PROPERTIES

BATCH = "{{{{ config(materialized='{kind}') }}}}\nselect id as k, repeat('x', 100) as v from range(10)\n"


def files_of(spark: Any, name: str) -> list[Path]:
    """The data files in a table's folder."""
    where = spark.sql(f"describe extended {name}").where("col_name = 'Location'").first()[1]
    return sorted(Path(str(where).removeprefix("file:")).rglob("*.parquet"))


@pytest.mark.usefixtures("project")
class TestBatchModels:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "whole.sql": BATCH.format(kind="table"),
            "more.sql": BATCH.format(kind="incremental"),
            "kept.sql": BATCH.format(kind="table"),
        }

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"cities.csv": "id,name\n1,Berlin\n"}

    @pytest.fixture(scope="class")
    def tests(self) -> dict[str, str]:
        return {"bad.sql": "select id from range(10)"}

    @pytest.fixture
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(maintenance, "MAX_SNAPSHOT_AGE", 0)
        yield

    def test_copies_go(self, project: Any, spark: Any, soon: None) -> None:
        schema = project.test_schema
        for _ in range(2):
            assert len(run_dbt(["run", "--full-refresh"])) == 3
        for name in ("whole", "more"):
            known = spark.table(f"{schema}.{name}.files").count()
            assert len(files_of(spark, f"{schema}.{name}")) == known, "of a full refresh nothing is left"
        spark.sql(f"alter table {schema}.kept create branch audit")
        spark.sql(
            f"alter table {schema}.more set tblproperties ('history.expire.min-snapshots-to-keep' = '2')"
        )
        for _ in range(3):
            run_dbt(["run"])
        assert spark.table(f"{schema}.whole.snapshots").count() == 1
        assert len(files_of(spark, f"{schema}.whole")) == spark.table(f"{schema}.whole.files").count()
        assert spark.table(f"{schema}.more.snapshots").count() == 2
        assert spark.sql(f"select * from {schema}.kept version as of 'audit'").count() == 10
        run_dbt(["run", "--full-refresh", "--select", "kept"])
        assert len(files_of(spark, f"{schema}.kept")) > spark.table(f"{schema}.kept.files").count(), (
            "a branch has its files: they stay on the disk"
        )

    def test_old_metadata_files_go(
        self, project: Any, spark: Any, soon: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(PROPERTIES, "write.metadata.previous-versions-max", "2")
        run_dbt(["run", "--full-refresh", "--select", "whole", "more"])
        for _ in range(3):
            run_dbt(["run", "--select", "whole", "more"])
        for name in ("whole", "more"):
            (folder,) = {file.parent.parent for file in files_of(spark, f"{project.test_schema}.{name}")}
            assert len([*folder.glob("metadata/*.metadata.json")]) == 3, name

    @pytest.mark.thorough
    def test_copies_of_seeds_and_of_failures_go(self, project: Any, spark: Any, soon: None) -> None:
        for _ in range(3):
            run_dbt(["seed", "--full-refresh"])
            run_dbt(["test", "--store-failures"], expect_pass=False)
        for name in (f"{project.test_schema}.cities", f"{project.test_schema}_dbt_test__audit.bad"):
            assert len(files_of(spark, name)) == spark.table(f"{name}.files").count() > 0

    def test_files_of_others_stay(self, project: Any, spark: Any, tmp_path: Path, soon: None) -> None:
        """A table may have been given files that lie elsewhere."""
        schema, catalog = project.test_schema, spark.conf.get("spark.sql.defaultCatalog")
        run_dbt(["run", "--full-refresh", "--select", "whole"])
        spark.range(3).selectExpr("id as k", "'mine' as v").write.parquet(str(tmp_path / "mine"))
        mine = sorted((tmp_path / "mine").glob("*.parquet"))
        spark.sql(
            f"call {catalog}.system.add_files(table => '{schema}.whole', source_table => '`parquet`.`{tmp_path}/mine`')"
        )
        run_dbt(["run", "--full-refresh", "--select", "whole"])
        assert sorted((tmp_path / "mine").glob("*.parquet")) == mine
        spark.sql(
            f"call {catalog}.system.add_files(table => '{schema}.whole', source_table => '`parquet`.`{tmp_path}/mine`')"
        )
        run_dbt(["run", "--select", "whole"])
        run_dbt(["run", "--select", "whole"])
        assert sorted((tmp_path / "mine").glob("*.parquet")) == mine
