"""What `dbt-stream explain` says of a model: one tree of operators, whatever the plan's form."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from dbt.adapters.spark_streaming.cli import explain
from dbt.adapters.spark_streaming.cli.project import ProjectError
from dbt.adapters.spark_streaming.project import stream_node
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.explain import build
from dbt.adapters.spark_streaming.query.explain.node import Node, in_order
from dbt.adapters.spark_streaming.query.frontend.streams import Known
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.util.quoting import time_name
from tests.differential import planning
from tests.differential.generate import Generator
from tests.differential.regressions import EXAMPLES
from tests.differential.tree import Case
from tests.functional.query import test_operators, test_queries, test_unwindowed
from tests.oracle.cases import ORACLE, case_names
from tests.oracle.project import settings_of
from tests.oracle.streams import planned as planned_case
from tests.planned import plan_of
from tests.thorough import mostly_thorough


def window(kind: str, *lengths: str, relation: str = "raw.bid", **options: Any) -> str:
    return expansion.expand(relation, window_arguments.make(kind, "ts", *lengths, **options))


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
    "raw.bid": Known("ts"),
    "raw.ask": Known("ts"),
    "raw.best": Known("ts", ("bidder",), changes=True),
    "raw.customer": Known("ts", ("id",)),
    "crm.names": Known(lookup=True),
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
        ["Sink append", "Project append", "WindowAggregate append: window end; window end", "Source append"],
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
            "GroupAggregate upsert(n): nothing: its keys are constant_domains",
            "UpdatableTopN retract: when it is no member any more",
            "Project retract",
            "GroupAggregate retract: nothing: its keys are constant_domains",
            "Source append",
        ],
    ),
    "early and late firing": (
        counted(TUMBLE),
        {"first_result_offset": "-5 minutes", "late_updates": True, "last_result_offset": "1 hour"},
        [
            "Sink upsert(channel, window_end)",
            "Project upsert(window_end, channel)",
            "WindowAggregate upsert(window_end, channel): window end + 1 hour (allowed lateness); window end + 1 hour "
            "(allowed lateness)",
            "Source append",
        ],
    ),
    "cumulate": (
        f"select window_start, window_end, count(*) as n from {window('cumulate', '1 hour', '1 day')} group by 1, 2",
        {},
        [
            "Sink append",
            "Project append",
            "WindowAggregate append: end of the longest window",
            "Source append",
        ],
    ),
    "sessions": (
        counted(SESSION),
        {},
        [
            "Sink append",
            "Project append",
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
            "WindowTopN retract",
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
            "Project append",
            "WindowJoin append",
            "Project append",
            "WindowAggregate append: window end; window end",
            "Source append",
            "see Project",
        ],
    ),
    "row by row": (
        f"select upper(channel) as c from {BIDS} where price > 1",
        {},
        ["Sink append", "Project append", "Source append"],
    ),
    "a static table": (
        f"select b.price, d.name from {BIDS} as b join dims as d on b.channel = d.channel",
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
            "GroupAggregate upsert(bidder): nothing: its keys are constant_domains; nothing: as many as there are values",
            "Project append",
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
            "UpdatableTopN upsert(bidder): when it is no member any more",
            "Project retract",
            "GroupAggregate retract: nothing: its keys are constant_domains",
            "Source append",
        ],
    ),
    "a ranking of groups that may fall": (
        ranked("total desc", GROUPS),
        BIDDERS,
        [
            "Sink upsert(bidder)",
            "RetractableTopN upsert(bidder): when it is no member any more",
            "Project retract",
            "GroupAggregate retract: nothing: its keys are constant_domains",
            "Source append",
        ],
    ),
    "a ranking of rows": (
        ranked("price desc", BIDS, "bidder"),
        BIDDERS,
        [
            "Sink upsert(bidder, rn)",
            "AppendOnlyTopN upsert(bidder, rn): when others take its place",
            "Source append",
        ],
    ),
    "first rows": (
        ranked("ts", BIDS, "bidder", "rn = 1"),
        TTL,
        ["Sink append", "Deduplicate append: state_ttl, 2 days after it came", "Source append"],
    ),
    "last rows": (
        ranked("ts desc", BIDS, "bidder", "rn = 1"),
        BIDDERS,
        [
            "Sink upsert(bidder)",
            "Deduplicate upsert(bidder): nothing: its keys are constant_domains",
            "Source append",
        ],
    ),
    "an interval join": (
        f"select b.x, a.y from {BIDS} as b left join {ASKS} as a on {IN_TIME}",
        {},
        [
            "Sink append: the next micro-batch",
            "IntervalJoin append: when the watermark has passed ts; when the watermark has passed ts + 5 minutes",
            "Source append",
            "Source append",
        ],
    ),
    "an interval join with windows' results": (
        f"select b.x, w.n from {BIDS} as b join {WINDOWS} as w on b.ts >= w.window_start and b.ts < w.window_end",
        {},
        [
            "Sink append: the next micro-batch",
            "IntervalJoin append: when the watermark has passed ts + 10 minutes; when the watermark has passed window_end",
            "Source append",
            "Project append",
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
            "GroupAggregate retract: nothing: its keys are constant_domains; with its key",
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
            "ChangelogNormalize retract: nothing: its keys are constant_domains",
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
            "GroupAggregate retract: nothing: its keys are constant_domains; with its key",
            "Source append",
        ],
    ),
    "LAG over windows": (
        f"select channel, window_end, n - lag(n) over (partition by channel order by window_end) as more from {WINDOWS}",
        TTL,
        [
            "Sink append: the next micro-batch",
            "OverAggregate append: 1 later row of its partition, or state_ttl, 2 days after its partition's last row",
            "Project append",
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
            "OverAggregate retract, recomputes touched partitions by channel: state_ttl, 2 days after its partition's last "
            "change",
            "Project append",
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
            "Recompute retract, recomputes everything in each micro-batch: nothing: its inputs are bounded; nothing: its "
            "inputs are bounded",
            "Project retract",
            "GroupAggregate retract: nothing: its keys are constant_domains; with its key",
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
    assert [summary(each) for each in nodes(explain.as_json(node(text, **config), KNOWN)["tree"])] == expected


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_recomputed_is_what_allow_recompute_refuses(name: str) -> None:
    text, config, expected = OPERATORS[name]
    if any("recomputes" in each for each in expected):
        with pytest.raises(ProjectError, match="config 'allow_recompute' is false"):
            explain.as_json(node(text, allow_recompute=False, **config), KNOWN)
    else:
        explain.as_json(node(text, allow_recompute=False, **config), KNOWN)


def programs() -> Iterator[Any]:
    """Plans of all kinds with what makes their trees."""
    for name, text in test_queries.QUERIES.items():
        yield pytest.param(partial(plan_of, text), None, id=f"windows: {name}")
    for name in test_unwindowed.QUERIES:
        ttl = test_unwindowed.DAY if name in test_unwindowed.TTL else None
        text = test_unwindowed.QUERIES[name]
        plan = partial(plan_query.plan, text, test_unwindowed.KNOWN, ttl, DOMAINS)
        yield pytest.param(plan, ttl, id=f"streams: {name}")
    for name in test_operators.QUERIES:
        ttl = 30 * test_unwindowed.DAY if name in test_operators.TTL else None
        yield pytest.param(partial(test_operators.planned, name), ttl, id=f"operators: {name}")


def check(found: Node, parts: list[str]) -> None:
    """Every part of the state is in one operator, and nothing of ours is in a description."""
    told = [state for each in in_order(found) for state in each.state]
    assert sorted(state.part for state in told) == sorted(parts)
    shared = {part for each in in_order(found) for part in each.shares}
    assert shared <= set(parts)
    for state in told:
        assert state.columns and state.rows and state.clears
    for each in in_order(found):
        assert each.description, each.operator
        for hidden in (
            "__stream_weight",
            "__row_time",
            "__input_",
            "_micros",
            "no_windows",
            "stage_",
            "__aggregate_",
            "__from_",
            "__event_time",
            "__life",
            "__rank",
            "lookup_",
        ):
            assert hidden not in each.description.lower(), each


@pytest.mark.parametrize(("plan", "ttl"), [*programs()])
def test_each_part_of_the_state_is_in_one_operator(plan: Any, ttl: int | None) -> None:
    made: Plan = plan()
    program = generate.program(made, ttl=ttl)
    parts = [part.name for part in program.parts]
    check(build.tree(made, program, build.Settings("db.model", ttl=ttl)), parts)


def _of_case(case: Case) -> Any:
    upstream = planning.planned(case.upstream) if case.upstream is not None else None
    model = planning.node_of(case.model, "m") | {"relation_name": "db.m", "compiled_code": case.model.text()}
    return explain._explained(model, planning.known_of(case, upstream))


@pytest.mark.parametrize("name", mostly_thorough(EXAMPLES, [*EXAMPLES][::4]))
def test_queries_that_were_wrong_once(name: str) -> None:
    case = EXAMPLES[name]
    try:
        found = _of_case(case)
    except (QueryError, ProjectError):
        try:
            found = _of_case(planning.advised(case))
        except (QueryError, ProjectError):
            return  # refused, which its own test looks at
    check(found.tree, [part.name for part in found.program.parts])


def test_random_queries() -> None:
    explained = 0
    for number in range(25):
        case = planning.advised(Generator(f"explain {number}").case())
        try:
            found = _of_case(case)
        except (QueryError, ProjectError):
            continue
        explained += 1
        check(found.tree, [part.name for part in found.program.parts])
        recomputes = any(each.computing.recomputes for each in in_order(found.tree))
        assert recomputes == _is_refused_without_recompute(case)
    assert explained > 15


def _is_refused_without_recompute(case: Case) -> bool:
    config = (*case.model.config, ("allow_recompute", False))
    try:
        _of_case(replace(case, model=replace(case.model, config=config)))
    except ProjectError as refusal:
        assert "config 'allow_recompute' is false" in str(refusal)
        return True
    return False


@pytest.mark.skipif(ORACLE is None, reason="no oracle")
@pytest.mark.parametrize("name", case_names())
def test_queries_of_the_oracle(name: str) -> None:
    assert ORACLE is not None
    tables = [path.stem for path in (ORACLE / "data" / "small").glob("*.parquet")]
    case = planned_case(ORACLE, name, tables)
    ttl = stream_node.config({"name": name, "config": settings_of(name)}).state_ttl
    made = build.tree(case.plan, case.program, build.Settings("db.model", ttl=ttl))
    check(made, [part.name for part in case.program.parts])


# -- the terminal ----------------------------------------------------------------------------------


@pytest.fixture
def explained(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is shown without the SQL, without line breaks."""
    monkeypatch.setenv("COLUMNS", "250")

    def run(text: str, sql: bool = False, **config: Any) -> str:
        explain.print_plan(node(text, **config), KNOWN, sql)
        return " ".join(capsys.readouterr().out.split())

    return run


