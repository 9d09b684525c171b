"""Queries over two streams, planned as if something stood above their windows."""

from __future__ import annotations

from typing import Any

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.dataflow import Dataflow
from dbt.adapters.spark_streaming.query.plan.operator import Operator
from dbt.adapters.spark_streaming.query.plan.operators.top_n import TopN
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import tree_of

STREAM = "(select /*+ STREAM */ * from db.s)"
OTHER = "(select /*+ STREAM */ * from db.t)"
KNOWN = {"db.s": RelationInfo(event_time="ts"), "db.t": RelationInfo(event_time="ts")}


def per_window(size: str) -> str:
    rows = expansion.expand_window("db.s", window_arguments.make_window("tumble", "ts", size))
    return (
        f"select window_start, window_end, k, count(*) as n from {rows} group by window_start, window_end, k"
    )


def flow(text: str, ttl: int | None = DAY, domains: tuple[str, ...] = ("k",)) -> Dataflow:
    found = tree_of(text, KNOWN, ttl, domains)
    assert generate.generate_program(found, ttl=ttl).output_steps is not None
    return found.dataflow


def kinds(found: Dataflow) -> list[str]:
    return [type(each).__name__ for each in found.operators]


def only(found: Dataflow, kind: type[Operator]) -> Operator:
    (operator,) = (each for each in found.operators if isinstance(each, kind))
    return operator


GROUPS = f"select k, count(*) as n, max(v) as m from {STREAM} group by k"

PAIRS = f"select k, v, count(*) as n, sum(v) as s, count(distinct ts) as d from {STREAM} group by k, v"


def tops_of(found: Dataflow) -> list[TopN]:
    return [each for each in found.operators if isinstance(each, TopN)]


LAST = f"(select * from (select *, row_number() over (partition by k order by ts desc) as rn from {STREAM}) where rn = 1)"


def windows_over(relation: str, kind: str = "tumble", *lengths: str, **more: Any) -> str:
    return expansion.expand_window(
        relation, window_arguments.make_window(kind, "ts", *(lengths or ("5 minutes",)), **more)
    )


IN_TIME = "r.k = l.k and r.ts between l.ts - interval 1 minute and l.ts + interval 5 minutes"
JOINED = f"(select l.ts, l.k, l.v, r.v as w from {STREAM} as l {{}} join {OTHER} as r on {IN_TIME})"
EITHER = f"""(select coalesce(l.ts, r.ts) as ts, coalesce(l.k, r.k) as k, l.v from {STREAM} as l
    full join {OTHER} as r on {IN_TIME})"""
ALONE = f"(select l.ts, l.k, l.v from {STREAM} as l where not exists (select 1 from {OTHER} as r where {IN_TIME}))"
COUNTED = "select window_start, window_end, k, count(*) as n from {} group by window_start, window_end, k"
