"""`GroupAggregate`: GROUP BY over all rows, stored as partial aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ....util.quoting import quote
from ...aggregates.aggregate_builder import GROUPING_ID
from ...aggregates.model import GroupAggregateSpec
from ...program import Rows, Step, clock_sql
from ...sql import intervals
from ...sql.names import digest
from ..author_text import Expressions, author_expressions, spec_as_written, spec_group_by_text
from ..explanation import AS_ITS_INPUT, WINDOW_END, Context, Explanation, kept_metrics
from ..lineage import Lineage
from ..operator import ExpiringOperator, ResultSteps, Wiring, input_name, state_never_expires, with_inputs
from ..query_lineage import read_input
from ..query_summary import rows_suffix, tables_read_by
from ..relation import WEIGHT, Relation
from ..relations.grouped import GroupedRows
from ..state.group_state import Groups, identity_columns
from ..state.groups import GroupChanges
from .source import views_below


@dataclass(frozen=True, kw_only=True)
class GroupAggregate(ExpiringOperator):
    """GROUP BY without windows, and DISTINCT: for each key that changes it retracts the old row and inserts
    the new one. Keeps partial aggregates per key; for DISTINCT, and for MIN and MAX where rows may be retracted,
    the count of each value."""

    spec: GroupAggregateSpec
    alias: str
    """Alias of its input in the keys' SQL."""
    groups: str = ""
    """Identity of the groups, independent of the aggregates."""
    has_few_groups: bool = False
    """Whether the set of values of each key doesn't grow."""

    @property
    def filters_on_arrival(self) -> bool:
        """Whether its input rows are filtered by the watermark before the micro-batch."""
        return self.spec.filters_on_arrival

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns changes of one row per key and grouping set."""
        spec = self.spec
        found = GroupedRows(spec.keys, spec.grouping_sets, self.alias, below[0]).relation
        return replace(found, bounded=found.bounded or self.has_few_groups)

    @property
    def open_for(self) -> int:
        """Returns the microseconds after the end of a window in which its rows may arrive."""
        return self.inputs[0].relation.open_for or 0

    @property
    def is_global(self) -> bool:
        """Whether it has no keys."""
        return not self.spec.keys

    @property
    def has_rows_without_input(self) -> bool:
        """Whether it has no keys: then it returns a row for no input rows."""
        return not self.spec.keys

    def expires_after(self, ttl: int | None) -> int | None:
        """Returns how many microseconds after the end of their window groups expire; without windows, the TTL."""
        return self.open_for if self.ends else super().expires_after(ttl)

    def lineage(self, below: Sequence[Lineage]) -> Lineage | None:
        """Returns the lineage of its groups. Each aggregate has its own origin, so that others can be added and
        removed."""
        (rows_below,) = below
        spec = self.spec
        if not isinstance(spec.written, exp.Select):
            return None
        read = read_input(spec.written, {input_name(0): rows_below})
        if read is None:
            return None
        keys = [(key.name, read.expression_digest(key.expression)) for key in spec.keys]
        ends = [rows_below.column(name) for name in self.ends]
        calls = {each.name: read.expression_digest(each.call) for each in spec.metrics}
        if None in (*(key for _, key in keys), *ends, *calls.values()):
            return None
        definition = [
            sorted(keys),
            spec.grouping_sets,
            spec.has_retractions,
            ends,
            sorted(self.relation.in_time),
            self.relation.open_until,
        ]
        rows = digest("groups", read.rows, *definition)
        columns = {key.name: digest(rows, "key", key.name) for key in spec.keys}
        if spec.grouping_sets is not None:
            columns["grouping_id"] = digest(rows, "grouping_id", [key.name for key in spec.keys])
        columns |= {name: digest(rows, "aggregate", call) for name, call in calls.items()}
        return Lineage(rows, tuple(columns.items()))

    def generate(self, wiring: Wiring) -> None:
        """Stores partial aggregates of the new rows. If it is the result, the affected groups are read after the
        commit; otherwise their changes are computed before it."""
        ttl, name = self.expires_after(wiring.ttl), wiring.state_names[self.name]
        spec = replace(
            self.spec, name=name, rows=with_inputs(self.spec.rows, [self._input_rows(wiring, ttl)])
        )
        if wiring.result is self:
            groups = Groups(spec, ttl)
            again = ttl is not None or bool(spec.distinct_sets)
            rows = Step(groups.rows, groups.rows_sql(), persist=again)
            steps = [rows, *groups.ingest_steps()]
            wiring.result_steps = ResultSteps(
                groups.emit_steps(all_keys=name in wiring.replayed),
                f"(select *, 1L as {WEIGHT} from {name})",
                groups.touched,
                tuple(map(quote, identity_columns(spec))),
            )
        else:
            replayed, again = name in wiring.replayed, not wiring.is_only_ranked(self)
            retracts = wiring.retracts(self)
            changes = GroupChanges(
                spec, ttl, self.name, replayed, retracts_exactly=retracts, read_again=again
            )
            groups, steps = changes, changes.steps()
        timed = wiring.time_column(self) is not None
        if timed or wiring.is_only_reader(self):
            # If keys expire by event time, rows without one are dropped and counted. If only the aggregation reads the
            # rows, they are counted while they are grouped.
            steps = [step for step in steps if step.name != groups.rows]
            text, views, by = groups.rows_sql(), views_below(self), None if timed else groups.changed
            wiring.rows.append(
                Rows(
                    groups.rows,
                    text,
                    views,
                    timed=timed,
                    expires=False,
                    read_by=by,
                    is_single_reader=not timed,
                )
            )
        wiring.steps += steps
        for part in groups.parts():
            wiring.add_state_table(part, self)
        wiring.groups[self.name] = groups

    def explain(self, context: Context) -> Explanation:
        """Returns its keys and aggregates, and the state of its groups and of their distinct values."""
        ttl, spec = self.expires_after(context.ttl), replace(self._spec_as_written, name=context.state_name)
        groups = Groups(spec, ttl)
        per = " per key" if spec.keys else ""
        described = {groups.part: (f"partial aggregates{per}", self.clearing_phrase(context))}
        for part, values in groups.distinct_set_tables().values():
            named = ", ".join(values)
            rows = (
                f"how often a value of {named} is there"
                if spec.has_retractions
                else f"a value of {named}, once"
            )
            clears = (
                "when it isn't there any more"
                if spec.has_retractions
                else "nothing: as many as there are values"
            )
            described[part] = f"{rows}{per}", clears if ttl is None else "with its key"
        values_of = "how often each value is there" if spec.has_retractions else "first occurrences per key"
        key = tuple(each.sql for each in spec.keys)
        return self.explanation(
            context,
            f"{spec_group_by_text(spec)}{rows_suffix(spec.written)}",
            key=key if spec.grouping_sets is None else (*key, f"{GROUPING_ID}()"),
            state=context.state_tables(
                described, ("the row that a key gave last, to be retracted as it was", "with its key")
            ),
            metrics=kept_metrics(
                spec.metrics, groups.state_columns(), "partial aggregate per key", values_of
            ),
            reads=tables_read_by(spec.written),
        )

    @property
    def expressions(self) -> Expressions:
        """Returns the author's keys and aggregates."""
        return author_expressions(self._spec_as_written)

    @property
    def _spec_as_written(self) -> GroupAggregateSpec:
        """Its spec with the keys and aggregates as their author wrote them."""
        return spec_as_written(self.spec)

    def clearing_phrase(self, context: Context, last: str = "the key's last row") -> str:
        """Returns what clears its groups, as a phrase."""
        if self.ends:
            return f"window end + {intervals.format(self.open_for)}" if self.open_for else WINDOW_END
        if self.spec.keys and state_never_expires(self):
            return AS_ITS_INPUT
        bounded = context.why_keys_are_bounded(bool(self.spec.keys), self.inputs[0].relation.bounded)
        return self.ttl_phrase(context, last) or bounded

    def _input_rows(self, wiring: Wiring, ttl: int | None) -> str:
        """Returns the input's rows with their sign, if they may be retracted, and under a TTL the time it counts from."""
        (below,) = self.inputs
        sign, times = "", ""
        if below.relation.changes:
            # A row of weight n becomes |n| rows.
            sign = f" except ({WEIGHT}), if({WEIGHT} > 0, 1, -1) as __sign"
            times = f"\nlateral view explode(sequence(1L, abs({WEIGHT}))) each as __each"
        rows = f"select own.*{sign} from {below.name} as own{times}"
        if ttl is None:
            return rows
        time = clock_sql("watermark_after")
        if end := next(iter(self.ends), below.relation.open_until):
            # A key isn't idle before its window closes.
            time = f"greatest({time}, own.{quote(end)})"
        if (column := wiring.time_column(self)) is not None:
            time = f"cast(own.{quote(column)} as timestamp)"
        return f"select own.*, {time} as __row_time from (\n{rows}\n) as own"
