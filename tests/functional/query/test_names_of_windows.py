"""Window functions over relations that have columns of the windows' names, and of those the expansion uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests.functional.query.test_queries import rows
from tests.functional.stream.harness import SCHEMA, Stream
from tests.planned import plan_of
from tests.thorough import mostly_thorough

MADE_UP = """'w' as window_start, 7 as window_end, array(1) as window_time, 1 as end_micros, 2 as start_micros,
    3 as windows, 4 as `rows`, 5 as input, 6 as `row`, 8 as session, 9 as opens, 10 as ts_micros, 11 as no_windows,
    12 as relation, 13 as below, 14 as slice_end, 15 as event_time, 16 as expires_at, 17 as first_micros,
    18 as last_micros"""
ROWS = f"""select timestamp'2024-03-04 08:00:00' + make_dt_interval(0, 0, 0, id * 20 + pmod(hash(id), 60)) as ts,
    nullif(chr(97 + pmod(hash(id, 3), 4)), 'd') as k, pmod(hash(id, 4), 9) as v, {MADE_UP} from range({{}})"""
KINDS: dict[str, tuple[Any, ...]] = {
    "tumble": ("tumble", ["10 minutes"], {}),
    "tumble of a zone": ("tumble", ["1 hour"], {"time_zone": "Asia/Kathmandu", "offset": "7 minutes"}),
    "hop": ("hop", ["5 minutes", "15 minutes"], {"offset": "-1 minute"}),
    "cumulate": ("cumulate", ["10 minutes", "1 hour"], {"offset": "3 minutes"}),
    "cumulate of a zone": ("cumulate", ["30 minutes", "1 day"], {"time_zone": "Asia/Kathmandu"}),
    "session": ("session", ["4 minutes"], {"partition_by": ["k"]}),
    "dynamic_cumulate": ("dynamic_cumulate", ["2 minutes", "4 minutes"], {"partition_by": ["k"]}),
}


def over(kind: str, relation: str, time: str) -> str:
    name, lengths, options = KINDS[kind]
    return expansion.expand_window(relation, window_arguments.make_window(name, time, *lengths, **options))


def grouped(of: str, time: str = ", window_time") -> str:
    return f"""select window_start, window_end{time}, k, count(*) as n, sum(v) as v, min(`row`) as `row`
        from {of} group by window_start, window_end{time}, k"""


def stacked(upper: str, lower: str) -> str:
    below = grouped(over(lower, "crowded", "ts"))
    return f"with lower as ({below}) {grouped(over(upper, 'lower', 'window_time'), '')}"


QUERIES = {
    **{kind: grouped(over(kind, "crowded", "ts"), "") for kind in KINDS},
    **{
        f"{upper} over {lower}": stacked(upper, lower)
        for upper, lower in (
            ("tumble", "tumble"),
            ("tumble of a zone", "session"),
            ("hop", "cumulate"),
            ("cumulate of a zone", "dynamic_cumulate"),
            ("session", "tumble of a zone"),
            ("dynamic_cumulate", "tumble"),
        )
    },
    "a window column in an expression": f"""select window_start, window_end, hour(window_start) as h, count(*) as n
        from {over("tumble", "crowded", "ts")} group by window_start, window_end, hour(window_start)""",
    "kept rows": f"""select window_start, window_end, k, percentile(v, 0.5) as p, max(end_micros + input) as m
        from {over("hop", "crowded", "ts")} group by window_start, window_end, k""",
    "kept rows over windows": f"""with lower as ({grouped(over("tumble", "crowded", "ts"))})
        select window_start, window_end, k, percentile(n, 0.5) as p
        from {over("cumulate", "lower", "window_time")} group by window_start, window_end, k""",
    "kept rows of sessions": f"""select window_start, window_end, k, percentile(v, 0.5) as p
        from {over("session", "crowded", "ts")} group by window_start, window_end, k""",
    "rows with their windows": f"""select window_start, window_end, window_time, k, v, `row`
        from {over("hop", "crowded", "ts")}""",
    "rows of stream() in a window": f"""with s as (select * from {expansion.expand_stream("crowded")})
        {grouped(over("tumble", "s", "ts"), "")}""",
}
STREAMED = [
    "tumble over tumble",
    "hop over cumulate",
    "kept rows over windows",
    "kept rows of sessions",
]


@pytest.fixture(scope="module", autouse=True)
def crowded(spark: Any) -> Iterator[None]:
    spark.sql(ROWS.format(60)).createOrReplaceTempView("crowded")
    yield
    spark.catalog.dropTempView("crowded")


def test_views_have_each_window_column_once(spark: Any) -> None:
    for kind in KINDS:
        columns = spark.sql(f"select * from {over(kind, 'crowded', 'ts')}").columns
        assert columns[:3] == ["ts", "k", "v"]
        assert columns[-3:] == ["window_start", "window_end", "window_time"]
        assert len(set(columns)) == len(columns) == 23
        again = over(kind, over(kind, "crowded", "ts"), "window_time")
        assert spark.sql(f"select * from {again}").columns == columns


@pytest.mark.thorough
def test_view_and_batch_have_the_same_rows(spark: Any) -> None:
    for name, text in QUERIES.items():
        expected = rows(spark.sql(text))
        assert expected, name
        assert rows(spark.sql(whole_query.batch_sql(plan_of(text)))) == expected, name


@pytest.mark.parametrize("name", mostly_thorough(STREAMED, []))
def test_a_stream_has_the_same_rows(spark: Any, storage_root: Path, name: str) -> None:
    text = QUERIES[name]
    batch = spark.sql(text)
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in batch.schema.fields)
    stream = Stream(
        spark, storage_root, generate.generate_program(plan_of(text)), columns, delay=3_600_000_000
    )
    source = f"{SCHEMA}.{stream.model.name}_crowded"
    rows_of = spark.table("crowded")
    spark.sql(f"create table {source} using iceberg as select * from crowded where false")
    stream.reads(stream.model.sources[0].__class__("crowded", source))
    for piece in ("<", ">="):
        rows_of.where(f"ts {piece} timestamp'2024-03-04 08:10:00'").writeTo(source).append()
        assert run_stream(spark, stream.model, stream.program).late_rows == 0
    flush(spark, stream.model, stream.program)
    assert rows(spark.table(stream.model.target)) == rows(batch)
