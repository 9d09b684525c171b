"""The cases as streams without dbt: each is planned once, and run for each way of cutting its input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from pyspark.errors import AnalysisException

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.project import stream_node, streaming
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests.oracle.project import settings_of, write_cuts
from tests.oracle.translate import model_text

SCHEMA = "oracle_streams"


def _window(kind: str) -> Callable[..., str]:
    def macro(relation: str, time: str, *lengths: str, **options: Any) -> str:
        return expansion.expand_window(
            relation, window_arguments.make_window(kind, time, *lengths, **options)
        )

    return macro


# What dbt's macros of these names print; a source is a temporary view.
MACROS: Mapping[str, Callable[..., str]] = {
    "source": lambda _, table: str(table),
    "stream": expansion.expand_stream,
    **{kind: _window(kind) for kind in ("tumble", "hop", "cumulate", "session")},
}


@dataclass(frozen=True)
class Input:
    """The tables of one size.

    Args:
        spark: the session.
        storage_root: of checkpoints.
        oracle: the folder of the cases.
        size: "small" or "tiny".
        folder: for the tables cut into files.
    """

    spark: Any
    storage_root: Path
    oracle: Path
    size: str
    folder: Path

    @cached_property
    def schemas(self) -> dict[str, Any]:
        """The columns of each table, which is a temporary view from then on."""
        self.spark.sql(f"create namespace if not exists {SCHEMA}")
        found = {}
        for path in (self.oracle / "data" / self.size).glob("*.parquet"):
            table = self.spark.read.parquet(str(path))
            table.createOrReplaceTempView(path.stem)
            found[path.stem] = table.schema
        return found

    def cut(self, table: str, cuts: int) -> str:
        """The folder of a table in so many files."""
        folder = self.folder / str(cuts) / table
        if not folder.exists():
            write_cuts(self.oracle / "data" / self.size / f"{table}.parquet", folder, cuts)
        return str(folder)


class Planned(NamedTuple):
    """A case as the planner has it."""

    text: str
    plan: Plan
    program: Program
    watermark_delay: int


def planned(oracle: Path, name: str, tables: Collection[str]) -> Planned:
    """A case that reads tables whose event time is `ts`."""
    text = model_text((oracle / "cases" / f"{name}.sql").read_text(), frozenset(tables), "raw")
    text = jinja2.Template(text).render(MACROS)
    node = {"name": name, "config": settings_of(name)}
    plan = streaming.plan_model(node, text, {table: RelationInfo("ts") for table in tables})
    return Planned(
        text, plan, streaming.model_program(node, plan), stream_node.stream_settings(node).watermark
    )


class Case:
    """A case over one input."""

    def __init__(self, given: Input, name: str) -> None:
        self.given, self.name = given, name
        self.text, self.plan, self.program, self.watermark_delay = planned(
            given.oracle, name, given.schemas.keys()
        )

    @cached_property
    def columns(self) -> str:
        """Those of the case's text, as Spark sees it."""
        spark = self.given.spark
        try:
            fields = spark.sql(self.text).schema.fields
        except AnalysisException:
            # Spark is stricter than the planner in places.
            fields = spark.sql(whole_query.batch_sql(self.plan)).schema.fields
        return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)

    def run(self, cuts: int) -> Any:
        """The table of the case when its input has come in so many micro-batches and all windows are closed."""
        given, spark = self.given, self.given.spark
        table = f"{SCHEMA}.{self.name}_{given.size}_{cuts}"
        spark.sql(f"create table {table} ({self.columns}) using iceberg")
        model = StreamModel(
            name=table,
            target=table,
            state=f"{table}__state",
            storage=Storage(str(given.storage_root), lambda: spark),
            sources=tuple(
                StreamSource(
                    stream.relation,
                    given.cut(stream.relation, cuts),
                    "parquet",
                    given.schemas[stream.relation],
                    {"maxFilesPerTrigger": "1"},
                )
                for stream in self.program.inputs
            ),
            watermark_delay=self.watermark_delay,
        )
        assert run_stream(spark, model, self.program).batches == cuts
        flush(spark, model, self.program)
        return spark.table(table)
