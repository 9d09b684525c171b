"""Names of columns and texts that DESCRIBE hides, or that break out of quotes: whatever is in them, they mean themselves."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from dbt.tests.util import run_dbt, write_file

from dbt.adapters.spark_streaming.util.quoting import literal, quote

ODD = (
    *(
        "#",
        "# col_name",
        "# Partitioning",
        "# Detailed Table Information",
        "Part 0",
        "/p",
        "a`b",
        "`q`",
        " lead",
    ),
    *(
        "trail ",
        'dq"x',
        "it's",
        "new\nline",
        "größe",
        "a.b",
        "x--y",
        "back\\slash",
        "Comment",
    ),
    *("DBT_INTERNAL_SOURCE", "a, b", "f(x)", "{x}", "%s"),
)
LISTED = ", ".join(f"'{{{{ var('v', 'a') }}}}{place}' as {quote(name)}" for place, name in enumerate(ODD))
LISTED = LISTED.replace("{x}", "{{ '{x}' }}")
QUERY = f"select {{{{ var('k', 1) }}}} as `#k`, {LISTED}, named_struct('in-ner', 1, 'a.b', array(named_struct('`', 2))) as s"
TEXT = "ends in \\ and has ' \" -- /* ${spark.app.name} \n{{ '{{ x }}' }} \\n %s ü \\"
SAID = TEXT.replace("{{ '{{ x }}' }}", "{{ x }}")
INCREMENTAL = "{{ config(materialized='incremental', on_schema_change='append_new_columns', …) }}\n"
STRATEGIES = {
    "append": "incremental_strategy='append'",
    "merged": "incremental_strategy='merge', unique_key='#k'",
    "merged_all": "incremental_strategy='merge', unique_key=['`#k`', '/P'], merge_exclude_columns=['# col_name', 'a`b']",
    "merged_some": "incremental_strategy='merge', unique_key='#k', merge_update_columns=['/p', '`# col_name`', '``` q```']",
    "deleted": "incremental_strategy='delete+insert', unique_key=['#k', '/p']",
    "overwritten": "incremental_strategy='insert_overwrite', partition_by='/p'",
    "micro": "incremental_strategy='delete+insert', unique_key='#k', partition_by=['/p', 'a`b', 'bucket(2, `#k`)']",
}
STRATEGIES["merged_some"] = STRATEGIES["merged_some"].replace(", '``` q```'", ", '```q```'")


def documented(name: str, **more: Any) -> dict[str, Any]:
    columns = [{"name": each, "description": f"{each}: {TEXT}".replace("{x}", "")} for each in ("#k", *ODD)]
    return {"name": name, "description": TEXT, "columns": columns, **more}


class TestOddNames:
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        docs = {"+persist_docs": {"relation": True, "columns": True}}
        return {"models": docs, "seeds": docs, "snapshots": docs}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        properties: dict[str, Any] = {
            "tblproperties": {"it's": "C:\\", "on": True, "n": 3},
            "location_root": "{{ env_var('ODD_ROOT', '') or none }}",
        }
        contract = [
            {"name": "#k", "data_type": "int", "constraints": [{"type": "not_null"}]},
            {
                "name": "/p",
                "data_type": "string",
                "constraints": [{"type": "check", "expression": "`/p` <> 'it''s'"}],
            },
            {"name": "s", "data_type": "struct<`in-ner`:int>"},
        ]
        unit = {
            "name": "odd",
            "model": "of_base",
            "given": [
                {
                    "input": "ref('base')",
                    "rows": [{"#": "back\\", "# col_name": "it's", "/p": "${x} \\n", "a`b": None}],
                }
            ],
            "expect": {"rows": [{"#": "back\\", "# col_name": "it's", "/p": "${x} \\n", "a`b": None}]},
        }
        models = [documented(name) for name in ("base", "viewed", "streamed", *STRATEGIES)]
        models += [{"name": "agreed", "config": {"contract": {"enforced": True}}, "columns": contract}]
        config = ", ".join(
            f"{name}={value!r}" for name, value in properties.items() if name != "location_root"
        )
        keyed = "unique_key=['#k', '/p'], constant_domains=['#k', '/p']"
        stream = "{{ config(materialized='streaming_table', changelog=true, " + keyed + ") }}\n"
        return {
            "base.sql": f"{{{{ config(materialized='table', partition_by=['#', '/p'], {config}) }}}}\n{QUERY}",
            "viewed.sql": "select * from {{ ref('base') }}",
            "of_base.sql": "select `#`, `# col_name`, `/p`, `a``b` from {{ ref('base') }}",
            "agreed.sql": "{{ config(materialized='table') }}\n"
            "select 1 as `#k`, '/' as `/p`, named_struct('in-ner', 1) as s",
            "streamed.sql": f"{stream}select `#k`, `/p`, max(`a``b`) as `a``b`, max(`# col_name`) as `# col_name`, "
            "count(*) as n from {{ stream(ref('append')) }} group by `#k`, `/p`",
            **{
                f"{name}.sql": INCREMENTAL.replace("…", config)
                + f"{QUERY}{{% if is_incremental() and var('more', false) %}}, named_struct('in-ner', 1, 'b`', 2) as `#more`"
                "{% endif %}"
                for name, config in STRATEGIES.items()
            },
            "models.yml": yaml.safe_dump({"models": models, "unit_tests": [unit]}),
        }

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {
            "seeded.csv": "#k,/p,a`b,# col_name\n1,it's,\\,x\n",
            "seeds.yml": yaml.safe_dump({"seeds": [documented("seeded", config={"quote_columns": False})]}),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        checked = {"strategy": "check", "unique_key": "#k", "check_cols": ["/p", "`# col_name`"]}
        every = {
            "strategy": "check",
            "unique_key": ["#k", "`#`"],
            "check_cols": "all",
            "hard_deletes": "new_record",
        }
        timed = {"strategy": "timestamp", "unique_key": "`#k` || 'x'", "updated_at": "# at"}
        configs: dict[str, dict[str, Any]] = {"checked-some": checked, "checked_all": every, "timed": timed}
        sources = {name: f"{name}.sql" for name in configs}
        return {
            file: f"{{% snapshot {name} %}}{{{{ config({', '.join(f'{k}={v!r}' for k, v in configs[name].items())}) }}}}\n"
            f"{QUERY}, timestamp'2024-03-04 00:00:00' + make_interval(0, 0, 0, {{{{ var('day', 0) }}}}) as `# at`\n"
            "{% endsnapshot %}"
            for name, file in sources.items()
            if "-" not in name
        } | {
            "checked_some.sql": f"{{% snapshot checked_some %}}{{{{ config(alias='checked-some', "
            f"{', '.join(f'{k}={v!r}' for k, v in checked.items())}) }}}}\n{QUERY}\n{{% endsnapshot %}}"
        }

    def rows(
        self, spark: Any, project: Any, name: str, column: str = "/p", order: str = "#k"
    ) -> list[tuple[Any, ...]]:
        table = f"{quote(project.test_schema)}.{quote(name)}"
        text = f"select {quote(order)}, {quote(column)} from {table} order by all"
        return [tuple(row) for row in spark.sql(text).collect()]

    def run(self, command: str, *arguments: str, **variables: Any) -> Any:
        return run_dbt([command, *arguments, "--vars", yaml.safe_dump(variables)])

    def test_tables_and_strategies(self, spark: Any, project: Any) -> None:
        self.run("run")
        self.run("run", v="b", more=True)
        place = ODD.index("/p")
        assert self.rows(spark, project, "base") == [(1, f"b{place}")]
        assert self.rows(spark, project, "viewed") == [(1, f"b{place}")]
        both = [(1, f"a{place}"), (1, f"b{place}")]
        expected = {"append": both, "merged_all": both, "deleted": both, "overwritten": both}
        for name in STRATEGIES:
            found = spark.table(f"{project.test_schema}.{name}")
            assert tuple(found.columns) == ("#k", *ODD, "s", "#more")
            assert self.rows(spark, project, name) == expected.get(name, [(1, f"b{place}")]), name
            newest = [row for row in found.collect() if row["/p"] == f"b{place}"]
            for row in newest:
                values = [row[place + 1] for place in range(len(ODD))]
                updated = ("/p", "# col_name", "`q`") if name == "merged_some" else ODD
                assert values == [f"{'b' if each in updated else 'a'}{at}" for at, each in enumerate(ODD)], (
                    name
                )
                if name != "merged_some":
                    assert row["#more"].asDict() == {"in-ner": 1, "b`": 2}
        self.run("run", "--select", "merged_all", v="b", k=2)
        assert self.rows(spark, project, "merged_all") == [*both, (2, f"b{place}")]

    def test_stream(self, spark: Any, project: Any) -> None:
        rows = spark.table(f"{project.test_schema}.streamed").orderBy("/p").collect()
        at = ODD.index
        assert [row["a`b"] for row in rows] == [f"a{at('a`b')}", f"b{at('a`b')}"]
        assert [row["# col_name"] for row in rows] == [f"a{at('# col_name')}", f"b{at('# col_name')}"]

    def test_comments(self, spark: Any, project: Any) -> None:
        for name in ("base", "viewed", "streamed", "merged"):
            fields = spark.table(f"{project.test_schema}.{name}").schema.fields
            for field in fields:
                if field.name not in ("s", "#more", "n"):
                    assert field.metadata.get("comment") == f"{field.name}: {SAID}".replace("{x}", ""), (
                        name,
                        field.name,
                    )
        rows = spark.sql(f"describe extended {project.test_schema}.viewed").collect()
        assert [row[1] for row in rows if row[0] == "Comment"][-1] == SAID
        properties = dict(map(tuple, spark.sql(f"show tblproperties {project.test_schema}.base").collect()))
        assert (properties["it's"], properties["on"], properties["n"]) == ("C:\\", "true", "3")

    def test_catalog(self, project: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DBT_WRITE_JSON", "true")
            catalog = run_dbt(["docs", "generate"])
        for name in ("base", "viewed", "merged"):
            (found,) = [node for key, node in catalog.nodes.items() if key.endswith(f".{name}")]
            assert [each for each in found.columns if each != "#more"] == ["#k", *ODD, "s"]
            assert found.metadata.comment == SAID

    def test_unit_test(self, project: Any) -> None:
        (result,) = run_dbt(["test", "--select", "of_base"])
        assert result.status == "pass"

    def test_contract(self, spark: Any, project: Any) -> None:
        write_file(
            "{{ config(materialized='table') }}\nselect 1 as `#k`, \"it's\" as `/p`, named_struct('in-ner', 1) as s",
            *(project.project_root, "models", "agreed.sql"),
        )
        (result,) = run_dbt(["run", "--select", "agreed"], expect_pass=False)
        assert "Constraint is broken: `/p` <> 'it''s', says the contract of agreed." in str(result.message)

    def test_seed(self, spark: Any, project: Any) -> None:
        for _ in range(2):
            run_dbt(["seed"])
            (row,) = spark.table(f"{project.test_schema}.seeded").collect()
            assert row.asDict() == {"#k": 1, "/p": "it's", "a`b": "\\", "# col_name": "x"}

    @pytest.mark.thorough
    def test_snapshots(self, spark: Any, project: Any) -> None:
        self.run("snapshot")
        self.run("snapshot", v="b", day=1)
        self.run("snapshot", v="b", day=1)
        place = ODD.index("/p")
        both = [(1, f"a{place}"), (1, f"b{place}")]
        for name in ("checked-some", "timed"):
            assert self.rows(spark, project, name) == both
        current = spark.table(f"{project.test_schema}.checked_all").where(
            "dbt_valid_to is null and dbt_is_deleted = 'False'"
        )
        assert [row["# col_name"] for row in current.collect()] == [f"b{ODD.index('# col_name')}"]

    def test_merge_names_what_is_not_there(self, project: Any) -> None:
        write_file(
            "{{ config(materialized='incremental', incremental_strategy='merge', unique_key='#k', "
            f"merge_update_columns=['/q']) }}}}\n{QUERY}",
            *(project.project_root, "models", "merged.sql"),
        )
        (result,) = run_dbt(["run", "--select", "merged"], expect_pass=False)
        assert (
            "Model merged: merge_update_columns '/q' is not a column that both its query and its table have"
            in str(result.message)
        )


def test_text_is_itself(spark: Any) -> None:
    for text in ("", "\\", "'", "it's\\", "${spark.app.name}", "\\u0041", "a\nb\t", "%s", "`"):
        assert spark.sql(f"select {literal(text)} as {quote('x`y')}").first()["x`y"] == text
