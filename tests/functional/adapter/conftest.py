"""What dbt's own test classes need to know of this adapter."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator
from typing import Any

import pytest
import sqlparse

from dbt.adapters.spark_streaming.impl import SparkStreamingAdapter

# Postgres' words for what Spark says otherwise, or not at all.
WORDS = {
    r"--[^\n]*": "",
    r"\b(text|(character varying|varchar)(\(\d+\))?)\b(?!\()": "string",
    r"\btimestamp with(out)? time zone": "timestamp",
    r"\bbigserial": "bigint",
    r'"(\w+)"': r"`\1`",
    r"`?\bNone`?\.": "",
    r"\bdefault (null|'\w+')": "",
    r" not null primary key| primary key": "",
}
INSERT = re.compile(r"\s*insert\s+into\s+([^\s(]+)\s*(?:\(([^)]*)\))?\s*values(.*)", re.I | re.S)
DROP_SCHEMA = re.compile(r"\s*drop\s+schema\s+if\s+exists\s+(\S+)\s+cascade", re.I)


@pytest.fixture(scope="class")
def profile_user() -> str:
    """Who owns tables: Iceberg notes the user of the process."""
    return getpass.getuser()


@pytest.fixture(scope="module", autouse=True)
def fixtures_in_postgres_words() -> Iterator[None]:
    """Say in Spark's words what dbt's fixtures say in Postgres'.

    Several statements at once, types such as TEXT, names in double quotes, texts put into columns
    of dates. Only for what the fixtures run beside dbt (``project.run_sql``); what is tested goes
    its own way.
    """
    original = SparkStreamingAdapter.run_sql_for_tests

    def run(self: SparkStreamingAdapter, sql: str, fetch: Any, conn: Any) -> Any:
        result = None
        for statement in sqlparse.split(sql) if ";" in sql.strip().rstrip(";") else [sql]:
            if statement.strip(" \n;"):
                result = run_one(self, statement.strip().rstrip(";"), fetch, conn)
        return result

    def run_one(self: SparkStreamingAdapter, sql: str, fetch: Any, conn: Any) -> Any:
        if schema := DROP_SCHEMA.match(sql):
            self.drop_schema(self.Relation.create(schema=schema[1]))
            return None
        for postgres, spark in WORDS.items():
            sql = re.sub(postgres, spark, sql, flags=re.I)
        return original(self, with_casts(self, sql) if INSERT.match(sql) else sql, fetch, conn)

    def with_casts(self: SparkStreamingAdapter, sql: str) -> str:
        insert = INSERT.match(sql)
        assert insert is not None
        table, listed, values = insert.groups()
        _, described = self.execute(f"describe table {table}", fetch=True)
        types = {name: kind for name, kind, _ in described}
        names = [name.strip(" `\n") for name in listed.split(",")] if listed else list(types)
        casts = ", ".join(f"cast({name} as {types[name]})" for name in names)
        columns = ", ".join(names)
        return f"insert into {table} ({columns}) select {casts} from values {values} as v({columns})"

    SparkStreamingAdapter.run_sql_for_tests = run
    yield
    SparkStreamingAdapter.run_sql_for_tests = original
