"""A query notices that a table that it joins has other columns."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StructField, StructType

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.sources import stream_source
from dbt.adapters.spark_streaming.stream.common import periodic
from dbt.adapters.spark_streaming.stream.common.errors import TransientError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.sources import static_tables
from dbt.adapters.spark_streaming.stream.sources.source_schemas import SchemaChanged
from dbt.adapters.spark_streaming.stream.sources.static_tables import StaticTables

INT, LONG = IntegerType(), LongType()


class Refused(AnalysisException):
    """An error of Spark's analysis, of a class."""

    def __init__(self, error: str) -> None:
        super().__init__("refused")
        self.error = error

    def getCondition(self) -> str:
        return self.error


class Session:
    """A session with tables."""

    def __init__(self, **tables: dict[str, DataType]) -> None:
        self.tables = tables
        self.error = "TABLE_OR_VIEW_NOT_FOUND"

    def table(self, name: str) -> Any:
        if name not in self.tables:
            raise Refused(self.error)
        self.schema = StructType([StructField(*column) for column in self.tables[name].items()])
        return self


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        static_tables, "sql", lambda session, text: session.table(text.removeprefix("select * from "))
    )


def model(root: str = "/") -> StreamModel:
    return StreamModel("m", "db.m", "db.m__state", Storage(root, lambda: None), ())


def tables(session: Any) -> StaticTables:
    return StaticTables(session, model(), ["d", "e"])


@pytest.mark.parametrize(
    ("now", "changed"),
    [({"a": INT, "b": INT}, "b"), ({"a": LONG}, "a"), ({"b": INT}, "a, b")],
)
def test_other_columns_are_named(now: dict[str, DataType], changed: str) -> None:
    session = Session(d={"a": INT}, e={"a": INT})
    found = tables(session)
    found.check()
    session.tables["e"] = now
    with pytest.raises(SchemaChanged, match=rf"columns of e changed while it ran \({changed}\)"):
        found.check()


def test_neither_the_order_nor_the_case_of_names_matters() -> None:
    session = Session(d={"a": INT, "b": INT}, e={"a": INT})
    found = tables(session)
    session.tables["d"] = {"B": INT, "a": INT}
    found.check()


def test_a_table_that_is_gone_may_come_again() -> None:
    session = Session(d={"a": INT}, e={"a": INT})
    found = tables(session)
    del session.tables["d"]
    with pytest.raises(TransientError, match="the table d, which it joins, doesn't exist now"):
        found.check()


def test_a_relation_that_cant_be_read_alone_is_left_out() -> None:
    session = Session(d={"a": INT})
    session.error = "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"
    tables(session).check()


def test_columns_that_came_since_the_noted_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_tables, "stored_types", lambda spark, kinds: dict(kinds))
    inner = StructType([StructField("x", INT), StructField("y", LONG)])
    session: Any = Session(d={"a": INT})

    def found() -> StaticTables:
        return StaticTables(session, model(str(tmp_path)), ["d"])

    def later() -> list[tuple[str, str]]:
        return list(static_tables.later_columns(session, model(str(tmp_path)), ["d"]))

    assert later() == [], "nothing says what there was"
    found().note(begun=True)
    session.tables["d"] = {"a": INT, "B": LONG, "l": ArrayType(inner)}
    assert later() == [
        ("b", "bigint"),
        ("l", "array<struct<x:int,y:bigint>>"),
        ("x", "int"),
        ("y", "bigint"),
    ]
    found().note(begun=True)
    session.tables["d"] = {"B": LONG}
    found().note(begun=True)
    session.tables["d"] = {"a": INT, "B": LONG}
    assert later() == [], "a column that comes again isn't new in all rows"
    session.tables["d"] = {}
    found().note(begun=False)
    session.tables["d"] = {"a": INT}
    assert later() == [("a", "int")], "another stream's rows"


def test_columns_in_files_are_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = stream_source.DeclaredSource("raw.d", "d", "json", {"path": "/in"})
    stream_source.forget_sources()
    stream_source.register(declared)
    stream_source.set_project_root("/")
    in_files: dict[str, DataType] = {"a": INT}

    class Files:
        """A session that reads files."""

        def __getattr__(self, name: str) -> Any:
            return self if name == "read" else lambda *path, **options: self

        @property
        def schema(self) -> StructType:
            return StructType([StructField(*column) for column in in_files.items()])

        def table(self, name: str) -> Any:
            return SimpleNamespace(schema=StructType([StructField("a", INT)]))

    session: Any = Files()
    in_files["b"] = LONG
    with pytest.raises(SchemaChanged, match=r"\(b\)"):
        StaticTables(session, model(), ["d"])  # they came after the query was planned
    in_files["a"] = LONG
    del in_files["b"]
    with pytest.raises(SchemaChanged, match=r"\(a\)"):
        StaticTables(session, model(), ["d"])
    in_files["a"] = INT
    found = StaticTables(session, model(), ["d"])
    in_files["b"] = INT
    found.check()
    monkeypatch.setattr(periodic.time, "monotonic", lambda: 1e12)
    with pytest.raises(SchemaChanged, match=r"\(b\)"):
        found.check()
    stream_source.forget_sources()
