"""Queries over windows, stacked in all ways: the view, the batch plan and the stream have the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.stages import RowsStage
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests.planned import plan_of
from tests.spark_rows import asks
from tests.thorough import mostly_thorough

BIDS = "ts timestamp, bidder bigint, item string, price bigint"
ASKS = "ts timestamp, item string, price bigint"
DELAY = 3_600_000_000
_numbers = itertools.count()


def window(kind: str, *lengths: str, of: str = "bids", **options: Any) -> str:
    return expansion.expand(of, window_arguments.make(kind, "ts", *lengths, **options))


TUMBLE, HOP = window("tumble", "10 minutes"), window("hop", "5 minutes", "15 minutes")
CUMULATE = window("cumulate", "10 minutes", "1 hour")
SESSION = window("session", "4 minutes", partition_by=["bidder"])
DYNAMIC = window("dynamic_cumulate", "2 minutes", "4 minutes", partition_by=["bidder"])
BY_ITEM = "select window_start, window_end, item, {} as n from {} group by window_start, window_end, item"


def joined(
    kind: str, other: str, columns: str = "l.window_start, l.window_end, l.item, l.n, r.n as m"
) -> str:
    left = BY_ITEM.format("count(*)", f"(select * from {TUMBLE} where price > 30)")
    right = BY_ITEM.format("count(distinct price)", f"(select * from {other} where price < 60)")
    return f"""select {columns} from ({left}) as l {kind} join ({right}) as r
        on l.window_start = r.window_start and l.window_end = r.window_end and l.item = r.item"""


TWO_STREAMS = window("tumble", "10 minutes", of="asks")
COALESCED = (
    "coalesce(l.window_start, r.window_start) as window_start, coalesce(l.window_end, r.window_end) as window_end, "
    "coalesce(l.item, r.item) as item, l.n, r.n as m"
)
ONE_SIDE = "l.window_start, l.window_end, l.item, l.n"


def top(source: str, partition: str = "item", where: str = "rn <= 3", rank: str = "row_number") -> str:
    return f"""select * from (select *, {rank}() over (
        partition by window_start, window_end, {partition} order by price desc nulls last) as rn from {source})
        where {where}"""


QUERIES = {
    **{
        f"{kind} join of {name}": joined(kind, other, columns)
        for name, other in (("one stream", TUMBLE), ("two streams", TWO_STREAMS))
        for kind, columns in (
            ("inner", ONE_SIDE + ", r.n as m"),
            ("left", ONE_SIDE + ", r.n as m"),
            ("right", "r.window_start, r.window_end, r.item, l.n, r.n as m"),
            ("full", COALESCED),
            ("left semi", ONE_SIDE),
            ("left anti", ONE_SIDE),
        )
    },
    "a join of rows of two streams": f"""select l.window_start, l.window_end, l.item, l.bidder, r.ts
        from {TUMBLE} as l join {TWO_STREAMS} as r
        on l.window_start = r.window_start and l.window_end = r.window_end and l.item = r.item and l.price < r.price""",
    "first row of a window": top(TUMBLE, where="rn = 1").replace("price desc nulls last", "ts"),
    "last row of a cumulate": top(CUMULATE, where="rn = 1").replace("price desc nulls last", "ts desc"),
    "topn of hop rows": top(HOP),
    "topn of cumulate rows with ranks": top(CUMULATE, rank="rank"),
    "topn of session rows": top(SESSION, partition="bidder", rank="dense_rank"),
    "a range of ranks": top(TUMBLE, where="rn between 2 and 4"),
    "qualify": f"""select * from {TUMBLE}
        qualify row_number() over (partition by window_start, window_end, item order by price desc nulls last) <= 2""",
    "topn of an aggregate": f"""select window_end, item, n from (
        select *, rank() over (partition by window_start, window_end order by n desc) as rn
        from ({BY_ITEM.format("sum(price)", CUMULATE)})) where rn < 3""",
    "topn of a join": f"""select * from (
        select *, row_number() over (partition by window_start, window_end order by n desc, m) as rn
        from ({joined("inner", TUMBLE)})) where rn <= 2""",
    "union of windows": f"""{BY_ITEM.format("count(*)", TUMBLE)}
        union all {BY_ITEM.format("count(*)", window("tumble", "1 hour"))}""",
    "windows over windows": f"""with small as (
          select window_start as s, window_time as ts, item, count(distinct bidder) as n from {TUMBLE}
          group by window_start, window_end, window_time, item)
        select window_start, window_end, item, max(n) as most, count(*) as parts
        from {window("tumble", "1 hour", of="small")} group by window_start, window_end, item""",
    "two stacks of windows": f"""with small as (
          select window_time as ts, item, count(*) as n, sum(price) as total from {TUMBLE}
          group by window_start, window_end, window_time, item),
        other as (
          select window_time as ts, item, count(*) as n, sum(price) as total from {window("tumble", "5 minutes", of="asks")}
          group by window_start, window_end, window_time, item)
        select x.window_start, x.window_end, x.item, x.n, y.most from (
          select window_start, window_end, item, sum(n) as n from {window("tumble", "1 hour", of="small")}
          group by window_start, window_end, item) as x
        join (select window_start, window_end, item, max(total) as most from {window("tumble", "1 hour", of="other")}
          group by window_start, window_end, item) as y
        on x.window_start = y.window_start and x.window_end = y.window_end and x.item = y.item""",
    "sessions of windows": f"""with small as (
          select window_time as ts, item, count(*) as n from {window("tumble", "2 minutes")}
          group by window_start, window_end, window_time, item)
        select window_start, window_end, item, sum(n) as n
        from {window("session", "2 minutes", of="small", partition_by=["item"])}
        group by window_start, window_end, item""",
    "percentiles keep rows": BY_ITEM.format("percentile(price, 0.5)", HOP),
    "percentiles of sessions": f"""select window_start, window_end, bidder, percentile(price, 0.5) as p
        from {SESSION} group by window_start, window_end, bidder""",
    "sessions of all rows": f"""select window_start, window_end, count(*) as n
        from {window("session", "30 seconds")} group by window_start, window_end""",
    "sessions of all rows, grouped": f"""select window_start, window_end, item, count(*) as n, count(distinct bidder) as d
        from {window("session", "30 seconds")} group by window_start, window_end, item""",
    "dynamic_cumulate of all rows, grouped": f"""select window_start, window_end, item, count(*) as n,
        count(distinct bidder) as d from {window("dynamic_cumulate", "1 minute", "2 minutes")}
        group by window_start, window_end, item""",
    "sessions by more than their key": f"""select window_start, window_end, bidder, item, count(distinct price) as n
        from {SESSION} group by window_start, window_end, bidder, item""",
    "sessions with a filter above": f"""select window_start, window_end, bidder, count(*) as n
        from {SESSION} where price > 50 group by window_start, window_end, bidder""",
    "sessions of all, by their bounds": f"""select window_start, window_end, count(*) as n, count(distinct item) as d
        from {SESSION} group by window_start, window_end, grouping sets ((bidder), ())""",
    "dynamic_cumulate": f"""select window_start, window_end, bidder, count(*) as n, count(distinct item) as d,
        count(distinct item) filter (where price > 50) as e
        from {DYNAMIC} group by window_start, window_end, bidder having count(*) > 1""",
    "dynamic_cumulate without its key": f"""select window_start, window_end, count(*) as n
        from {DYNAMIC} group by window_start, window_end, item""",
    "grouping sets of sessions": f"""select window_start, window_end, bidder, item, grouping_id() as g, count(*) as n,
        count(distinct price) as d from {SESSION} group by window_start, window_end, rollup(bidder, item)""",
    "grouping sets of dynamic_cumulate": f"""select window_start, window_end, bidder, item, count(*) as n,
        count(distinct price) filter (where price > 50) as d
        from {DYNAMIC} group by window_start, window_end, bidder, cube(item)""",
    "grouping sets of cumulate": f"""select window_start, window_end, bidder, item, grouping_id() as g, count(*) as n,
        count(distinct price) as d, count(distinct price) filter (where price > 50) as e, sum(distinct price) as s
        from {CUMULATE} group by window_start, window_end, cube(bidder, item)""",
    "grouping sets with a key in common": f"""select window_start, window_end, bidder, item, sum(distinct price) as s,
        count(distinct price, ts) filter (where price > 50) as e
        from {CUMULATE} group by window_start, window_end, item, rollup(bidder)""",
    "grouping sets without a finest": f"""select window_start, window_end, bidder, item, count(distinct price) as d
        from {CUMULATE} group by window_start, window_end, grouping sets ((bidder), (item), ())""",
    "grouping sets of hop": f"""select window_start, window_end, bidder, item, count(*) as n,
        count(distinct price) as d, count(distinct price) filter (where price > 50) as e
        from {HOP} group by window_start, window_end, grouping sets ((item), (bidder, item), ())""",
    "rows with their windows": f"select window_start, window_end, bidder, price from {HOP}",
    "rows with their sessions": f"select window_start, window_end, bidder, price, item from {SESSION}",
}


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two streams of four files each, nearly in order of time."""
    folder = tmp_path_factory.mktemp("queries")
    for name, seed, columns in (("bids", 1, "bidder, item, price"), ("asks", 9, "item, price")):
        rows = spark.sql(
            f"""select timestamp'2024-03-04 08:00:00' +
              make_dt_interval(0, 0, 0, id * 20 + pmod(hash(id, {seed}), 60)) as ts,
              nullif(pmod(hash(id, {seed}, 2), 5), 0)::bigint as bidder,
              nullif(chr(97 + pmod(hash(id, {seed}, 3), 4)), 'd') as item,
              nullif(pmod(hash(id, {seed}, 4), 90), 0)::bigint as price, id div 75 as piece
            from range(300)"""
        )
        for piece in range(4):
            path = str(folder / name)
            kept = rows.where(f"piece = {piece}").selectExpr("ts", *columns.split(", "))
            kept.coalesce(1).write.mode("append").parquet(path)
        spark.read.schema(BIDS if name == "bids" else ASKS).parquet(path).createOrReplaceTempView(name)
    yield folder
    for name in ("bids", "asks"):
        spark.catalog.dropTempView(name)


