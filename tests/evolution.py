"""Queries of every operator, and every kind of edit of them: what the evolution matrix is made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.project import streaming
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.sql.functions import QueryRunner
from dbt.adapters.spark_streaming.query.state_signature import Signature
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.evolution.compare import evolution
from dbt.adapters.spark_streaming.stream.evolution.match_parts import program_with_state_names
from dbt.adapters.spark_streaming.stream.run.recovery import query_problem

KNOWN = {"clicks": RelationInfo("ts"), "orders": RelationInfo("ts")}
KEPT, MIGRATED, REFUSED, WRONG = "kept", "migrated", "refused", "no query"

WINDOWS: Mapping[str, tuple[str, ...]] = {
    "tumble": ("10 minutes",),
    "hop": ("5 minutes", "10 minutes"),
    "cumulate": ("5 minutes", "30 minutes"),
    "session": ("10 minutes",),
    "dynamic_cumulate": ("5 minutes", "10 minutes"),
}
_COLUMNS = ("one", "u", "v")


@dataclass(frozen=True)
class Query:
    """A query of one operator, in the pieces that are edited."""

    operator: str
    metrics: Mapping[str, str] = field(
        default_factory=lambda: {
            "n": "count(*)",
            "s": "sum({v})",
            "d": "count(distinct {u})",
            "a": "avg({v})",
        }
    )
    """Aggregates by their names; columns in braces."""
    given: tuple[str, ...] | None = None
    """The expressions over them that are put out, with their names; None: as they are."""
    keys: tuple[str, ...] = ("k",)
    window: tuple[str, ...] = ()
    """The lengths of its windows; none: those of `WINDOWS`."""
    event_time: str = "ts"
    where: str = ""
    having: str = ""
    rows: int = 2
    """Of a ranking."""
    order: str = "n desc"
    alias: str = ""
    cte: bool = False
    spaced: bool = False
    above: str = ""
    """A query over this one, which it calls ``below``."""
    late: frozenset[str] = frozenset()
    """Aggregates over the columns that are NULL in rows of before the edit."""

    stream: str = "clicks"
    kind: str = ""
    """Of its window; empty: that of its operator."""

    def __post_init__(self) -> None:
        if not self.kind:
            object.__setattr__(self, "kind", self.operator.split()[0])

    def text(self) -> str:
        """As its author writes it."""
        made = OPERATORS[self.operator](self)
        if self.above:
            made = self.above.replace("below", f"(\n{made}\n) as below", 1)
        return re.sub(r" (from|where|group|having|as|on) ", r"\n    \1  ", made) if self.spaced else made

    # -- pieces ------------------------------------------------------------------------------------

    def column(self, name: str) -> str:
        """A column, as the query names it."""
        return f"{self.alias}.{name}" if self.alias else name

    def source(self) -> tuple[str, str]:
        """What stands before SELECT, and in FROM."""
        name = self.stream
        relation = expansion.expand_stream(name)
        if self.kind in WINDOWS:
            options: dict[str, Any] = {}
            if self.kind in ("session", "dynamic_cumulate"):
                options["partition_by"] = ["k"]
            lengths = self.window or WINDOWS[self.kind]
            made = window_arguments.make_window(self.kind, self.event_time, *lengths, **options)
            relation = expansion.expand_window(name, made)
        if self.cte:
            return f"with source as (select * from {relation}) ", f"source{self._as}"
        return "", f"{relation}{self._as}"

    @property
    def _as(self) -> str:
        return f" as {self.alias}" if self.alias else ""

    def aggregates(self) -> str:
        """The select items of the aggregates."""
        own = {name: self.column(name) for name in _COLUMNS}
        late = {name: self.column(f"late_{name}") for name in _COLUMNS}
        return ", ".join(
            f"{text.format(**(late if name in self.late else own))} as {name}"
            for name, text in self.metrics.items()
        )

    def grouped(self) -> str:
        """A GROUP BY of its aggregates."""
        before, source = self.source()
        bounds = ["window_start", "window_end"] if self.kind in WINDOWS else []
        keys = [self.column(name) for name in (*bounds, *self.keys)]
        where = f" where {self.where}" if self.where else ""
        having = f" having {self.having}" if self.having else ""
        made = (
            f"{before}select {', '.join([*keys, self.aggregates()])} from {source}{where} "
            f"group by {', '.join(keys)}{having}"
        )
        if self.given is None:
            return made
        names = ", ".join([*bounds, *(key for key in self.keys), *self.given])
        return f"select {names} from ({made}) as g"

    def ranked(self, rows: str, by: str, rank: str = "row_number()") -> str:
        """The first of some rows."""
        return (
            f"select * from (select *, {rank} over (partition by {by} order by {self.order}) as r "
            f"from {rows}) where r <= {self.rows}"
        )


def _plain(query: Query, columns: str = "ts, k, u, v, w") -> str:
    """The rows of the stream that a ranking, a join or a set operation reads."""
    before, source = query.source()
    where = f" where {query.where}" if query.where else ""
    return f"({before}select {columns} from {source}{where})"


def _windowed(query: Query) -> str:
    before, source = query.source()
    where = f" where {query.where}" if query.where else ""
    return f"({before}select window_start, window_end, ts, k, u, v, w from {source}{where})"


def _both(query: Query, how: str) -> str:
    listed = f"{', '.join(query.keys)}, v"
    return (
        f"select {listed} from {_plain(query)} {how} select {listed} from {expansion.expand_stream('orders')}"
    )


def _joined(query: Query, condition: str) -> str:
    a, b = (expansion.expand_stream(name) for name in ("clicks", "orders"))
    where = f" where {query.where}" if query.where else ""
    return f"select a.ts, a.k, a.v, b.u from {a} as a join {b} as b on a.k = b.k{condition}{where}"


def _beside(query: Query, beside: str, where: str = "") -> str:
    """A GROUP BY of what stands beside something that isn't a stream."""
    q = replace(query, alias=query.alias or "c")
    before, source = q.source()
    keys = ", ".join(map(q.column, q.keys))
    conditions = " and ".join(filter(None, [where, query.where]))
    return (
        f"{before}select {keys}, {q.aggregates()} from {source}{beside}"
        f"{f' where {conditions}' if conditions else ''} group by {keys}"
    )