def test_a_tree_on_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    explain.print_plan(node(ranked("n desc, bidder", GROUPS), constant_domains=["bidder"]), KNOWN, sql=False)
    shown = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert shown.startswith(
        """bids  streaming_table  → shop.bids

Sink  shop.bids
upsert(bidder)
What changes is merged, in one commit per micro-batch.
└── UpdatableTopN  first 3 by n DESC, bidder
    upsert(bidder)
    state top_9d862b1bf7_members: a member that came, changed or went; clears:
    when it is no member any more
    A group's place only gets better, so the members and the groups that changed
    are all that is ranked.
    └── Project  bidder, COUNT(*) AS n, SUM(price) AS total
        retract · key bidder
        └── GroupAggregate  by bidder
            retract · key bidder
            state group_54256ab5e8_groups: partial aggregates per key; clears:
            nothing: its keys are constant_domains
            COUNT(*) → count_all: partial aggregate per key
            SUM(price) → sum_price: partial aggregate per key
            └── Source  raw.bid
                append · event time ts, watermark newest − 0 seconds
"""
    )


@pytest.mark.parametrize(("time", "shown"), [("meta.at", "meta.at"), ("meta.`at - utc`", "meta.at - utc")])
def test_an_event_time_in_a_struct_is_shown_without_quotes(
    time: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {"raw.bid": Known(time_name(time))}
    query = f"select bidder, count(*) as n from {BIDS} group by bidder"
    explain.print_plan(node(query, constant_domains=["bidder"]), known, sql=False)
    assert f"append · event time {shown}, watermark newest − 0 seconds" in capsys.readouterr().out


def test_what_is_read_twice_is_shown_once(explained: Any) -> None:
    text, config, _ = OPERATORS["windows joined"]
    found = explained(text, **config)
    assert found.count("WindowAggregate") == 1
    assert "as [1] above" in found


def test_the_json_is_the_same_tree() -> None:
    for name in ("windows joined", "a scalar subquery", "early and late firing", "an interval join"):
        text, config, _ = OPERATORS[name]
        model = node(text, **config)
        found = explain._explained(model, KNOWN).tree
        told = json.loads(json.dumps(explain.as_json(model, KNOWN)))
        listed = [each for each in nodes(told["tree"]) if "see" not in each]
        assert [(each.operator, each.description, each.identity) for each in in_order(found)] == [
            (each["operator"], each["description"], each["identity"]) for each in listed
        ]


def test_what_the_json_has() -> None:
    found = explain.as_json(node(counted(TUMBLE), watermark="1 minute"), KNOWN)
    assert found["table"] == "shop.bids"
    assert found["streams"] == [
        {
            "relation": "raw.bid",
            "columns": found["streams"][0]["columns"],
            "event_time": "ts",
            "watermark": "newest − 1 minute",
            "changelog": False,
        }
    ]
    assert {"channel", "ts", "url"} <= {*found["streams"][0]["columns"]}
    assert found["results"][0] == "On-time firing: when the watermark is at window_end."
    assert found["sql"][0]["step"] == "stage_1_rows: rows in"
    aggregate = found["tree"]["inputs"][0]["inputs"][0]
    assert aggregate["metrics"][1] == {
        "sql": "COUNT(DISTINCT url)",
        "function": "count distinct",
        "columns": ["count_distinct_url_in"],
        "how": "occurrences per slice, counted when a window closes",
    }
    assert aggregate["state"][1]["columns"] == [
        "expires_at",
        "slice_end",
        "channel",
        "url",
        "count_distinct_url_in",
    ]
    assert aggregate["notes"] == ["Slices of 10 minutes; a window closes every 10 minutes."]


def test_functions_that_only_a_session_knows(explained: Any) -> None:
    found = explained(f"select my_function(x) as y from {BIDS}")
    assert (
        "Not among Spark's own functions: my_function. Here each is taken for one that makes a value of a row; a run asks "
        "Spark, and if it makes one value of many rows, plans it so."
    ) in found


def test_columns_that_only_a_session_knows(explained: Any) -> None:
    text = f"select a.x from {BIDS} as a where exists (select 1 from {ASKS} as b where y = z)"
    found = explained(text, state_ttl="7 days")
    assert (
        "The relation or type of y, z is unknown here; a run asks Spark, and may find a cheaper plan than this."
    ) in found


def test_how_windows_are_cut(explained: Any) -> None:
    assert "Slices of 5 minutes; a window closes every 5 minutes." in explained(
        counted(window("hop", "5 minutes", "15 minutes"))
    )
    assert "Sessions of each channel, ended by 30 minutes without rows." in explained(counted(SESSION))
    dynamic = explained(
        counted(window("dynamic_cumulate", "5 minutes", "30 minutes", partition_by=["channel"]))
    )
    assert (
        "A result at each step of 5 minutes, the last one at the first step at or after the session's end."
        in dynamic
    )
    assert "occurrences per slice, counted at each step" in dynamic
    zoned = explained(
        counted(window("cumulate", "1 hour", "1 day", emit="on_change", time_zone="Europe/Berlin"))
    )
    assert "Windows are cut on the clock of Europe/Berlin; the watermark is an instant." in zoned
    assert "A key has results only at steps in which it had new rows." in zoned


def test_grouping_sets(explained: Any) -> None:
    assert "by GROUPING SETS ((channel), ())" in explained(counted(TUMBLE, "rollup(channel)"))


def test_the_rows_that_can_rank(explained: Any) -> None:
    found = explained(ranked("price desc", TUMBLE, "window_start, window_end, channel"))
    assert "WindowTopN first 3 by price DESC per channel, window" in found
    assert "a row that is among the first 3 of its slice per channel" in found
    assert "Why rows are kept: row_number() over rows." in found


def test_when_windows_fire(explained: Any) -> None:
    found = explained(
        counted(TUMBLE),
        first_result_offset="-5 minutes",
        update_rate="1 minute",
        complete_result_offset="2 minutes",
        late_updates=True,
        last_result_offset="1 hour",
        changelog=True,
    )
    assert (
        "Early firing: when the watermark is at window_end − 5 minutes, then every 1 minute, for windows that have rows. "
        "On-time firing: when the watermark is at window_end + 2 minutes. "
        "Late firing: each late row updates its result until window_end + 1 hour, the end of allowed lateness; then the "
        "state is cleared and later rows are dropped and counted."
    ) in found
    assert "Every change is also appended to shop.bids__changes." in found
    assert "Allowed lateness: none." in explained(counted(TUMBLE))
    assert "firing" not in explained(f"select count(*) as n from {BIDS}")


def test_how_long_windows_below_other_operators_are_kept(explained: Any) -> None:
    """As long as they are without anything above them."""
    twice = f"select channel, window_end from {WINDOWS} union select channel, window_end from {WINDOWS}"
    late = explained(twice, late_updates=True, last_result_offset="1 hour")
    assert "SetOperation UNION" in late and "WindowChanges" in late
    assert "event time window_end, final when the watermark is there + 1 hour" in late
    assert "clears: window end + 1 hour (allowed lateness)" in late
    small = f"select window_time as ts, count(*) as n from {TUMBLE} group by window_start, window_end, window_time, channel"
    above = (
        f"with small as ({small}) select window_start, window_end, max(n) as n "
        f"from {window('tumble', '1 hour', relation='small')} group by window_start, window_end"
    )
    found = explained(above, first_result_offset="-5 minutes", complete_result_offset="2 minutes")
    assert "WindowClose when the watermark is at window_end" in found
    assert "+ 2 minutes (complete_result_offset), and at early firing" in found


def test_when_windows_over_a_join_fire(explained: Any) -> None:
    matches = f"select b.ts, b.channel, a.price from {BIDS} as b join {ASKS} as a on b.channel = a.channel"
    text = f"with m as ({matches}) {counted(window('tumble', '10 minutes', relation='m')).replace('url', 'price')}"
    found = explained(
        text, state_ttl="1 day", first_result_offset="-5 minutes", complete_result_offset="2 minutes"
    )
    assert (
        "Early firing: when the watermark is at window_end − 5 minutes, for windows that have rows. "
        "On-time firing: when the watermark is at window_end + 2 minutes. "
        "After that a window's result changes in the micro-batch in which its input changes."
    ) in found
    assert "No windows" not in found


def test_two_streams(explained: Any) -> None:
    text = f"select b.x, a.y from {BIDS} as b join {ASKS} as a on {IN_TIME}"
    assert "newest − 0 seconds, the smallest of all streams" in explained(text)
    assert "but idle ones (no rows for 10 minutes)" in explained(text, idle_timeout="10 minutes")


def test_what_is_recomputed_says_so(explained: Any) -> None:
    text, config, _ = OPERATORS["a scalar subquery"]
    found = explained(text, **config)
    assert (
        "recomputes everything in each micro-batch: reads all rows that it keeps, and what they gave before"
        in found
    )
    assert (
        "Recomputed: Recompute (recomputes everything in each micro-batch). With allow_recompute: false this"
        in found
    )
    text = f"select a.bidder, a.n, b.n as m from {GROUPS} as a left join {GROUPS} as b on a.bidder = b.bidder"
    found = explained(text, **BIDDERS)
    assert (
        "recomputes touched partitions by a.bidder: reads the kept rows of each partition that changed"
        in found
    )
    text, config, _ = OPERATORS["LEAD over windows"]
    assert (
        "recomputes touched partitions by channel: reads the kept rows of each partition that changed"
        in explained(text, **config)
    )
    text, config, _ = OPERATORS["groups of groups"]
    assert "Recomputed" not in explained(text, **config)
    assert "Nothing is recomputed, as allow_recompute: false asks." in explained(
        text, allow_recompute=False, **config
    )


def test_rankings_of_rows(explained: Any) -> None:
    split = explained(
        f"select /*+ SPLIT_TOPN(4) */ * from (select *, row_number() over (partition by bidder order by price desc) as rn "
        f"from {BIDS}) where rn <= 3",
        **BIDDERS,
    )
    assert "AppendOnlyTopN first 3 by price DESC per bidder" in split
    assert "a row that is, or was, among the first; clears: when others take its place" in split
    assert "New rows are ranked in 4 buckets first." in split
    expiring = explained(ranked("price desc", BIDS, "bidder"), **TTL)
    assert "clears: state_ttl, 2 days after its ranking's last new member" in expiring
    first = explained(ranked("ts", BIDS, "bidder", "rn = 1"), **BIDDERS)
    assert "append · event time ts, emitted in its order" in first
    assert "A row is emitted when the watermark has passed it, so that none can come before it." in first
    of_first = (
        f"select channel, count(*) as n from ({ranked('ts', BIDS, 'bidder', 'rn = 1')}) group by channel"
    )
    below = explained(of_first, constant_domains=["bidder", "channel"])
    assert "Deduplicate keep first by ts per bidder retract · key bidder" in below
    assert "when the watermark has passed it" not in below


def test_a_limit_has_no_column_of_ours(explained: Any) -> None:
    found = explained(
        f"select bidder, count(*) as n from {BIDS} group by bidder order by n desc limit 2 offset 1",
        **BIDDERS,
    )
    assert (
        "Project WHERE rank > 1 upsert(bidder) └── UpdatableTopN first 3 by COUNT(*) DESC upsert(bidder)"
        in found
    )
    assert "AppendOnlyTopN first 5 by price DESC retract state" in explained(
        f"select bidder, price from {BIDS} order by price desc limit 5"
    )


def test_why_groups_do_not_grow_for_ever(explained: Any) -> None:
    def clears(text: str, *domains: str) -> str:
        found: str = explained(text, constant_domains=list(domains))
        return found.partition("partial aggregates per key; clears: ")[2].partition(" COUNT(")[0]

    groups = f"select {{}} as k, count(*) as n from {BIDS} group by 1"
    assert clears(groups.format("upper(channel)"), "k") == "nothing: its keys are constant_domains"
    assert clears(groups.format("upper(channel)"), "channel") == "nothing: its keys are constant_domains"
    assert clears(groups.format("price % 10")) == "nothing: the values of its keys are few"
    two = f"select channel, price % 10 as k, count(*) as n from {BIDS} group by 1, 2"
    assert clears(two, "channel") == "nothing: its keys are constant_domains, or have few values"
    recent = f"(select * from {BIDS} where ts >= current_timestamp() - interval 1 hour)"
    assert clears(f"select x, count(*) as n from {recent} group by x") == "nothing: its input is bounded"


def test_a_key_that_the_author_says(explained: Any) -> None:
    groups = f"select bidder, channel, count(*) as n from {BIDS} group by bidder, channel"
    domains = ["bidder", "channel"]
    ours = explained(groups, constant_domains=domains)
    assert "Sink shop.bids upsert(bidder, channel) What changes" in ours
    assert "GroupAggregate by bidder, channel upsert(bidder, channel)" in ours
    # Rows of a group are found by its own keys.
    found = explained(groups, constant_domains=domains, unique_key=["bidder"])
    assert "Sink shop.bids upsert(bidder) What changes" in found
    assert "GroupAggregate by bidder, channel upsert(bidder, channel)" in found


def test_distinct_rows(explained: Any) -> None:
    found = explained(f"select distinct channel, bidder from {BIDS}", constant_domains=["channel", "bidder"])
    assert "GroupAggregate by channel, bidder upsert(channel, bidder)" in found


@pytest.mark.parametrize(
    ("since", "clears"),
    [
        ("1 hour", "watermark − 1 hour"),
        ("0 seconds", "watermark"),
        ("'-5' minutes", "watermark + 5 minutes"),
    ],
)
def test_when_rows_leave(explained: Any, since: str, clears: str) -> None:
    for compares in (">", ">="):
        found = explained(f"select x from {BIDS} where ts {compares} current_timestamp() - interval {since}")
        assert f"a row for which it holds; clears: {clears} A row leaves" in found


def test_one_group_is_never_idle(explained: Any) -> None:
    found = explained(f"select count(*) as n from {BIDS}", **TTL)
    assert "partial aggregates; clears: nothing: there is one" in found
    found = explained(f"select bidder from {BIDS} order by price desc limit 3", **TTL)
    assert "clears: when others take its place" in found and "state_ttl" not in found


def test_tables_beside_the_streams(explained: Any) -> None:
    text, config, _ = OPERATORS["an external table"]
    found = explained(text, **config)
    assert "ExternalTable crm.names" in found
    assert "External table crm.names: asked for its distinct id; the rows that come back are" in found
    assert "Read again in each micro-batch." in explained(OPERATORS["a static table"][0])
    of_changes = explained(
        f"select g.bidder, g.n, d.name from {GROUPS} as g join crm.names as d on d.id = g.bidder", **BIDDERS
    )
    # What a group was called isn't kept: its row is replaced.
    assert "LookupJoin INNER JOIN d ON d.id = g.bidder upsert(bidder)" in of_changes
    assert "to be retracted as it was" not in of_changes
    twice = f"select g.bidder, g.n, d.name from {GROUPS} as g join crm.names as d on d.id = g.bidder"
    below = explained(
        f"select name, sum(n) as n from ({twice}) group by name", constant_domains=["bidder", "name"]
    )
    assert "a row that is there, and what it gave, to be retracted as it was" in below
    assert "ExternalTable crm.names table Asked in each micro-batch for its distinct id." in of_changes


def test_the_authors_words(explained: Any) -> None:
    text = (
        f"select upper(channel) as `Kind`, count(*) + 1 as n from {BIDS} where price > 1 "
        "group by upper(channel) having count(*) > 2"
    )
    found = explained(text, constant_domains=["kind"])
    assert "Project UPPER(channel) AS Kind, COUNT(*) + 1 AS n HAVING COUNT(*) > 2" in found
    assert "Project WHERE price > 1" in found


def test_the_sql_comes_last(explained: Any) -> None:
    shown = explained(counted(TUMBLE), sql=True)
    assert shown.index("On-time firing") < shown.index("stage_1_rows: rows in")
    assert "rows in" not in explained(counted(TUMBLE))


def test_mini_batches(explained: Any) -> None:
    found = explained(f"select /*+ MINI_BATCH('5 seconds', 10000) */ * from {BIDS}")
    assert (
        "Micro-batches: one every 5 seconds while the stream keeps going; of at most 10,000 rows, as far as the "
        "sources can tell." in found
    )
    assert "Micro-batches" not in explained(f"select * from {BIDS}")


def test_trees_are_made_without_spark() -> None:
    code = (
        "import sys; import dbt.adapters.spark_streaming.query.explain.build; "
        "print([name for name in sys.modules if name.startswith('pyspark')])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
