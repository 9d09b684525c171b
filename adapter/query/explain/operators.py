"""Displays the operators of a dataflow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from ..aggregates.model import GroupStage
from ..generation.generator import parts_and_rows
from ..normalize.rankings import ranks
from ..plan.dataflow import Dataflow
from ..plan.operator import Operator, Until, input_name, keeps_rows, mixes_lifetimes, never_expires
from ..plan.operators.changelog_normalize import ChangelogNormalize
from ..plan.operators.group_aggregate import GroupAggregate
from ..plan.operators.join import Join
from ..plan.operators.late_rows import LateRows
from ..plan.operators.local import Local
from ..plan.operators.materialized_project import MaterializedProject
from ..plan.operators.outer_interval_join import OuterIntervalJoin
from ..plan.operators.over_aggregate import OverAggregate
from ..plan.operators.project import Project
from ..plan.operators.recompute import Recompute
from ..plan.operators.set_operation import SetOperation
from ..plan.operators.source import Source
from ..plan.operators.temporal_filter import TemporalFilter
from ..plan.operators.temporal_join import TemporalJoin
from ..plan.operators.top_n import TopN
from ..plan.operators.union_all import UnionAll
from ..plan.operators.window_changes import WindowChanges
from ..plan.operators.window_close import WindowClose
from ..plan.operators.window_results import WindowResults
from ..plan.operators.window_rows import WindowRows
from ..plan.relation import Relation
from ..plan.state.group_state import Groups
from ..plan.time_bounds import kept_until
from ..plan.upserts import replaced
from ..plan.window_operator import WindowOperator
from ..sql import intervals
from ..sql.clauses import filters, joined
from ..windows.emission import Emission
from . import text
from .bounds import ALL_BOUNDED, AS_ITS_INPUT, BOUNDED, Bounds
from .groups import by_keys, key_of, metrics_of, state_of_groups, written_of
from .node import (
    APPEND,
    EVERYTHING,
    PARTITIONS,
    RETRACT,
    UPSERT,
    Changelog,
    Computing,
    KeptMetric,
    Node,
    State,
    make,
)
from .selects import Read, Selects, project, ranking
from .state import Columns
from .top_n import ranked
from .written import expression, in_authors_words, lifted, lifted_in_windows, select_of, without_joins

CHANGES = Computing()
_INPUT_ROWS = "an input's row that later changes need"
_WINDOW_END = "window end + allowed lateness"


class Operators:
    """Operators of a dataflow, as nodes.

    Args:
        flow: the dataflow.
        bounds: describes what clears state.
        columns: returns the columns of a state table.
        source: returns the node of a stream, by its view.
        table: returns the node of an external table, by the view of its rows; None for other views.
        within: returns the node of a query over windows.
        emission: when results of windows are emitted.
    """

    def __init__(
        self,
        flow: Dataflow,
        bounds: Bounds,
        columns: Columns,
        source: Callable[[str], Node],
        table: Callable[[str], Read | None],
        within: Callable[[WindowResults], Node],
        emission: Emission,
    ) -> None:
        self.flow, self.bounds, self.columns, self.emission = flow, bounds, columns, emission
        self.source, self.table, self.within = source, table, within
        result = replaced(flow)
        self.upserted: set[str] = set()
        """Names of the operator that is the result and emits upserts, and of the row-by-row operators above
        it."""
        if result is not None and result.key is not None:
            self.upserted = {each.name for each in (result.operator, *result.path)}
        self.key = None if result is None else result.key
        self.state_names = {group.name: name for name, group in flow.groups.items()}
        self.read: dict[str, Read] = {}
        self.own: dict[str, list[str]] = {}
        self.shared: dict[str, list[str]] = {}
        taken: set[str] = set()
        parts, self.rows_of = parts_and_rows(flow, bounds.ttl)
        for operator in flow.operators:
            mine = parts.get(operator.name, [])
            self.own[operator.name] = [part for part in mine if part not in taken]
            self.shared[operator.name] = [part for part in mine if part in taken]
            taken.update(mine)

    def root(self) -> Node:
        """Returns the node of the whole query."""
        for operator in self.flow.operators:
            if not isinstance(operator, WindowOperator):
                self.read[operator.name] = self._read(operator)
        return self.read[self.flow.root.name].node

    def _read(self, operator: Operator) -> Read:
        # Windows are described with the query over their results.
        read_before = [each for each in operator.inputs if not isinstance(each, WindowOperator)]
        inputs = tuple(self.read[each.name].node for each in read_before)
        read: Callable[..., Read] = getattr(self, _READERS[type(operator)])
        return read(operator, inputs)

    def _windows(self, operator: WindowResults, inputs: tuple[Node, ...]) -> Read:
        return Read(_at(self.within(operator), operator.relation), lifted_in_windows(operator))

    def _source(self, operator: Source, inputs: tuple[Node, ...]) -> Read:
        return Read(self.source(operator.view))

    def _latest(self, operator: ChangelogNormalize, inputs: tuple[Node, ...]) -> Read:
        keys: dict[exp.Expr, tuple[str, ...]] = {exp.column(each): () for each in operator.key}
        state = self._state(operator, "the last row of a key", self.bounds.of_keys(keys, exp.Select()))
        notes = ("The row that it replaces is retracted from the operators above.",)
        return Read(self._node(operator, "ChangelogNormalize", operator.label, inputs, state, notes=notes))

    def _union(self, operator: UnionAll, inputs: tuple[Node, ...]) -> Read:
        flat = tuple(i for each in inputs for i in (each.inputs if each.operator == "UnionAll" else (each,)))
        return Read(self._node(operator, "UnionAll", f"of {len(flat)}", flat))

    def _window_rows(self, operator: WindowRows, inputs: tuple[Node, ...]) -> Read:
        return Read(self._node(operator, "WindowTableFunction", str(operator.window), inputs))

    def _window_changes(self, operator: WindowChanges, inputs: tuple[Node, ...]) -> Read:
        state = self._state(operator, "what a window gave last, to be retracted as it was", _WINDOW_END)
        node = self._node(operator, "WindowChanges", "early and late firing", inputs, state=state)
        return replace(self.read[operator.inputs[0].name], node=node)

    def _late(self, operator: LateRows, inputs: tuple[Node, ...]) -> Read:
        return self.read[operator.inputs[0].name]

    def _set_operation(self, operator: SetOperation, inputs: tuple[Node, ...]) -> Read:
        state = self._state(operator, "how often a row is there, on either side")
        return Read(self._node(operator, "SetOperation", operator.label, inputs, state=state))

    def _temporal_join(self, operator: TemporalJoin, inputs: tuple[Node, ...]) -> Read:
        select = select_of(operator.sql)
        rows, versions = sorted(self.own[operator.name])
        keys = ", ".join(operator.version_key)
        waits = f"a row that waits for the watermark to pass its {operator.time}"
        valid = f"a version of {keys} that is valid at the watermark or later"
        state = (
            State(rows, waits, "when it is emitted", self.columns(rows)),
            State(versions, valid, "when the next one is valid", self.columns(versions)),
        )
        notes = (f"A row is emitted once, when the watermark has passed its {operator.time}.",)
        node = self._node(operator, "TemporalJoin", text.joins(select), inputs, state, notes=notes)
        return Read(project(node, without_joins(select)))

    def _node(
        self,
        operator: Operator,
        name: str,
        description: str,
        inputs: tuple[Node, ...],
        state: tuple[State, ...] = (),
        **more: Any,
    ) -> Node:
        """Returns the node of an operator.

        Args:
            operator: the operator.
            name: its name in the field's terms.
            description: what it computes.
            inputs: the nodes that it reads.
            state: its state.
            more: other fields of `Node`; the key and the changelog's mode follow from the operator if they are left
                out, empty or None.
        """
        relation = operator.relation
        more["key"] = more.get("key") or _key(relation)
        changelog = more.pop("changelog", None) or self._mode(operator)
        return make(
            name,
            description,
            changelog,
            inputs,
            identity=operator.name,
            event_time=_time(relation),
            state=state,
            shares=tuple(self.shared[operator.name]),
            **more,
        )

    def _mode(self, operator: Operator) -> Changelog:
        key = _key(operator.relation) or self.key
        if operator.name in self.upserted and key is not None:
            return Changelog(UPSERT, key)
        return Changelog(RETRACT if operator.relation.changes else APPEND)

    def _after(self, operator: Operator, last: str) -> str | None:
        """Returns the TTL of an operator's state as a phrase; None if there is none."""
        if never_expires(operator) or (after := self.bounds.after(last)) is None:
            return None
        if isinstance(operator, Recompute | SetOperation) and mixes_lifetimes(operator.inputs):
            return f"{after}, those that stay below it when they go"
        return after

    def _clears(self, operator: Operator, last: str) -> str:
        if never_expires(operator):
            return AS_ITS_INPUT
        return self._after(operator, last) or (BOUNDED if len(operator.inputs) == 1 else ALL_BOUNDED)

    def _state(self, operator: Operator, rows: str, clears: str | None = None) -> tuple[State, ...]:
        if getattr(operator, "ends", ()):
            clears = _WINDOW_END
        clears = clears or self._clears(operator, "the last change")
        return tuple(State(part, rows, clears, self.columns(part)) for part in self.own[operator.name])

    # -- one by one --------------------------------------------------------------------------------

    def _group(self, operator: GroupAggregate, inputs: tuple[Node, ...]) -> Read:
        name = self.state_names[operator.name]
        stage = in_authors_words(replace(operator.stage, name=name))
        ttl = operator.expires_after(self.bounds.ttl)
        pieces = Groups(stage, ttl, fused=True)
        clears = self._clears_groups(operator, stage)
        state = list(state_of_groups(stage, pieces, self.columns, clears, ttl))
        told = {each.part for each in state}
        for part in self.own[operator.name]:
            if part not in told:
                what = "the row that a key gave last, to be retracted as it was"
                state.append(State(part, what, "with its key", self.columns(part)))
        below = Selects({input_name(0): Read(inputs[0])}.get).read(stage.written).node
        node = self._node(
            operator,
            "GroupAggregate",
            by_keys(stage),
            (below,),
            tuple(each for each in state if each.part in self.own[operator.name]),
            metrics=metrics_of(stage, pieces),
            key=key_of(stage),
            changelog=Changelog(UPSERT, key_of(stage)) if operator.name in self.upserted else None,
        )
        return Read(node, written_of(stage), stage.keys)

    def _clears_groups(self, operator: GroupAggregate, stage: GroupStage) -> str:
        """Returns the phrase for what clears the groups' state."""
        if operator.ends:
            return f"window end + {intervals.format(operator.lasts)}" if operator.lasts else _WINDOW_END
        if stage.keys and never_expires(operator):
            return AS_ITS_INPUT
        if after := self._after(operator, "the key's last row"):
            return after
        keys = {expression(key.sql): self._aliases(operator, key.name) for key in stage.keys}
        (below,) = operator.inputs
        return self.bounds.of_keys(keys, select_of(stage.written), below.relation.bounded)

    def _aliases(self, operator: Operator, column: str) -> set[str]:
        """Returns the aliases, in lower case, that the queries directly above an operator give one of its
        columns."""
        return {
            item.alias.lower()
            for each in self.flow.operators
            if isinstance(each, Project) and each.inputs[0].name == operator.name
            for item in select_of(each.sql).expressions
            if isinstance(item, exp.Alias) and item.this.name.lower() == column.lower()
        }

    def _project(self, operator: Project, inputs: tuple[Node, ...]) -> Read:
        below = self.read[operator.inputs[0].name]
        if not operator.label.upper().startswith("SELECT"):
            return Read(self._node(operator, "Project", operator.label, inputs))
        found = Selects(self._inputs(operator)).read(operator.sql)
        node = found.node
        if node.identity != below.node.identity:
            node = replace(
                node,
                # The result's changelog has the result's own column names as its key.
                changelog=node.changelog if operator.name in self.upserted else self._mode(operator),
                key=_key(operator.relation),
                event_time=_time(operator.relation) or node.event_time,
            )
        return replace(found, node=node, written=lifted(operator.sql, below))

    def _materialized(self, operator: MaterializedProject, inputs: tuple[Node, ...]) -> Read:
        select = select_of(operator.sql)
        if written := self.read[operator.inputs[0].name].written:
            select = text.put_back(select, written, ())
        rows = "a row that is there, and what it gave, to be retracted as it was"
        state = self._state(
            operator, rows, self._after(operator, "the row's last change") or "when the row goes"
        )
        name, what = "Project", text.shown(select)
        if select.args.get("joins"):
            name, what = "LookupJoin", text.joins(select)
            tables = joined(select)[len(inputs) :]
            inputs = (*inputs, *(Selects(self.table).relation(node).node for node, _ in tables))
        return Read(self._node(operator, name, what, inputs, state))

    def _inputs(self, operator: Operator) -> Callable[[str], Read | None]:
        """Returns a function that resolves a name in an operator's text."""
        found = {input_name(n): self.read[each.name] for n, each in enumerate(operator.inputs)}
        return lambda name: found.get(name) or self.table(name)

    def _close(self, operator: WindowClose, inputs: tuple[Node, ...]) -> Read:
        complete, early = self.emission.complete, self.emission.first is not None
        later = f" + {intervals.format(complete)} (complete_result_offset)" if complete else ""
        if operator.lasts:
            later = f" + {intervals.format(operator.lasts)}"
        state = self._state(operator, "a change of an open window", f"window end{later}")
        when = (
            f"when the watermark is at {operator.window_end}{later}{', and at early firing' if early else ''}"
        )
        node = self._node(operator, "WindowClose", when, inputs, state=state)
        return replace(self.read[operator.inputs[0].name], node=node)

    def _over(self, operator: OverAggregate, inputs: tuple[Node, ...]) -> Read:
        select, reach = select_of(operator.written or operator.sql), operator.reach
        rows = "a row that frames of later rows reach back to"
        if operator.waits:
            rows = f"a row that waits for the watermark to pass its {operator.time}, or {rows[6:]}"
        if operator.running:
            rows = "a partition's last row with what its rows come to" + (
                f", or {rows.partition(', or')[0]}" if operator.waits else ""
            )
        ends = (
            [f"{reach.rows} later row{'' if reach.rows == 1 else 's'} of its partition"] if reach.rows else []
        )
        ends += [f"{intervals.format(reach.micros)} after its {operator.time}"] if reach.micros else []
        idle = self.bounds.after("its partition's last row")
        if operator.running:
            ends = ["a later row of its partition, which takes its place"]
        if operator.until:
            ends = [*ends, f"when the watermark has passed {text.until(operator.until)}"]
        clears = (
            idle
            if reach.everything and not (operator.until or operator.running)
            else " or ".join(ends) or "when it is emitted"
        )
        if idle and not reach.everything:
            clears = f"{clears}, or {idle}"
        waits = f"A row is emitted once, when the watermark has passed its {operator.time}."
        return Read(
            self._node(
                operator,
                "OverAggregate",
                ", ".join(text.over_text(each, select) for each in text.over(select)),
                inputs,
                self._state(operator, rows, clears or "nothing: its input is bounded"),
                notes=(waits,) if operator.waits else (),
            )
        )

    def _local(self, operator: Local, inputs: tuple[Node, ...]) -> Read:
        node = Selects(self._inputs(operator), windows=True).read(operator.sql).node
        below = self.read[operator.inputs[0].name]
        return Read(_at(node, operator.relation), lifted(operator.sql, below))

    def _recompute(self, operator: Recompute, inputs: tuple[Node, ...]) -> Read:
        select = select_of(operator.sql)
        if written := self.read[operator.inputs[0].name].written:
            select = text.put_back(select, written, ())
        computing = _computing(operator)
        clears = self._after(operator, "its partition's last change")
        rows = _INPUT_ROWS
        rank = None
        if operator.label.startswith(("session(", "dynamic_cumulate(")):
            name, what = "WindowTableFunction", operator.label
            clears = self._after(operator, "the session's end")
        elif over := text.over(select):
            ranked = ranks.ranks(select)
            name, what = "OverAggregate", ", ".join(text.over_text(each, select) for each in over)
            if len(ranked) == len(over) == 1:
                ((column, placed),) = ranked.items()
                last = operator.top.rows if operator.top is not None else self._ended(operator, column)
                kind = "RetractableTopN" if operator.top is None else "AppendOnlyTopN"
                name, what = ranking(select, placed, last, operator=kind)
                rank = None if last is None else (column, last)
            if operator.top is not None:
                rows = f"a row that is, or was, among the first {operator.top.rows} of its partition"
                clears = clears or "when others take its place"
        elif text.is_grouped(select):
            name, what = "GroupAggregate", f"{text.grouped_by(select)}: {operator.label}"
            metrics = tuple(
                KeptMetric(c, f, (), "computed from the kept rows") for c, f in text.aggregates(select)
            )
            node = self._node(
                operator,
                name,
                text.grouped_by(select),
                inputs,
                self._state(operator, rows, clears),
                computing=computing,
                metrics=metrics,
                notes=(f"Why rows are kept: {operator.label}.",),
                key=tuple(text.keys(select)),
            )
            return Read(node, lifted(operator.sql, self.read[operator.inputs[0].name]))
        elif select.args.get("joins"):
            name, what = "RegularJoin", text.joins(select)
        else:
            name, what = "Recompute", text.shown(select)
        subqueries = [each for each in operator.inputs[len(joined(select)) :]]
        if subqueries and not text.over(select):
            name, what = ("RegularJoin" if select.args.get("joins") else "Recompute"), text.shown(select)
        state = self._state(operator, rows, clears)
        if operator.until:
            name, state = "IntervalJoin", self._in_time(operator, state, operator.until)
        if select.args.get("joins"):
            state = self._of_sides(operator, state)
        node = self._node(operator, name, what, inputs, state, computing=computing)
        return Read(node, rank=rank)

    def _top_n(self, operator: TopN, inputs: tuple[Node, ...]) -> Read:
        select = select_of(operator.written)
        if written := self.read[operator.inputs[0].name].written:
            select = text.put_back(select, written, ())
        made = ranked(operator, select, self.bounds)
        state = self._state(operator, made.rows, made.clears)
        node = self._node(operator, made.name, made.what, inputs, state, notes=made.notes)
        if operator.final:
            time = operator.inputs[0].relation.event_time
            node = replace(node, event_time=f"{time}, emitted in its order")
        return Read(node, rank=(operator.rank.lower(), operator.top.rows))

    def _temporal_filter(self, operator: TemporalFilter, inputs: tuple[Node, ...]) -> Read:
        condition = expression(operator.label)
        length = operator.lasts - isinstance(condition, exp.GTE | exp.LTE)
        known = self.bounds.after("it came")
        end = (
            f"watermark {'−' if length > 0 else '+'} {intervals.format(abs(length))}"
            if length
            else "watermark"
        )
        clears = f"{end}, or {known}" if known else end
        state = self._state(operator, "a row for which it holds", clears)
        notes = ("A row leaves the result when the watermark has passed it by that much.",)
        node = self._node(operator, "TemporalFilter", text.shown(condition), inputs, state, notes=notes)
        return replace(self.read[operator.inputs[0].name], node=node)

    def _join(self, operator: Join, inputs: tuple[Node, ...]) -> Read:
        select = select_of(operator.sql)
        state = self._state(operator, _INPUT_ROWS)
        if operator.until:
            state = self._in_time(operator, state, operator.until)
        elif not operator.ends:
            state = self._for_good(operator, state)
        name = "IntervalJoin" if operator.until else "RegularJoin"
        node = self._node(operator, name, text.joins(select), inputs, self._of_sides(operator, state))
        return Read(project(node, without_joins(select)))

    def _for_good(self, operator: Join, state: tuple[State, ...]) -> tuple[State, ...]:
        """Returns the state of a regular join: a row of a side is cleared by the TTL only, each on its own."""
        clears = {}
        for each in operator.inputs:
            last = "its last change" if each.relation.changes else "it came"
            clears[each.name] = AS_ITS_INPUT if keeps_rows(each) else self.bounds.after(last) or ALL_BOUNDED
        return tuple(replace(each, clears=clears[self.rows_of[each.part]]) for each in state)

    def _of_sides(
        self, operator: Join | OuterIntervalJoin | Recompute, state: tuple[State, ...]
    ) -> tuple[State, ...]:
        """Returns the state of a join, with each side's rows named after the side's alias."""
        aliases: dict[str, list[str]] = {}
        for node, _ in joined(select_of(operator.sql)):
            for number, each in enumerate(operator.inputs):
                if isinstance(node, exp.Table) and node.name == input_name(number):
                    aliases.setdefault(each.name, []).append(node.alias_or_name)
        named = {
            part: " and ".join(alias for alias in aliases.get(name, ()) if not text.is_own_alias(alias))
            for part, name in self.rows_of.items()
        }
        what = (
            "that may still match"
            if isinstance(operator, Join | OuterIntervalJoin)
            else "that later changes need"
        )
        return tuple(
            replace(each, rows=f"a row of {named[each.part]} {what}") if named.get(each.part) else each
            for each in state
        )

    @staticmethod
    def _in_time(
        operator: Join | OuterIntervalJoin | Recompute,
        state: tuple[State, ...],
        until: tuple[Until, ...],
    ) -> tuple[State, ...]:
        """Returns the state of an interval join, with the watermark that clears each side's rows."""
        ends = {
            kept_until(each, last).part: f"when the watermark has passed {text.until(last)}"
            for each, last in zip(operator.inputs, until, strict=True)
        }
        own = {each.part: each for each in state}
        return tuple(replace(own[part], clears=ends[part]) for part in ends if part in own)

    def _outer_in_time(self, operator: OuterIntervalJoin, inputs: tuple[Node, ...]) -> Read:
        select = select_of(operator.sql)
        state = self._in_time(operator, self._state(operator, _INPUT_ROWS), operator.until)
        note = "A row that meets none comes once, when it can meet none any more."
        state = self._of_sides(operator, state)
        node = self._node(operator, "IntervalJoin", text.joins(select), inputs, state, notes=(note,))
        return Read(project(node, without_joins(select)))

    def _ended(self, operator: Operator, column: str) -> int | None:
        """Returns the number of rows to which the queries above limit a ranking; None if they don't."""
        found = []
        for each in self.flow.operators:
            if any(below.name == operator.name for below in each.inputs) and isinstance(each, Project):
                ends = [ranks.last_place(test, column) for test in filters(select_of(each.sql))]
                found.append(min((end for end in ends if end is not None), default=None))
        return None if None in found else max((end for end in found if end is not None), default=None)


