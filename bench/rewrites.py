"""What each rewrite saves and what it costs, with and without it on the same rows.

In one run, in one JVM, on rows in Parquet files; results are computed and thrown away. Each query runs
`--times` times, with and without the rewrite in turn; the quickest counts.

enum     COUNT(DISTINCT user) by city and channel, for 3, 10 and 60 channels, with 0 %, 50 % and 95 % of the users
         seen under all of them (the others under one); rows of the distinct set, too (aim: with 95 % and 10 values
         at most a third). With one and with three distinct columns
split    COUNT(DISTINCT user) by a key with a Zipf skew of 0 to 1.5, or one key with half of all rows; with one and
         with three distinct columns, in 16 to 1024 buckets
topn     the 10 and the 2,000 greatest rows of each key, with the same skews and buckets
stream   the first query kept up to date from a stream, in `--pieces` micro-batches: time, rows and bytes of the
         distinct set in the state

    python bench/rewrites.py --rows 5000000
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from day import Bench, arguments, timed

from dbt.adapters.spark_streaming.environment import close_environments
from dbt.adapters.spark_streaming.query.rewrites import rewriting, stream_rewrites

OVERLAPS = (0, 50, 95)
VALUES = (3, 10, 60)
SKEWS = ("0", "0.5", "1", "1.5", "hot")
BUCKETS = (16, 128, 1024)
PLACES = (10, 2000)
KEYS = 1000
CITIES = 20


@dataclass(frozen=True)
class Cost:
    """Of one query."""

    seconds: float
    shuffle_bytes: int
    shuffle_rows: int


class Rewrites(Bench):
    """Runs queries with and without a rewrite."""

    def cost(self, text: str) -> Cost:
        """Run a query and throw its rows away."""
        context = self.spark.sparkContext
        self.groups = getattr(self, "groups", 0) + 1
        context.setJobGroup(f"rewrites {self.groups}", text[:80])
        seconds, _ = timed(lambda: self.spark.sql(text).write.format("noop").mode("overwrite").save() or 0)
        context._jsc.sc().listenerBus().waitUntilEmpty()
        stages = list(self.stages(f"rewrites {self.groups}"))
        return Cost(
            seconds,
            sum(stage.shuffleWriteBytes() for stage in stages),
            sum(stage.shuffleWriteRecords() for stage in stages),
        )

    def stages(self, group: str) -> Iterator[Any]:
        """The stages that ran for a group of jobs."""
        tracker = self.spark.sparkContext.statusTracker()
        store = self.spark.sparkContext._jsc.sc().statusStore()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        for stage in sorted({stage for job in jobs if job for stage in job.stageIds}):
            if tracker.getStageInfo(stage) is not None:  # else it was skipped
                yield store.lastStageAttempt(stage)

    def compare(self, case: dict[str, Any], text: str, name: str, **options: Any) -> dict[str, Any]:
        """Without and with a rewrite, in turn."""
        texts = (text, rewriting.rewrite(name, text, **options))
        costs: tuple[list[Cost], list[Cost]] = ([], [])
        for _ in range(self.options.times):
            for each, found in zip(texts, costs, strict=True):
                found.append(self.cost(each))
        without, with_it = (min(found, key=lambda cost: cost.seconds) for found in costs)
        result = {"rewrite": name, **case, **options, "without": asdict(without), "with": asdict(with_it)}
        shown = " ".join(f"{key}={value}" for key, value in {**case, **options}.items())
        print(
            f"{name:15} {shown:38} {without.seconds:7.2f} s {with_it.seconds:7.2f} s {_ratio(with_it, without, 'seconds')}"
            f"   {without.shuffle_bytes / 1e6:8.1f} MB {with_it.shuffle_bytes / 1e6:8.1f} MB "
            f"{_ratio(with_it, without, 'shuffle_bytes')}",
            flush=True,
        )
        return result

    def stream(self, name: str, table: str, text: str) -> dict[str, float]:
        """What a query's distinct set is in the state at the end of a stream over a table's files."""
        fields = self.spark.table(table).schema.fields
        schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
        model, _, figures = self.streamed(name, table, self.root / table, schema, text)
        kept = self.spark.table(f"{model.state}.files").where("partition.part like '%distinct%'")
        size = kept.selectExpr("sum(record_count) as rows", "sum(file_size_in_bytes) as bytes").first()
        return {
            "seconds": sum(each["wall"] for each in figures),
            "rows": size["rows"],
            "bytes": size["bytes"],
        }

    def keep(self, name: str, rows: Any) -> str:
        """Rows as Parquet files, and the view of that name."""
        path = str(self.root / name)
        rows.write.mode("overwrite").parquet(path)
        self.spark.read.parquet(path).createOrReplaceTempView(name)
        return name


def _ratio(one: Cost, other: Cost, figure: str) -> str:
    return f"{getattr(one, figure) / max(getattr(other, figure), 1e-9):5.2f}"


def by_channel(bench: Rewrites, rows: int) -> Iterator[dict[str, Any]]:
    """Values and overlap."""
    for values in VALUES:
        channels = ", ".join(f"'channel {number}'" for number in range(values))
        for overlap in OVERLAPS:
            table, sights, users = views(bench, rows, values, overlap)
            for columns in ("user",), ("user", "device", "page"):
                counts = ", ".join(f"count(distinct {column}) as {column}s" for column in columns)
                text = (
                    f"select city, channel, count(*) as n, {counts} from {table} "
                    f"where channel in ({channels}) group by city, channel"
                )
                case = {"values": values, "overlap": overlap, "columns": len(columns)}
                found = bench.compare(case, text, "enum_distinct")
                if len(columns) == 1:
                    print(
                        f"{'':15} rows of the distinct set {sights:,} → {users:,}: {users / sights:.2f}",
                        flush=True,
                    )
                    found |= {"set_rows": {"without": sights, "with": users}}
                yield found


def views(
    bench: Rewrites, rows: int, values: int, overlap: int, files: int | None = None
) -> tuple[str, int, int]:
    """Page views in which each user is seen twice under each of his channels, in so many files; with the
    number of pairs of user and channel, and of users."""
    share = overlap / 100
    users = max(1, int(rows / 2 / (share * values + 1 - share)))
    everywhere = int(users * share)
    sights = everywhere * values + users - everywhere
    # First the pairs of those who are seen everywhere, then the others, one pair each.
    first = everywhere * values
    made = bench.spark.range(rows).selectExpr(
        f"pmod(xxhash64(id % {sights}), 1L << 40) as mixed", f"id % {sights} as pair"
    )
    made = made.selectExpr(
        f"case when pair < {first} then pair div {values} else {everywhere} + pair - {first} end as user",
        f"case when pair < {first} then pair % {values} else pair * 7 % {values} end as number",
        "mixed",
    ).selectExpr(
        f"concat('city ', user % {CITIES}) as city",
        "concat('channel ', number) as channel",
        "user",
        "user div 2 as device",
        "mixed % 10000 as page",
    )
    # In no order, as rows come.
    ordered = made.orderBy("page")
    return bench.keep("views", ordered.repartition(files) if files else ordered), sights, users


def in_stream(bench: Rewrites, rows: int) -> Iterator[dict[str, Any]]:
    """What a stream keeps and takes."""
    for values in VALUES:
        channels = ", ".join(f"'channel {number}'" for number in range(values))
        for overlap in OVERLAPS:
            table, _, _ = views(bench, rows, values, overlap, bench.options.pieces)
            text = (
                "select city, channel, count(*) as n, count(distinct user) as users "
                f"from (select /*+ STREAM */ * from {table}) "
                f"where channel in ({channels}) group by city, channel"
            )
            kept = {
                "without": bench.stream(f"plain_{values}_{overlap}_{rows}", table, text),
                "with": bench.stream(
                    f"enum_{values}_{overlap}_{rows}",
                    table,
                    stream_rewrites.with_hints("enum_distinct", text),
                ),
            }
            ratios = {figure: kept["with"][figure] / kept["without"][figure] for figure in kept["with"]}
            shown = "   ".join(
                f"{figure} {kept['without'][figure]:,.0f} → {kept['with'][figure]:,.0f}: {ratio:.2f}"
                for figure, ratio in ratios.items()
            )
            print(f"{'stream':15} values={values} overlap={overlap}   {shown}", flush=True)
            yield {"rewrite": "stream", "values": values, "overlap": overlap, **kept}


def by_skew(bench: Rewrites, rows: int) -> Iterator[dict[str, Any]]:
    """Skew and buckets."""
    for skew in SKEWS:
        table = bench.keep("sales", sales(bench, rows, skew))
        for columns in ("buyer",), ("buyer", "product", "day"):
            counts = ", ".join(f"count(distinct {column}) as {column}s" for column in columns)
            text = f"select city, count(*) as n, sum(amount) as total, {counts} from {table} group by city"
            for buckets in BUCKETS:
                yield bench.compare(
                    {"skew": skew, "columns": len(columns)}, text, "split_distinct", buckets=buckets
                )


def by_rank(bench: Rewrites, rows: int) -> Iterator[dict[str, Any]]:
    """The same of rankings."""
    for skew in SKEWS:
        table = bench.keep("sales", sales(bench, rows, skew))
        for places in PLACES:
            text = (
                "select * from (select *, row_number() over (partition by city order by amount desc, id) as place "
                f"from {table}) where place <= {places}"
            )
            for buckets in BUCKETS if places == PLACES[0] else BUCKETS[:2]:
                yield bench.compare({"skew": skew, "places": places}, text, "split_topn", buckets=buckets)


def sales(bench: Rewrites, rows: int, skew: str) -> Any:
    """Sales by city: as many as a Zipf law has it, or half of all in one."""
    by = "(xxhash64(id, 1) & 1048575) / 1048576.0D"
    if skew == "hot":
        city = f"case when id % 2 = 0 then 0 else 1 + int({by} * {KEYS - 1}) end"
    elif skew == "1":
        city = f"int(pow({KEYS}, {by})) - 1"
    else:
        power = 1 - float(skew)
        city = f"int(pow((pow({KEYS}, {power}D) - 1) * {by} + 1, {1 / power}D)) - 1"
    return bench.spark.range(rows).selectExpr(
        "id",
        f"concat('city ', {city}) as city",
        f"pmod(xxhash64(id, 2), {max(rows // 4, 1)}) as buyer",
        "pmod(xxhash64(id, 3), 20000) as product",
        "pmod(xxhash64(id, 4), 365) as day",
        "pmod(xxhash64(id, 5), 100000) as amount",
    )


def main() -> None:
    """Run all and print a line for each comparison."""
    parser = arguments("Rewrites, with and without.", "rewrites", pieces=6)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", choices=["enum", "split", "topn", "stream"], action="append")
    parser.add_argument("--json", help="a file for all figures")
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    bench = Rewrites(options)
    try:
        for warm in by_channel, by_skew, by_rank, in_stream:
            next(warm(bench, options.rows // 20))
        print("--- warm", flush=True)
        print(f"{'':54} {'without':>9} {'with':>9} ratio   {'without':>11} {'with':>11} ratio")
        wanted = options.only or ["enum", "split", "topn", "stream"]
        found = []
        works = (("enum", by_channel), ("split", by_skew), ("topn", by_rank), ("stream", in_stream))
        for name, work in works:
            found += list(work(bench, options.rows)) if name in wanted else []
        if options.json:
            with open(options.json, "w") as file:
                json.dump(found, file, indent=1)
    finally:
        close_environments()


if __name__ == "__main__":
    main()
