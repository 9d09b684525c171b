"""The statements that replace rows in one commit."""

import pytest

from dbt.adapters.spark_streaming.query.batch.replace_rows import (
    replace_files_sql,
    replace_keys_sql,
    replace_where_sql,
)

COLUMNS = {"window_end": "timestamp", "n": "bigint", "by_page": "map<string,int>"}


def test_what_meets_a_condition_is_replaced() -> None:
    assert replace_where_sql(
        "db.curves", "new_rows", COLUMNS, "`window_end` > timestamp'1970-01-01T00:00:00Z'"
    ) == (
        "merge into db.curves as DBT_INTERNAL_DEST\n"
        "using (\n"
        "  select explode(sequence(0, 255)) as `old or new`, null as `new window_end`, null as `new n`, "
        "null as `new by_page`\n"
        "  union all\n"
        "  select -1 - pmod(hash(`window_end`, `n`), 256) as `old or new`, `window_end` as `new window_end`, "
        "`n` as `new n`, `by_page` as `new by_page` from new_rows\n"
        ") as DBT_INTERNAL_SOURCE\n"
        "on DBT_INTERNAL_SOURCE.`old or new` = pmod(hash(DBT_INTERNAL_DEST.`window_end`, DBT_INTERNAL_DEST.`n`), 256)\n"
        "  and `window_end` > timestamp'1970-01-01T00:00:00Z'\n"
        "when matched then delete\n"
        "when not matched and DBT_INTERNAL_SOURCE.`old or new` < 0 then insert (`window_end`, `n`, `by_page`)\n"
        "values (DBT_INTERNAL_SOURCE.`new window_end`, DBT_INTERNAL_SOURCE.`new n`, DBT_INTERNAL_SOURCE.`new by_page`)"
    )


def test_what_has_a_new_rows_key_is_replaced_unless_a_predicate_keeps_it() -> None:
    columns = {"id": "int", "msg": "string"}
    assert replace_keys_sql("db.t", "new_rows", columns, ["id"], ["id != 2"]) == (
        "merge into db.t as DBT_INTERNAL_DEST\n"
        "using (\n"
        "  select true as `old or new`, `id` as `key id`, null as `new id`, null as `new msg` "
        "from (select distinct `id` from new_rows)\n"
        "  union all\n"
        "  select false as `old or new`, `id` as `key id`, `id` as `new id`, `msg` as `new msg` from new_rows\n"
        ") as DBT_INTERNAL_SOURCE\n"
        "on DBT_INTERNAL_DEST.`id` <=> DBT_INTERNAL_SOURCE.`key id`\n"
        "  and DBT_INTERNAL_SOURCE.`old or new`\n"
        "  and id != 2\n"
        "when matched then delete\n"
        "when not matched and not DBT_INTERNAL_SOURCE.`old or new` then insert (`id`, `msg`)\n"
        "values (DBT_INTERNAL_SOURCE.`new id`, DBT_INTERNAL_SOURCE.`new msg`)"
    )


@pytest.mark.parametrize("name", ["mark", "new n"])
def test_a_column_of_the_table_may_have_any_name(name: str) -> None:
    """Unqualified it would be ambiguous: the statement's own rows have columns, too."""
    made = replace_where_sql("db.t", "new_rows", {name: "int", "n": "int"}, f"`{name}` > 1")
    assert f"hash(DBT_INTERNAL_DEST.`{name}`, DBT_INTERNAL_DEST.`n`), 256)\n" in made
    assert " as mark" not in made


def test_whole_files_are_replaced_without_a_look_into_them() -> None:
    assert replace_files_sql(
        "db.curves", "new_rows", {"window_end": "timestamp", "n": "bigint"}, "`window_end` > x"
    ) == ("insert into db.curves replace where `window_end` > x\nselect `window_end`, `n` from new_rows")
