"""Columns that come with files while a query reads their folder aren't lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream
from dbt.adapters.spark_streaming.stream.sources.source_schemas import SchemaChanged
from tests.thorough import mostly_thorough

from .harness import Stream

EVERYTHING = "select * from (select /*+ STREAM */ * from events_in_files)"


def planned(text: str) -> Program:
    plan = plan_query.plan(text, {"events_in_files": RelationInfo()})
    return generate.generate_program(replace(plan, text=text))


class Folder:
    """Files of a format, which are put in place as a whole."""

    def __init__(self, spark: Any, folder: Path, format: str) -> None:
        self.spark, self.folder, self.format = spark, folder, format
        self.folder.mkdir()

    def put(self, name: str, **values: Any) -> None:
        path = self.folder / f"{name}.{self.format}"
        if self.format == "json":
            path.with_name("_new").write_text(json.dumps(values))
        elif self.format == "csv":
            path.with_name("_new").write_text(f"{','.join(values)}\n{','.join(map(str, values.values()))}\n")
        else:
            written = self.folder.with_name(f"{name}_{self.format}")
            self.spark.createDataFrame([tuple(values.values())], [*values]).coalesce(1).write.format(
                self.format
            ).save(str(written))
            next(written.glob(f"*.{self.format}")).rename(path.with_name("_new"))
        path.with_name("_new").rename(path)


def reading(spark: Any, root: Path, folder: Folder, text: str = EVERYTHING, **options: str) -> Stream:
    s = Stream(spark, root, planned(text), "k string, v bigint")
    s.reads(StreamSource("events_in_files", str(folder.folder), folder.format, None, options))
    s.model = replace(s.model, columns={"k": "string", "v": "bigint"})
    return s


@contextmanager
def running(s: Stream) -> Iterator[RunningStream]:
    with RunningStream(s.spark, replace(s.model, trigger="100 milliseconds"), s.program) as stream:
        yield stream


def take(stream: RunningStream, rows: int) -> None:
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        if stream.wait(0.3).rows_in >= rows:
            return
    raise AssertionError(f"{rows} rows didn't come in")


FOUND = {"json": {}, "parquet": {"mergeSchema": "true"}, "orc": {"mergeSchema": "true"}}


@pytest.mark.parametrize("format", mostly_thorough(FOUND, ["json"]))
def test_a_column_that_comes_with_a_file(spark: Any, storage_root: Path, tmp_path: Path, format: str) -> None:
    folder = Folder(spark, tmp_path / "in", format)
    folder.put("a", k="a", v=1)
    s = reading(spark, storage_root, folder, **FOUND[format])
    with running(s) as stream:
        take(stream, 1)
        folder.put("b", k="b", v=2)
        take(stream, 2)
        folder.put("c", k="c", v=3, note="here")
        with pytest.raises(SchemaChanged, match=r"columns of events_in_files changed while it ran \(note\)"):
            take(stream, 3)
    s.model = replace(s.model, columns={"k": "string", "v": "bigint", "note": "string"})
    assert s.run().rows_in == 1
    assert s.rows() == [("a", 1, None), ("b", 2, None), ("c", 3, "here")]


def test_a_column_that_spark_does_not_find(spark: Any, storage_root: Path, tmp_path: Path) -> None:
    """It looks at one file, when the query begins as well."""
    folder = Folder(spark, tmp_path / "in", "parquet")
    folder.put("a", k="a", v=1)
    s = reading(spark, storage_root, folder)
    s.run()
    folder.put("c", k="c", v=3, note="here")
    for _ in range(2):
        with pytest.raises(
            StreamError,
            match="new files of its source events_in_files have note, which is none of the columns",
        ):
            s.run()
    assert s.rows() == [("a", 1)]
    s.model = replace(s.model, sources=(replace(s.model.sources[0], schema="k string, v bigint"),))
    assert s.run().rows_in == 1


OTHER_TYPES = {
    "text": ("orc", "v bigint", "'a lot' as v", "the column v as STRING, and it is to be read as BIGINT"),
    "too_wide": ("orc", "v int", "3000000000L as v", "the column v as BIGINT, and it is to be read as INT"),
    "fraction": ("orc", "v bigint", "1.5d as v", "the column v as DOUBLE, and it is to be read as BIGINT"),
    "nested": (
        "orc",
        "v struct<a: array<date>>",
        "named_struct('a', array('soon')) as v",
        "the column v.a.element as STRING",
    ),
    "found": ("orc", None, "'a lot' as v", "the column v as STRING, and it is to be read as BIGINT"),
    "of_less_bits": (
        "parquet",
        "v tinyint",
        "300 as v",
        "the column v as INT, and it is to be read as TINYINT",
    ),
    "no_date": ("parquet", "v date", "20240101 as v", "the column v as INT, and it is to be read as DATE"),
    "days": (
        "parquet",
        "v int",
        "date'2024-01-01' as v",
        "the column v as DATE, and it is to be read as INT",
    ),
}
"""A format, what a source declares, or not; what a later file has; and what is said of it."""


@pytest.mark.parametrize("name", mostly_thorough(OTHER_TYPES, ["text", "of_less_bits"]))
def test_values_that_spark_would_convert(spark: Any, storage_root: Path, tmp_path: Path, name: str) -> None:
    """Spark's reader makes them NULL, or cuts them off, without an error."""
    format, declared, other, said = OTHER_TYPES[name]
    folder = Folder(spark, tmp_path / "in", format)

    def put(file: str, columns: str) -> None:
        spark.sql(f"select {columns}").coalesce(1).write.format(format).save(str(tmp_path / file))
        next((tmp_path / file).glob(f"*.{format}")).rename(folder.folder / f"{file}.{format}")

    kind = "bigint" if declared is None else declared.removeprefix("v ")
    put("a", f"'a' as k, cast(null as {kind}) as V")
    s = reading(spark, storage_root, folder)
    s.program = planned(
        "select k, 1L as v from (select /*+ STREAM */ * from events_in_files) where v is null"
    )
    if declared is not None:
        s.model = replace(s.model, sources=(replace(s.model.sources[0], schema=f"k string, {declared}"),))
    assert s.run().rows_in == 1
    put("b", f"'b' as k, {other}")
    put("c", f"'c' as k, cast(null as {kind}) as v")
    for _ in range(2):
        with pytest.raises(StreamError, match=said) as problem:
            s.run()
        assert f"b.{format} has the column" in str(problem.value)
    assert s.rows() == [("a", 1)]


