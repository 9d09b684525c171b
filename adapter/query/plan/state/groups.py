"""SQL of a GROUP BY that returns changes: the old row of each touched key is retracted and the new one inserted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ....util.quoting import quote
from ...aggregates.aggregates import TYPED
from ...aggregates.metric_columns import MetricColumns
from ...aggregates.model import DistinctSet, GroupAggregateSpec, Metric
from ...normalize.conditions import INEXACT
from ...program import STEP, FullScan, Rewrite, StateLookup, StatePart, Step, clock_sql
from ..relation import WEIGHT
from .generations import NO_STEP, equal_keys_condition, matching_rows
from .group_state import ROWS_THERE, THERE, Groups

_SKETCHED = frozenset({"approx_count_distinct"})
"""Functions that are stored as sketches, whose estimate depends on the order of merging."""
_NEW, _WAS = "__new", "__was"
"""Columns: whether a state row is of this batch; whether a group was there before it."""
_HAD, _TOUCHED, _ROWS_BEFORE = "__had", "__touched", "__rows_before"
"""Counts per group: stored state rows, state rows of this batch, and input rows before it."""


class GroupChanges(Groups):
    """Steps and state of a `GroupAggregate`. Unlike `Groups`, results are computed before the state is written,
    together with the previous rows.

    Args:
        spec: the aggregation, named like its state. It reads the micro-batch's views.
        ttl: microseconds after which an idle key expires. None for never.
        name: name of the change's relation.
        replayed: whether to return all groups of the state as insertions.
        retracts_exactly: whether retractions must equal the emitted rows to the last digit.
        read_again: whether the change is read more than once.
    """

    def __init__(
        self,
        spec: GroupAggregateSpec,
        ttl: int | None,
        name: str,
        replayed: bool = False,
        retracts_exactly: bool = True,
        read_again: bool = True,
    ) -> None:
        super().__init__(spec, ttl)
        self.name, self.replayed, self.reread_ctes = name, replayed, read_again
        self.stores_output = retracts_exactly and any(map(is_inexact, spec.metrics))
        """Whether the state stores the last emitted row of each key, for exact retractions."""
        self.emitted, self.emitted_part = quote(f"{spec.name}_given"), f"{spec.name}_given"
        self.after = f"{spec.name}_after"

    def steps(self) -> list[Step]:
        """Returns the steps up to the change of the result."""
        *found, changed = [Step(self.rows, self.rows_sql(), persist=True), *self.ingest_steps()]
        for members in self.spec.distinct_sets if self.has_retractions else ():
            found.append(Step(self._new_values_view(members), self._changes_of_counts(members), persist=True))
        found.append(changed)
        if self.replayed:
            rows = self._finished_values(
                self.generations.unexpired_rows(self.known_and_new_rows()), self._counts_with_new
            )
            change = f"select *, 1L as {WEIGHT} from {self.after}"
            return [*found, Step(self.after, rows, persist=True), Step(self.name, change, persist=True)]
        if not self.stores_output and not (self.has_retractions and self.spec.distinct_sets):
            asks = (StateLookup(self.part, f"{_HAD} > 0", f"{_TOUCHED} > 0"),)
            initial = f"select *, 1L as {WEIGHT} from (\n{self._initial_groups()}\n)"
            whole = (
                FullScan(self._merged_before_and_after(None), self.part) if self._can_be_rewritten else None
            )
            merged = self._merged_before_and_after(self.changed)
            return [
                *found,
                Step(self.merged, merged, initial=initial, state_lookups=asks, full_scan=whole),
                Step(self.name, self._change_of_groups(), persist=self.reread_ctes, initial=initial),
            ]
        columns = ", ".join(self._columns())
        known = f"select {columns} from (\n{matching_rows(self.part, self.keys, self.changed)}\n)"
        both = f"{known}\nunion all\nselect {columns} from {self.changed}"
        if self.stores_output:
            before = self._last_emitted_rows()
        else:
            known = self.generations.rows_of_current_generation(known)
            before = self._finished_values(known, partial(self._stored_counts, touched=self.changed))
        of_touched = partial(self._counts_with_new, touched=self.changed)
        after = self._finished_values(self.generations.latest_rows(both), of_touched)
        change = (
            f"select __row.*, sum(__times) as {WEIGHT} from (\n"
            f"select struct(*) as __row, 1L as __times from {self.after}\n"
            f"union all\nselect struct(*) as __row, -1L as __times from (\n{before}\n)\n"
            f") group by __row having sum(__times) <> 0"
        )
        first = f"select *, 1L as {WEIGHT} from {self.after}"
        return [
            *found,
            Step(self.after, after, persist=True, initial=self._initial_groups()),
            Step(self.name, change, persist=True, initial=first),
        ]

    @property
    def _can_be_rewritten(self) -> bool:
        """Whether a micro-batch may rewrite the whole state: it is one table, of groups, and keys don't expire."""
        others = self.stores_output or self.has_retractions or self.spec.distinct_sets or self.replayed
        return bool(self.keys) and not others and self.generations.ttl is None

    @property
    def _metrics_after_and_before(self) -> tuple[list[MetricColumns], list[MetricColumns]]:
        """The metrics after the batch, and those before it, whose columns have other names."""
        metrics = list(self.metrics)
        return metrics, [
            MetricColumns(replace(each.metric, name=f"__before_{each.metric.name}")) for each in metrics
        ]

    def _merged_before_and_after(self, touched: str | None) -> str:
        """Returns the merged state of the touched keys (or all), with state columns after and before the batch."""
        columns = ", ".join(self._columns())
        known = matching_rows(self.part, self.keys, touched)
        rows = self.generations.latest_rows(
            f"select {columns}, false as {_NEW} from (\n{known}\n)\nunion all\n"
            f"select {columns}, true as {_NEW} from {self.changed}"
        )
        if touched is None:
            # Spark's partial aggregation before the shuffle would merge hardly any rows.
            rows = f"select /*+ repartition({', '.join(self.keys)}) */ * from (\n{rows}\n)"
        metrics, before = self._metrics_after_and_before
        of_before = [
            f"if({_NEW}, null, {quote(name)}) as {quote(was)}"
            for metric, earlier in zip(metrics, before, strict=True)
            for name, was in zip(metric.columns(), earlier.columns(), strict=True)
        ]
        also = {THERE: "count(*)", _HAD: f"count_if(not {_NEW})", _TOUCHED: f"count_if({_NEW})"}
        if self.has_retractions:
            also |= {
                ROWS_THERE: f"sum({ROWS_THERE})",
                _ROWS_BEFORE: f"sum(if({_NEW}, 0, {ROWS_THERE}))",
            }
        return self._merged_rows(
            f"(\nselect {', '.join(['*', *of_before])} from (\n{rows}\n)\n)",
            self.keys,
            [*metrics, *before],
            also,
        )

    def _change_of_groups(self) -> str:
        """Returns the change of the groups in `_merged_before_and_after`: old rows are retracted and new ones inserted."""
        metrics, before = self._metrics_after_and_before
        is_there, was_there = f"{THERE} > 0", f"{_HAD} > 0"
        if self.has_retractions and self.keys:  # the global group exists even without rows
            is_there, was_there = f"{ROWS_THERE} > 0", f"{was_there} and {_ROWS_BEFORE} > 0"

        def row(finished: list[MetricColumns]) -> str:
            values = [
                f"{each.finish()} as {quote(metric.metric.name)}"
                for each, metric in zip(finished, metrics, strict=True)
            ]
            return f"struct({', '.join([*self.keys, *values]) or 'true as anything'})"

        both = (
            f"select {row(metrics)} as __after, {is_there} as __is, {row(before)} as __before, {was_there} as {_WAS}\n"
            f"from {self.merged} where {_TOUCHED} > 0"
        )
        sides = (
            "struct(__after as __row, 1L as __times, __is as __there), "
            f"struct(__before as __row, -1L as __times, {_WAS} as __there)"
        )
        return (
            f"select __row.*, __times as {WEIGHT} from (\n"
            "select __side.__row as __row, __side.__times as __times, __side.__there as __there\n"
            f"from (\n{both}\n) lateral view explode(array({sides})) each as __side\n"
            f"where not (__is and {_WAS} and __after <=> __before)\n) where __there"
        )

    def _last_emitted_rows(self) -> str:
        """Returns the last emitted row of each touched key."""
        by = f" group by {', '.join(self.keys)}" if self.keys else ""
        last = f"max_by({self.emitted}, coalesce({STEP}, -1L)) as {self.emitted}"
        emitted = self.generations.rows_of_current_generation(
            matching_rows(self.emitted_part, self.keys, self.changed)
        )
        rows = f"select {last} from (\n{emitted}\n){by}"
        return f"select {self.emitted}.* from (\n{rows}\n) where {self.emitted} is not null"

    def _emitted_rows_part(self) -> StatePart:
        """Returns the state table of emitted rows, which has NULL for touched keys without a row."""
        kept = [*self.keys, *self.generations.generation_columns]
        keys = [f"touched.{key}" for key in kept]
        on = equal_keys_condition("touched", "own", self.keys) if self.keys else "true"
        source = self.after if self.replayed else self.changed
        touched = f"select distinct {', '.join(kept) or 'true as anything'} from {source}"
        append = (
            f"select {', '.join([f'{clock_sql(STEP)} as {STEP}', *keys, f'own.{self.emitted}'])} "
            f"from (\n{touched}\n) as touched\n"
            f"left join (select {', '.join([*self.keys, f'struct(*) as {self.emitted}'])} from {self.after}) as own on {on}"
        )
        by = f" group by {', '.join(kept)}" if kept else ""
        last = f"max_by({self.emitted}, coalesce({STEP}, -1L)) as {self.emitted}"
        living = self.generations.unexpired_rows_of_table(self.emitted_part)
        folded = f"select {', '.join([*kept, last])} from (\n{living}\n){by}"
        fold = f"select {', '.join([NO_STEP, *kept, self.emitted])} from (\n{folded}\n) where {self.emitted} is not null"
        return StatePart(self.emitted_part, append, fold, closes=None, forgets=self.generations.ttl or None)

    def _initial_groups(self) -> str:
        """Returns the groups after the first batch."""
        return self._finished_values(f"select * from {self.changed}", self._counts_of_batch)

    def parts(self) -> list[StatePart]:
        found = super().parts()
        if self.stores_output:
            found.append(self._emitted_rows_part())
        if self._can_be_rewritten:
            (groups,) = found
            return [replace(groups, rewrite=Rewrite(self._all_groups_after(), self.changed))]
        return found

    def _all_groups_after(self) -> str:
        """Returns all groups after the batch, one row each."""
        step, *columns = self._columns()
        return f"select if({_TOUCHED} > 0, {clock_sql(step)}, null) as {step}, {', '.join(columns)} from {self.merged}"

    def _new_counts(self, members: DistinctSet) -> str:
        return f"select * from {self._new_values_view(members)}"

    def _counts_of_batch(self, members: DistinctSet) -> str:
        return f"select {self._counted_columns(members)} from {self._new_values_view(members)}"

    def _counts_with_new(self, members: DistinctSet, touched: str | None = None) -> str:
        stored = f"select {self._counted_columns(members)} from (\n{self._stored_counts(members, touched)}\n)"
        return f"{stored}\nunion all\n{self._counts_of_batch(members)}"

    def _counted_columns(self, members: DistinctSet) -> str:
        columns = [*self.generations.generation_columns, *self.keys, *self._value_columns(members)]
        return ", ".join([*columns, *self._count_columns(members)])


def is_inexact(metric: Metric) -> bool:
    """Whether an aggregate's last digit depends on the order in which values are added."""
    if metric.function in TYPED and metric.types is not None:
        return (metric.types.sum if metric.function == "sum" else metric.types.result) in ("double", "float")
    return metric.function in INEXACT or metric.function in _SKETCHED
