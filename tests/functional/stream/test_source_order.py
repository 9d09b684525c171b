"""Sources are known by what they read, wherever they stand in the query."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from tests.planned import plan_of

from .harness import Stream


def test_branches_of_a_union_may_be_put_in_another_order(
    spark: Any, storage_root: Path, tmp_path: Path
) -> None:
    folders = {name: tmp_path / name for name in ("one", "two", "three")}

    def put(name: str, *numbers: int) -> None:
        rows = spark.createDataFrame([(name, n) for n in numbers], "k string, n int")
        rows.coalesce(1).write.mode("append").parquet(str(folders[name]))

    def reads(*names: str) -> None:
        branches = [f"select k, n from (select /*+ STREAM */ * from {name})" for name in names]
        stream.program = generate.generate_program(plan_of(" union all ".join(branches)))
        sources = (StreamSource(name, str(folders[name]), "parquet", "k string, n int") for name in names)
        stream.model = replace(stream.model, sources=tuple(sources))

    for name in folders:
        put(name, 1, 2)
    one = plan_of("select k, n from (select /*+ STREAM */ * from one)")
    stream = Stream(spark, storage_root, generate.generate_program(one), "k string, n int")
    reads("one", "two")
    assert stream.run().rows_out == 4
    reads("two", "one")
    assert stream.run().rows_in == 0
    put("one", 3)
    assert stream.run().rows_out == 1
    reads("one", "two")
    put("two", 4)
    assert stream.run().rows_out == 1
    # A source under another name is the same one.
    stream.program = replace(
        stream.program,
        inputs=tuple(
            replace(each, relation=f"renamed_{each.relation}") for each in reversed(stream.program.inputs)
        ),
    )
    renamed = (
        replace(source, relation=f"renamed_{source.relation}") for source in reversed(stream.model.sources)
    )
    stream.model = replace(stream.model, sources=tuple(renamed))
    assert stream.run().rows_in == 0
    rows = [("one", 1), ("one", 2), ("one", 3), ("two", 1), ("two", 2), ("two", 4)]
    assert stream.rows() == rows

    for names, said in (
        (["three", "one", "two"], "reads three, which it didn't when it began"),
        (["two"], "no longer reads one"),
        (["three", "one"], "no longer reads two and reads three, which it didn't when it began"),
    ):
        reads(*names)
        with pytest.raises(StreamError) as refusal:
            stream.run()
        assert refusal.value.msg == (
            f"Model {stream.model.name}: its query {said}, but a stream can only continue with its first sources. "
            f"{stream.model.rebuild_advice}"
        )
    assert stream.rows() == rows

    # Structured Streaming would read all that lies there, though it has read the same files elsewhere.
    reads("one", "two")
    at_home, away = folders["one"], tmp_path / "moved"
    place = next(at for at, each in enumerate(stream.model.sources) if each.location == str(at_home))

    def lies_at(location: str) -> None:
        sources = list(stream.model.sources)
        sources[place] = replace(sources[place], location=location)
        stream.model = replace(stream.model, sources=tuple(sources))

    at_home.rename(away)
    lies_at(str(away))
    with pytest.raises(StreamError, match=f"was the folder {at_home}, and is {away} now"):
        stream.run()
    away.rename(at_home)
    lies_at(f"file://{at_home}/")
    assert stream.run().rows_in == 0
    assert stream.rows() == rows