def _computing(operator: Recompute) -> Computing:
    """Returns what is read when a query is recomputed."""
    if operator.is_whole:
        return Computing(EVERYTHING, cost="reads all rows that it keeps, and what they gave before")
    return Computing(
        PARTITIONS,
        tuple(text.shown(expression(key)) for key in next(keys for keys in operator.keys if keys)),
        "reads the kept rows of each partition that changed, and what they gave before",
    )


def _key(relation: Relation) -> tuple[str, ...] | None:
    """Returns the author's columns that identify a row; None if there are none."""
    shown = replace(relation, keys=tuple(each for each in relation.keys if not text.is_hidden_key(each)))
    return None if shown.key is None else tuple(sorted(shown.key))


def _time(relation: Relation) -> str | None:
    if relation.open_until is not None:
        return f"{relation.open_until}, of windows that may be open"
    if relation.together:
        return f"{', '.join(relation.together)}, final when its rows come"
    return None


def _at(node: Node, relation: Relation) -> Node:
    """Returns a node with the properties of its output relation."""
    return replace(node, key=node.key or _key(relation), event_time=_time(relation) or node.event_time)


_READERS: dict[type[Operator], str] = {
    ChangelogNormalize: "_latest",
    GroupAggregate: "_group",
    Join: "_join",
    LateRows: "_late",
    Local: "_local",
    MaterializedProject: "_materialized",
    OuterIntervalJoin: "_outer_in_time",
    OverAggregate: "_over",
    Project: "_project",
    Recompute: "_recompute",
    SetOperation: "_set_operation",
    Source: "_source",
    TemporalFilter: "_temporal_filter",
    TemporalJoin: "_temporal_join",
    TopN: "_top_n",
    UnionAll: "_union",
    WindowChanges: "_window_changes",
    WindowClose: "_close",
    WindowResults: "_windows",
    WindowRows: "_window_rows",
}
"""The method that describes an operator, by its class."""
