"""Models of every kind, over one small input: what `kills` runs side by side, and kills."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.windows import emission, expansion, window_arguments

EVENTS = "ts timestamp, k string, v bigint, x bigint"
_LONG = 365 * 86_400_000_000
CUSTOMERS = ((0, "north"), (1, "south"), (2, "east"))

_E = expansion.expand_stream("events")
_ORDERS_AS_OF = expansion.expand_as_of("orders", "`e`.`ts`", "ts", ["k"])


def _window(kind: str, *lengths: str, relation: str = "events", time: str = "ts", **more: Any) -> str:
    return expansion.expand_window(relation, window_arguments.make_window(kind, time, *lengths, **more))


def _counts(window: str, *more: str) -> str:
    metrics = ", ".join(("count(*) as n", "sum(v) as s", *more))
    return f"select window_start, window_end, k, {metrics} from {window} group by window_start, window_end, k"


def _handed_on(name: str, size: str, *metrics: str, **of: str) -> str:
    """A WITH query of tumbling windows whose results others are made of, at the time ``t``; `of` as of `_window`."""
    return (
        f"{name} as (select window_time as t, k, {', '.join(metrics)} from {_window('tumble', size, **of)} "
        "group by window_start, window_end, window_time, k)"
    )


def _recent(stream: str, minutes: int) -> str:
    of = expansion.expand_stream(stream)
    return f"(select * from {of} where ts > current_timestamp() - interval '{minutes}' minute)"


_EARLY = {
    "first_result_offset": "-20 minutes",
    "update_rate": "5 minutes",
    "late_updates": True,
    "last_result_offset": "10 minutes",
}
"""Results of windows before and after their end."""

_BY_KEY = f"select k, x % 7 as g, count(*) as n, sum(v) as s, {{}} from {_E} group by k, x % 7"


@dataclass(frozen=True)
class Kind:
    """A model."""

    name: str
    text: str
    """Its query; on plain Spark too, where its streams are views."""
    clock: str = ""
    """On plain Spark, what stands in the place of the clock of event time."""
    reads: tuple[str, ...] = ("events",)
    """Its streams. One that is a kind's name is read through that model's changes."""
    changelog: bool = False
    configs: Mapping[str, Any] = field(default_factory=dict)
    """Of emission, as the model would have them."""
    upsert: bool = False
    ttl: int | None = None
    """Its state_ttl, in microseconds."""
    domains: tuple[str, ...] = ()
    """Its constant_domains."""
    key: tuple[str, ...] = ()
    """By which rows of `events` replace each other."""
    edits: tuple[str, ...] = ()
    """Other queries that it has in other lives, each with the rows that it would have had all the time."""

    @property
    def batch(self) -> str:
        """Its query on plain Spark."""
        if self.key:
            by = ", ".join(self.key)
            ranked = f"select *, row_number() over (partition by {by} order by ts desc) as newest from events"
            return self.text.replace(_E, f"(select * from ({ranked}) where newest = 1)")
        return self.text.replace("current_timestamp()", self.clock) if self.clock else self.text

    def at(self, edition: int) -> Kind:
        """The model after so many edits, again and again from the first."""
        texts = (self.text, *self.edits)
        return replace(self, text=texts[edition % len(texts)], edits=())

    @cached_property
    def plan(self) -> Plan:
        """Its operators."""
        known = {"customers": RelationInfo(lookup=True), **self._known()}
        when = emission.emission_from_configs(self.configs)
        return plan_query.plan(self.text, known, self.ttl, self.domains, emission=when)

    @cached_property
    def program(self) -> Program:
        """What a micro-batch of it does."""
        return generate.generate_program(
            self.plan, emission.emission_from_configs(self.configs), self.upsert, self.ttl
        )

    @property
    def upstream(self) -> tuple[str, ...]:
        """The models that it reads."""
        return tuple(name for name in self.reads if name in KINDS)

    def _known(self) -> dict[str, RelationInfo]:
        known = {"events": RelationInfo("ts", self.key), "orders": RelationInfo("ts")}
        for name in self.upstream:
            replaces = KINDS[name].program.upsert
            key = replaces.key if replaces is not None else None
            known[name] = RelationInfo(key=key or (), changes=key is not None)
        return known


_KINDS = (
    # Without state.
    Kind("passed", f"select ts, k, v * 2 as doubled from {_E} where v > 100"),
    Kind(
        "regions",
        f"select e.ts, e.k, c.region from {_E} as e left join customers as c on c.id = e.x % 4",
        changelog=True,
    ),
    # Windows: rows are only added.
    Kind("cumulated", _counts(_window("cumulate", "10 minutes", "120 minutes"), "count(distinct x) as d")),
    Kind("sessions", _counts(_window("session", "50 seconds", partition_by=["k"]))),
    Kind(
        "cascading",
        f"with {_handed_on('tens', '10 minutes', 'count(*) as n', 'count(distinct x) as d')} "
        "select window_start, window_end, k, sum(n) as n, max(d) as d from "
        + _window("tumble", "1 hour", relation="tens", time="t")
        + " group by window_start, window_end, k",
    ),
    Kind(
        "stacked",
        f"with {_handed_on('tens', '10 minutes', 'count(*) as n')}, "
        f"{_handed_on('hours', '30 minutes', 'sum(n) as n', relation='tens', time='t')} "
        "select window_start, window_end, k, sum(n) as n, count(*) as parts from "
        + _window("cumulate", "1 hour", "2 hours", relation="hours", time="t")
        + " group by window_start, window_end, k",
    ),
    Kind(
        "sessions_of_windows",
        f"with {_handed_on('ones', '1 minute', 'count(*) as n')} "
        "select window_start, window_end, k, sum(n) as n from "
        + _window("session", "150 seconds", relation="ones", time="t", partition_by=["k"])
        + " group by window_start, window_end, k",
    ),
    Kind(
        "best_of_stacked",
        f"with {_handed_on('tens', '10 minutes', 'count(*) as n', 'sum(v) as s')} "
        "select window_start, window_end, k, n, s, r from (select *, row_number() over (partition by window_start, "
        "window_end order by s desc, k, t) as r from "
        + _window("tumble", "1 hour", relation="tens", time="t")
        + ") where r <= 2",
    ),
    Kind(
        "by_region",
        "select w.window_start, w.window_end, c.region, count(*) as n from "
        + _window("tumble", "30 minutes")
        + " as w join customers as c on c.id = w.x % 4 group by w.window_start, w.window_end, c.region",
    ),
    Kind(
        "best",
        "select window_start, window_end, k, n, place from (select *, row_number() over (partition by window_start, "
        "window_end order by n desc, k) as place from ("
        + _counts(_window("hop", "10 minutes", "20 minutes")).replace(", sum(v) as s", "")
        + ")) where place <= 2",
    ),
    # Windows: results change, and are put out early.
    Kind(
        "early",
        _counts(_window("tumble", "30 minutes"), "count(distinct x) as d"),
        changelog=True,
        configs=_EARLY,
        upsert=True,
    ),
    # The same of windows whose results others are made of.
    Kind(
        "early_best",
        "select window_start, window_end, k, n, place from (select *, row_number() over (partition by window_start, "
        "window_end order by n desc, k) as place from ("
        + _counts(_window("tumble", "30 minutes")).replace(", sum(v) as s", "")
        + ")) where place <= 2",
        changelog=True,
        configs=_EARLY,
        ttl=_LONG,
    ),
    Kind(
        "early_sessions",
        _counts(_window("session", "50 seconds", partition_by=["k"]), "percentile(v, 0.5) as middle"),
        changelog=True,
        configs=_EARLY,
        ttl=_LONG,
    ),
    Kind(
        "early_totals",
        "select a.k, a.n, b.n as m, a.window_end from ("
        + _counts(_window("tumble", "10 minutes"))
        + ") as a left join (select k, sum(n) as n, max(d) as d from ("
        + _counts(_window("cumulate", "10 minutes", "60 minutes"), "count(distinct x) as d")
        + ") group by k) as b on a.k = b.k where a.n % 3 = 0",
        configs=_EARLY,
        ttl=_LONG,
    ),
    # Without windows.
    Kind(
        "counts",
        f"select k, x % 7 as g, count(*) as n, sum(v) as s, count(distinct x) as d from {_E} group by k, x % 7",
        changelog=True,
        domains=("k",),
    ),
    Kind(
        "ranking",
        "select * from (select *, row_number() over (partition by g order by s desc, k, x) as place from ("
        f"select k, x, x % 5 as g, count(*) as c, sum(v - 500) as s from {_E} group by k, x)) where place <= 4",
        changelog=True,
        domains=("k", "x"),
    ),
    # Of a few columns and an end that counts can't fall behind.
    Kind(
        "most",
        "select * from (select *, rank() over (partition by g order by c desc) as place from (select k, "
        f"x % 40 as i, x % 3 as g, count(*) as c, min(v) as m from {_E} group by k, x % 40, x % 3)) where place <= 2",
        changelog=True,
        domains=("k", "i", "g"),
    ),
    Kind(
        "running",
        "select ts, k, v, sum(v) over (partition by k order by ts) as total, "
        f"count(*) over (partition by k order by ts) as n from {_E}",
        domains=("k",),
    ),
    Kind(
        "latest",
        "select ts, k, v, i from (select *, row_number() over (partition by i order by ts desc) as place "
        f"from (select *, x % 20 as i from {_E})) where place = 1",
        changelog=True,
    ),
    Kind(
        "first",
        "select ts, k, v, i from (select *, row_number() over (partition by i order by ts) as place "
        f"from (select *, x % 50 as i from {_E})) where place = 1",
    ),
    # No column of its tells rows apart.
    Kind(
        "unkeyed",
        "select ts, k, v, x % 10 as i from (select *, row_number() over (partition by x % 30 order by ts desc) as place "
        f"from {_E}) where place = 1",
        changelog=True,
    ),
    Kind(
        "joined",
        f"select e.ts, e.k, e.v, o.v as ordered from {_E} as e join {expansion.expand_stream('orders')} as o "
        "on e.x % 100 = o.x % 100 and o.ts >= e.ts - interval 10 minutes and o.ts <= e.ts + interval 10 minutes",
        reads=("events", "orders"),
    ),
    # Operators on top of each other.
    Kind(
        "of_windows",
        "select k, count(*) as windows, max(n) as most, count(distinct s) as d, sum(n) as n from ("
        + _counts(_window("tumble", "30 minutes"))
        + ") group by k",
        changelog=True,
        ttl=_LONG,
    ),
    Kind(
        "of_all",
        f"select c.g, c.n, w.window_end, w.n as m from (select x % 7 as g, count(*) as n, min(v) as least from {_E} "
        "group by x % 7) as c left join (select window_end, x % 7 as g, count(*) as n from "
        + _window("hop", "30 minutes", "60 minutes")
        + " group by window_start, window_end, x % 7) as w on w.g = c.g where c.n % 2 = 0",
        changelog=True,
        ttl=_LONG,
    ),
    Kind(
        "unanswered",
        f"select ts, k, v from {_E} as e where not exists (select 1 from {expansion.expand_stream('orders')} as o "
        "where o.x = e.x and o.v > e.v)",
        reads=("events", "orders"),
        ttl=_LONG,
    ),
    # What a row was given by a table outside is taken back as it was.
    Kind(
        "counts_by_region",
        "select c.region, sum(g.n) as n, count(*) as groups from (select x % 4 as i, k, count(*) as n "
        f"from {_E} group by x % 4, k) as g left join customers as c on c.id = g.i group by c.region",
        changelog=True,
        ttl=_LONG,
    ),
    # Bounded in time: what has met none comes when it can meet none any more, and windows stand on that.
    Kind(
        "with_orders",
        _counts(
            _window(
                "tumble",
                "30 minutes",
                relation=f"(select e.ts, e.k, e.v, o.v as ordered from {_E} as e left join "
                f"{expansion.expand_stream('orders')} as o on e.x % 100 = o.x % 100 and o.ts >= e.ts - interval 10 minutes "
                "and o.ts <= e.ts + interval 10 minutes)",
            ),
            "count(ordered) as orders",
        ),
        reads=("events", "orders"),
    ),
    # Bounded in time by the windows: rows wait until theirs has closed.
    Kind(
        "best_of_windows",
        f"select e.ts, e.k, e.v, w.window_end from {_E} as e join (select window_start, window_end, k, max(v) as most from "
        + _window("tumble", "10 minutes")
        + " group by window_start, window_end, k) as w "
        "on e.k <=> w.k and e.v = w.most and e.ts >= w.window_start and e.ts < w.window_end",
        changelog=True,
    ),
    # In order of event time: rows wait for the watermark, and those before them are kept.
    Kind(
        "ordered",
        "select ts, k, v, lag(v) over (partition by k order by ts) as before, sum(v) over (partition by k order by ts "
        f"range between interval 10 minutes preceding and current row) as s from {_E} where v > 100",
        changelog=True,
        ttl=_LONG,
    ),
    # Rows leave as time goes by, of both sides, and others take their places.
    Kind(
        "recent",
        f"select k, count(*) as n, sum(v) as s from (select * from {_recent('events', 5)}) as e where exists "
        f"(select 1 from {_recent('orders', 10)} as o where o.x % 20 = e.x % 20) group by k",
        clock="(least((select max(ts) from events), (select max(ts) from orders)) - interval '30' second)",
        reads=("events", "orders"),
        changelog=True,
    ),
    # Windows over rows that change: what is open waits in the state.
    Kind(
        "sightings",
        _counts(
            _window(
                "tumble",
                "30 minutes",
                relation="(select ts, k, v, i from (select *, row_number() over (partition by i order by ts desc) as place "
                f"from (select *, x % 20 as i from {_E})) where place = 1)",
            )
        ),
        changelog=True,
        ttl=_LONG,
    ),
    # Edited from life to life: metrics come and go, and what stands on groups is made anew.
    Kind(
        "edited",
        _counts(_window("cumulate", "10 minutes", "120 minutes")) + " having count(distinct x) >= 0",
        edits=(
            _counts(_window("cumulate", "10 minutes", "120 minutes")) + " having coalesce(max(v), 0) >= 0",
        ),
        changelog=True,
    ),
    Kind(
        "edited_tree",
        f"select n, count(*) as c, sum(s) as s from ({_BY_KEY.format('count(distinct x) as d')}) where d >= 0 group by n",
        edits=(f"select n, count(*) as c, max(s) as s from ({_BY_KEY.format('min(v) as m')}) group by n",),
        changelog=True,
        domains=("k",),
    ),
    # A ranking over groups, and groups of it; its members fall and others move up.
    Kind(
        "of_best",
        f"select g, count(*) as c, sum(s) as s, sum(r) as places from (select *, row_number() over (partition by g order by "
        f"s % 50 desc, k) as r from ({_BY_KEY.format('min(v) as m')})) where r <= 2 group by g",
        changelog=True,
        domains=("k",),
    ),
    # Rows of two streams below each other, and those that one has and the other hasn't, or that both have.
    Kind(
        "of_both",
        f"select ts, k, v from {_E} where v > 500 union all select ts, k, v from {expansion.expand_stream('orders')}",
        reads=("events", "orders"),
    ),
    Kind(
        "not_ordered",
        f"select k, x % 20 as i from {_E} where v > 300 except all "
        f"select k, x % 20 as i from {expansion.expand_stream('orders')} where v > 600",
        reads=("events", "orders"),
        changelog=True,
        ttl=_LONG,
    ),
    Kind(
        "in_both",
        f"select k, count(*) as n, sum(i) as s from (select k, x % 50 as i from {_E} "
        f"intersect select k, x % 50 as i from {expansion.expand_stream('orders')}) group by k",
        reads=("events", "orders"),
        changelog=True,
        ttl=_LONG,
    ),
    # Rows get the version of their time, when no other version can come for it.
    Kind(
        "as_of",
        f"select e.ts, e.k, e.v, o.ts as since, o.v as ordered from {_E} as e left join {_ORDERS_AS_OF} as o on o.k = e.k",
        reads=("events", "orders"),
        domains=("k",),
    ),
    Kind(
        "of_as_of",
        "select o.v % 10 as g, count(*) as n, sum(e.v) as s, max(o.x) as most "
        f"from {_E} as e join {_ORDERS_AS_OF} as o on o.k = e.k group by o.v % 10",
        reads=("events", "orders"),
        changelog=True,
        ttl=_LONG,
        domains=("k",),
    ),
    # Windows of two lengths, of which one ends where the other does.
    Kind(
        "two_lengths",
        "select a.window_end, a.k, a.n, b.n as m from ("
        + _counts(_window("tumble", "10 minutes"))
        + ") as a left join ("
        + _counts(_window("tumble", "20 minutes"))
        + ") as b on b.k <=> a.k and b.window_end = a.window_end",
    ),
    # Rows that replace each other, beside groups of the same.
    Kind(
        "upserts",
        f"select e.k, e.x, e.v, t.n, t.s from {_E} as e join "
        f"(select x % 7 as g, count(*) as n, sum(v) as s from {_E} group by x % 7) as t on t.g = e.x % 7",
        changelog=True,
        domains=("k", "x"),
        key=("k", "x"),
    ),
    # Of the changes of others.
    Kind(
        "of_counts",
        f"select n, count(*) as c, sum(s) as s from {expansion.expand_stream('counts')} group by n",
        reads=("counts",),
        changelog=True,
        domains=("k", "n"),
    ),
    Kind(
        "of_early",
        f"select k, count(*) as c, sum(n) as n from {expansion.expand_stream('early')} group by k",
        reads=("early",),
    ),
    Kind(
        "of_regions",
        f"select region, count(*) as n from {expansion.expand_stream('regions')} group by region",
        reads=("regions",),
        domains=("region",),
    ),
)
KINDS: dict[str, Kind] = {}
for _kind in _KINDS:
    KINDS[_kind.name] = _kind


def write_events(folder: Path, number: int, rows: int, seed: object) -> None:
    """Write the n-th file of a stream: times are distinct, and less than 30 seconds out of order."""
    chance = random.Random(f"{seed} {folder.name} {number}")
    found = [
        {
            # A life takes in two files, and closes all windows: what comes after it is of another day.
            "ts": number // 2 * 86_400_000_000
            + (at - number // 2 * 2 * rows) * 20_000_000
            - chance.randrange(30) * 1_000_000
            + at % 1_000_000,
            "k": chance.choice([None, "a", "b", "c", "d"]),
            "v": chance.randrange(1000),
            "x": chance.randrange(500),
        }
        for at in range(number * rows, (number + 1) * rows)
    ]
    table = pyarrow.Table.from_pylist(found)
    times = table["ts"].cast(pyarrow.timestamp("us", tz="UTC"))
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"_{number:04}"  # Spark passes over such names
    pyarrow.parquet.write_table(table.set_column(0, "ts", times), partial)
    # Spark reads files in order of these times, of which two made in one millisecond may have one.
    os.utime(partial, (number, number))
    partial.rename(folder / f"{number:04}.parquet")
