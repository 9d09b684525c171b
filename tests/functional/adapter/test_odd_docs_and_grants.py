"""Descriptions with any characters, of relations and columns with any names, are comments that read the same; grants that
Spark can't make are told before anything is built."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from dbt.tests.util import run_dbt

ALIASES = ("a b", "a`b", "#x", "select", "a'b", "über-x")
KINDS = {"table": "ta", "view": "vi", "incremental": "in", "streaming_table": "st"}
COLUMNS = ("a b", "we`ird", "select", "#h", "plain")
SAID = "it's a \"text\" \\ with \\n ${env:HOME} `tick`\na line\ta tab -- no /* c */ ; 'q' \\'"
QUERY = "select " + ", ".join(f"k as `{name.replace('`', '``')}`" for name in COLUMNS)
NAMES = {f"m{n}_{kind}": (alias, kind) for n, alias in enumerate(ALIASES) for kind in KINDS}


@pytest.mark.thorough
class TestDocsOfAnyText:
    @pytest.fixture(scope="class")
    def models(self, unique_schema: str) -> dict[str, str]:
        source = {"name": "raw", "schema": unique_schema, "tables": [{"name": "src"}]}
        made = {"sources.yml": yaml.safe_dump({"sources": [source]})}
        described = []
        for name, (alias, kind) in NAMES.items():
            read = "source('raw', 'src')" if kind != "streaming_table" else "stream(source('raw', 'src'))"
            config = f"materialized={kind!r}, alias={self.alias(alias, kind)!r}"
            made[f"{name}.sql"] = (
                f"{{{{ config({config}, persist_docs={{'relation': true, 'columns': true}}) }}}}\n"
                f"{QUERY} from {{{{ {read} }}}}"
            )
            columns = [{"name": column, "description": SAID + column} for column in COLUMNS]
            described.append({"name": name, "description": SAID + name, "columns": columns})
        return made | {"schema.yml": yaml.safe_dump({"models": described})}

    def alias(self, alias: str, kind: str) -> str:
        return f"{alias} {KINDS[kind]}"

    def test_comments_are_the_descriptions(self, spark: Any, project: Any) -> None:
        schema = project.test_schema
        spark.sql(f"create table {schema}.src using iceberg as select 'x' as k")
        for _ in range(2):
            run_dbt(["run"])
            for name, (alias, kind) in NAMES.items():
                table = self.alias(alias, kind).replace("`", "``")
                rows = spark.sql(f"describe extended {schema}.`{table}`").collect()
                found = {row[0]: row[2] for row in rows if row[0] in COLUMNS}
                assert found == {column: SAID + column for column in COLUMNS}, name
                assert [row[1] for row in rows if row[0] == "Comment"] == [SAID + name]


class TestGrantsThatCanNotBeMade:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        text = "{{ config(materialized=…, grants={'select': ['me', 'o`dd one']}) }}\nselect 1 as a"
        return {f"{kind}_.sql": text.replace("…", repr(kind)) for kind in ("table", "view", "incremental")}

    def test_nothing_is_built(self, spark: Any, project: Any) -> None:
        for result in run_dbt(["run"], expect_pass=False):
            said = f"Node {result.node.name}: its config 'grants' asks for GRANT, a statement that Spark doesn't have"
            assert said in result.message and "SQLSTATE" not in result.message
            assert not spark.catalog.tableExists(f"{project.test_schema}.{result.node.name}")