def _of_both(query: Query) -> str:
    """A GROUP BY of the rows of two streams, of which no more columns are read than it needs."""
    aggregates = query.aggregates()
    needed = [
        name
        for name in (*_COLUMNS, *(f"late_{each}" for each in _COLUMNS))
        if re.search(rf"\b{name}\b", aggregates)
    ]
    listed, keys = ", ".join([*query.keys, *needed]), ", ".join(query.keys)
    before, source = query.source()
    where = f" where {query.where}" if query.where else ""
    both = f"{before}select {listed} from {source}{where} union all select {listed} from {expansion.expand_stream('orders')}"
    return f"select {keys}, {aggregates} from ({both}){query._as} group by {keys}"


OPERATORS: dict[str, Callable[[Query], str]] = {
    **{f"{kind} WindowAggregate": Query.grouped for kind in WINDOWS},
    "GroupAggregate": Query.grouped,
    "DISTINCT": lambda q: f"select distinct {', '.join(q.keys)} from {_plain(q)}",
    "tumble WindowTopN of groups": lambda q: q.ranked(f"({q.grouped()})", "window_start, window_end"),
    "tumble WindowTopN of rows": lambda q: (
        f"{q.source()[0]}select window_start, window_end, k, v, r from "
        f"({q.ranked(q.source()[1], ', '.join(['window_start, window_end', *q.keys]))})"
    ),
    "tumble rows": lambda q: (
        f"select window_start, window_end, k, v, r from "
        f"({q.ranked(_windowed(q), ', '.join(['window_start, window_end', *q.keys]))})"
    ),
    "TopN of groups": lambda q: q.ranked(f"({q.grouped()})", "u"),
    "TopN of rows": lambda q: q.ranked(_plain(q), ", ".join(q.keys)),
    "TopN of rows without its place": lambda q: (
        f"select k, u, v from ({q.ranked(_plain(q), ', '.join(q.keys))})"
    ),
    "GroupAggregate over TopN of rows": lambda q: (
        f"select k, {q.aggregates()} from ({q.ranked(_plain(q, '*'), ', '.join(q.keys))}){q._as} group by k"
    ),
    "Deduplicate first": lambda q: q.ranked(_plain(q), ", ".join(q.keys)),
    "Deduplicate last": lambda q: q.ranked(_plain(q), ", ".join(q.keys)),
    "IntervalJoin": lambda q: _joined(
        q, f" and b.ts between a.ts - interval '{q.rows}' minute and a.ts + interval '{q.rows}' minute"
    ),
    "Join": lambda q: _joined(q, ""),
    "OVER": lambda q: (
        f"select ts, k, v, lag(v) over (partition by {', '.join(q.keys)} order by ts) as before from {_plain(q)}"
    ),
    "UNION": lambda q: _both(q, "union"),
    "EXCEPT": lambda q: _both(q, "except"),
    "GroupAggregate over WindowAggregate": lambda q: (
        f"select k, sum(n) as n, max(s) as most from ({replace(q, kind='tumble').grouped()}) group by k"
    ),
    "GroupAggregate over GroupAggregate": lambda q: (
        f"select n, count(*) as c, max(s) as most from ({q.grouped()}) group by n"
    ),
    "GroupAggregate over a join with a table": lambda q: _beside(
        q, f" join dims as d on {q.alias or 'c'}.k <=> d.k"
    ),
    "GroupAggregate over a LATERAL VIEW": lambda q: _beside(
        q, " lateral view explode(array(1, 2)) e as piece"
    ),
    "GroupAggregate over IN a table": lambda q: _beside(q, "", "k in (select k from dims)"),
    "GroupAggregate over UNION ALL": _of_both,
    "values of groups without their keys": lambda q: f"select {', '.join(q.metrics)} from ({q.grouped()})",
    "GroupAggregate over TopN of groups": lambda q: (
        f"select u, count(*) as c, max(n) as most from ({q.ranked(f'({q.grouped()})', 'u')}) group by u"
    ),
}

