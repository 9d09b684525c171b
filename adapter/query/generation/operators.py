"""Generates the program of a micro-batch from operators: all changes are computed first, then all state is
committed at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from ...util.quoting import quote
from ..errors import QueryError
from ..identity.alike import alike
from ..normalize.event_clock import READS_CLOCK
from ..plan import lookup_keys
from ..plan.base import (
    ChangelogNormalize,
    Dataflow,
    GroupAggregate,
    Join,
    LateRows,
    Local,
    MaterializedProject,
    Operator,
    OuterIntervalJoin,
    OverAggregate,
    Project,
    Recompute,
    SetOperation,
    Source,
    TemporalFilter,
    TopN,
    UnionAll,
    Until,
    WindowChanges,
    WindowClose,
    WindowOperator,
    WindowResults,
    WindowRows,
    has_rows_of_nothing,
    in_order,
    over,
    row_by_row,
    stay,
    ttl_of,
    ttl_over,
)
from ..plan.operators.changelog_normalize import SIGN_OF_ROW, LatestRows
from ..plan.operators.given_rows import GivenRows
from ..plan.operators.outer_interval_join import MatchedOrAlone
from ..plan.operators.over_rows import OrderedRows
from ..plan.operators.ranked_rows import RankedRows
from ..plan.operators.recent_rows import RecentRows
from ..plan.operators.row_counts import RowCounts
from ..plan.operators.top_n import RankedGroups, members_part
from ..plan.operators.window_changes import ChangedWindows
from ..plan.operators.window_close import OpenWindows
from ..plan.plan import LookupTable, Plan
from ..plan.relation import WEIGHT, weight_of
from ..plan.state import generations
from ..plan.state.buffered_rows import ROW, TIMES, BufferedRows, Partitions, added_up, netted, packed, spread
from ..plan.state.group_state import Groups, identity_columns
from ..plan.state.groups import GroupChanges
from ..plan.state.key_generations import of_keys
from ..plan.time_bounds import kept_until
from ..plan.upserts import Replaced, replaced, takes_back
from ..program import (
    EVERYTHING,
    STEP,
    TABLE_BEFORE,
    Level,
    Lookup,
    Program,
    Rows,
    StatePart,
    Step,
    StreamInput,
    Upsert,
    now,
    reading,
)
from ..windows.emission import FINAL, Emission
from .plan_size import bounded

RESULT = "result_change"
"""Step with the changes of the result."""
OUTPUT, OUTPUT_ROW, OUTPUT_TIMES = "output", "output_row", "output_times"
"""State table with the output of a micro-batch, and its columns."""

_CAME = "_change_type in ('insert', 'update_after')"


def can_be_remade(flow: Dataflow) -> bool:
    """Whether the whole table can be rebuilt: it is an updating table, and if it is replaced by upserts,
    these have a key."""
    found = replaced(flow)
    return flow.root.relation.changes and (found is None or found.key is not None)


def remakes_whole(found: Replaced | None) -> bool:
    """Whether a rebuilt table is compared as a whole: the table of a Top-1 may have had several rows with the
    key of the one."""
    return found is not None and isinstance(found.operator, TopN) and found.operator.top.rows == 1


def parts_of(flow: Dataflow, ttl: int | None) -> dict[str, list[str]]:
    """Returns by operator the state tables that it has, or shares with others."""
    return parts_and_rows(flow, ttl)[0]


def parts_and_rows(flow: Dataflow, ttl: int | None) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Returns `parts_of`, and for each state table with buffered rows the operator that the rows come from."""
    made = _Generator(flow, ttl)
    rows = {part: kept.operator.name for part, kept in made.keeps.items() if isinstance(kept, BufferedRows)}
    return {name: sorted(parts) for name, parts in made.parts_of.items()}, rows


