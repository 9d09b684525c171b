"""Windows on the clocks of a zone, on the days when these are changed: view, batch and stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests import reference as ref
from tests.planned import plan_of
from tests.spark_rows import rows_of
from tests.thorough import mostly_thorough

BERLIN = ZoneInfo("Europe/Berlin")
SPRING, AUTUMN = (
    datetime(2024, 3, 30, 20, tzinfo=timezone.utc),
    datetime(2024, 10, 26, 20, tzinfo=timezone.utc),
)
EVERY = timedelta(minutes=17)
ROWS = 170  # two days

Shape = ref.Tumble | ref.Hop | ref.Cumulate


def wall(moment: datetime) -> int:
    """What the clock shows, as microseconds."""
    return ref.to_micros(moment.astimezone(BERLIN).replace(tzinfo=timezone.utc))


def instants(micros: int) -> list[datetime]:
    """When the clock shows a time; once as if it hadn't been put forward, where it never does."""
    shown = ref.to_datetime(micros).replace(tzinfo=None)
    found = [shown.replace(tzinfo=BERLIN, fold=fold).astimezone(timezone.utc) for fold in (0, 1)]
    return sorted({moment for moment in found if wall(moment) == micros}) or found[:1]


def expected(shape: Shape, moments: list[datetime]) -> Counter[tuple[Any, ...]]:
    counts: Counter[ref.Window] = Counter()
    for moment in moments:
        counts.update(shape.windows(wall(moment)))
    found: Counter[tuple[Any, ...]] = Counter()
    for window, count in counts.items():
        start, end = instants(window.start)[0], instants(window.end)[-1]
        final = not isinstance(shape, ref.Cumulate) or (window.end - window.start) == shape.max_size
        if final or wall(end) == window.end:
            found[(start, end, count)] += 1
    return found


CASES: dict[str, tuple[Shape, Callable[[], Any]]] = {
    "days": (
        ref.Tumble(ref.DAY),
        lambda: window_arguments.make_window("tumble", "ts", "1 day", time_zone="Europe/Berlin"),
    ),
    "hours since midnight": (
        ref.Cumulate(ref.HOUR, ref.DAY),
        lambda: window_arguments.make_window("cumulate", "ts", "1 hour", "1 day", time_zone="Europe/Berlin"),
    ),
    "half days each six hours": (
        ref.Hop(6 * ref.HOUR, 12 * ref.HOUR, ref.HOUR),
        lambda: window_arguments.make_window(
            "hop", "ts", "6 hours", "12 hours", offset="1 hour", time_zone="Europe/Berlin"
        ),
    ),
}


@pytest.fixture(
    params=[pytest.param(SPRING, marks=pytest.mark.thorough), AUTUMN], ids=["23 hours", "25 hours"]
)
def moments(request: pytest.FixtureRequest) -> list[datetime]:
    return [request.param + number * EVERY for number in range(ROWS)]


@pytest.fixture
def events(spark: Any, moments: list[datetime], tmp_path: Path) -> Iterator[Path]:
    """The moments in three files."""
    for piece in range(3):
        times = ", ".join(
            f"timestamp '{moment.isoformat()}'" for moment in moments[piece * 60 : piece * 60 + 60]
        )
        spark.sql(f"select explode(array({times})) as ts").coalesce(1).write.mode("append").parquet(
            str(tmp_path)
        )
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("moments")
    yield tmp_path
    spark.catalog.dropTempView("moments")


@pytest.mark.parametrize("name", mostly_thorough(CASES, ["hours since midnight"]))
def test_days_of_23_and_25_hours(
    spark: Any, storage_root: Path, events: Path, moments: list[datetime], name: str
) -> None:
    shape, made = CASES[name]
    text = f"""select window_start, window_end, count(*) as n
        from {expansion.expand_window("moments", made())} group by window_start, window_end"""
    due = expected(shape, moments)

    def comparable(table: Any) -> Counter[tuple[Any, ...]]:
        return Counter(
            (start.replace(tzinfo=timezone.utc), end.replace(tzinfo=timezone.utc), n)
            for start, end, n in rows_of(table)
        )

    assert comparable(spark.sql(text)) == due
    plan = plan_of(text)
    assert comparable(spark.sql(whole_query.batch_sql(plan))) == due

    program = generate.generate_program(plan)
    spark.sql("create namespace if not exists zones")
    target = f"zones.m{abs(hash((name, moments[0])))}"
    spark.sql(f"create table {target} (window_start timestamp, window_end timestamp, n bigint) using iceberg")
    model = StreamModel(
        name="m",
        target=target,
        state=f"{target}__state",
        storage=Storage(str(storage_root), lambda: spark),
        sources=(
            StreamSource("moments", str(events), "parquet", "ts timestamp", {"maxFilesPerTrigger": "1"}),
        ),
        watermark_delay=2 * ref.DAY,
    )
    assert run_stream(spark, model, program).batches == 3
    flush(spark, model, program)
    assert comparable(spark.table(target)) == due


def test_a_window_closes_when_the_clock_has_passed_its_end_for_good(spark: Any) -> None:
    """At 02:30, half an hour before they show 02:00 again, the clocks of Berlin have only passed what is before 02:00."""
    from dbt.adapters.spark_streaming.stream.common.time_zones import instant_of_local_time, latest_local_time

    put_back = ref.to_micros(datetime(2024, 10, 27, 1, tzinfo=timezone.utc))
    two = wall(datetime(2024, 10, 27, 1, tzinfo=timezone.utc))
    assert latest_local_time(put_back - 30 * ref.MINUTE, "Europe/Berlin") == two - 1
    assert latest_local_time(put_back, "Europe/Berlin") == two
    assert latest_local_time(put_back - 61 * ref.MINUTE, "Europe/Berlin") == two - ref.MINUTE
    assert instant_of_local_time(two, "Europe/Berlin") == put_back
    put_forward = ref.to_micros(datetime(2024, 3, 31, 1, tzinfo=timezone.utc))
    assert latest_local_time(put_forward, "Europe/Berlin") == put_forward + 2 * ref.HOUR
    assert (
        latest_local_time(
            instant_of_local_time(put_forward + 90 * ref.MINUTE, "Europe/Berlin"), "Europe/Berlin"
        )
        >= put_forward + 90 * ref.MINUTE
    )