@pytest.mark.parametrize("format", mostly_thorough(["csv", "orc"], []))
def test_a_format_of_which_spark_looks_at_any_file(
    spark: Any, storage_root: Path, tmp_path: Path, format: str
) -> None:
    folder = Folder(spark, tmp_path / "in", format)
    folder.put("a", k="a", v=1)
    of_csv = {"header": "true", "inferSchema": "true"} if format == "csv" else {}
    s = reading(spark, storage_root, folder, **of_csv)
    with running(s) as stream:
        take(stream, 1)
        folder.put("c", k="c", v=3, note="here")
        with pytest.raises(StreamError, match="note"):
            take(stream, 2)
    assert s.rows() == [("a", 1)]


def test_a_column_that_nothing_reads_is_no_reason(spark: Any, storage_root: Path, tmp_path: Path) -> None:
    folder = Folder(spark, tmp_path / "in", "json")
    folder.put("a", k="a", v=1)
    s = reading(spark, storage_root, folder, "select k, v from (select /*+ STREAM */ * from events_in_files)")
    with running(s) as stream:
        take(stream, 1)
        folder.put("b", k="b", v=2, note="here")
        take(stream, 2)
        (folder.folder / "c.json").write_text("{no json")
        take(stream, 3)


def test_files_that_cannot_be_looked_at_together(spark: Any, storage_root: Path, tmp_path: Path) -> None:
    """What is wrong with a file is said where it is read, and a new column is found all the same."""
    folder = Folder(spark, tmp_path / "in", "parquet")
    folder.put("a", k="a", v=1)
    s = reading(spark, storage_root, folder, ignoreCorruptFiles="true")
    s.run()

    def put(name: str, columns: str) -> None:
        written = tmp_path / name
        spark.sql(f"select {columns}").coalesce(1).write.parquet(str(written))
        next(written.glob("*.parquet")).rename(folder.folder / f"{name}.parquet")

    put("b", "'b' as k, 2 as v")
    put("c", "'c' as k, 3L as v")
    (folder.folder / "d.parquet").write_text("no parquet")
    assert s.run().rows_in == 2
    assert s.rows() == [("a", 1), ("b", 2), ("c", 3)]
    put("e", "'e' as k, 4 as v")
    put("f", "'f' as k, 4L as v, 'here' as note")
    with pytest.raises(StreamError, match="new files of its source events_in_files have note"):
        s.run()


def test_a_field_of_a_struct(spark: Any, storage_root: Path, tmp_path: Path) -> None:
    folder = Folder(spark, tmp_path / "in", "json")
    folder.put("a", k="a", meta={"v": 1})
    s = reading(
        spark,
        storage_root,
        folder,
        "select k, meta.v as v from (select /*+ STREAM */ * from events_in_files)",
    )
    with running(s) as stream:
        take(stream, 1)
        folder.put("b", k="b", meta={"v": 2, "w": 1})
        with pytest.raises(SchemaChanged, match=r"\(meta.w\)"):
            take(stream, 2)
    assert s.run().rows_in == 1
    assert s.rows() == [("a", 1), ("b", 2)]


@pytest.mark.thorough
def test_rows_that_are_kept_go_on_with_a_column_more(spark: Any, storage_root: Path, tmp_path: Path) -> None:
    """No file that was read had it."""
    folder = Folder(spark, tmp_path / "in", "json")
    folder.put("a", k="a", v=1)
    text = (
        "select * from (select *, row_number() over (partition by k order by v desc) as place "
        "from (select /*+ STREAM */ * from events_in_files)) where place <= 2"
    )
    s = reading(spark, storage_root, folder)
    plan = plan_query.plan(text, {"events_in_files": RelationInfo()}, domains=["k"])
    s.program = generate.generate_program(replace(plan, text=text))
    columns = {"k": "string", "v": "bigint", "place": "int"}
    spark.sql(f"alter table {s.model.target} add column place int")
    s.model = replace(s.model, columns=columns)
    with running(s) as stream:
        take(stream, 1)
        folder.put("q[1]", k="a", v=3, note="here")
        with pytest.raises(SchemaChanged):
            take(stream, 2)
    s.model = replace(s.model, columns={**columns, "note": "string"})
    assert s.run().rows_in == 1
    found = s.spark.table(s.model.target).select("v", "place", "note").orderBy("place").collect()
    assert [tuple(each) for each in found] == [(3, 1, "here"), (1, 2, None)]
