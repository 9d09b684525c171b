"""A model's tree of operators for people: modes, what clears each state, and that no part of a state is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.cli import explain
from dbt.adapters.spark_streaming.project import stream_node
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.explain import build
from dbt.adapters.spark_streaming.query.explain.tree import operators_in_order
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.explanation import Explanation
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.corpus.entries import COMPOSED, tagged
from tests.corpus.regressions import EXAMPLES
from tests.differential import planning
from tests.differential.generate import Generator
from tests.differential.tree import Case
from tests.oracle.cases import ORACLE, case_names
from tests.oracle.project import settings_of
from tests.oracle.streams import planned as planned_case
from tests.thorough import mostly_thorough


def window(kind: str, *lengths: str, relation: str = "raw.bid", **options: Any) -> str:
    return expansion.expand_window(relation, window_arguments.make_window(kind, "ts", *lengths, **options))


def counted(rows: str, by: str = "channel") -> str:
    return (
        "select window_start, window_end, channel, count(*) as n, count(distinct url) as urls "
        f"from {rows} group by window_start, window_end, {by}"
    )


TUMBLE = window("tumble", "10 minutes")
SESSION = window("session", "30 minutes", partition_by=["channel"])
BIDS, ASKS = "(select /*+ STREAM */ * from raw.bid)", "(select /*+ STREAM */ * from raw.ask)"
BEST, CUSTOMERS = "(select /*+ STREAM */ * from raw.best)", "(select /*+ STREAM */ * from raw.customer)"
KNOWN = {
    "raw.bid": RelationInfo("ts"),
    "raw.ask": RelationInfo("ts"),
    "raw.best": RelationInfo("ts", ("bidder",), changes=True),
    "raw.customer": RelationInfo("ts", ("id",)),
    "crm.names": RelationInfo(lookup=True),
}
GROUPS = f"(select bidder, count(*) as n, sum(price) as total from {BIDS} group by bidder)"
WINDOWS = f"({counted(TUMBLE)})"


def ranked(order: str, rows: str, per: str = "", where: str = "rn <= 3", rank: str = "row_number()") -> str:
    over = f"{f'partition by {per} ' if per else ''}order by {order}"
    return f"select * from (select *, {rank} over ({over}) as rn from {rows}) where {where}"


def node(text: str, **config: Any) -> dict[str, Any]:
    return {
        "name": "bids",
        "relation_name": "shop.bids",
        "compiled_code": text,
        "config": {"materialized": "streaming_table", **config},
    }


def nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The operators of a tree, the sink first."""
    waiting = [tree]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += reversed(found.get("inputs", []))


def mode(found: dict[str, Any]) -> str:
    made = found["changelog"]
    return f"{made['mode']}({', '.join(made['key'])})" if made["mode"] == "upsert" else str(made["mode"])


