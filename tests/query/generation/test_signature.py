"""What states are kept under doesn't change with the code: a state that is there would be refused.

Where the layout changes on purpose, so does its version, and these digests with it.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql import dialect
from dbt.adapters.spark_streaming.query.state_signature import Signature, to_json
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of, signature_of

E = "(select /*+ STREAM */ * from events)"
KNOWN = {"events": RelationInfo("ts")}
DAY = 24 * 3_600_000_000
GROUPS = f"select k, x, count(*) as n, sum(v) as s, count(distinct v) as d from {E} group by k, x"


def of(kind: str, *sizes: str) -> str:
    return expansion.expand_window("events", window_arguments.make_window(kind, "ts", *sizes))


QUERIES = {
    "cumulate": (
        "select window_start, window_end, k, count(*) as n, count(distinct x) as d, avg(v) as a "
        f"from {of('cumulate', '1 minute', '1 hour')} group by window_start, window_end, k",
        None,
    ),
    "session": (
        "select window_start, window_end, k, sum(v) as s from "
        + expansion.expand_window(
            "events", window_arguments.make_window("session", "ts", "5 minutes", partition_by=["k"])
        )
        + " group by window_start, window_end, k",
        None,
    ),
    "groups": (GROUPS, DAY),
    "ranking": (
        "select * from (select *, row_number() over (partition by k order by s desc) as place "
        f"from ({GROUPS})) where place <= 3",
        DAY,
    ),
    "first rows": (
        f"select k, v from (select *, row_number() over (partition by k order by ts) as place from {E}) where place = 1",
        DAY,
    ),
    "join": (f"select a.k, a.v, b.x from {E} as a join {E} as b on a.k = b.k", DAY),
    "groups of groups": (f"select k, max(s) as most, count(*) as n from ({GROUPS}) group by k", DAY),
    "outer join of groups": (
        f"select a.k, a.n, b.v from ({GROUPS}) as a left join {E} as b on a.k = b.k",
        DAY,
    ),
    "except": (f"select k from {E} except select k from {E} where v > 1", DAY),
}

KEPT = {
    "cumulate": "68fda5b443192a9d",
    "session": "d65e9341690b8f10",
    "groups": "0a3234d00d1bc8bc",
    "ranking": "cc47743e4c8ba1a9",
    "first rows": "8e5fb3d3049ac15c",
    "join": "de253878798cfe23",
    "groups of groups": "e13915304a2b8aa1",
    "outer join of groups": "7bc392d275366713",
    "except": "f273d8690c42242d",
}
"""Digests of signatures and names of parts."""

WITH_UNDERSCORES = {
    "groups": "b5ff547f3a6b7353",
    "ranking": "d71e674931562ca9",
    "first rows": "209aaae9ef75b4a5",
    "join": "b971e7ac2ea34f62",
    "groups of groups": "d58707ab238c733d",
    "outer join of groups": "779f061d3f01cf9d",
    "except": "abea09c1edc1dcde",
    "cumulate": "0981340e24bca0a4",
    "session": "204d779d74191eb4",
}
"""The same of `k` and `v` that are called `__k` and `__v`, as names of generated SQL may be."""


def _kept(text: str, ttl: int | None) -> str:
    program = generate.generate_program(plan_query.plan(text, KNOWN, ttl), ttl=ttl)
    parts = sorted(part.name for part in program.parts)
    kept = json.dumps([to_json(program.signature), parts], sort_keys=True)
    return hashlib.sha256(kept.encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", QUERIES)
def test_a_state_is_kept_under_the_same_names(name: str) -> None:
    text, ttl = QUERIES[name]
    assert _kept(text, ttl) == KEPT[name]


@pytest.mark.parametrize("name", WITH_UNDERSCORES)
def test_names_of_the_author_are_those_of_the_state(name: str) -> None:
    text, ttl = QUERIES[name]
    assert _kept(re.sub(r"\b([kv])\b", r"__\1", text), ttl) == WITH_UNDERSCORES[name]


@pytest.mark.parametrize(
    "text",
    [
        f"select x, v from (select x, v, row_number() over (partition by x order by v) as n from {E}) where n <= 2",
        f"select k, sum(v) over (partition by k order by ts) as s from {E}",
    ],
)
def test_what_is_planned_before_changes_no_name(text: str) -> None:
    def names() -> list[str]:
        program = generate.generate_program(plan_query.plan(text, KNOWN, domains=("k", "x")))
        return [part.name for part in program.parts]

    dialect._TEXTS.clear()
    alone = names()
    dialect._TEXTS.clear()
    plan_query.plan(
        text.replace(" order by v", " order by v asc").replace("by ts)", "by ts asc)"),
        KNOWN,
        domains=("k", "x"),
    )
    assert names() == alone


def window(kind: str, relation: str, *lengths: str, time: str = "ts", **options: Any) -> str:
    return str(
        expansion.expand_window(relation, window_arguments.make_window(kind, time, *lengths, **options))
    )


TUMBLE = window("tumble", "raw.bid", "10 minutes")

HOP = window("hop", "raw.bid", "5 minutes", "15 minutes")


def test_signatures_differ_with_what_the_state_depends_on_and_only_that() -> None:
    def of(text: str) -> Signature:
        return signature_of(plan_of(text))

    base = f"select window_start, window_end, k, count(*) as n from {TUMBLE} group by 1, 2, 3"
    assert of(base) == of(base.replace("as n", "as m") + " having count(*) > 3")
    assert of(base) != of(base.replace("count(*)", "sum(x)"))
    assert of(base) != of(base.replace("1, 2, 3", "1, 2, 3, j"))
    assert of(base) != of(base.replace(TUMBLE, HOP))


def test_a_signature_does_not_depend_on_how_we_print_windows() -> None:
    base = f"select window_start, window_end, k, count(*) as n from {TUMBLE} where x > 1 group by 1, 2, 3"
    (spec,) = signature_of(plan_of(base)).windows
    assert spec.source == "SELECT * FROM (SELECT * FROM stream_bid) WHERE x > 1"


def test_a_ranking_whose_rows_have_a_map_is_ordered_by_its_entries() -> None:
    def ask(query: str) -> tuple[str, ...]:
        return ("struct<k:string,m:map<string,int>>",) * query.count("TYPEOF(")

    ranked = f"select k, m, row_number() over (partition by k order by ts desc) as rn from {E}"
    found = plan_query.plan(f"select k, m from ({ranked}) where rn = 1", KNOWN, domains=["k"], ask=ask)
    tree = signature_of(found).tree
    assert tree.single_by is not None
    assert "STRUCT(k, ARRAY_SORT(MAP_ENTRIES(m)))" in tree.single_by
