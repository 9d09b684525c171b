"""Thousands of small micro-batches: does the last cost what the first did, and do metadata and files stay bounded?

windows  a tumble of a minute with an exact distinct count, appended
ranking  the 10 products of each category with the greatest sum, replaced row by row, with a change feed
reader   a sum over `ranking`, which reads the feed every two seconds
rebuilt  a `table`, an `incremental` and a streaming model that dbt runs again and again, by turns with `--full-refresh`

Each micro-batch is a file of `--rows` rows that was appended to a table by a commit of its own. What is printed of
`windows` and of `ranking` (with its reader): the cost of the last `--sample` micro-batches against that of the first as
many that are warm, wall and CPU; and how many snapshots, files and bytes of metadata each table has over time.

    python bench/many_batches.py --batches 2000
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from dbt.cli.main import dbtRunner
from micro_batch import Probe

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import close_environments, get_environment
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.sql.intervals import parse
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource, changelog_name
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable, load_table
from dbt.adapters.spark_streaming.stream.microbatch import loop as batches_module
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream

SECOND = 1_000_000
EVENTS = "ts timestamp, category string, product bigint, amount bigint, device bigint"
WINDOWS = """
select window_start, window_end, category, count(*) as views, sum(amount) as total, count(distinct device) as devices
from {tumble} group by window_start, window_end, category
"""
WINDOWS_COLUMNS = "window_start timestamp, window_end timestamp, category string, views bigint, total bigint, devices bigint"
RANKING = """
select category, product, total, place from (
  select *, row_number() over (partition by category order by total desc, product) as place
  from (
    select category, product, sum(amount) as total from (select /*+ STREAM */ * from events) group by category, product
  )
) where place <= 10
"""
AT_ONCE = "tblproperties={'history.expire.max-snapshot-age-ms': '1'}"
REBUILT = {
    "source.sql": "{{ config(materialized='incremental') }}\nselect id % 20 as k, id as v from range(1000)\n",
    "whole.sql": f"{{{{ config(materialized='table', {AT_ONCE}) }}}}\nselect * from {{{{ ref('source') }}}}\n",
    "more.sql": f"{{{{ config(materialized='incremental', {AT_ONCE}) }}}}\nselect k from {{{{ ref('whole') }}}} limit 100\n",
    "streamed.sql": "{{ config(materialized='streaming_table', constant_domains=['k'], changelog=true, max_snapshots=2, "
    "changelog_retention='0 seconds') }}\nselect k, sum(v) as v from {{ stream(ref('source')) }} group by k\n",
}
READER = "select category, sum(total) as total from (select /*+ STREAM */ * from ranking) group by category"


class Bench:
    """One session, the events, and what came of each micro-batch."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.root = options, Path(options.root)
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        self.environment = get_environment(
            SparkStreamingCredentials(schema="bench", master="local[2]", storage_root=str(self.root))
        )
        self.spark = self.environment.session()
        self.spark.sql("create namespace if not exists bench")
        self.figures: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.write_progress = batches_module.write_progress
        batches_module.write_progress = self.note  # type: ignore[assignment]

    def feed(self) -> None:
        """A snapshot of one file per micro-batch, by Iceberg alone: no job."""
        mapping = [
            {"field-id": place, "names": [name.split()[0]]}
            for place, name in enumerate(EVENTS.split(", "), 1)
        ]
        self.spark.sql(
            f"create table bench.events ({EVENTS}) using iceberg "
            f"tblproperties ('schema.name-mapping.default' = '{json.dumps(mapping)}')"
        )
        table = IcebergTable(self.spark, "bench.events").java
        iceberg = self.spark._jvm.org.apache.iceberg
        (self.root / "events").mkdir()
        rows = self.options.rows
        for number in range(self.options.batches):
            ids = range(number * rows, (number + 1) * rows)
            columns = {
                # A window closes every six micro-batches.
                "ts": pyarrow.array(
                    [id * 10 * SECOND // rows for id in ids], pyarrow.timestamp("us", tz="UTC")
                ),
                "category": [f"category {id * 7919 % 20}" for id in ids],
                "product": [id * 104729 % 1000 for id in ids],
                "amount": [id * 1299709 % 100 - 20 for id in ids],
                "device": [id * 15485863 % 10_000 for id in ids],
            }
            file = self.root / "events" / f"{number:05}.parquet"
            pyarrow.parquet.write_table(pyarrow.table(columns), file)
            made = iceberg.DataFiles.builder(table.spec()).withPath(str(file)).withFormat("parquet")
            made = made.withFileSizeInBytes(file.stat().st_size).withRecordCount(rows).build()
            table.newAppend().appendFile(made).commit()

    def model(self, name: str, columns: str, source: StreamSource, **settings: Any) -> StreamModel:
        self.spark.sql(f"create table bench.{name} ({columns}) using iceberg")
        return StreamModel(
            name=name,
            target=f"bench.{name}",
            state=f"bench.{name}__state",
            storage=self.environment.storage,
            sources=(source,),
            **settings,
        )

    def note(self, model: StreamModel, progress: dict[str, Any]) -> None:
        found = self.figures[model.name]
        # The reader goes on beside the ranking, which it belongs to.
        cpu = self.probe.since()["cpu"] if model.name != "reader" else 0
        found.append({**progress["last"], "wall": time.monotonic(), "cpu": cpu})
        if len(found) % self.options.every == 0:
            self.measure(model)

    def measure(self, model: StreamModel) -> None:
        for name in (model.target, model.changes, model.state):
            table = load_table(self.spark, name)
            if table is None:
                continue
            folder = Path(str(table.java.location()).removeprefix("file:"))
            files = [each for each in (folder / "metadata").iterdir() if not each.name.startswith(".")]
            data = list((folder / "data").rglob("*.parquet"))
            current = max(
                (each for each in files if each.name.endswith(".metadata.json")), key=lambda each: each.name
            )
            found = {
                "rows": table.summary_count("total-records"),
                "snapshots": table.snapshot_count,
                "files read": table.summary_count("total-data-files"),
                "files on disk": len(data),
                "kB on disk": sum(each.stat().st_size for each in data) >> 10,
                "metadata files": len(files),
                "metadata kB": sum(each.stat().st_size for each in files) >> 10,
                "metadata.json kB": current.stat().st_size >> 10,
            }
            print(name, len(self.figures[model.name]), found, flush=True)
        heap = self.spark._jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage()
        print(f"heap {int(heap.getUsed()) >> 20} MB", flush=True)

    def run(self) -> None:
        one = {"streaming-max-files-per-micro-batch": "1"}
        events = StreamSource("events", "bench.events", options=one)
        self.probe = Probe(self.spark)
        if "windows" in self.options.query:
            tumble = expansion.expand_window(
                "events", window_arguments.make_window("tumble", "ts", "1 minute")
            )
            program = generate.generate_program(plan_query.plan(WINDOWS.format(tumble=tumble)))
            self.go(self.model("windows", WINDOWS_COLUMNS, events), program)
        if "ranking" in self.options.query:
            program = generate.generate_program(plan_query.plan(RANKING, domains=("category", "product")))
            columns = "category string, product bigint, total bigint, place int"
            kept = parse(self.options.changelog_retention, "--changelog-retention:")
            ranking = self.model("ranking", columns, events, changelog=True, changelog_retention=kept)
            # The feed is there once there are rows.
            first = replace(ranking, trigger="0 seconds")
            with RunningStream(self.spark, first, program) as stream:
                while len(self.figures["ranking"]) < 2:
                    stream.wait(0.1)
            assert program.upsert is not None
            known = {"ranking": RelationInfo(key=tuple(program.upsert.key or ()), changes=True)}
            reading = generate.generate_program(plan_query.plan(READER, known, domains=("category",)))
            source = StreamSource("ranking", changelog_name("bench.ranking"))
            reader = self.model("reader", "category string, total bigint", source, trigger="2 seconds")
            with RunningStream(self.spark, reader, reading) as following:
                self.go(ranking, program)
                following.query.processAllAvailable()

    def rebuild(self) -> None:
        """Has dbt build the models of a project again and again."""
        batches_module.write_progress = self.write_progress
        project = self.root / "project"
        (project / "models").mkdir(parents=True)
        (project / "dbt_project.yml").write_text("name: rebuilt\nversion: 0.1.0\nprofile: rebuilt\n")
        storage = json.dumps(str(project / "storage"))
        (project / "profiles.yml").write_text(
            "rebuilt: {target: dev, outputs: {dev: {type: spark_streaming, schema: bench, threads: 1, "
            f"master: 'local[2]', storage_root: {storage}}}}}}}\n"
        )
        for name, text in REBUILT.items():
            (project / "models" / name).write_text(text)
        dbt = ["--project-dir", str(project), "--profiles-dir", str(project)]
        for number in range(self.options.rebuilds):
            refresh = ["--full-refresh"] if number % 2 else []
            done = dbtRunner().invoke(["--quiet", "build", *refresh, *dbt])
            if not done.success:
                raise SystemExit(str(done.exception or done.result))
            if (number + 1) % max(1, self.options.rebuilds // 5) == 0:
                for name in ("source", "whole", "more", "streamed", "streamed__changes", "streamed__state"):
                    (folder,) = (
                        each for each in (project / "storage").rglob(name) if (each / "metadata").is_dir()
                    )
                    files = [each for each in folder.rglob("*") if each.is_file()]
                    size = sum(each.stat().st_size for each in files) >> 10
                    print(
                        f"bench.{name}",
                        number + 1,
                        {"files on disk": len(files), "kB on disk": size},
                        flush=True,
                    )

    def go(self, model: StreamModel, program: Program) -> None:
        """Until all micro-batches are in, or the time is over."""
        end = time.monotonic() + 60 * self.options.minutes
        with RunningStream(self.spark, model, program) as stream:
            while stream.query.isActive and time.monotonic() < end:
                stream.wait(1)
        self.measure(model)

    def show(self) -> None:
        sample = self.options.sample
        for name, found in self.figures.items():
            print(f"{name}: {len(found)} micro-batches")
            walls = [then["wall"] - now["wall"] for now, then in pairwise(found)]
            if name == "reader":
                continue
            if len(walls) < self.options.warm + sample:
                print(
                    f"    too few to compare: --warm {self.options.warm} and --sample {sample} are for more"
                )
                continue
            warm = walls[self.options.warm : self.options.warm + sample], walls[-sample:]
            cpus = [each["cpu"] for each in found]
            warm_cpu = cpus[self.options.warm : self.options.warm + sample], cpus[-sample:]
            for what, (first, last) in (("wall", warm), ("cpu", warm_cpu)):
                print(
                    f"{name} {what}: {sum(first) / len(first):.3f} s → {sum(last) / len(last):.3f} s per micro-batch, "
                    f"{sum(last) / sum(first):.2f} x"
                )
            phases: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
            parts = found[self.options.warm : self.options.warm + sample], found[-sample:]
            for side, part in enumerate(parts):
                for each in part:
                    for phase, seconds in each["seconds"].items():
                        phases[phase][side] += seconds / len(part)
            print("   ", {phase: [round(each, 3) for each in both] for phase, both in phases.items()})


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--batches", type=int, default=2000)
    arguments.add_argument("--rows", type=int, default=100)
    arguments.add_argument("--sample", type=int, default=100)
    arguments.add_argument("--warm", type=int, default=100, help="micro-batches before the first that count")
    arguments.add_argument(
        "--every", type=int, default=100, help="micro-batches between two looks at the tables"
    )
    arguments.add_argument(
        "--minutes", type=float, default=180, help="when to end at the latest, for each query"
    )
    arguments.add_argument(
        "--query",
        nargs="+",
        choices=("windows", "ranking", "rebuilt"),
        default=["windows", "ranking", "rebuilt"],
    )
    arguments.add_argument("--rebuilds", type=int, default=50)
    arguments.add_argument("--changelog-retention", default="10 minutes")
    arguments.add_argument("--root", default="/tmp/dbt-spark-streaming-many")
    options = arguments.parse_args()
    try:
        bench = Bench(options)
        bench.feed()
        bench.run()
        bench.show()
        if "rebuilt" in options.query:
            close_environments()
            bench.rebuild()
    finally:
        close_environments()


if __name__ == "__main__":
    main()
