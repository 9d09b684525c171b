"""A model is edited as its author would: a metric more, one fewer, and `dbt run`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from dbt.adapters.spark_streaming.cli.commands import main
from tests.functional.models.conftest import sources, write_events

BEFORE = "count(*) as views, sum(amount) as amount"
AFTER = "count(distinct device) as devices, count(*) as views, max(amount) as largest"
WINDOWS = """
select window_start, window_end, page, {items}
from {{{{ tumble(source('raw', 'events'), 'ts', '1 hour') }}}}
group by window_start, window_end, page
"""
GROUPS = "select page, {items} from {{{{ stream(source('raw', 'events')) }}}} as e group by page"
TOTAL = """
{{ config(materialized='streaming_table', constant_domains=['page']) }}
select page, sum(views) as views from {{ stream(ref('pages')) }} group by page
"""
OF_GROUPS = "constant_domains=['page']"
CONFIGS = {
    "hours": (WINDOWS, ""),
    "pages": (GROUPS, OF_GROUPS),
    "synced": (GROUPS, f"{OF_GROUPS}, on_schema_change='sync_all_columns'"),
    "passed_over": (GROUPS, f"{OF_GROUPS}, on_schema_change='ignore'"),
    "strict": (GROUPS, f"{OF_GROUPS}, on_schema_change='fail'"),
    "frozen": (GROUPS, f"{OF_GROUPS}, on_state_change='fail'"),
}


def model(name: str, items: str, more: str = "") -> str:
    text, config = CONFIGS[name]
    settings = ", ".join(each for each in ("materialized='streaming_table'", config, more) if each)
    return f"{{{{ config({settings}) }}}}\n{text.format(items=items)}"


class EditedModels:
    """A project with some of the models, in which all are edited."""

    NAMES: tuple[str, ...] = ()

    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        return {
            **{f"{name}.sql": model(name, BEFORE) for name in self.NAMES},
            **({"total.sql": TOTAL} if "pages" in self.NAMES else {}),
            "sources.yml": sources(events),
        }

    @staticmethod
    def command(project: Any, *arguments: str) -> Any:
        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        done = CliRunner().invoke(main, [*options, "state", *arguments], catch_exceptions=False)
        return done

    def shown(self, project: Any, *arguments: str) -> dict[str, Any]:
        done = self.command(project, *arguments, "--json")
        assert done.exit_code == 0, done.output
        return dict(json.loads(done.stdout))

    def edit(self, project: Any, items: str, more: str = "") -> None:
        for name in self.NAMES:
            write_file(model(name, items, more), project.project_root, "models", f"{name}.sql")

    @staticmethod
    def rows(project: Any, spark: Any, table: str) -> list[dict[str, Any]]:
        relation = f"{project.test_schema}.{table}"
        return [row.asDict() for row in spark.sql(f"select * from {relation}").orderBy("page").collect()]

    def add(self, spark: Any, events: Path) -> None:
        write_events(
            spark,
            events,
            "d",
            "('2024-03-04 01:06:00', 'p2', 'd5', 7), ('2024-03-04 01:07:00', 'p1', 'd1', 8)",
        )


class TestAnEditedModel(EditedModels):
    NAMES = ("hours", "pages")

    def test_a_metric_more_and_one_fewer(self, project: Any, spark: Any, events: Path) -> None:
        assert self.command(project, "show", "hours").exit_code == 2
        run_dbt(["run"])
        before = {name: self.rows(project, spark, name) for name in self.NAMES}
        assert {row["page"]: row["amount"] for row in before["pages"]} == {"p1": 22, "p2": 2}

        self.edit(project, AFTER)
        found = self.shown(project, "diff", "hours")
        assert (found["verdict"], found["kept"], found["new"], found["removed"]) == (
            "migrated",
            ["COUNT(*)"],
            ["COUNT(DISTINCT device)", "MAX(amount)"],
            ["SUM(amount)"],
        )
        assert found["state"]["drop"] == ["sum_amount"]
        assert set(found["state"]["add"]) == {"max_amount", "device", "count_distinct_device_in"}
        assert found["table"] == {"add": {"devices": "bigint", "largest": "int"}, "drop": []}
        assert self.rows(project, spark, "hours") == before["hours"]

        self.add(spark, events)
        _, log = run_dbt_and_capture(["run"])
        assert (
            "Model hours: its state continues with the changed query (COUNT(*) is kept; new from here on: "
            "COUNT(DISTINCT device), MAX(amount); removed: SUM(amount))" in log
        )

        # The rows that are there stay; what is new counts what came since.
        pages = {row["page"]: row for row in self.rows(project, spark, "pages")}
        assert pages["p1"] == {"page": "p1", "views": 6, "amount": None, "devices": 1, "largest": 8}
        assert pages["p2"] == {"page": "p2", "views": 2, "amount": None, "devices": 1, "largest": 7}
        assert [row["views"] for row in self.rows(project, spark, "total")] == [6, 2]
        columns = spark.table(f"{project.test_schema}.pages__changes").columns
        assert columns == ["page", "views", "amount", "devices", "largest", "_change_type", "_batch_id"]

        # The windows that were open have both.
        run_dbt(["run", "--select", "hours", "--vars", "{flush: true}"])
        last = self.rows(project, spark, "hours")
        counted = [(row["views"], row["devices"], row["largest"]) for row in last]
        assert [row for row in counted if row[1] is not None] == [(2, 1, 8), (1, 1, 7)]
        assert self.shown(project, "diff", "hours")["verdict"] == "goes on"

    def test_what_is_in_a_state(self, project: Any) -> None:
        found = self.shown(project, "show", "pages", "--key", "page=p1")
        assert found["rows"] == sum(part["rows"] for part in found["parts"]) > 0
        names = [part["name"] for part in found["parts"]]
        assert [re.sub("_[0-9a-f]{10}", "", name) for name in names] == [
            "group_distinct_device",
            "group_groups",
        ]
        what = {column["name"]: column["what"] for column in found["columns"]}
        assert what["page"] == "the key page" and what["count_all"] == "COUNT(*)"
        assert all(row["page"] == "p1" for rows in found["sample"].values() for row in rows)
        printed = self.command(project, "show", "pages", "--sample", "1").stdout
        assert names[1] in printed and "max_amount" in printed
        assert "has no column pag;" in self.command(project, "show", "pages", "--key", "pag=p1").stderr
        assert "is no key" in self.command(project, "show", "pages", "--key", "page").stderr
        assert "There is no streaming model 'nothing'" in self.command(project, "show", "nothing").stderr

    def test_what_is_refused(self, project: Any) -> None:
        self.edit(project, AFTER, "on_new_metric='all'")
        results = run_dbt(["run", "--select", "pages"], expect_pass=False)
        assert "config 'on_new_metric' is 'all'; write 'from_now' or 'backfill'" in str(results[0].message)
        edited = model("hours", AFTER).replace("window_end, page,", "window_end, device as page,")
        write_file(
            edited.replace("by window_start, window_end, page", "by window_start, window_end, device"),
            project.project_root,
            "models",
            "hours.sql",
        )
        found = self.shown(project, "diff", "hours")
        assert found["verdict"] == "refused"
        assert "the group key page is gone; the group key device is new" in found["reason"]
        assert "--full-refresh" in found["reason"]


@pytest.mark.thorough
class TestAnEditedModelWithItsPast(TestAnEditedModel):
    """What comes after the tests of the class above."""

    def test_a_metric_with_its_past(self, project: Any, spark: Any, events: Path) -> None:
        write_events(spark, events, "e", "('2024-03-04 01:20:00', 'p1', 'd6', 9), (null, 'p1', 'd6', 9)")
        items = f"{AFTER}, sum(amount) filter (where device <> 'd1') as others, avg(amount) as mean"
        for name in ("hours", "pages"):
            write_file(
                model(name, items, "on_new_metric='backfill'"), project.project_root, "models", f"{name}.sql"
            )
            found = self.shown(project, "diff", name)
            assert found["verdict"] == "migrated"
            assert found["history"] == "4 files of raw.events"
        assert "computed from 4 files of raw.events" in self.command(project, "diff", "pages").stdout
        before = self.rows(project, spark, "hours")
        _, log = run_dbt_and_capture(["run", "--select", "hours", "pages"])
        assert (
            "reads 4 files of raw.events again, for what SUM(amount) FILTER(WHERE device <> 'd1'), AVG(amount)"
            in log
        )
        files = f"select * from parquet.`{events}/*`"
        expected = spark.sql(
            f"select page, {items} from ({files}) group by page order by page".replace(
                # These had no past.
                "count(distinct device)",
                "count(distinct device) filter (where ts > '2024-03-04 01:05:30' or ts is null)",
            )
        ).collect()
        pages = self.rows(project, spark, "pages")
        assert [(row["others"], row["mean"]) for row in pages] == [
            (row["others"], row["mean"]) for row in expected
        ]
        assert [row["views"] for row in pages] == [row["views"] for row in expected]
        after = self.rows(project, spark, "hours")
        # What was put out stays.
        assert sorted(map(repr, after)) == sorted(
            repr({**row, "others": None, "mean": None}) for row in before
        )


@pytest.mark.thorough
class TestWhatConfigsSayOfAnEdit(EditedModels):
    NAMES = ("synced", "passed_over", "strict", "frozen")

    def test_columns_follow_are_passed_over_or_stop_the_run(
        self, project: Any, spark: Any, events: Path
    ) -> None:
        run_dbt(["run"])
        before = {name: self.rows(project, spark, name) for name in self.NAMES}
        self.edit(project, AFTER)
        assert self.shown(project, "diff", "synced")["table"]["drop"] == ["amount"]
        printed = self.command(project, "diff", "strict").stdout
        assert "The next run stops" in printed and "the query gives devices, which the table lacks" in printed
        self.add(spark, events)
        results = run_dbt(["run"], expect_pass=False)
        told = {each.node.name: str(each.message) for each in results if each.status == "error"}
        assert sorted(told) == ["frozen", "strict"]
        assert "the table has amount, which the query doesn't give" in told["strict"]
        assert "its config on_state_change is 'fail'" in told["frozen"]
        synced = {row["page"]: row for row in self.rows(project, spark, "synced")}
        assert synced["p1"] == {"page": "p1", "views": 6, "devices": 1, "largest": 8}
        assert self.rows(project, spark, "passed_over")[0] == {"page": "p1", "views": 6, "amount": None}
        for name in ("strict", "frozen"):
            assert self.rows(project, spark, name) == before[name]