RANKS: Mapping[str, dict[str, Any]] = {
    "TopN of groups": {"keys": ("k", "u"), "order": "n desc, k"},
    "GroupAggregate over TopN of groups": {"keys": ("k", "u"), "order": "n desc, k"},
    "TopN of rows": {"order": "v desc, u", "rows": 3},
    "TopN of rows without its place": {"order": "v desc, u", "rows": 3},
    "GroupAggregate over TopN of rows": {"order": "v desc, u", "rows": 3},
    "tumble WindowTopN of rows": {"order": "v desc, u", "rows": 3},
    "tumble WindowTopN of groups": {"order": "n desc, k"},
    "tumble rows": {"order": "v desc, u"},
    "Deduplicate first": {"order": "ts", "rows": 1},
    "Deduplicate last": {"order": "ts desc", "rows": 1},
}


def query(operator: str) -> Query:
    """The query of an operator, before it is edited."""
    return Query(operator, **RANKS.get(operator, {}))


# -- what is asked ---------------------------------------------------------------------------------


def planned(text: str, config: Mapping[str, Any], ask: QueryRunner | None = None) -> tuple[Plan, Program]:
    """A model of a text."""
    node = {"name": "m", "relation_name": "db.m", "config": {"materialized": "streaming_table", **config}}
    plan = streaming.plan_model(node, text, KNOWN, ask)
    return plan, streaming.model_program(node, plan)


def signed(program: Program, had: Signature | None = None) -> Signature:
    """The signature of a program; `had`: that of its state, which says what is called how."""
    program = program_with_state_names(had or Signature(), program)
    upsert = program.upsert
    return replace(
        program.signature,
        row_key=None if upsert is None else upsert.row_key,
        fingerprints=None if program.fingerprints is None else program.fingerprints(),
    )


def verdict(old: Signature, new: Signature, **model: Any) -> tuple[str, str]:
    """What becomes of a state, and why."""
    described = StreamModel("m", "db.m", "db.m__state", Storage("/root", lambda: None), (), **model)
    found = evolution(old, new)
    problem = query_problem(described, found, old, new)
    if problem is not None:
        return REFUSED, problem
    return (MIGRATED, found.sentence) if found.is_migration else (KEPT, "")


# -- edits -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edit:
    """A change of a query, or of its configs."""

    query: Callable[[Query], Query] = lambda query: query
    config: Mapping[str, Any] = field(default_factory=dict)


def metrics(change: Callable[[dict[str, str]], dict[str, str]]) -> Edit:
    """A change of its aggregates."""
    return Edit(lambda query: replace(query, metrics=change(dict(query.metrics))))


def without(names: str) -> Callable[[dict[str, str]], dict[str, str]]:
    """The aggregates that others than these are."""
    return lambda had: {name: text for name, text in had.items() if name not in names.split()}


