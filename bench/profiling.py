"""Where a micro-batch's time goes: for each of its actions wall time, Spark jobs, tasks, their CPU, and shuffled bytes.

An action is what makes Spark work: a step that is kept, the state's commit, the differences that an upsert looks for,
the table's commit. What is printed is the mean over the last `--sample` micro-batches of each query. Of the wall time in
which no job runs, what Spark's phases took for the queries that the action carried out has columns (`optimize` lists the
files of Iceberg's tables, too); the rest is the analysis of texts, which is all that a step without jobs does, and what the
driver does besides. The CPU of an action is that of its tasks, and at the end stands that of both processes, by what their
threads are for (Java's compiler is most of it until it has seen some dozen micro-batches). Its name isn't `profile`, for
that is what Python's cProfile imports, and pyspark imports cProfile.

    python bench/profiling.py --queries ranking cumulate --rows 1000000 --pieces 8
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from day import EVENTS, QUERY, Bench, arguments, cumulate
from py4j.protocol import Py4JJavaError

from dbt.adapters.spark_streaming.environment import close_environments
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.microbatch import micro_batch
from dbt.adapters.spark_streaming.stream.sink import append, upsert
from dbt.adapters.spark_streaming.stream.sink import changelog as changes
from dbt.adapters.spark_streaming.stream.sources import rows
from dbt.adapters.spark_streaming.stream.state import table

SALES = (
    "(select /*+ STREAM */ page as category, pmod(device, 1000) as product, v - 20 as amount from raw.events)"
)
GROUPS = f"select category, product, count(*) as sales, sum(amount) as total from {SALES} group by category, product"
RANKED = (
    "select * from (select *, row_number() over (partition by category order by {order}) as place from {of}) "
    "where place <= 10"
)
TUMBLE = expansion.expand_window("raw.events", window_arguments.make_window("tumble", "ts", "1 minute"))
WORK = {
    "cumulate": QUERY.format(cumulate=cumulate("raw.events")),
    "tumble": "select window_start, page, count(*) as views, sum(v) as total "
    f"from {TUMBLE} group by window_start, window_end, page",
    "ranking": RANKED.format(order="total desc, product", of=f"({GROUPS})"),
    "improving": RANKED.format(order="sales desc, product", of=f"({GROUPS})"),
    "ranked_rows": RANKED.format(order="amount desc, product", of=SALES),
    "groups": GROUPS,
    "groups_of_groups": f"select category, max(total) as most, count(*) as products from ({GROUPS}) group by category",
    "dedup": "select * from (select *, row_number() over (partition by device order by ts) as n "
    "from (select /*+ STREAM */ * from raw.events)) where n = 1",
    "over": f"select category, product, sales, sum(sales) over (partition by category) as s from ({GROUPS})",
    "join": f"select l.page, l.device, l.ts, r.v from {TUMBLE} as l join {TUMBLE} as r on l.window_start = r.window_start "
    "and l.window_end = r.window_end and l.device = r.device and l.ts < r.ts",
    "pass": f"select category, product, amount from {SALES}",
    "groups_with_changelog": GROUPS,
}
PHASES = {"optimization": "optimize", "planning": "plan"}
"""The columns of Spark's phases. Analysis comes before an action: it is over when the text of a step was read."""


THREADS = {
    "tasks": r"Executor task l",
    "driver": r"stream executio|Thread-|foreachBatch|py4j",
    "broadcasts": r"broadcast-excha",
    "listeners": r"spark-listener-|element-trackin",
    "scheduler": r"dag-scheduler|dispatcher-|task-result-get|netty|shuffle-|block-manager",
    "iceberg": r"iceberg",
    "compiler": r"C[12] Compiler",
    "garbage": r"GC |G1 |VM Thread|Reference Hand|Finalizer|Spark Context C|context-cleaner",
}