DOMAINS = ("item", "bidder", "price", "ts", "h", "up", "name")
TTL = {"state_ttl": "2 days"}
BIDDERS = {"constant_domains": ["bidder"]}
IN_TIME = "a.x = b.x and a.ts between b.ts - interval 5 minutes and b.ts"
OPERATORS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "fixed windows": (
        counted(TUMBLE),
        {},
        [
            "Sink append",
            "WindowAggregate append: window end; window end",
            "Source append",
        ],
    ),
    "groups of rows that stay, and a TTL": (
        f"select g.n, a.ts from (select count(*) as n, min(ts) as ts from {BEST} group by bidder) as g join {ASKS} as a "
        "on a.ts = g.ts",
        TTL,
        [
            "Sink retract: the next micro-batch",
            "RegularJoin retract: state_ttl, 2 days after it came; nothing: as many as its input has",
            "Project retract",
            "GroupAggregate retract: nothing: as many as its input has; when it isn't there any more",
            "Source retract",
            "Source append",
        ],
    ),
    "groups of a ranking of groups": (
        f"select n, count(*) as c from ({ranked('n desc', GROUPS.replace('bidder', 'bidder, item'), 'item')}) group by n",
        {"constant_domains": ["bidder", "item", "n"]},
        [
            "Sink upsert(n)",
            "Project upsert(n)",
            "GroupAggregate upsert(n): nothing: its input is bounded",
            "Project retract",
            "UpdatableTopN retract: when it has left the ranking",
            "Project retract",
            "GroupAggregate retract: nothing: its keys are constant_domains, or have few values",
            "Source append",
        ],
    ),
    "early and late firing": (
        counted(TUMBLE),
        {"first_result_offset": "-5 minutes", "late_updates": True, "last_result_offset": "1 hour"},
        [
            "Sink upsert(channel, window_end)",
            "WindowAggregate upsert(window_end, channel): window end + 1 hour (allowed lateness); window "
            "end + 1 hour (allowed lateness)",
            "Source append",
        ],
    ),
    "cumulate": (
        f"select window_start, window_end, count(*) as n from {window('cumulate', '1 hour', '1 day')} group by 1, 2",
        {},
        [
            "Sink append",
            "WindowAggregate append: end of the longest window",
            "Source append",
        ],
    ),
    "sessions": (
        counted(SESSION),
        {},
        [
            "Sink append",
            "SessionAggregate append: session end; session end",
            "Source append",
        ],
    ),
    "windows' rows ranked": (
        ranked("price desc", TUMBLE, "window_start, window_end, channel"),
        {},
        ["Sink append", "WindowTopN append", "WindowBuffer append: window end", "Source append"],
    ),
    "windows' rows ranked, early": (
        ranked("price desc", TUMBLE, "window_start, window_end, channel"),
        {"first_result_offset": "-5 minutes"},
        [
            "Sink upsert(channel, rn, window_end, window_start)",
            "WindowTopN upsert(channel, rn, window_end, window_start)",
            "WindowBuffer retract: window end",
            "Source append",
        ],
    ),
    "windows' last rows": (
        ranked("ts desc", TUMBLE, "window_start, window_end, channel", "rn = 1"),
        {},
        ["Sink append", "WindowDeduplicate append", "WindowBuffer append: window end", "Source append"],
    ),
    "a percentile of windows": (
        f"select window_start, window_end, median(price) as m from {TUMBLE} group by 1, 2",
        {},
        ["Sink append", "WindowAggregate append", "WindowBuffer append: window end", "Source append"],
    ),
    "rows with their windows": (
        f"select * from {TUMBLE}",
        {},
        ["Sink append", "WindowTableFunction append", "Source append"],
    ),
    "windows joined": (
        f"select a.window_start, a.window_end, a.n, b.n as m from {WINDOWS} as a left join {WINDOWS} as b "
        "on a.window_start = b.window_start and a.window_end = b.window_end and a.channel = b.channel",
        {},
        [
            "Sink append",
            "WindowJoin append",
            "WindowAggregate append: window end; window end",
            "Source append",
        ],
    ),
    "row by row": (
        f"select upper(channel) as c from {BIDS} where price > 1",
        {},
        ["Sink append", "Project append", "Source append"],
    ),
    "a static table": (
        f"select b.price, d.name from {BIDS} as b join lake.dims as d on b.channel = d.channel",
        {},
        ["Sink append", "LookupJoin append", "Source append", "Table table"],
    ),
    "an external table": (
        f"select b.price, d.name from {BIDS} as b left join crm.names as d on d.id = b.bidder",
        {},
        ["Sink append", "LookupJoin append", "Source append", "ExternalTable table"],
    ),
    "groups": (
        f"select bidder, count(*) as n, count(distinct url) as urls from {BIDS} where price > 1 group by bidder",
        BIDDERS,
        [
            "Sink upsert(bidder)",
            "Project upsert(bidder)",
            "GroupAggregate upsert(bidder): nothing: its keys are constant_domains, or have few values; "
            "nothing: as many as there are values",
            "Source append",
        ],
    ),
    "groups that expire": (
        f"select bidder, count(*) as n from {BIDS} group by bidder",
        TTL,
        [
            "Sink upsert(bidder)",
            "Project upsert(bidder)",
            "GroupAggregate upsert(bidder): state_ttl, 2 days after the key's last row",
            "Source append",
        ],
    ),
    "one group": (
        f"select count(*) as n from {BIDS}",
        {},
        [
            "Sink upsert()",
            "Project upsert()",
            "GroupAggregate upsert(): nothing: there is one",
            "Source append",
        ],
    ),
    "a ranking of groups that improve": (
        ranked("n desc", GROUPS),
        BIDDERS,
        [
            "Sink upsert(bidder)",
            "Project upsert(bidder)",
            "UpdatableTopN upsert(bidder): when it has left the ranking",
            "Project retract",
            "GroupAggregate retract: nothing: its keys are constant_domains, or have few values",
            "Source append",
        ],
    ),
    "a ranking of groups that may fall": (
        ranked("total desc", GROUPS),
        BIDDERS,
        [
            "Sink upsert(bidder)",
            "Project upsert(bidder)",
            "RetractableTopN upsert(bidder): when it has left the ranking",
            "Project retract",
            "GroupAggregate retract: nothing: its keys are constant_domains, or have few values",
            "Source append",
        ],
    ),
    "a ranking of rows": (
        ranked("price desc", BIDS, "bidder"),
        BIDDERS,
        [
            "Sink upsert(bidder, rn)",
            "Project upsert(bidder, rn)",
            "AppendOnlyTopN upsert(bidder, rn): when others take its place",
            "Source append",
        ],
    ),
    "first rows": (
        ranked("ts", BIDS, "bidder", "rn = 1"),
        TTL,
        [
            "Sink append",
            "Project append",
            "Deduplicate append: state_ttl, 2 days after it came",
            "Source append",
        ],
    ),
    "last rows": (
        ranked("ts desc", BIDS, "bidder", "rn = 1"),
        BIDDERS,
        [
            "Sink upsert(bidder)",
            "Project upsert(bidder)",
            "Deduplicate upsert(bidder): nothing: its keys are constant_domains, or have few values",
            "Source append",
        ],
    ),
    "an interval join": (
        f"select b.x, a.y from {BIDS} as b left join {ASKS} as a on {IN_TIME}",
        {},
        [
            "Sink append: the next micro-batch",
            "IntervalJoin append: when the watermark has passed ts; when the watermark has passed ts + 5 "
            "minutes",
            "LateRows append",
            "Source append",
            "LateRows append",
            "Source append",
        ],
    ),
    "an interval join with windows' results": (
        f"select b.x, w.n from {BIDS} as b join {WINDOWS} as w on b.ts >= w.window_start and b.ts < w.window_end",
        {},
        [
            "Sink append: the next micro-batch",
            "IntervalJoin append: when the watermark has passed ts + 10 minutes; when the watermark has "
            "passed window_end",
            "LateRows append",
            "Source append",
            "WindowAggregate append: window end; window end",
            "see Source",
        ],
    ),
    "a regular join": (
        f"select b.x, a.y from {BIDS} as b join {ASKS} as a on a.x = b.x",
        TTL,
        [
            "Sink append: the next micro-batch",
            "RegularJoin append: state_ttl, 2 days after it came; state_ttl, 2 days after it came",
            "Source append",
            "Source append",
        ],
    ),
    "the last hours": (
        f"select bidder, count(*) as n from {BIDS} where ts > current_timestamp() - interval 1 hour group by bidder",
        {},
        [
            "Sink upsert(bidder)",
            "Project upsert(bidder)",
            "GroupAggregate upsert(bidder): nothing: its input is bounded",
            "TemporalFilter retract: watermark − 1 hour",
            "Source append",
        ],
    ),
    "rows of the last hours": (
        f"select upper(x) as x from {BIDS} where ts > current_timestamp() - interval 1 hour",
        {},
        [
            "Sink retract: the next micro-batch",
            "TemporalFilter retract: watermark − 1 hour",
            "Project append",
            "Source append",
        ],
    ),
    "a union of groups": (
        f"select bidder, n from {GROUPS} union all select bidder, n + 1 as n from {GROUPS}",
        BIDDERS,
        [
            "Sink retract: the next micro-batch",
            "UnionAll retract",
            "Project retract",
            "GroupAggregate retract: nothing: its keys are constant_domains, or have few values; with its "
            "key",
            "Source append",
            "Project retract",
            "see Project",
        ],
    ),
    "a changelog": (
        f"select sum(price) as s, max(price) as m from {BEST}",
        {},
        [
            "Sink upsert()",
            "Project upsert()",
            "GroupAggregate upsert(): nothing: there is one; when it isn't there any more",
            "Source retract",
        ],
    ),
    "an upsert source": (
        f"select channel, count(*) as n from {CUSTOMERS} group by channel",
        {"constant_domains": ["id"]},
        [
            "Sink upsert(channel)",
            "Project upsert(channel)",
            "GroupAggregate upsert(channel): nothing: as many as its input has",
            "ChangelogNormalize retract: nothing: one row per key",
            "Source upsert(id)",
        ],
    ),
    "groups of groups": (
        f"select n, count(*) as bidders from {GROUPS} group by n",
        BIDDERS,
        [
            "Sink upsert(n)",
            "Project upsert(n)",
            "GroupAggregate upsert(n): nothing: its input is bounded",
            "Project retract",
            "GroupAggregate retract: nothing: its keys are constant_domains, or have few values; with its "
            "key",
            "Source append",
        ],
    ),
    "LAG over windows": (
        f"select channel, window_end, n - lag(n) over (partition by channel order by window_end) as more from {WINDOWS}",
        TTL,
        [
            "Sink append: the next micro-batch",
            "OverAggregate append: 1 later row of its partition, or state_ttl, 2 days after its partition's "
            "last row",
            "WindowAggregate append: window end; window end",
            "Source append",
        ],
    ),
    "LAG over a stream": (
        f"select *, avg(price) over (partition by channel order by ts range between interval 1 hour preceding and current "
        f"row) as a from {BIDS}",
        {},
        [
            "Sink append: the next micro-batch",
            "OverAggregate append: 1 hour after its ts",
            "Source append",
        ],
    ),
    "totals of a stream": (
        f"select channel, ts, sum(price) over (partition by channel order by ts) as so_far from {BIDS}",
        {"constant_domains": ["channel"]},
        [
            "Sink append: the next micro-batch",
            "OverAggregate append: a later row of its partition, which takes its place",
            "Source append",
        ],
    ),
    "LEAD over windows": (
        f"select channel, window_end, n - lead(n) over (partition by channel order by window_end) as less from {WINDOWS}",
        TTL,
        [
            "Sink upsert(channel, window_end): the next micro-batch",
            "OverAggregate retract, recomputes touched partitions by channel: state_ttl, 2 days after its "
            "partition's last change",
            "WindowAggregate append: window end; window end",
            "Source append",
        ],
    ),
    "what differs": (
        f"select bidder from {BIDS} except select bidder from {ASKS}",
        TTL,
        [
            "Sink retract: the next micro-batch",
            "SetOperation retract: state_ttl, 2 days after the last change",
            "Source append",
            "Source append",
        ],
    ),
    "a union": (
        f"select bidder from {BIDS} union all select bidder from {ASKS}",
        {},
        ["Sink append", "UnionAll append", "Source append", "Source append"],
    ),
    "a set operation of a column with few values": (
        f"select bidder from {BIDS} except all select bidder from {BIDS} where price > 1",
        BIDDERS,
        [
            "Sink retract: the next micro-batch",
            "SetOperation retract: nothing: its rows are constant_domains, or have few values",
            "Source append",
            "Project append",
            "see Source",
        ],
    ),
    "windows over groups": (
        f"select window_start, window_end, count(*) as n from "
        f"{window('tumble', '10 minutes', relation=f'(select ts, k, count(*) as c from {BIDS} group by ts, k)')} "
        "group by window_start, window_end",
        TTL,
        [
            "Sink upsert(window_end, window_start): the next micro-batch",
            "Project retract",
            "WindowClose retract: window end",
            "GroupAggregate retract: state_ttl, 2 days after the key's last row",
            "WindowTableFunction retract",
            "Project retract",
            "GroupAggregate retract: state_ttl, 2 days after the key's last row",
            "Source append",
        ],
    ),
    "a scalar subquery": (
        f"select bidder, n from {GROUPS} where n > (select avg(n) from {GROUPS})",
        BIDDERS,
        [
            "Sink upsert(bidder): the next micro-batch",
            "Recompute retract, recomputes everything in each micro-batch: nothing: its inputs are bounded; "
            "nothing: its inputs are bounded",
            "Project retract",
            "GroupAggregate retract: nothing: its keys are constant_domains, or have few values; with its "
            "key",
            "Source append",
            "Project retract",
            "GroupAggregate retract: nothing: there is one; with its key",
            "see Project",
        ],
    ),
}


