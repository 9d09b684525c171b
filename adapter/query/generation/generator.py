"""`Generator`: walks a tree of operators, which add their steps and their state to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from ..errors import QueryError
from ..plan import lookup_keys
from ..plan.dataflow import Dataflow
from ..plan.lookup_keys import LookupTable
from ..plan.operator import Operator, ResultSteps, Wiring, inputs_first, with_inputs
from ..plan.operators.group_aggregate import GroupAggregate
from ..plan.operators.project import row_by_row
from ..plan.operators.source import Source
from ..plan.operators.top_n import TopN
from ..plan.operators.window_close import WindowClose
from ..plan.state.buffered_rows import BufferedRows
from ..plan.state.group_state import Groups
from ..plan.state.ranking import members_table
from ..plan.state.window_steps import WindowSteps
from ..plan.upserts import needs_retractions, result_operator
from ..program import NEW_STATE, Lookup, Rows, StateNames, StatePart, Step, limit_reads
from ..windows.emission import FINAL, Emission


class Generator(Wiring):
    """The steps and the state of a dataflow's program.

    Args:
        ttl: microseconds until idle state expires; None for never.
        replayed: names of groups and of rankings' state tables that are read from the state as if they were new; what is
            above them is computed from an empty state.
        emission: when results of windows are emitted.
        tables: external tables in which rows are looked up.

    Raises:
        QueryError: the query has no groups or rankings of the names in `replayed`.
    """

    def __init__(
        self,
        flow: Dataflow,
        ttl: int | None,
        replayed: Collection[str] = (),
        emission: Emission = FINAL,
        tables: Sequence[LookupTable] = (),
        names: StateNames = NEW_STATE,
    ) -> None:
        self.flow, self.names = flow, names
        self.ttl, self.replayed, self.emission, self.tables = ttl, frozenset(replayed), emission, tables
        self.state_names = {group.name: self.name_in_state(name) for name, group in flow.groups.items()}
        self.parts_of: dict[str, set[str]] = {}
        self.looks_into: dict[str, set[str]] = {}
        self.rows: list[Rows] = []
        self.steps_before_rows: list[Step | Lookup] = []
        """Steps that `rows` reads, which run first."""
        self.steps: list[Step | Lookup] = []
        self.parts: dict[str, StatePart] = {}
        self.owners: dict[str, BufferedRows | Operator] = {}
        """Name of a state table → the buffered rows, or the operator, that it belongs to."""
        self.groups: dict[str, Groups] = {}
        self.window_steps: list[WindowSteps] = []
        self.result_operator = result_operator(flow)
        self.result = None if self.result_operator is None else self.result_operator.operator
        self.result_steps: ResultSteps | None = None
        self.uses = self._count_readers()
        self._generate()

    def _count_readers(self) -> Counter[str]:
        """Returns how often each operator's output is read, by its name."""
        operators = self.flow.operators
        uses = Counter(each.name for operator in operators for each in operator.inputs)
        # A `WindowClose` reads its input twice: rows to emit and rows to hold back.
        uses.update(e.name for o in operators if isinstance(o, WindowClose) for e in o.inputs)
        # The keys of a look-up are another reader of the input.
        uses.update(e.name for o in operators if self.lookups(o) for e in o.inputs)
        return uses

    def _generate(self) -> None:
        """Lets each operator add its steps and its state. Operators above the result are part of the result's query."""
        replayed, compared = self._replayed_operators(), self._below_compared_rows()
        above = {self.flow.root.name} if self.flow.windows is not None else set()
        if self.result_operator is not None:
            above = {each.name for each in self.result_operator.path}
        for operator in self.flow.operators:
            if operator.name in above:
                continue
            self.generated, first, known_parts = operator.name, len(self.steps), {*self.parts}
            operator.generate(self)
            parts = [self.parts[part] for part in self.parts_of.get(operator.name, ())]
            if self.replayed and operator.name not in replayed:
                self.steps[first:] = [_step_for_empty_state(step) for step in self.steps[first:]]
                parts = [replace(part, rewrite=None) for part in parts]
            parts_read = [self.parts[part] for part in self.looks_into.get(operator.name, ())]
            self.steps[first:] = limit_reads(self.steps[first:], [*parts, *parts_read])
            self.parts |= {
                part.name: part
                for part in limit_reads(parts, [*parts, *parts_read])
                if part.name not in known_parts
            }
            if operator.name in compared:
                self.steps_before_rows += self.steps[first:]
                del self.steps[first:]
        # An operator that ignored a name would find an empty state table.
        assert self.parts.keys().isdisjoint(self.names.keys() - {*self.names.values()})

    def _replayed_operators(self) -> set[str]:
        """Returns the names of the operators whose state is read as if it were new (`replayed`), and of those below them.

        Raises:
            QueryError: the query doesn't have all operators in `replayed`.
        """
        names = {**self.state_names} | {
            each.name: self.name_in_state(members_table(each))
            for each in self.flow.operators
            if isinstance(each, TopN)
        }
        if missing := self.replayed - {*names.values()}:
            raise QueryError(
                f"the state has yet to be rebuilt after an edit, from {', '.join(sorted(missing))}, which this query "
                "doesn't have. Put back the query as it was after that edit, run it, and then change it."
            )
        found = {operator for operator, name in names.items() if name in self.replayed}
        return found | {
            below.name for each in self.flow.operators if each.name in found for below in inputs_first(each)
        }

    def _below_compared_rows(self) -> set[str]:
        """Returns the names of the operators whose steps are read by rows that are compared with the watermark."""
        comparing = {each.name: self._compared_inputs(each) for each in self.flow.operators}
        below = {
            below.name for inputs in comparing.values() for each in inputs for below in inputs_first(each)
        }
        return below - {name for name, inputs in comparing.items() if inputs}

    def _compared_inputs(self, operator: Operator) -> tuple[Operator, ...]:
        compares = self.time_column(operator) is not None or self.is_only_reader(operator)
        return operator.inputs if compares else operator.inputs_compared_with_watermark

    @property
    def state_tables(self) -> dict[str, list[str]]:
        """Returns name of an operator → the state tables that it has or shares."""
        return {name: sorted(parts) for name, parts in self.parts_of.items()}

    @property
    def operators_of_buffered_rows(self) -> dict[str, str]:
        """Returns state table with buffered rows → name of the operator that the rows come from."""
        rows = {part: owner for part, owner in self.owners.items() if isinstance(owner, BufferedRows)}
        return {part: owner.operator.name for part, owner in rows.items()}

    # -- what operators add ------------------------------------------------------------------------

    def add_output_step(
        self, operator: Operator, text: str, initial: str | None = None, lookups: tuple[Lookup, ...] = ()
    ) -> None:
        # Non-deterministic rows are computed once, so that the state has the rows that are emitted.
        read_again = self.uses[operator.name] > 1 or not operator.relation.repeatable
        self.steps += [*lookups, Step(operator.name, text, persist=read_again, initial=initial)]

    def add_state_table(self, part: StatePart, owner: object) -> None:
        known = self.parts.setdefault(part.name, part)
        if known.closes is None and part.closes is not None:
            # Another operator that has no windows to close shares these rows.
            self.parts[part.name] = replace(known, closes=part.closes)
        self.parts_of.setdefault(self.generated, set()).add(part.name)
        assert isinstance(owner, BufferedRows | Operator)
        self.owners.setdefault(part.name, owner)

    # -- what operators ask ------------------------------------------------------------------------

    def lookups(self, operator: Operator, inputs: Sequence[str] = ()) -> tuple[Lookup, ...]:
        query = operator.lookup_query
        if not self.tables or query is None:
            return ()
        found = lookup_keys.required_lookups([query], self.tables)
        return (
            tuple(replace(each, keys=with_inputs(each.keys, inputs)) for each in found) if inputs else found
        )

    def retracts(self, operator: Operator) -> bool:
        assert isinstance(operator, GroupAggregate)
        return needs_retractions(self.flow, operator)

    def is_only_reader(self, operator: Operator) -> bool:
        if not isinstance(operator, GroupAggregate) or self.tables or self.flow.window_specs:
            return False
        path, below = row_by_row(operator.inputs[0])
        return (
            isinstance(below, Source)
            and not below.changelog
            and all(self.uses[name] == 1 for name in (below.name, *(step.name for step in path)))
            and operator.expires_after(self.ttl) is None
            and not operator.spec.distinct_sets
            and not any(each.filters_on_arrival for each in (*path, operator))
        )

    def is_only_ranked(self, operator: Operator) -> bool:
        for each in self.flow.operators:
            if isinstance(each, TopN) and each.inputs[0].relation.changes and each.descends is not None:
                path, below = row_by_row(each.inputs[0])
                if below is operator:
                    return all(
                        self.uses[name] == 1 for name in (operator.name, *(step.name for step in path))
                    )
        return False

    def time_column(self, operator: Operator) -> str | None:
        root = self.result
        if root is not operator and not (
            isinstance(root, TopN)
            and root.inputs[0].relation.changes
            and row_by_row(root.inputs[0])[1] is operator
            and self.uses[operator.name] == 1
        ):
            return None
        (below,) = operator.inputs
        is_timed = operator.expires_after(self.ttl) is not None
        is_timed = is_timed or (isinstance(operator, TopN) and operator.final)
        by_window = isinstance(operator, GroupAggregate) and bool(operator.ends)
        return below.relation.event_time if is_timed and not (below.relation.changes or by_window) else None


def _step_for_empty_state(step: Step | Lookup) -> Step | Lookup:
    """Returns a step that computes the same as for an empty state."""
    if isinstance(step, Lookup):
        return step
    return replace(step, sql=step.initial or step.sql, state_lookups=(), full_scan=None)