def by_thread(pid: int) -> dict[str, float]:
    """CPU seconds of Java's threads so far, by what they are for. Threads that ended are missing."""
    found: dict[str, float] = defaultdict(float)
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            text = (task / "stat").read_text()
        except OSError:
            continue  # ended meanwhile
        name, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        kind = next((kind for kind, which in THREADS.items() if re.match(which, name)), f"({name})")
        found[kind] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


class Phases:
    """Hears from Spark of each query that was carried out, and how long its phases took."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, float, float]] = []
        """The column of a phase, when it began, in seconds since 1970, and the seconds it took."""

    def onSuccess(self, _: str, execution: Any, duration: int) -> None:
        """Spark's word of a query."""
        phases = execution.tracker().phases()
        for phase, column in PHASES.items():
            if phases.contains(phase):
                took = phases.apply(phase)
                self.heard.append((column, took.startTimeMs() / 1000, took.durationMs() / 1000))

    def onFailure(self, _: str, execution: Any, problem: Any) -> None:
        """Nothing fails here that isn't raised."""

    class Java:
        """The interface that this is to Java."""

        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


class Profile:
    """What each action cost, micro-batch by micro-batch."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        metrics = bench.spark._jvm.org.apache.spark.metrics.source.CodegenMetrics
        self._compilations = metrics.METRIC_COMPILATION_TIME()
        self._own = 0.0
        """CPU seconds that looking took."""
        self._context = bench.spark.sparkContext
        self._store = self._context._jsc.sc().statusStore()
        self._open: list[str] = []
        self._ran: list[tuple[float, float, str]] = []
        """When actions began and ended, innermost first."""
        self._phases = Phases()
        bench.spark._jsparkSession.listenerManager().register(self._phases)
        self._seen = 0
        self.begin()

    def watch(self, owner: Any, name: str, label: Callable[..., str]) -> None:
        """Makes a function or method an action, named by its arguments."""
        inner = getattr(owner, name)

        def watched(*args: Any, **named: Any) -> Any:
            self._open.append(label(*args, **named))
            self._context.setLocalProperty("spark.job.description", self._open[-1])
            began, at = time.monotonic(), time.time()
            try:
                return inner(*args, **named)
            finally:
                done = self._open.pop()
                self._ran.append((at, time.time(), done))
                self._wall[done] += time.monotonic() - began
                if self._open:
                    self._wall[self._open[-1]] -= time.monotonic() - began
                outer = self._open[-1] if self._open else None
                self._context.setLocalProperty("spark.job.description", outer)

        setattr(owner, name, watched)

    def begin(self) -> None:
        """A query's first micro-batch comes next."""
        self._batches, self._wall = [], defaultdict(float)
        self._cpu, self._threads = [self._bench.cpu() - self._own], [by_thread(self._bench.pid)]
        self._compiled = [self._compilations.getCount()]

    def over(self) -> None:
        """A micro-batch is over."""
        self._cpu.append(self._bench.cpu() - self._own)
        self._compiled.append(self._compilations.getCount())
        self._threads.append(by_thread(self._bench.pid))
        self._threads[-1]["driver"] -= self._own
        began = self._bench.cpu()
        found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for action, seconds in self._wall.items():
            found[action]["wall"] = seconds
        self._wall.clear()
        self._context._jsc.sc().listenerBus().waitUntilEmpty()
        for column, at, seconds in self._phases.heard:
            of = next((name for first, last, name in self._ran if first <= at + 0.001 <= last), None)
            if of is not None:
                found[of][column] += seconds
        self._phases.heard.clear()
        self._ran.clear()
        jobs = self._store.jobsList(None)
        last = self._seen
        for place in range(jobs.size()):
            job = jobs.apply(place)
            if job.jobId() < self._seen:
                continue
            last = max(last, job.jobId() + 1)
            description = job.description()
            of = found[description.get() if description.isDefined() else "elsewhere"]
            of["jobs"] += 1
            of["tasks"] += job.numTasks() - job.numSkippedTasks()
            if job.completionTime().isDefined() and job.submissionTime().isDefined():
                taken = job.completionTime().get().getTime() - job.submissionTime().get().getTime()
                of["in jobs"] += taken / 1000
            stages = job.stageIds()
            for each in range(stages.size()):
                try:
                    stage = self._store.lastStageAttempt(stages.apply(each))
                except Py4JJavaError:
                    continue  # skipped: what it would compute was there
                of["cpu"] += stage.executorCpuTime() / 1e9
                of["shuffled"] += stage.shuffleWriteBytes() / 1e6
        self._seen = last
        self._batches.append(found)
        self._own += self._bench.cpu() - began

    def show(self, title: str, sample: int) -> None:
        """Prints the mean of the last micro-batches."""
        batches = self._batches[-sample:]
        cpu = self._cpu[-1] - self._cpu[-sample - 1]
        threads = self._threads[-1]
        taken = {kind: threads[kind] - self._threads[-sample - 1].get(kind, 0.0) for kind in threads}
        compiled = (self._compiled[-1] - self._compiled[-sample - 1]) / sample
        columns = ("wall", "optimize", "plan", "in jobs", "jobs", "tasks", "cpu", "shuffled")
        print(f"\n{title:42}" + "".join(f"{name:>9}" for name in columns))
        total = dict.fromkeys(columns, 0.0)
        for action in dict.fromkeys(name for each in batches for name in each):
            mean = {
                c: sum(each[action][c] for each in batches if action in each) / len(batches) for c in columns
            }
            if not any(mean.values()):
                continue
            for name in columns:
                total[name] += mean[name]
            print(f"  {action:40}" + "".join(f"{mean[name]:9.2f}" for name in columns))
        print(f"  {'in all':40}" + "".join(f"{total[name]:9.2f}" for name in columns))
        print(f"  {'of both processes':40}" + " " * 54 + f"{cpu / len(batches):9.2f}")
        each = sorted(((seconds / len(batches), kind) for kind, seconds in taken.items()), reverse=True)
        listed = ", ".join(f"{kind} {seconds:.2f}" for seconds, kind in each if seconds >= 0.01)
        print(f"  {listed}; {compiled:.1f} compilations", flush=True)