def summary(found: dict[str, Any]) -> str:
    if "see" in found:
        return f"see {found['operator']}"
    how = found["computes"]
    again = "" if how["how"] == "from changes" else f", {how['how']}"
    again += f" by {', '.join(how['by'])}" if how["by"] else " in each micro-batch" if again else ""
    clears = "; ".join(state["clears"] for state in found["state"])
    return f"{found['operator']} {mode(found)}{again}{f': {clears}' if clears else ''}"


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_their_modes_and_what_clears_their_state(name: str) -> None:
    text, config, expected = OPERATORS[name]
    assert [
        summary(each)
        for each in nodes(explain.plan_as_json(explain.explain_node(node(text, **config), KNOWN))["tree"])
    ] == expected


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_recomputed_is_what_allow_recompute_refuses(name: str) -> None:
    text, config, expected = OPERATORS[name]
    if any("recomputes" in each for each in expected):
        with pytest.raises(QueryError, match="config 'allow_recompute' is false"):
            explain.plan_as_json(explain.explain_node(node(text, allow_recompute=False, **config), KNOWN))
    else:
        explain.plan_as_json(explain.explain_node(node(text, allow_recompute=False, **config), KNOWN))


PROGRAMS = tagged(COMPOSED)


def check(found: Explanation, parts: list[str]) -> None:
    """Every part of the state is in one operator, and nothing of ours is in a description."""
    told = [state for each in operators_in_order(found) for state in each.state]
    assert sorted(state.part for state in told) == sorted(parts)
    shared = {part for each in operators_in_order(found) for part in each.shares}
    assert shared <= set(parts)
    for state in told:
        assert state.columns and state.rows and state.clears
    for each in operators_in_order(found):
        assert each.description, each.operator
        for hidden in (
            "__stream_weight",
            "__row_time",
            "__input_",
            "_micros",
            "no_windows",
            "__aggregate_",
            "__from_",
            "__event_time",
            "__life",
            "__rank",
            "lookup_",
        ):
            assert hidden not in each.description.lower(), each
        assert not re.search("window_[0-9a-f]{10}", each.description), each


