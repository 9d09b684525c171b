"""Random rows, in random cuts and any disorder, through Spark: what the reference says comes out.

Unlike in the oracle, rows are late here, so which ones are dropped depends on the cuts; the
reference is fed the same cuts.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import emission, expansion, window_arguments
from dbt.adapters.spark_streaming.query.windows.windows import Window
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests import reference as ref
from tests.functional.quick import many_rows
from tests.planned import plan_of
from tests.spark_rows import asks, rows_of

__all__ = ["many_rows"]  # a fixture

SCHEMA = "property_tests"
EVENTS = "ts timestamp, k string, v bigint, u bigint"
METRICS: dict[str, ref.Aggregate] = {
    "count(*)": ref.count(),
    "count(v)": ref.count("v"),
    "sum(v)": ref.total("v"),
    "min(v)": ref.least("v"),
    "max(v) filter (where u > 1)": ref.greatest("v", where=lambda row: _more(row["u"], 1)),
    "count(distinct u)": ref.count_distinct("u"),
    "count(distinct u) filter (where v >= 0)": ref.count_distinct("u", where=lambda row: _more(row["v"], -1)),
    "count(distinct u, v)": ref.count_distinct("u", "v"),
}
SELECT = ", ".join(f"{sql} as m{at}" for at, sql in enumerate(METRICS))


def _more(value: int | None, than: int) -> bool:
    return value is not None and value > than


small = st.integers(1, 6)
offsets = st.integers(-9, 9)
shapes = st.one_of(
    st.builds(ref.Tumble, small, offsets),
    st.builds(lambda slide, more, offset: ref.Hop(slide, slide + more, offset), small, small, offsets),
    st.builds(
        lambda step, steps, offset, every: ref.Cumulate(step, step * steps, offset, every),
        small,
        small,
        offsets,
        st.booleans(),
    ),
)
sessions = st.one_of(
    st.builds(ref.Session, small),
    st.builds(lambda step, more: ref.DynamicCumulate(step, step + more), small, small),
)
events = st.fixed_dictionaries(
    {
        "ts": st.none() | st.integers(0, 30),
        "k": st.none() | st.sampled_from("ab"),
        "v": st.none() | st.integers(-3, 3),
        "u": st.none() | st.integers(1, 4),
    }
)
Piece = list[dict[str, Any]]
pieces_of_input = st.lists(st.lists(events, min_size=1, max_size=12), min_size=2, max_size=5)

_numbers = itertools.count()
# The same few each time; PROPERTY_EXAMPLES=100 looks for as many others.
_asked = os.environ.get("PROPERTY_EXAMPLES")
_few = settings(
    max_examples=int(_asked or 2),
    deadline=None,
    derandomize=_asked is None,
    database=None,
    # An example takes seconds, and the first one found is small as it is.
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def in_words(micros: int) -> str:
    return f"{micros} seconds"


def made(shape: ref.Windows | ref.Merging, keys: list[str]) -> Window:
    """The window function of the same windows; what is a number here is seconds there."""
    emit = "every_step"
    if isinstance(shape, ref.Session):
        return window_arguments.make_window("session", "ts", in_words(shape.gap), partition_by=keys)
    if isinstance(shape, ref.DynamicCumulate):
        step, gap = in_words(shape.step), in_words(shape.gap)
        return window_arguments.make_window("dynamic_cumulate", "ts", step, gap, partition_by=keys)
    if isinstance(shape, ref.Tumble):
        kind, lengths = "tumble", [shape.size]
    elif isinstance(shape, ref.Hop):
        kind, lengths = "hop", [shape.slide, shape.size]
    else:
        kind, lengths = "cumulate", [shape.step, shape.max_size]
        emit = "every_step" if shape.every_step else "on_change"
    return window_arguments.make_window(
        kind, "ts", *map(in_words, lengths), offset=in_words(shape.offset), emit=emit
    )


class Run:
    """A window aggregate over files, made for one example."""

    def __init__(
        self,
        spark: Any,
        folder: Path,
        shape: ref.Windows | ref.Merging,
        keys: list[str],
        delay: int,
        grouped: str | None = None,
        **results: Any,
    ) -> None:
        self.spark, self.delay = spark, delay
        self.folder = folder / f"r{next(_numbers)}"
        self.folder.mkdir()
        name = self.folder.name
        columns = ", ".join(["window_start", "window_end", *keys])
        from_ = expansion.expand_window("events", made(shape, keys))
        self.text = f"select {columns}, {SELECT} from {from_} group by {columns}"
        if grouped is not None:
            self.text = (
                f"select {columns}, grouping_id() as g, {SELECT} from {from_} "
                f"group by window_start, window_end, {grouped}"
            )
        spark.read.schema(EVENTS).parquet(str(self.folder)).createOrReplaceTempView("events")
        self.program = generate.generate_program(
            plan_of(self.text, ask=asks(spark)), emission.emission_from_configs(results)
        )
        spark.sql(f"create namespace if not exists {SCHEMA}")
        self.model = StreamModel(
            name=name,
            target=f"{SCHEMA}.{name}",
            state=f"{SCHEMA}.{name}__state",
            storage=Storage(str(folder), lambda: spark),
            sources=(
                StreamSource("events", str(self.folder), "parquet", EVENTS, {"maxFilesPerTrigger": "1"}),
            ),
            watermark_delay=delay * ref.SECOND,
            changelog=bool(results),
        )
        spark.sql(f"create table {self.model.target} using iceberg as {self.text} limit 0")

    def add(self, number: int, rows: Piece) -> None:
        path = self.folder / f"{number:03}.parquet"
        schema = pa.schema(
            [("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("v", pa.int64()), ("u", pa.int64())]
        )
        instants = [{**row, "ts": None if row["ts"] is None else row["ts"] * ref.SECOND} for row in rows]
        pq.write_table(pa.Table.from_pylist(instants, schema=schema), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    def rows(self) -> Counter[tuple[Any, ...]]:
        return self._comparable(self.spark.table(self.model.target))

    def in_batch(self) -> Counter[tuple[Any, ...]]:
        self.spark.read.schema(EVENTS).parquet(str(self.folder)).createOrReplaceTempView("events")
        return self._comparable(
            self.spark.sql(whole_query.batch_sql(plan_of(self.text, ask=asks(self.spark))))
        )

    def as_view(self) -> Counter[tuple[Any, ...]]:
        return self._comparable(self.spark.sql(self.text))

    def watermark(self, expected: int | None) -> int | None:
        """The reference's watermark in microseconds. That of sessions is a second behind there, as here the least that
        there is: a microsecond."""
        if expected is None or not self.program.extra_delay:
            return None if expected is None else expected * ref.SECOND
        return (expected + 1) * ref.SECOND - self.program.extra_delay

    def _comparable(self, table: Any) -> Counter[tuple[Any, ...]]:
        def seconds(moment: Any) -> int:
            return ref.to_micros(moment) // ref.SECOND

        return Counter((seconds(start), seconds(end), *rest) for start, end, *rest in rows_of(table))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("property")


@pytest.mark.parametrize(
    "kinds",
    [pytest.param(shapes, id="slices", marks=pytest.mark.thorough), pytest.param(sessions, id="sessions")],
)
@_few
@given(data=st.data(), pieces=pieces_of_input, keys=st.sampled_from([[], ["k"]]), delay=st.integers(0, 12))
def test_a_stream_is_what_the_reference_says(
    spark: Any,
    folder: Path,
    kinds: st.SearchStrategy[ref.Windows | ref.Merging],
    data: st.DataObject,
    pieces: list[Piece],
    keys: list[str],
    delay: int,
) -> None:
    shape = data.draw(kinds)
    run = Run(spark, folder, shape, keys, delay)
    expected = ref.stream(shape, keys, list(METRICS.values()), delay=delay)
    rows: list[tuple[Any, ...]] = []
    for number, piece in enumerate(pieces):
        run.add(number, piece)
        rows += expected.feed(piece)
    result = run_stream(spark, run.model, run.program)
    assert run.rows() == Counter(rows)
    assert (result.late_rows, result.null_time_rows) == (expected.late, expected.null_times)
    assert result.watermark == run.watermark(expected.watermark)
    flush(spark, run.model, run.program)
    assert run.rows() == Counter(rows + expected.flush())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kinds",
    [pytest.param(shapes, id="slices"), pytest.param(sessions, id="sessions", marks=pytest.mark.thorough)],
)
@_few
@given(data=st.data(), pieces=pieces_of_input, keys=st.sampled_from([[], ["k"]]), again=st.integers(1, 4))
def test_without_late_rows_cuts_make_no_difference(
    spark: Any,
    folder: Path,
    kinds: st.SearchStrategy[ref.Windows | ref.Merging],
    data: st.DataObject,
    pieces: list[Piece],
    keys: list[str],
    again: int,
) -> None:
    """A stream in cuts, with a restart in between, the batch plan and the text itself: the same rows."""
    late_for_none = 31
    shape = data.draw(kinds)
    run = Run(spark, folder, shape, keys, late_for_none)
    for number, piece in enumerate(pieces):
        run.add(number, piece)
        if number == again:
            run_stream(spark, run.model, run.program)
    run_stream(spark, run.model, run.program)
    flush(spark, run.model, run.program)
    everything = [row for row in itertools.chain(*pieces) if row["ts"] is not None]
    expected = Counter(ref.batch(everything, shape, keys, list(METRICS.values())))
    assert run.rows() == expected
    assert run.in_batch() == expected
    if not isinstance(shape, ref.Cumulate) or shape.every_step:
        # A view shows the silent steps: which ones are silent is known only where rows are grouped.
        assert run.as_view() == expected


SETS = {0: ["k", "v"], 1: ["k"], 2: ["v"], 3: []}
"""Grouping sets by their grouping_id()."""


@pytest.mark.thorough
@_few
@given(
    shape=shapes,
    pieces=pieces_of_input,
    delay=st.integers(0, 12),
    ids=st.sampled_from([[0, 1, 2, 3], [0, 2], [1, 2], [0, 1, 3], [1, 2, 3]]),
)
def test_grouping_sets_are_their_groups_side_by_side(
    spark: Any, folder: Path, shape: ref.Windows, pieces: list[Piece], delay: int, ids: list[int]
) -> None:
    """Though distinct values are kept once for all of them, where one set has all keys."""
    grouped = f"grouping sets ({', '.join('(' + ', '.join(SETS[each]) + ')' for each in ids)})"
    run = Run(spark, folder, shape, ["k", "v"], delay, grouped)
    expected = {each: ref.stream(shape, SETS[each], list(METRICS.values()), delay=delay) for each in ids}
    rows: list[tuple[Any, ...]] = []

    def add(each: int, found: list[tuple[Any, ...]]) -> None:
        for start, end, *rest in found:
            of_keys = dict(zip(SETS[each], rest, strict=False))
            rows.append((start, end, of_keys.get("k"), of_keys.get("v"), each, *rest[len(of_keys) :]))

    for number, piece in enumerate(pieces):
        run.add(number, piece)
        for each in ids:
            add(each, expected[each].feed(piece))
    run_stream(spark, run.model, run.program)
    assert run.rows() == Counter(rows)
    flush(spark, run.model, run.program)
    for each in ids:
        add(each, expected[each].flush())
    assert run.rows() == Counter(rows)


@st.composite
def results(draw: st.DrawFn) -> dict[str, Any]:
    """Configs of early results, late updates, or both."""
    complete = draw(st.integers(0, 4))
    found: dict[str, Any] = {"complete_result_offset": in_words(complete)}
    early = draw(st.booleans())
    if early:
        found["first_result_offset"] = in_words(complete - draw(st.integers(1, 8)))
        if draw(st.booleans()):
            found["update_rate"] = in_words(draw(st.integers(1, 5)))
    if not early or draw(st.booleans()):
        found |= {"late_updates": True, "last_result_offset": in_words(complete + draw(st.integers(1, 40)))}
    return found


@pytest.mark.thorough
@_few
@given(
    shape=st.one_of(shapes, sessions),
    pieces=pieces_of_input,
    keys=st.sampled_from([[], ["k"]]),
    delay=st.integers(0, 12),
    configs=results(),
)
def test_results_that_change_end_up_as_the_batch_has_them(
    spark: Any,
    folder: Path,
    shape: ref.Windows | ref.Merging,
    pieces: list[Piece],
    keys: list[str],
    delay: int,
    configs: dict[str, Any],
) -> None:
    """However early, often and late they came, if no row was dropped; and their changes add up to them."""
    if isinstance(shape, ref.Cumulate):
        shape = replace(shape, every_step=True)
    run = Run(spark, folder, shape, keys, delay, **configs)
    dropped = 0
    for number, piece in enumerate(pieces):
        run.add(number, piece)
        dropped += run_stream(spark, run.model, run.program).late_rows
    dropped += flush(spark, run.model, run.program).late_rows
    rows = run.rows()
    replayed: Counter[tuple[Any, ...]] = Counter()
    if spark.catalog.tableExists(run.model.changes):
        for *row, kind, _ in rows_of(spark.table(run.model.changes)):
            replayed[tuple(row)] += 1 if kind in ("insert", "update_after") else -1
    assert {row: count for row, count in replayed.items() if count} == Counter(
        rows_of(spark.table(run.model.target))
    )
    if not _late_somewhere(shape, pieces, delay, configs):
        everything = [row for row in itertools.chain(*pieces) if row["ts"] is not None]
        assert dropped == 0
        assert rows == Counter(ref.batch(everything, shape, keys, list(METRICS.values())))


def _late_somewhere(
    shape: ref.Windows | ref.Merging, pieces: list[Piece], delay: int, configs: dict[str, Any]
) -> bool:
    """Whether a row came after the last result of one of its windows, so that it may be missing there."""
    last = int(str(configs.get("last_result_offset", configs["complete_result_offset"])).partition(" ")[0])
    watermark = None
    for piece in pieces:
        times = [row["ts"] for row in piece if row["ts"] is not None]
        for time in times:
            merging = isinstance(shape, ref.Session | ref.DynamicCumulate)
            # Of a session it is enough that none had closed: judged by the row itself.
            first = time if merging else shape.windows(time)[0].end  # type: ignore[union-attr]
            if watermark is not None and first + last <= watermark:
                return True
        reached = max((time - delay for time in times), default=watermark)
        watermark = reached if watermark is None else max(watermark, reached or watermark)
    return False