def rows(table: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in table.collect()), key=repr)


def model_of(
    spark: Any,
    root: Path,
    folder: Path,
    program: Program,
    batch: Any,
    changelog: bool = False,
    files: int = 1,
) -> StreamModel:
    """A model over the folder's streams, so many files of each at once, with a table of the columns that the
    query has in batch."""
    spark.sql("create namespace if not exists queries")
    target = f"queries.q{next(_numbers)}"
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in batch.schema.fields)
    spark.sql(f"create table {target} ({columns}) using iceberg")
    schemas = {"bids": BIDS, "asks": ASKS}
    return StreamModel(
        name=target,
        target=target,
        state=f"{target}__state",
        storage=Storage(str(root), lambda: spark),
        sources=tuple(
            StreamSource(
                stream.relation,
                str(folder / stream.relation),
                "parquet",
                schemas[stream.relation],
                {"maxFilesPerTrigger": str(files)},
            )
            for stream in program.inputs
        ),
        watermark_delay=DELAY,
        changelog=changelog,
    )


# All are run by tests/differential/test_composed.py, on DuckDB. Those that Spark has its own part in are run here, too;
# all of them with `-m thorough`.
_IN_CI = {"a join of rows of two streams"}


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
def test_view_batch_and_stream_have_the_same_rows(
    spark: Any, storage_root: Path, folder: Path, name: str
) -> None:
    text = QUERIES[name]
    plan = plan_of(text, ask=asks(spark))
    batch = spark.sql(generate.batch(plan))
    assert rows(batch)
    if "row_number" not in text:  # whose ties a view leaves to chance
        assert rows(batch) == rows(spark.sql(text))
    program = generate.program(plan)
    # A micro-batch takes a second or two. What is cut in more is for the oracle and the property tests.
    model = model_of(spark, storage_root, folder, program, batch, files=2)
    result = run_stream(spark, model, program)
    assert (result.batches, result.late_rows) == (2, 0)
    flush(spark, model, program)
    assert rows(spark.table(model.target)) == rows(batch)


def test_only_what_can_not_be_merged_keeps_rows() -> None:
    keeping = {
        name
        for name, text in QUERIES.items()
        if any(isinstance(s, RowsStage) for s in plan_of(text).dataflow.windowed)
    }
    assert keeping == {
        "a join of rows of two streams",
        "first row of a window",
        "last row of a cumulate",
        "topn of hop rows",
        "topn of cumulate rows with ranks",
        "topn of session rows",
        "a range of ranks",
        "qualify",
        "percentiles keep rows",
        "percentiles of sessions",
        "sessions with a filter above",
        "dynamic_cumulate without its key",
        "rows with their sessions",
    }
