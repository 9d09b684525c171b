"""Cases on Spark: the rows of a stream, cut after cut, beside those of the text over all rows."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.project import changelogs, stream_node, streaming
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource, changelog_name
from dbt.adapters.spark_streaming.stream.common.session import working_session
from dbt.adapters.spark_streaming.stream.microbatch.lookups import Lookups
from dbt.adapters.spark_streaming.stream.microbatch.loop import Batches
from dbt.adapters.spark_streaming.stream.microbatch.micro_batch import RunContext
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from dbt.adapters.spark_streaming.stream.sink.append import AppendSink
from dbt.adapters.spark_streaming.stream.sink.upsert import UpsertSink
from dbt.adapters.spark_streaming.stream.state.table import StateTable
from tests.differential import planning
from tests.differential.outcome import (
    CRASHED,
    DIFFERENT,
    EQUAL,
    NO_BATCH,
    REFUSED,
    Outcome,
    Rows,
    compare,
    plain,
)
from tests.differential.tables import ROWS_OF_STATIC, STATIC, STREAMS, Row, Tables, cuts
from tests.differential.tree import UPSTREAM, Case, Column, Model
from tests.spark_rows import asks

SCHEMA = "differential"
_PIECE = "piece__"


class Laboratory:
    """Runs cases in one Spark.

    Args:
        spark: the session.
        root: a folder for tables and state.
    """

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.storage = Storage(str(root), lambda: spark)
        self.numbers = itertools.count()
        self.tables: Tables | None = None
        self.rows_of: dict[str, Any] = {}
        self._views: dict[str, Any] = {}
        self._folder = root / "pieces"
        spark.sql(f"create namespace if not exists {SCHEMA}")
        for name, rows in ROWS_OF_STATIC.items():
            self._view(name, STATIC[name], rows)

    def _view(self, name: str, columns: Sequence[Column], rows: Iterable[Row]) -> Any:
        schema = ", ".join(f"{column.name} {column.kind}" for column in columns)
        made = self.spark.createDataFrame(list(rows), schema).coalesce(1).cache()
        made.createOrReplaceTempView(name)
        self._views[name] = made
        return made

    def forget(self) -> None:
        """Gives back what is kept in the session."""
        for name, made in self._views.items():
            made.unpersist()
            self.spark.catalog.dropTempView(name)

    def show(self, tables: Tables) -> None:
        """Makes these the rows of the streams."""
        if self.tables is tables:
            return
        for made in self.rows_of.values():
            made.unpersist()
        self.tables = tables
        for name, pieces in tables.streams.items():
            columns = (*STREAMS[name], Column(_PIECE, "int"))
            rows = [(*row, number) for number, piece in enumerate(pieces) for row in piece]
            made = self._view(f"{name}__pieces", columns, rows)
            self.rows_of[name] = made
            made.drop(_PIECE).createOrReplaceTempView(name)

    # -- one case ------------------------------------------------------------------------------------

    def run(self, case: Case, tables: Tables) -> Outcome:
        """Runs a case and says what became of it."""
        began = time.monotonic()
        found = self._run(case, tables)
        return Outcome(found.kind, found.detail, found.batches, time.monotonic() - began)

    def _run(self, case: Case, tables: Tables) -> Outcome:
        made: list[Streamed] = []
        try:
            self.show(tables)
            program = planning.planned(case.upstream or case.model, ask=asks(self.spark))
        except QueryError as refusal:
            return Outcome(REFUSED, str(refusal))
        except Exception as problem:
            return Outcome(CRASHED, f"planner: {type(problem).__name__}: {problem}")
        try:
            expected = self._expected(case, tables)
        except Exception as problem:
            return Outcome(NO_BATCH, _first_line(problem))
        try:
            return self._streamed(case, program, expected, made)
        except QueryError as refusal:
            return Outcome(REFUSED, str(refusal))
        except StreamError as problem:
            if _is_refusal(str(problem)):
                return Outcome(REFUSED, str(problem))
            return Outcome(CRASHED, str(problem))
        except Exception as problem:
            return Outcome(CRASHED, f"{type(problem).__name__}: {_first_line(problem)}")
        finally:
            for each in made:
                each.drop()

    def _expected(self, case: Case, tables: Tables) -> Rows:
        if case.upstream is not None:
            self.spark.sql(planning.expected(case.upstream, case, tables)).createOrReplaceTempView(UPSTREAM)
        return rows_of(self.spark.sql(planning.expected(case.model, case, tables)))

    def _streamed(self, case: Case, program: Program, expected: Rows, made: list[Streamed]) -> Outcome:
        first = Streamed(self, case.upstream or case.model, program)
        made.append(first)
        last = first
        for cut in cuts(case.cuts):
            first.take(cut)
            if case.upstream is not None:
                if last is first and (found := self._downstream(case, first)):
                    last = found
                    made.append(last)
                if last is not first:
                    last.read()
        first.flush()
        if case.upstream is not None and last is first and (found := self._downstream(case, first)):
            last = found
            made.append(last)
        if last is not first:
            last.read()
            last.flush()
        batches = sum(each.batches for each in made)
        for each in made:
            if problem := each.feed_problem():
                return Outcome(DIFFERENT, problem, batches)
        nothing = case.upstream is not None and last is first
        difference = compare(expected, Counter() if nothing else last.rows())
        return Outcome(DIFFERENT if difference else EQUAL, difference, batches)

    def _downstream(self, case: Case, first: Streamed) -> Streamed | None:
        """The second model, once the first has something for it."""
        stream = next(node for node in _streams(case.model) if node.name == UPSTREAM)
        time_column = next((column.name for column in stream.of if column.event_time), None)
        known = {**planning.KNOWN, UPSTREAM: RelationInfo(event_time=time_column)}
        if first.program.upsert is not None and not first.has_changes():
            return None
        found = dict(changelogs.with_changelogs(self.spark, known, {UPSTREAM: first.model.target}))
        program = planning.planned(case.model, known=found, ask=asks(self.spark))
        return Streamed(self, case.model, program, first.model.target)


def _streams(model: Model) -> list[Any]:
    from tests.differential.tree import Stream, nodes

    return [node for node in nodes(model.root) if isinstance(node, Stream)]


class Streamed:
    """A model that is kept up to date.

    Args:
        laboratory: where.
        model: the model.
        program: what a micro-batch of it does.
        upstream: the table that it reads as `UPSTREAM`.
    """

    def __init__(
        self, laboratory: Laboratory, model: Model, program: Program, upstream: str | None = None
    ) -> None:
        self.laboratory, self.program = laboratory, program
        self.spark = laboratory.spark
        self.batches = 0
        name = f"m{next(laboratory.numbers)}"
        target = f"{SCHEMA}.{name}"
        settings = stream_node.stream_settings(planning.node_of(model, name))
        self.model = StreamModel(
            name=name,
            target=target,
            state=f"{target}__state",
            storage=laboratory.storage,
            sources=tuple(self._source(each.relation, each.feed, upstream) for each in program.inputs),
            watermark_delay=settings.watermark,
            changelog=settings.changelog,
        )
        self.by_spark = upstream is not None
        found = streaming.query_columns(self.spark, model.text(), asks(self.spark))
        columns = ", ".join(f"`{column}` {kind}" for column, kind in found.items())
        self.spark.sql(f"create table {target} ({columns}) using iceberg")
        self.session: Any = None
        self.fed: Batches | None = None
        self.number = 0

    def _source(self, relation: str, feed: bool, upstream: str | None) -> StreamSource:
        if relation == UPSTREAM:
            assert upstream is not None
            return StreamSource(relation, changelog_name(upstream) if feed else upstream)
        return StreamSource(relation, relation)

    def take(self, cut: tuple[int, int]) -> None:
        """Takes in a cut of the streams, as Structured Streaming would hand it over."""
        batches = self._batches()
        batches.ingest(self._rows_of(cut), self.number)
        self.number += 1
        self.batches += 1

    def _batches(self) -> Batches:
        if self.fed is None:
            self.session = session = working_session(self.spark)
            upsert = self.program.upsert
            sink = UpsertSink(session, self.model, upsert) if upsert else AppendSink(session, self.model)
            sink.prepare_for_run(session)
            state = StateTable(session, self.model)
            work = RunContext(self.model, self.program, state, sink, Lookups(self.model))
            self.fed = Batches(session, work, None, lambda: "differential")
        return self.fed

    def _rows_of(self, cut: tuple[int, int]) -> Any:
        from pyspark.sql import functions as F

        streams = []
        for each in self.program.inputs:
            rows = self.session.table(f"{each.relation}__pieces").where(
                f"{_PIECE} >= {cut[0]} and {_PIECE} < {cut[1]}"
            )
            wanted = None if each.columns is None else {name.lower() for name in each.columns}
            names = [column.name for column in STREAMS[each.relation]]
            names = [name for name in names if wanted is None or name in wanted] or names[:1]
            streams.append((each.view, rows.select(*names)))
        if len(streams) == 1:
            return streams[0][1]
        structs = [rows.select(F.struct(*rows.columns).alias(view)) for view, rows in streams]
        united = structs[0]
        for struct in structs[1:]:
            united = united.unionByName(struct, allowMissingColumns=True)
        return united

    def read(self) -> None:
        """Takes in what the model upstream wrote."""
        self.batches += run_stream(self.spark, self.model, self.program).batches

    def flush(self) -> None:
        """Closes all windows."""
        if self.fed is not None:
            if self.program.keeps_state:
                self.fed.flush(self.session)
            self.batches = self.fed.result.batches
        else:
            self.batches += flush(self.spark, self.model, self.program).batches

    def rows(self) -> Rows:
        """The table's rows."""
        return rows_of(self.spark.table(self.model.target))

    def has_changes(self) -> bool:
        """Whether there is a changelog."""
        return bool(self.spark.catalog.tableExists(self.model.changes))

    def feed_problem(self) -> str:
        """How table and changelog differ; empty if they don't."""
        if not self.model.changelog:
            return ""
        table = self.rows()
        if not self.has_changes():
            return "" if not table else "changelog: there is none, and the table has rows"
        changes = self.spark.table(self.model.changes).drop("_batch_id")
        total: Counter[Row] = Counter()
        for row, count in rows_of(changes).items():
            total[row[:-1]] += count if row[-1] in ("insert", "update_after") else -count
        replayed = Counter({row: count for row, count in total.items() if count})
        difference = compare(table, replayed)
        return f"changelog: {difference}" if difference else ""

    def drop(self) -> None:
        """Forgets all of it."""
        for table in (self.model.target, self.model.state, self.model.changes):
            self.spark.sql(f"drop table if exists {table} purge")
        if self.by_spark:
            self.model.storage.delete(self.model.checkpoint)


def rows_of(table: Any) -> Rows:
    """The rows of a DataFrame, comparable."""
    return Counter(tuple(map(plain, row)) for row in table.collect())


def _first_line(problem: BaseException) -> str:
    return next((line for line in str(problem).splitlines() if line.strip()), type(problem).__name__)[:300]


_REFUSALS = ("two rows of its result have the same key",)


def _is_refusal(sentence: str) -> bool:
    return any(refusal in sentence for refusal in _REFUSALS)
