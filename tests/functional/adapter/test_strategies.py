"""Incremental strategies: what each leaves in the table, in how many commits, and how one is added."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt

OWN = """
{% macro get_incremental_newest_only_sql(arguments) %}
  delete from {{ arguments['target_relation'] }}
{% endmacro %}
"""


def model(query: str, then: str, **config: Any) -> str:
    settings = ", ".join(f"{key}={value!r}" for key, value in config.items())
    return (
        f"{{{{ config(materialized='incremental', {settings}) }}}}\n"
        f"{{% if is_incremental() %}} {then} {{% else %}} {query} {{% endif %}}"
    )


def values(*rows: str, columns: str = "id, day, msg") -> str:
    return f"select * from values {', '.join(rows)} as v({columns})"


FIRST = values("(1, 1, 'a')", "(2, 1, 'b')", "(2, 1, 'bb')", "(3, 2, 'c')")
THEN = values("(2, 1, 'B')", "(4, 3, 'D')")
MODELS = {
    "appended.sql": model(FIRST, THEN, incremental_strategy="append"),
    "deleted_and_inserted.sql": model(FIRST, THEN, incremental_strategy="delete+insert", unique_key="id"),
    "by_two_columns.sql": model(FIRST, THEN, incremental_strategy="delete+insert", unique_key=["id", "day"]),
    "partitions.sql": model(FIRST, THEN, incremental_strategy="insert_overwrite", partition_by=["day"]),
    "whole.sql": model(FIRST, THEN, incremental_strategy="insert_overwrite"),
    "partitions_of_fewer.sql": model(
        FIRST,
        values("(5, 1)", columns="id, day"),
        incremental_strategy="insert_overwrite",
        partition_by=["day"],
    ),
    "whole_of_fewer.sql": model(
        FIRST, values("('D', 4)", columns="msg, id"), incremental_strategy="insert_overwrite"
    ),
    # Its first line runs it after one that overwrites partitions, in the same session.
    "whole_of_none.sql": "-- depends_on: {{ ref('partitions') }}\n"
    + model(FIRST, f"select * from ({THEN}) where id > 9", incremental_strategy="insert_overwrite"),
    "own.sql": model(FIRST, THEN, incremental_strategy="newest_only"),
    "one_more_column.sql": model(
        FIRST,
        values("(4, 3, 'D', true)", columns="id, day, msg, is_new"),
        incremental_strategy="append",
        on_schema_change="append_new_columns",
    ),
    "one_column_less.sql": model(FIRST, values("(4, 'D')", columns="id, msg"), incremental_strategy="append"),
}
_STRUCT = "named_struct('{}', {}, '{}', {})"
_NESTED = "select {0} as id, {1} as s, array({1}) as l, map('k', {1}) as m"
FIELDS = _NESTED.format(1, _STRUCT.format("a", 1, "b", 100))
FIELDS_IN_ANOTHER_ORDER = _NESTED.format(2, _STRUCT.format("b", 200, "a", 2))
NESTED = {
    "added": {"incremental_strategy": "append"},
    "partitioned": {"incremental_strategy": "insert_overwrite", "partition_by": "id"},
    "replaced": {"incremental_strategy": "insert_overwrite"},
    "merged": {"incremental_strategy": "merge", "unique_key": "id"},
    "exchanged": {"incremental_strategy": "delete+insert", "unique_key": "id"},
}
BAD = {
    "not_unique.sql": model(
        values("(1, 1, 'a')"),
        values("(1, 2, 'b')", "(1, 3, 'c')"),
        incremental_strategy="merge",
        unique_key="id",
    ),
    "no_partition.sql": model(
        FIRST,
        values("(5, 'x')", columns="id, msg"),
        incremental_strategy="insert_overwrite",
        partition_by=["day"],
    ),
    "other_partitions.sql": "{{ config(partition_by=(['day'] if var('again', false) else none)) }}"
    + model(FIRST, THEN, incremental_strategy="insert_overwrite"),
    "no_key.sql": model(FIRST, THEN, incremental_strategy="delete+insert", unique_key="idd"),
}


class TestStrategies:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {**MODELS, **BAD}

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"own.sql": OWN}

    @pytest.fixture(scope="class")
    def messages(self, project: Any) -> dict[str, str]:
        """What the second of two runs says."""
        run_dbt(["run"])
        results = run_dbt(["run", "--vars", "again: true"], expect_pass=False)
        return {result.node.name: str(result.message) for result in results}

    def rows(self, project: Any, table: str) -> list[tuple[Any, ...]]:
        found = project.run_sql(f"select * from {project.test_schema}.{table}", fetch="all")
        return sorted(tuple(row) for row in found)

    def commits(self, project: Any, table: str) -> int:
        return len(project.run_sql(f"select * from {project.test_schema}.{table}.snapshots", fetch="all"))

    OLD = [(1, 1, "a"), (2, 1, "b"), (2, 1, "bb"), (3, 2, "c")]  # noqa: RUF012
    NEW = [(2, 1, "B"), (4, 3, "D")]  # noqa: RUF012

    def test_append(self, project: Any, messages: dict[str, str]) -> None:
        assert self.rows(project, "appended") == sorted(self.OLD + self.NEW)

    @pytest.mark.parametrize("name", ["deleted_and_inserted", "by_two_columns"])
    def test_delete_and_insert_in_one_commit(self, project: Any, messages: dict[str, str], name: str) -> None:
        assert self.rows(project, name) == sorted([(1, 1, "a"), (3, 2, "c"), *self.NEW])
        assert self.commits(project, name) == 2

    def test_partitions_that_have_new_rows_are_overwritten(
        self, project: Any, messages: dict[str, str]
    ) -> None:
        assert self.rows(project, "partitions") == [(2, 1, "B"), (3, 2, "c"), (4, 3, "D")]

    def test_without_partitions_the_whole_table_is(self, project: Any, messages: dict[str, str]) -> None:
        assert self.rows(project, "whole") == self.NEW

    def test_what_is_overwritten_by_rows_with_a_column_less(
        self, project: Any, messages: dict[str, str]
    ) -> None:
        found = project.run_sql(f"select * from {project.test_schema}.partitions_of_fewer", fetch="all")
        assert set(map(tuple, found)) == {(5, 1, None), (3, 2, "c")}
        found = project.run_sql(f"select * from {project.test_schema}.whole_of_fewer", fetch="all")
        assert [tuple(row) for row in found] == [(4, None, "D")]

    def test_no_rows_overwrite_the_whole_table(self, project: Any, messages: dict[str, str]) -> None:
        assert self.rows(project, "whole_of_none") == []

    def test_a_config_that_was_edited_since(self, project: Any, messages: dict[str, str]) -> None:
        said = "Model other_partitions: config 'partition_by' is day, and the table is partitioned by nothing"
        assert said in messages["other_partitions"]
        assert self.rows(project, "other_partitions") == self.OLD

    def test_rows_that_say_no_partition(self, project: Any, messages: dict[str, str]) -> None:
        assert (
            "Model no_partition: config 'partition_by' names day, which isn't a column of the query"
            in messages["no_partition"]
        )
        assert self.rows(project, "no_partition") == self.OLD

    def test_a_strategy_of_the_projects_own(self, project: Any, messages: dict[str, str]) -> None:
        assert self.rows(project, "own") == []

    def test_a_new_column(self, project: Any, messages: dict[str, str]) -> None:
        assert (4, 3, "D", True) in self.rows(project, "one_more_column")

    def test_a_column_the_query_has_no_more(self, project: Any, messages: dict[str, str]) -> None:
        found = project.run_sql("select day from {schema}.one_column_less where id = 4", fetch="all")
        assert [tuple(row) for row in found] == [(None,)]

    def test_a_key_that_isnt_unique(self, project: Any, messages: dict[str, str]) -> None:
        assert "The unique_key isn't unique" in messages["not_unique"]
        assert self.rows(project, "not_unique") == [(1, 1, "a")]

    def test_a_key_that_isnt_there(self, project: Any, messages: dict[str, str]) -> None:
        assert "Model no_key: unique_key 'idd' is not a column" in messages["no_key"]


class TestFieldsInAnotherOrder:
    """Spark inserts structs by position."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        renamed = f"select 2 as id, {_STRUCT.format('a', 2, 'c', 200)} as s, l, m from ({FIELDS})"
        return {
            **{f"{name}.sql": model(FIELDS, FIELDS_IN_ANOTHER_ORDER, **NESTED[name]) for name in NESTED},
            "renamed.sql": model(FIELDS, renamed, incremental_strategy="append"),
        }

    def test_they_are_found_by_name(self, project: Any) -> None:
        run_dbt(["run"])
        results = {each.node.name: each for each in run_dbt(["run"], expect_pass=False)}
        for name in NESTED:
            found = project.run_sql(
                f"select s.a, s.b, l[0].a, l[0].b, m['k'].a, m['k'].b from {project.test_schema}.{name} where id = 2",
                fetch="all",
            )
            assert [tuple(row) for row in found] == [(2, 200) * 3], name
        message = results["renamed"].message
        assert (
            "its query gives s as STRUCT<A:INT,C:INT>, and in its table it is STRUCT<A:INT,B:INT>" in message
        )
        assert project.run_sql(f"select count(*) from {project.test_schema}.renamed", fetch="one")[0] == 1
