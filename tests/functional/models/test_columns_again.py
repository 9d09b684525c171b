"""A column of a model is dropped and comes again: it is another column, which its readers don't take for the old one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from dbt.cli.main import dbtRunner

from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.project import DbtProject, Selection
from dbt.adapters.spark_streaming.cli.run import run_models
from dbt.adapters.spark_streaming.project import stream_node
from dbt.adapters.spark_streaming.service.health import read_health
from tests.functional.models.test_run import until
from tests.functional.stream.harness import sorted_rows

UPSTREAM = (
    "{{ config(materialized='streaming_table', constant_domains=['k'], changelog=true, "
    "on_schema_change='sync_all_columns', on_new_metric='backfill') }}\n"
    "select k, {% if var('s', true) %}sum(v) as s, {% endif %}count(*) as n "
    "from {{ stream(source('raw', 'src')) }} group by k"
)
READERS = {
    "total": "select sum(s) as s, count(*) as c from {}",
    "by_n": "select n, sum(s) as s from {} group by n",
    "top": "select k, s from {} order by s desc, k limit 2",
    "plain": "select k, s, n from {} where n > 0",
    "joined": "select a.k, a.s, b.c from {} as a join {{ stream(ref('counts')) }} as b on a.n = b.n",
    "star": "select * from {}",
    "counts": "select n, count(*) as c from {} group by n",
}


AGAIN = "s of the table lakehouse.{}.g__changes that it streams from is another column than when it was read"


@pytest.mark.thorough
class TestColumnsThatComeAgain:
    @pytest.fixture(scope="class")
    def models(self, unique_schema: str) -> dict[str, str]:
        source = {"name": "raw", "schema": unique_schema, "tables": [{"name": "src"}]}
        made = {"sources.yml": yaml.safe_dump({"sources": [source]}), "g.sql": UPSTREAM}
        for name, text in READERS.items():
            domains = {"total": "", "joined": "constant_domains=['k']"}.get(
                name, "constant_domains=['k', 'n']"
            )
            config = f"{{{{ config(materialized='streaming_table', on_schema_change='sync_all_columns', {domains}) }}}}\n"
            made[f"{name}.sql"] = config + text.replace("{}", "{{ stream(ref('g')) }}", 1)
        return made

    def test_readers_are_right_or_refused(self, spark: Any, project: Any) -> None:
        schema = project.test_schema
        spark.sql(f"create table {schema}.src (k string, v bigint) using iceberg")

        def run(*options: str, **variables: Any) -> dict[str, str]:
            """What `dbt run` says of the models that fail."""
            found = dbtRunner().invoke(["run", *options, "--vars", yaml.safe_dump(variables)]).result
            return {each.node.name: str(each.message) for each in found if each.status != "success"}  # type: ignore

        def add(rows: str) -> None:
            spark.sql(f"insert into {schema}.src values {rows}")

        def are_right() -> set[str]:
            counts = f"{schema}.counts"
            return {
                name
                for name, text in READERS.items()
                if sorted_rows(
                    spark.sql(
                        text.replace("{}", f"{schema}.g", 1).replace("{{ stream(ref('counts')) }}", counts)
                    ).collect()
                )
                == sorted_rows(spark.table(f"{schema}.{name}").collect())
            }

        def is_refused(found: dict[str, str]) -> bool:
            return {*found} == {*READERS} - {"counts"} and all(
                AGAIN.format(schema) in text for text in found.values()
            )

        add("('x', 10), ('y', 5), ('z', 1)")
        assert not run() and are_right() == {*READERS}
        # None of the readers sees that it was gone.
        add("('x', 1)")
        assert not run("--select", "g", s=False)
        assert not run("--select", "g")
        add("('y', 100)")
        for _ in range(2):
            assert is_refused(run())
        assert are_right() == {"counts"}
        with follows(project) as states:
            until(lambda: all(states(name) == "failed" for name in READERS if name != "counts"))
            add("('y', 1000)")
            until(
                lambda: (
                    are_right() == {"counts"} and spark.table(f"{schema}.g").where("s = 1105").count() == 1
                )
            )
        assert is_refused(run())
        assert not run("--full-refresh", "--exclude", "g") and are_right() == {*READERS}
        add("('z', 100)")
        assert not run() and are_right() == {*READERS}


@contextmanager
def follows(project: Any) -> Iterator[Callable[[str], str]]:
    """`dbt-stream run`, and how each of its models is."""
    told = DbtProject(Path(project.project_root), Path(project.profiles_dir), None, None, None)
    models = {
        name: stream_node.stream_model(told.streaming_model(name), told.environment())
        for name in ("g", *READERS)
    }

    def state(name: str) -> str:
        found = read_health(models[name])
        return "" if found is None else found.state

    thread = threading.Thread(target=lambda: run_models(told, Selection(), "300 ms"))
    thread.start()
    try:
        yield state
    finally:
        options = ["--project-dir", project.project_root, "--profiles-dir", project.profiles_dir]
        for name in ("counts", "g"):
            CliRunner().invoke(main, [*options, "stop", name])
        thread.join(60)