def program(
    plan: Plan,
    window_levels: Sequence[Level],
    time_zones: tuple[str, ...],
    ttl: int | None,
    behind: int,
    signature: dict[str, object],
    replayed: Collection[str] | None = None,
    emission: Emission = FINAL,
) -> Program:
    """Returns the program of one micro-batch of a dataflow.

    Args:
        plan: plan with a dataflow.
        window_levels: levels of its windows.
        time_zones: time zones of the windows.
        ttl: microseconds until idle state expires; None for never.
        behind: see `Program.behind`.
        signature: signature of the plan.
        emission: when results of windows are emitted.
        replayed: groups and rankings of rows that are read from the state as if they were new, so that
            everything above them is rebuilt; None if nothing is.
    """
    flow = plan.dataflow
    if flow.is_stateless:
        return _passing_on(plan, flow, signature)
    made = _Generator(flow, ttl, replayed or (), emission, plan.lookups)
    result = made.replaced_result() if made.replaced is not None else _kept_result(flow)
    own = Level(
        rows=tuple(made.rows),
        ingest=tuple(bounded([*made.steps, *result.steps], {rows.read_by or "" for rows in made.rows})),
        parts=(*made.parts.values(), *result.parts),
        emit=(),
        known=tuple(made.known),
    )
    output, upsert = result.output, result.upsert
    if upsert is not None and replayed is not None:
        if upsert.key and not remakes_whole(made.replaced):
            upsert = replace(upsert, fired="select true as anything", scope="true")
        else:
            # The output is the full result, whatever the table has.
            output = output if made.replaced is not None else _came()
            upsert = Upsert(None, EVERYTHING, "true", None)

    def rebuilt(names: Collection[str]) -> Program:
        return program(plan, window_levels, time_zones, ttl, behind, signature=signature, replayed=names)

    return Program(
        inputs=tuple(StreamInput(s.relation, s.view, s.columns, s.event_time, s.feed) for s in plan.streams),
        levels=(*window_levels, own),
        output=output,
        boundaries=None,
        upsert=upsert,
        puts_out_all=replayed is not None,
        has_rows_of_nothing=any(map(has_rows_of_nothing, flow.operators)),
        behind=behind,
        tables=plan.static,
        mini_batch=plan.mini_batch,
        time_zones=time_zones,
        signature=signature,
        alike=cache(partial(alike, flow, made.keeps)),
        again=result.again,
        only_with=None if replayed is not None else result.again[-1].name,
        lookups=result.lookups,
        # Results of windows whose state has been dropped can't be emitted again.
        remake=rebuilt if can_be_remade(flow) and not emission.changes else None,
        kept_for=emission.last,
    )


def _passing_on(plan: Plan, flow: Dataflow, signature: dict[str, object]) -> Program:
    """Returns the program of a stateless query: one query and one commit."""
    texts: dict[str, str] = {}
    asked: list[tuple[str, str]] = []
    for each in flow.operators:
        inputs = [texts[below.name] for below in each.inputs]
        if isinstance(each, Source):
            texts[each.name] = f"select * from {each.view}"
        elif isinstance(each, UnionAll):
            texts[each.name] = "\nunion all\n".join(f"select * from (\n{text}\n)" for text in inputs)
        elif isinstance(each, Project):
            texts[each.name] = over(each.sql, inputs)
            asked += [
                (view, f"select * from (\n{over(query, inputs)}\n)")
                for view, query in lookup_keys.queries(each.sql, plan.lookups)
            ]
    output = texts[flow.root.name]
    return Program(
        inputs=tuple(StreamInput(s.relation, s.view, s.columns, s.event_time, s.feed) for s in plan.streams),
        levels=(),
        output=output,
        boundaries=None,
        lookups=lookup_keys.ordered(asked, plan.lookups),
        tables=plan.static,
        mini_batch=plan.mini_batch,
        reads_clock=READS_CLOCK in output,
        signature=signature,
    )