def main() -> None:
    """Run all and print a table of each."""
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "", "profile", pieces=8)
    parser.add_argument("--queries", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--sample", type=int, default=4)
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    bench = Bench(options)
    try:
        profile = Profile(bench)
        profile.watch(micro_batch.MicroBatch, "_register_step", lambda _, step, *__: f"step {step.name}")
        profile.watch(micro_batch, "filter_late_rows", lambda *args: f"rows {args[2].name}")
        profile.watch(micro_batch, "count_rows", lambda *_: "rows counted")
        profile.watch(table.StateTable, "append", lambda *_: "state: commit")
        profile.watch(table.StateTable, "fold", lambda *_: "state: fold")
        profile.watch(upsert.UpsertSink, "put", lambda *_: "table: rest of the upsert")
        profile.watch(upsert.UpsertSink, "_write", lambda *_: "table: commit")
        profile.watch(
            rows.BatchCache, "persist", lambda *_: "kept rows" if not profile._open else profile._open[-1]
        )
        profile.watch(changes.Changes, "append", lambda *_: "changelog: commit")
        profile.watch(append.AppendSink, "put", lambda *_: "table: commit")
        folder = bench.events("day", options.rows, options.pieces)
        release = micro_batch.MicroBatch.release

        def over(batch: micro_batch.MicroBatch) -> None:
            release(batch)
            profile.over()

        micro_batch.MicroBatch.release = over  # type: ignore[method-assign]
        for name in options.queries:
            profile.begin()
            domains, changelog = ("category", "product", "device"), name.endswith("_with_changelog")
            bench.streamed(name, "raw.events", folder, EVENTS, WORK[name], domains, changelog)
            profile.show(name, options.sample)
    finally:
        close_environments()


if __name__ == "__main__":
    main()
