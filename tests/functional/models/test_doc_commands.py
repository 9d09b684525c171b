"""The commands of the guides do what the guides say, in the order of each page, on a project like the tutorial's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main

DOCS = Path(__file__).resolve().parents[3] / "docs"
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
MODEL = """
{{{{ config(materialized='window_aggregate', watermark='5 minutes') }}}}

select window_start, window_end, shop, count(*) as orders, sum(cents) as cents{more}
from {{{{ tumble(source('raw', 'orders'), 'ordered_at', '10 minutes') }}}}
group by window_start, window_end, shop
"""
SOURCES = """
sources:
  - name: raw
    tables:
      - name: orders
        config:
          event_time: ordered_at
          meta:
            stream:
              format: json
              options: {path: data/orders}
              schema: order_id bigint, ordered_at timestamp, shop string, cents bigint
"""
NEEDS_MORE = re.compile(r"--target prod|--from-target|^dbt-stream run\b")
"""Commands that aren't run here: of another target, and one that doesn't end."""


def order(number: int, minute: int, shop: str) -> str:
    return f'{{"order_id": {number}, "ordered_at": "2025-06-01 09:{minute:02}:00", "shop": "{shop}", "cents": {number}00}}\n'


class TestCommandsOfTheGuides:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        model = MODEL.format(more="")
        return {"orders_per_shop.sql": model, "orders_copy.sql": model, "sources.yml": SOURCES}

    @pytest.fixture
    def shop(self, project: Any) -> Any:
        """The project, with orders that a first run has read."""
        root = Path(project.project_root)
        (root / "models/orders_per_shop.sql").write_text(MODEL.format(more=""))
        (root / "data/orders").mkdir(parents=True, exist_ok=True)
        (root / "data/orders/1.json").write_text(
            order(1, 1, "Berlin") + order(2, 4, "test") + order(3, 16, "Paris")
        )
        run_dbt(["run", "--full-refresh", "--select", "orders_per_shop"])
        return project

    @staticmethod
    def run_page(project: Any, page: str) -> dict[str, str]:
        """Runs the commands of a page. Returns what each one said."""
        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        said = {}
        for block in BLOCK.findall((DOCS / page).read_text()):
            for line in block.splitlines():
                program, *words = shlex.split(line, comments=True)
                if NEEDS_MORE.search(line):
                    continue
                if program == "dbt":
                    run_dbt(words)
                    continue
                assert program == "dbt-stream"
                if words[:3] == ["state", "clone", "orders_copy"]:
                    CliRunner().invoke(main, [*options, "reset", "orders_copy", "--yes"])
                done = CliRunner().invoke(main, [*options, *words], input="y\n", catch_exceptions=False)
                assert done.exit_code == 0, (line, done.output)
                said[" ".join(words)] = done.output
        return said

    @pytest.mark.thorough
    def test_of_savepoints(self, shop: Any, spark: Any) -> None:
        spark.sql("create namespace if not exists warehouse")
        spark.sql(
            "create or replace table warehouse.all_orders using iceberg as select 1L as order_id, "
            "timestamp'2025-06-01 09:01:00' as ordered_at, 'Berlin' as shop, 100L as cents"
        )
        said = self.run_page(shop, "guides/savepoints.md")
        assert "before-deploy" in said["state savepoint orders_per_shop"]
        spark.sql("drop table warehouse.all_orders purge")
        spark.sql("drop namespace warehouse")

    @pytest.mark.thorough
    def test_of_deployments(self, shop: Any) -> None:
        model = Path(shop.project_root) / "models/orders_per_shop.sql"
        model.write_text(MODEL.format(more=", max(cents) as largest"))
        self.run_page(shop, "guides/blue-green.md")
        row = shop.run_sql("select * from {schema}.orders_per_shop limit 1", fetch="one")
        assert len(row) == 5, "The old version has its name again."

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "page", ["guides/evolve.md", "guides/late-data.md", "guides/testing.md", "operate/troubleshooting.md"]
    )
    def test_of_other_pages(self, shop: Any, page: str) -> None:
        assert self.run_page(shop, page) is not None