@dataclass(frozen=True)
class _Result:
    """The part of a program that writes the model's table."""

    output: str
    upsert: Upsert | None
    again: tuple[Step, ...]
    steps: tuple[Step, ...] = ()
    """Steps before the commit, after all others."""
    parts: tuple[StatePart, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    """Look-ups that the output reads."""


def _kept_result(flow: Dataflow) -> _Result:
    """Returns the changes of the result, computed before the commit, which stores a copy of them."""
    changes = flow.root.relation.changes
    weight = f", {WEIGHT} as {OUTPUT_TIMES}" if changes else ""
    out = f"struct(* except ({WEIGHT}))" if changes else "struct(*)"
    put_out = StatePart(
        OUTPUT,
        f"select {now(STEP)} as {STEP}, {out} as {OUTPUT_ROW}{weight} from {RESULT}",
        # Only the last micro-batch's rows may have to be emitted again, and only until it is over.
        f"select * except (part) from state where part = '{OUTPUT}' and false",
        closes=None,
        reads=(OUTPUT,),
    )
    # A row that one operator retracts and another inserts is no change.
    net = f"select {ROW}.*, sum({TIMES}) as {WEIGHT} from (\n{packed(flow.root)}\n) group by {ROW} having sum({TIMES}) <> 0"
    listed = f"{OUTPUT_ROW}.*{f', {OUTPUT_TIMES} as {WEIGHT}' if weight else ''}"
    again = Step(
        RESULT,
        f"select {listed} from state where part = '{OUTPUT}' and {STEP} = {now(STEP)}",
        persist=True,
        reads=(OUTPUT,),
    )
    output, upsert = _change(flow)
    return _Result(
        output,
        upsert,
        (again,),
        (Step(RESULT, net if changes else f"select * from {flow.root.name}", persist=True),),
        (put_out,),
    )


def _change(flow: Dataflow) -> tuple[str, Upsert | None]:
    """Returns the query for the inserted rows of `RESULT`, and what they replace."""
    if not flow.root.relation.changes:
        return f"select * from {RESULT}", None
    if flow.key is None:
        # Nothing identifies a row: the new table is the table plus the changes.
        rows = f"select struct(*) as {ROW}, 1L as {TIMES} from {TABLE_BEFORE}\nunion all\n{_changes()}"
        return spread(added_up(rows, True), True), Upsert(
            None, f"select true as anything from {RESULT}", "true", None, change=RESULT
        )
    keys = [quote(name) for name in flow.key]
    listed = ", ".join(keys) or "true as anything"
    scope = " and ".join(f"old.{key} <=> fired.{key}" for key in keys) or "true"
    return _came(), Upsert(flow.key, f"select {listed} from {RESULT}", scope, None, certain=not keys)


def _changes() -> str:
    return f"select struct(* except ({WEIGHT})) as {ROW}, {WEIGHT} as {TIMES} from {RESULT}"


def _came() -> str:
    """Returns the query for the inserted rows of `RESULT`."""
    return spread(f"select {ROW}, {TIMES} from (\n{_changes()}\n) where {TIMES} > 0", True)


@dataclass(frozen=True)
class _PutOut:
    """The output of an operator that is the result, computed after the commit."""

    steps: list[Step]
    rows: str
    """Relation with its rows and a weight."""
    touched: str
    """Relation with the keys of the affected groups or rankings."""
    columns: tuple[str, ...]
    """Columns of `touched`."""


class _Generator:
    def __init__(
        self,
        flow: Dataflow,
        ttl: int | None,
        replayed: Collection[str] = (),
        emission: Emission = FINAL,
        lookups: Sequence[LookupTable] = (),
    ) -> None:
        self.flow = flow
        self.ttl, self.replayed, self.emission, self.lookups = ttl, replayed, emission, lookups
        self.state_names = {group.name: name for name, group in flow.groups.items()}
        self.parts_of: dict[str, set[str]] = {}
        """State tables that each operator has or shares, by its name."""
        self.looks_into: dict[str, set[str]] = {}
        """State tables of other operators that each operator reads, by its name."""
        self.rows: list[Rows] = []
        self.known: list[Step] = []
        """Steps that `rows` reads."""
        self.steps: list[Step] = []
        self.parts: dict[str, StatePart] = {}
        self.keeps: dict[str, BufferedRows | Operator] = {}
        """Buffered rows or operator that each state table belongs to, by its name."""
        self.groups: dict[str, Groups] = {}
        """State and steps of each `GroupAggregate`."""
        self.replaced = replaced(flow)
        """The operator that is the result."""
        self.put_out: _PutOut | None = None
        """Output of that operator."""
        self.uses = Counter(each.name for operator in flow.operators for each in operator.inputs)
        # A `WindowClose` reads its input twice: rows to emit and rows to hold back.
        self.uses.update(e.name for o in flow.operators if isinstance(o, WindowClose) for e in o.inputs)
        # The keys of a look-up are another reader of the input.
        self.uses.update(e.name for o in flow.operators if self._asked(o) for e in o.inputs)
        rankings = [each for each in flow.operators if isinstance(each, TopN)]
        there = {*self.state_names.values(), *(each.name for each in rankings), *map(members_part, rankings)}
        if gone := {*replayed} - there:
            raise QueryError(
                f"an edit is still to be rebuilt from {', '.join(sorted(gone))}, which this query doesn't have. Put "
                "back the query that it was edited to, run it, and then change it."
            )
        known = {name for name in self.state_names if self.state_names[name] in replayed}
        # Rankings of rows can be replayed too.
        known |= {each.name for each in rankings if self._is_replayed(each)}
        known |= {below.name for each in flow.operators if each.name in known for below in in_order(each)}
        judged = [
            each
            for each in flow.operators
            if isinstance(each, LateRows | TemporalFilter)
            or (isinstance(each, OverAggregate) and each.waits)
            or self._time_of(each) is not None
            or self._reads_alone(each)
        ]
        below_rows = {below.name for each in judged for below in in_order(each)} - {
            each.name for each in judged
        }
        above = {each.name for each in self.replaced.path} if self.replaced is not None else set()
        for operator in flow.operators:
            if operator.name in above or isinstance(operator, WindowOperator):
                continue  # made after the commit, or with the levels of windows
            self.made, begun, had = operator.name, len(self.steps), {*self.parts}
            self._make(operator)
            own = [self.parts[part] for part in self.parts_of.get(operator.name, ())]
            if replayed and operator.name not in known:
                # Operators above the replayed ones are rebuilt from nothing, although the state has rows of
                # theirs.
                self.steps[begun:] = [
                    replace(step, sql=step.initial or step.sql, asks=(), whole=None)
                    for step in self.steps[begun:]
                ]
                own = [replace(part, rewrite=None) for part in own]
            also = [self.parts[part] for part in self.looks_into.get(operator.name, ())]
            self.steps[begun:] = reading(self.steps[begun:], [*own, *also])
            self.parts |= {part.name: part for part in reading(own, [*own, *also]) if part.name not in had}
            if operator.name in below_rows:
                self.known += self.steps[begun:]
                del self.steps[begun:]

    def _has(self, part: StatePart, of: BufferedRows | Operator) -> None:
        known = self.parts.setdefault(part.name, part)
        if known.closes is None and part.closes is not None:
            # Rows shared with operators that have no windows to close.
            self.parts[part.name] = replace(known, closes=part.closes)
        self.parts_of.setdefault(self.made, set()).add(part.name)
        self.keeps.setdefault(part.name, of)

    def _make(self, operator: Operator) -> None:
        if isinstance(operator, Source):
            self._step(operator, self._source(operator))
        elif isinstance(operator, ChangelogNormalize):
            self._normalize(operator)
        elif isinstance(operator, WindowResults):
            text = self._lasting(operator, operator.sql)
            self._step(operator, text, lookups=self._asked(operator))
        elif isinstance(operator, UnionAll):
            self._step(operator, self._union(operator.inputs, operator.relation.changes))
        elif isinstance(operator, Project | Local | WindowRows):
            inputs = [f"select * from {each.name}" for each in operator.inputs]
            text = over(operator.sql, inputs)
            if isinstance(operator, WindowRows):
                text = self._lasting(operator, text)
            self._step(operator, text, lookups=self._asked(operator, inputs))
        elif isinstance(operator, MaterializedProject):
            given = GivenRows(operator, ttl_of(operator, self.ttl))
            self.steps += given.steps(self._asked(operator, [given.computed_of]))
            self._step(operator, given.change())
            self._has(given.state(), operator)
        elif isinstance(operator, GroupAggregate):
            self._group(operator)
        elif isinstance(operator, TopN):
            self._top_n(operator)
        elif isinstance(operator, SetOperation):
            self._set_operation(operator)
        elif isinstance(operator, LateRows):
            self._count_late(operator)
        elif isinstance(operator, Join):
            self._join(operator)
        elif isinstance(operator, OuterIntervalJoin):
            joined = MatchedOrAlone(operator)
            self._step(operator, *joined.change())
            for part, kept in zip(joined.state(), joined.kept, strict=True):
                self._has(part, kept)
        elif isinstance(operator, TemporalFilter):
            recent = RecentRows(operator, self.ttl)
            self.rows.append(recent.rows())
            self._step(operator, *recent.change())
            self._has(recent.state(), operator)
        elif isinstance(operator, OverAggregate):
            self._over(operator)
        elif isinstance(operator, WindowClose):
            self._close(operator)
        elif isinstance(operator, WindowChanges):
            changed = ChangedWindows(operator)
            text, initial = changed.change()
            # The state reads it too.
            self.steps.append(Step(operator.name, text, persist=True, initial=initial))
            self._has(changed.state(), operator)
        elif isinstance(operator, Recompute):
            self._recompute(operator)

    def _step(
        self,
        operator: Operator,
        text: str,
        initial: str | None = None,
        lookups: tuple[Lookup, ...] = (),
    ) -> None:
        # Non-deterministic rows are computed once, so that the state has the rows that are emitted.
        again = self.uses[operator.name] > 1 or not operator.relation.repeatable
        self.steps.append(Step(operator.name, text, persist=again, initial=initial, lookups=lookups))

    def _asked(self, operator: Operator, inputs: Sequence[str] = ()) -> tuple[Lookup, ...]:
        """Returns the look-ups in external tables that an operator reads.

        Args:
            operator: the operator.
            inputs: SQL of the rows that its query is over.
        """
        if not self.lookups or not isinstance(operator, Project | MaterializedProject | WindowResults):
            return ()
        found = lookup_keys.asked([operator.sql], self.lookups)
        return tuple(replace(each, keys=over(each.keys, inputs)) for each in found) if inputs else found

    # -- without state -----------------------------------------------------------------------------

    @staticmethod
    def _source(operator: Source) -> str:
        if not operator.changelog:
            return f"select * from {operator.view}"
        return f"select * except (_change_type, _batch_id), if({_CAME}, 1L, -1L) as {WEIGHT} from {operator.view}"

    @staticmethod
    def _union(inputs: Sequence[Operator], changes: bool) -> str:
        def side(each: Operator) -> str:
            weight = f", 1L as {WEIGHT}" if changes and not each.relation.changes else ""
            return f"select *{weight} from {each.name}"

        return "\nunion all\n".join(map(side, inputs))

    def _count_late(self, operator: LateRows) -> None:
        (below,) = operator.inputs
        self.rows.append(
            Rows(
                operator.rows,
                f"select struct(own.*) as {ROW}, own.{quote(operator.time)} as event_time from {below.name} as own",
                tuple(each.view for each in in_order(below) if isinstance(each, Source)),
                expires=False,
                forgets=True,
            )
        )
        self._step(operator, f"select {ROW}.* from {operator.rows}")

    # -- with state --------------------------------------------------------------------------------

    def _normalize(self, operator: ChangelogNormalize) -> None:
        latest = LatestRows(operator)
        self.steps += latest.steps()
        self._step(
            operator,
            f"select * except ({SIGN_OF_ROW}), cast({SIGN_OF_ROW} as bigint) as {WEIGHT} from {latest.signed}",
        )
        self._has(latest.state(), operator)

    def _keep(self, kept: BufferedRows, beside: Sequence[BufferedRows] = ()) -> None:
        self._has(kept.state(beside), kept)

    def _group(self, operator: GroupAggregate) -> None:
        (below,) = operator.inputs
        ttl = ttl_of(operator, self.ttl)
        sign, times = "", ""
        if below.relation.changes:
            # A row with a weight other than 1 or -1 becomes several rows.
            sign = f" except ({WEIGHT}), if({WEIGHT} > 0, 1, -1) as __sign"
            times = f"\nlateral view explode(sequence(1L, abs({WEIGHT}))) each as __each"
        rows = f"select own.*{sign} from {below.name} as own{times}"
        if ttl is not None:
            time = now("watermark_after")
            if end := next(iter(operator.ends), below.relation.open_until):
                # The key of an open window isn't idle before the window closes.
                time = f"greatest({time}, own.{quote(end)})"
            if (own := self._time_of(operator)) is not None:
                time = f"cast(own.{quote(own)} as timestamp)"
            rows = f"select own.*, {time} as __row_time from (\n{rows}\n) as own"
        name = self.state_names[operator.name]
        stage = replace(operator.stage, name=name, rows=over(operator.stage.rows, [rows]))
        if self.replaced is not None and self.replaced.operator is operator:
            pieces: Groups = Groups(stage, ttl, fused=False)
            if self._time_of(operator) is not None or self._reads_alone(operator):
                self._judge(operator, pieces)
            else:
                text = pieces.rows_text()
                self.steps.append(Step(pieces.rows, text, persist=not pieces.reads_rows_once))
            self.steps += pieces.ingest()
            self.put_out = _PutOut(
                pieces.emit(whole=name in self.replayed),
                f"(select *, 1L as {WEIGHT} from {pieces.name})",
                pieces.touched,
                tuple(map(quote, identity_columns(stage))),
            )
        else:
            changes = GroupChanges(
                stage,
                ttl,
                operator.name,
                replayed=name in self.replayed,
                takes_back=takes_back(self.flow, operator),
                read_again=not self._is_ranked_alone(operator),
            )
            pieces = changes
            steps = changes.steps()
            if self._time_of(operator) is not None or self._reads_alone(operator):
                self._judge(operator, pieces)
                steps = [step for step in steps if step.name != pieces.rows]
            self.steps += steps
        for part in pieces.parts():
            self._has(part, operator)
        self.groups[operator.name] = pieces

    def _judge(self, operator: Operator, pieces: Groups) -> None:
        """Adds the late-row filter before a group aggregation: rows without an event time are dropped and
        counted, if keys expire by event time. If only the aggregation reads the rows, they are counted while
        they are grouped."""
        views = tuple(each.view for each in in_order(operator) if isinstance(each, Source))
        timed = self._time_of(operator) is not None
        alone = None if timed else pieces.changed
        self.rows.append(
            Rows(
                pieces.rows,
                pieces.rows_text(),
                views,
                timed=timed,
                expires=False,
                read_by=alone,
                alone=alone is not None,
            )
        )

    def _reads_alone(self, operator: Operator) -> bool:
        """Whether a single step of an operator is the only reader of a stream's rows."""
        if not isinstance(operator, GroupAggregate) or self.lookups or self.flow.windowed:
            return False
        path, below = row_by_row(operator.inputs[0])
        return (
            isinstance(below, Source)
            and not below.changelog
            and all(self.uses[name] == 1 for name in (below.name, *(step.name for step in path)))
            and ttl_of(operator, self.ttl) is None
            and not operator.stage.distinct_sets
            and not any(READS_CLOCK in each.sql for each in path)
            and READS_CLOCK not in operator.stage.rows
        )

    def _is_ranked_alone(self, operator: GroupAggregate) -> bool:
        """Whether the only reader of the groups is one ranking, which reads them once."""
        for each in self.flow.operators:
            if isinstance(each, TopN) and each.inputs[0].relation.changes and each.descends is not None:
                path, below = row_by_row(each.inputs[0])
                if below is operator:
                    return all(
                        self.uses[name] == 1 for name in (operator.name, *(step.name for step in path))
                    )
        return False

    def _time_of(self, operator: Operator) -> str | None:
        """Returns the event-time column of the input of an operator whose keys expire, or whose rows are
        final, by event time. Only an operator that is the result, or is below a ranking that is, has one;
        None for others: rows of one micro-batch then have one time."""
        root = None if self.replaced is None else self.replaced.operator
        if root is not operator and not (
            isinstance(root, TopN)
            and root.inputs[0].relation.changes
            and row_by_row(root.inputs[0])[1] is operator
            and self.uses[operator.name] == 1
        ):
            return None
        (below,) = operator.inputs
        is_timed = ttl_of(operator, self.ttl) is not None or (isinstance(operator, TopN) and operator.final)
        by_window = isinstance(operator, GroupAggregate) and bool(operator.ends)
        return below.relation.event_time if is_timed and not (below.relation.changes or by_window) else None

    def replaced_result(self) -> _Result:
        """Returns the result of the affected groups, read from the state after the commit."""
        root, made = self.replaced, self.put_out
        assert root is not None and made is not None
        again = reading(made.steps, [self.parts[part] for part in self.parts_of[root.operator.name]])
        return _Result(
            root.output(made.rows),
            root.upsert(made.touched, made.columns),
            again,
            lookups=root.lookups(made.rows, self.lookups),
        )

    def _top_n(self, operator: TopN) -> None:
        if not operator.inputs[0].relation.changes:
            replayed = self._is_replayed(operator)
            rows = RankedRows(operator, ttl_of(operator, self.ttl), self._time_of(operator), replayed)
            judged = rows.judged()
            self.rows += [] if judged is None else [judged]
            self.steps += rows.steps()
            self._has(rows.state(), operator)
            if self.replaced is not None and self.replaced.operator is operator:
                self.put_out = _PutOut(rows.emit(replayed), rows.put_out, rows.touched, tuple(rows.keys))
            else:
                self.steps.append(rows.change())
            return
        path, below = row_by_row(operator.inputs[0])
        ranked = RankedGroups(operator, self.groups[below.name], path)
        self.steps += ranked.steps()
        self._has(ranked.state(), operator)
        if self.replaced is not None and self.replaced.operator is operator:
            self.put_out = _PutOut(ranked.emit(), ranked.put_out, ranked.touched, operator.top.partition)
        else:
            self.steps.append(ranked.change())
        self.looks_into[operator.name] = self.parts_of[below.name]

    def _is_replayed(self, operator: TopN) -> bool:
        """Whether a ranking of rows is replayed. It is named after its state table, or after itself if it is
        the result."""
        return operator.name in self.replayed or members_part(operator) in self.replayed

    def _close(self, operator: WindowClose) -> None:
        held = OpenWindows(operator, ttl_over(operator, self.ttl), self.emission)
        self._step(operator, *held.change())
        self._has(held.state(), operator)

    def _set_operation(self, operator: SetOperation) -> None:
        counts = RowCounts(operator, ttl_of(operator, self.ttl))
        self.steps += counts.steps()
        self._step(operator, counts.change())
        self._has(counts.state(), operator)

    def _joined(self, each: Operator, ends: str | None, until: Until | None) -> BufferedRows:
        """Returns the buffered rows of one side of a join. Under a TTL each row expires on its own; equal
        rows expire together if rows may be retracted."""
        if until is not None:
            return kept_until(each, until)
        ttl = ttl_over(each, self.ttl) if ends is None else 0
        if ttl is None or not each.relation.changes:
            return BufferedRows(each, ttl, ends=ends)
        also = [] if ends is None else ["until", ends]
        rows = Partitions("_".join(["rows", each.name, *also]), 1, ttl)
        kept = BufferedRows(each, ttl, rows, (ROW,), ends=ends)
        if kept.part not in self.parts:
            self.steps += rows.steps(
                f"select distinct {ROW} as {rows.names[0]} from (\n{kept.change()}\n)", [kept]
            )
        return kept

    def _join(self, operator: Join) -> None:
        none = (None,) * len(operator.inputs)
        kept = [
            self._joined(each, end, last)
            for each, end, last in zip(
                operator.inputs,
                operator.ends or none,
                operator.until or none,
                strict=True,
            )
        ]
        weighted = operator.relation.changes

        def rows(text: str, number: int) -> str:
            return (
                f"select {ROW}.*{f', {TIMES} as {weight_of(number)}' if weighted else ''} from (\n{text}\n)"
            )

        terms = []
        for place, each in enumerate(kept):
            inputs = []
            for other, its in enumerate(kept):
                text = its.change()
                if other > place:
                    text = its.all_before()
                elif other < place:
                    text = f"{its.all_before()}\nunion all\n{text}"
                inputs.append(rows(text, other))
            terms.append(f"select * from (\n{over(operator.sql, inputs)}\n)")
            self._keep(each)
        of_batch = over(operator.sql, [rows(each.change(), number) for number, each in enumerate(kept)])
        self._step(operator, "\nunion all\n".join(terms), of_batch)

    def _over(self, operator: OverAggregate) -> None:
        ordered = OrderedRows(operator, self.ttl)
        rows = ordered.rows()
        self.rows += [rows] if rows is not None else []
        self.steps += ordered.steps()
        self._has(ordered.state(), operator)

    def _recompute(self, operator: Recompute) -> None:
        size = max(map(len, operator.keys))
        ttl, ends = ttl_of(operator, self.ttl), operator.ends or (None,) * len(operator.inputs)
        if operator.until:
            partitions = Partitions(operator.name, size, None) if size else None
            kept = [
                replace(kept_until(each, until), partitions=partitions, keys=keys, alias=alias, alone=True)
                for each, until, keys, alias in zip(
                    operator.inputs, operator.until, operator.keys, operator.aliases, strict=True
                )
            ]
        else:
            alone = operator.shown is not None
            # Rows that never expire keep their partitions from expiring if they are in the result without a
            # match; otherwise they are stored for later rows of other inputs.
            anchored, staying = operator.is_anchored, [*map(stay, operator.inputs)]
            held = any(staying) and not (anchored or ttl is None or operator.ends)
            partitions = (
                Partitions(operator.name, size, ttl, held) if size or ttl is not None or alone else None
            )
            kept = [
                BufferedRows(
                    operator=each,
                    ttl=ttl,
                    partitions=partitions,
                    keys=keys,
                    alias=alias,
                    top=operator.top,
                    busy=operator.busy,
                    ends=end,
                    stays=anchored and stays,
                    holds=held and stays,
                )
                for each, keys, alias, end, stays in zip(
                    operator.inputs, operator.keys, operator.aliases, ends, staying, strict=True
                )
            ]
        is_result = self.replaced is not None and self.replaced.operator is operator
        if partitions is not None:
            self.steps += partitions.steps(_touched(operator, partitions, is_result), kept)
        if is_result:
            assert partitions is not None
            (own,) = kept
            self._keep(own)
            self.put_out = self._grouped_anew(operator, own, partitions)
            return
        before: list[str] = []
        after: list[str] = []
        first: list[str] = []
        for each in kept:
            changes = each.operator.relation.changes
            for rows, found in ((each.before(), before), (each.after(), after), (each.change(), first)):
                found.append(spread(added_up(rows, changes), changes, apart=operator.asks_for_rows))
            self._keep(each, kept)
        both = (
            f"select struct(*) as {ROW}, 1L as {TIMES} from (\n{over(operator.sql, after)}\n)\nunion all\n"
            f"select struct(*) as {ROW}, -1L as {TIMES} from (\n{over(operator.sql, before)}\n)"
        )
        text = netted(both)
        if not operator.relation.changes:
            # Append-only: every row of the old result is in the new one.
            self._step(operator, spread(added_up(both, True), True), over(operator.sql, first))
            return
        self._step(operator, text, f"select *, 1L as {WEIGHT} from (\n{over(operator.sql, first)}\n)")

    @staticmethod
    def _grouped_anew(operator: Recompute, rows: BufferedRows, partitions: Partitions) -> _PutOut:
        """Returns the affected groups of a GROUP BY that is the result, recomputed from their buffered rows."""
        touched, put_out = f"{operator.name}_put_out", f"{operator.name}_result"
        changes = operator.inputs[0].relation.changes
        there = spread(added_up(rows.there(touched), changes), changes, apart=operator.asks_for_rows)
        listed, came = ", ".join(partitions.names), rows.came_now()
        made = over(operator.sql, [there])
        if not partitions.names:
            # An aggregate over no rows has one row.
            listed, came = "true as anything", _only_one(partitions.ttl, came)
            made = of_keys(f"(\n{made}\n)", [], touched)
        return _PutOut(
            [
                Step(touched, came, persist=True, fresh=f"select {listed} from {partitions.touched}"),
                Step(put_out, made),
            ],
            f"(select *, 1L as {WEIGHT} from {put_out})",
            touched,
            tuple(partitions.names),
        )

    def _lasting(self, operator: WindowRows | WindowResults, rows: str) -> str:
        """Returns the rows of windows without those of expired windows, which can't be updated."""
        end = operator.relation.open_until
        ttl = ttl_over(operator, self.ttl)
        if ttl is None or end is None or operator.relation.open_for is not None:
            return rows
        return generations.countable(f"(\n{rows}\n)", f"own.{quote(end)}", ttl)


def _only_one(ttl: int | None, came: str) -> str:
    """Returns the query that decides whether a global result is emitted: in the first micro-batch, even
    without rows, and later only with input rows, since an expired state can't reproduce it."""
    if ttl is None:
        return "select true as anything"
    first = f"select true as anything from clock where {now('watermark_before')} is null"
    return f"select distinct * from (\n{came}\nunion all\n{first}\n)"


def _touched(operator: Recompute, partitions: Partitions, is_result: bool) -> str:
    """Returns the query for the distinct keys of the partitions that the inputs' changes affect.

    Args:
        operator: the operator.
        partitions: partitions of its buffered rows.
        is_result: whether the operator is the result.
    """
    if operator.is_whole:
        (first, *_) = operator.inputs
        return _only_one(partitions.ttl if is_result else None, f"select true as anything from {first.name}")
    sides = [
        f"select {', '.join(f'{key} as {name}' for key, name in zip(keys, partitions.names, strict=True))} "
        f"from {each.name} as {quote(alias)}"
        for each, keys, alias in zip(operator.inputs, operator.keys, operator.aliases, strict=True)
    ]
    return "\nunion\n".join(sides) if len(sides) > 1 else f"select distinct * from (\n{sides[0]}\n)"