NEW = {"x": "max({v})"}
AGGREGATES: dict[str, Edit] = {
    "added first": metrics(lambda had: {**NEW, **had}),
    "added in the middle": metrics(lambda had: {"n": had["n"], **NEW, **had}),
    "added last": metrics(lambda had: {**had, **NEW}),
    "added: another over the same distinct values": metrics(lambda had: {**had, "x": "sum(distinct {u})"}),
    "added: other distinct values": metrics(lambda had: {**had, "x": "count(distinct {v})"}),
    "added: a FILTER over the same distinct values": metrics(
        lambda had: {**had, "x": "count(distinct {u}) filter (where {v} > 0)"}
    ),
    "removed in the middle": metrics(without("d")),
    "removed last": metrics(without("a")),
    "several removed": metrics(without("d a")),
    "another order": metrics(lambda had: dict(sorted(had.items()))),
    "renamed": metrics(lambda had: {"average" if name == "a" else name: text for name, text in had.items()}),
    "another function of one name": metrics(lambda had: {**had, "a": "min({v})"}),
    "another argument of one name": metrics(lambda had: {**had, "a": "avg({u})"}),
    "a FILTER where there was none": metrics(lambda had: {**had, "a": "avg({v}) filter (where {u} > 1)"}),
    "a FILTER of distinct values where there was none": metrics(
        lambda had: {**had, "d": "count(distinct {u}) filter (where {v} > 0)"}
    ),
    "names that change places": metrics(lambda had: {**had, "a": had["d"], "d": had["a"]}),
    "several at once": metrics(
        lambda had: {"x": "max({v})", "n": had["n"], "s": had["s"], "y": "min({u})", "a": "sum({u})"}
    ),
}
ABOVE: dict[str, Edit] = {
    "other expressions": Edit(lambda q: replace(q, given=("n + 1 as n", "s", "d * 2 as d", "a"))),
    "HAVING": Edit(lambda q: replace(q, having="count(*) > 1")),
    "a SELECT around it": Edit(lambda q: replace(q, above="select * from below where n > 0")),
}
WORDS: dict[str, Edit] = {
    "nothing": Edit(),
    "another alias": Edit(lambda q: replace(q, alias="c")),
    "a WITH query": Edit(lambda q: replace(q, cte=True)),
    "other spaces": Edit(lambda q: replace(q, spaced=True)),
}
RANKING: dict[str, Edit] = {
    "a smaller N": Edit(lambda q: replace(q, rows=q.rows - 1)),
    "a larger N": Edit(lambda q: replace(q, rows=q.rows + 1)),
    "another order of the ranking": Edit(
        lambda q: replace(q, order="v, u" if q.order.startswith("v") else "n, k")
    ),
}
BELOW: dict[str, Edit] = {
    "a key more": Edit(lambda q: replace(q, keys=(*q.keys, "w"))),
    "another key": Edit(lambda q: replace(q, keys=("w", *q.keys[1:]))),
    "a WHERE": Edit(lambda q: replace(q, where="a.v > 0" if "Join" in q.operator else "v > 0")),
}
OF_WINDOWS: dict[str, Edit] = {
    "another length": Edit(
        lambda q: replace(
            q,
            window=(*WINDOWS[q.kind][:-1], "20 minutes" if WINDOWS[q.kind][-1] == "10 minutes" else "1 hour"),
        )
    ),
    "another kind": Edit(lambda q: replace(q, kind="hop" if q.kind == "tumble" else "tumble")),
    "another event time": Edit(lambda q: replace(q, event_time="ts2")),
    "early results": Edit(config={"first_result_offset": "-6 minutes", "update_rate": "2 minutes"}),
    "another stream": Edit(lambda q: replace(q, stream="orders")),
    "late results": Edit(config={"late_updates": True, "last_result_offset": "1 hour"}),
    "a ranking of its windows above": Edit(
        lambda q: replace(
            q,
            above="select * from (select *, row_number() over (partition by window_start, window_end order by n desc, k) "
            "as r from below) where r <= 3",
        )
    ),
}
OF_STREAMS: dict[str, Edit] = {
    "another state_ttl": Edit(config={"state_ttl": "2 days"}),
    "a state_ttl where there was none": Edit(config={"state_ttl": "2 days", "constant_domains": []}),
}


# -- the matrix ------------------------------------------------------------------------------------

FIXED, EARLY = {"watermark": "1 minute"}, {"first_result_offset": "-6 minutes", "update_rate": "2 minutes"}
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "": FIXED,
    "early": {**FIXED, **EARLY},
    "few keys": {**FIXED, "constant_domains": ["k", "u", "v", "w", "n", "s", "most", "d", "a"]},
    "state_ttl": {**FIXED, "state_ttl": "10 days"},
}


def configs_of(operator: str) -> list[str]:
    """The configs that an operator is tried with."""
    if operator.split()[0] in WINDOWS:
        return ["", "early"]
    return ["state_ttl"] if operator in ("Join", "UNION", "EXCEPT") else ["few keys", "state_ttl"]


def edits_of(operator: str) -> dict[str, Edit]:
    """The edits that an operator is tried with."""
    found = dict(WORDS)
    if any(each in operator for each in ("Aggregate", "of groups")):
        found |= AGGREGATES
    if (operator.endswith(" WindowAggregate") and " over " not in operator) or operator == "GroupAggregate":
        found |= ABOVE
    if "TopN" in operator or operator == "tumble rows":
        found |= RANKING
    if operator == "IntervalJoin":
        found |= {"a smaller bound": RANKING["a smaller N"], "a larger bound": RANKING["a larger N"]}
    found |= {name: edit for name, edit in BELOW.items() if "WHERE" in name or "Join" not in operator}
    if operator == "tumble WindowTopN of rows":
        del found["a WHERE"]  # there is no place for one that it has all rows of its windows without
    found |= OF_WINDOWS if operator.split()[0] in WINDOWS else OF_STREAMS
    if operator.endswith("rows"):
        found.pop("a ranking of its windows above", None)  # it has nothing to rank by
    return found