@pytest.mark.parametrize("name", mostly_thorough(PROGRAMS, [*PROGRAMS][::4]))
def test_each_part_of_the_state_is_in_one_operator(name: str) -> None:
    made = PROGRAMS[name].planned()
    parts = [part.name for part in made.program.parts]
    check(build.build_tree(made.plan, made.program, build.Settings("db.model", ttl=made.ttl)), parts)


def _of_case(case: Case) -> Any:
    upstream = planning.planned(case.upstream) if case.upstream is not None else None
    model = planning.node_of(case.model, "m") | {"relation_name": "db.m", "compiled_code": case.model.text()}
    return explain.explain_node(model, planning.known_of(case, upstream))


@pytest.mark.parametrize("name", mostly_thorough(EXAMPLES, [*EXAMPLES][::12]))
def test_queries_that_were_wrong_once(name: str) -> None:
    case = EXAMPLES[name]
    try:
        found = _of_case(case)
    except QueryError:
        try:
            found = _of_case(planning.advised(case))
        except QueryError:
            return  # refused, which its own test looks at
    check(found.tree, [part.name for part in found.program.parts])


@pytest.mark.parametrize("numbers", mostly_thorough([range(8), range(8, 25)], [range(8)]), ids=str)
def test_random_queries(numbers: range) -> None:
    explained = 0
    for number in numbers:
        case = planning.advised(Generator(f"explain {number}").case())
        try:
            found = _of_case(case)
        except QueryError:
            continue
        explained += 1
        check(found.tree, [part.name for part in found.program.parts])
        recomputes = any(each.computing.recomputes for each in operators_in_order(found.tree))
        assert recomputes == _is_refused_without_recompute(case)
    assert explained > len(numbers) // 2


def _is_refused_without_recompute(case: Case) -> bool:
    config = (*case.model.config, ("allow_recompute", False))
    try:
        _of_case(replace(case, model=replace(case.model, config=config)))
    except QueryError as refusal:
        assert "config 'allow_recompute' is false" in str(refusal)
        return True
    return False


@pytest.mark.skipif(ORACLE is None, reason="no oracle")
@pytest.mark.parametrize("name", case_names())
def test_queries_of_the_oracle(name: str) -> None:
    assert ORACLE is not None
    tables = [path.stem for path in (ORACLE / "data" / "small").glob("*.parquet")]
    case = planned_case(ORACLE, name, tables)
    ttl = stream_node.stream_settings({"name": name, "config": settings_of(name)}).state_ttl
    made = build.build_tree(case.plan, case.program, build.Settings("db.model", ttl=ttl))
    check(made, [part.name for part in case.program.parts])


def test_trees_are_made_without_spark() -> None:
    code = (
        "import sys; import dbt.adapters.spark_streaming.query.explain.build; "
        "print([name for name in sys.modules if name.startswith('pyspark')])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
