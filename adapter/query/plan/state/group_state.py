"""SQL of a group aggregation: partial aggregates per key, and the keys that changed.

Each micro-batch appends partial aggregates to the state; merging a key's rows gives its value. Distinct values are counted
at their first occurrence, so emitting a result reads no distinct set. With retractions (``sign``) the state has the count
of each value, which is aggregated while its count is positive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ....util.quoting import quote
from ...aggregates.aggregate_builder import GROUPING_ID
from ...aggregates.model import SEEN, TIMES, DistinctSet, GroupAggregateSpec
from ...aggregates.partials import Partials, rows_with_values_of
from ...program import EXPIRES_AT, STEP, StateLookup, StatePart, Step, clock_sql
from .generations import (
    NO_STEP,
    SINCE,
    TIME,
    KeyGenerations,
    equal_keys_condition,
    matching_rows,
    rows_of_keys,
    touched_keys_step,
)

ROWS_THERE, THERE = "rows_there", "__there"
KNOWN = "__known"
"""Column that says whether the state had rows of a key, or had a value, before the step."""


class Groups(Partials):
    """Steps and state of a `GroupAggregateSpec`.

    Args:
        ttl: microseconds after which an idle key expires. None for never.
    """

    spec: GroupAggregateSpec

    def __init__(self, spec: GroupAggregateSpec, ttl: int | None) -> None:
        super().__init__(spec, spec.name)
        self.name, self.has_retractions = spec.name, spec.has_retractions
        self.part = f"{spec.name}_groups"
        self.changed = f"{spec.name}_changed"
        """The step with the batch's partial aggregates."""
        self.touched = f"{spec.name}_touched"
        """The step with the keys that changed."""
        self.merged = f"{spec.name}_met"
        """The step with the merged state of the changed keys, and whether they were there before."""
        self.generations = KeyGenerations(spec.name, self.part, self.keys, ttl)
        # Metrics over counted values are computed when a key is read.
        self.stored_metrics = self.plain if self.has_retractions else self.metrics
        self.flag_suffix = TIMES if self.has_retractions else SEEN

    def rows_sql(self) -> str:
        """Returns the input rows with the step."""
        time = f", input.{TIME} as event_time" if self.generations.ttl is not None else ""
        return f"select {clock_sql(STEP)} as {STEP}{time}, input.* from (\n{self.spec.rows}\n) as input"

    # -- before the commit -------------------------------------------------------------------------

    def ingest_steps(self) -> list[Step]:
        """Returns the steps before the state is written."""
        keys = f"select {', '.join(self._selected_keys()) or 'true as anything'}\nfrom {self.rows}\n"
        steps = self.generations.steps(keys + self._group_by_clause([STEP]))
        for members in () if self.has_retractions else self.spec.distinct_sets:
            initial = self._values_of_batch(members)
            steps.extend(self._cached_values_steps(members, initial))
            steps += self._new_values(members, initial)
        # Without a reader before the commit, they are computed while they are written.
        first = None if self.keys else self._partials_of_batch(initial=True)
        return [*steps, Step(self.changed, self._partials_of_batch(), persist=True, initial=first)]

    def parts(self) -> list[StatePart]:
        append, ttl = f"select * from {self.changed}", self.generations.ttl or None
        found = [StatePart(self.part, append, self._fold(), closes=None, forgets=ttl)]
        for members in self.spec.distinct_sets:
            columns = [STEP, *self._identity_columns(members), *self._flag_columns(members)]
            append = f"select {', '.join(columns)} from {self._new_values_view(members)}"
            if self.has_retractions:
                append = self._new_counts(members)
            fold = self._fold_values(members)
            # Rows are unique, unless values can be retracted or may occur with another enumerated key.
            merges = self.has_retractions or self.spec.enumerated is not None
            found.append(
                StatePart(self._set_table(members), append, fold, closes=None, merges=merges, forgets=ttl)
            )
        return found

    def _columns(self) -> list[str]:
        """Columns of the state table of groups."""
        rows = [ROWS_THERE] if self.has_retractions else []
        return [STEP, *self.generations.columns, *self.keys, *rows, *map(quote, self._stored_columns())]

    def _partials_of_batch(self, initial: bool = False) -> str:
        """Returns the batch's partial aggregates. `initial`: for an empty state."""
        branches = [self._partials_of_rows()]
        if not self.keys:
            known = f"\nleft anti join ({matching_rows(self.part, [], None)}) as known on true"
            branches.append(self._empty_group("" if initial else known))
        if not self.has_retractions:
            branches += [self._partials_of_values(members) for members in self.spec.distinct_sets]
        columns = ", ".join(self._columns())
        return self._union_all([f"select {columns} from (\n{branch}\n)" for branch in branches])

    def _partials_of_rows(self) -> str:
        made: dict[str, str] = {}
        for metric in self.plain:
            made |= metric.make(sign="sign" if self.has_retractions else None)
        rows = [f"sign * count(*) as {ROWS_THERE}"] if self.has_retractions else []
        items = [
            STEP,
            *self.generations.expiry_items(f"max({TIME})"),
            *self._selected_keys(),
            *rows,
            *self._state_items(made),
        ]
        by = self._group_by_clause([STEP, *(["sign"] if self.has_retractions else [])])
        return self.generations.with_generation(f"select {', '.join(items)}\nfrom {self.rows}\n{by}")

    def _empty_group(self, known: str) -> str:
        """Returns the partial aggregates of the global group over no rows. The group exists from the first step on.

        Args:
            known: join that excludes them if the state has rows of the group.
        """
        items = [
            f"{clock_sql(STEP)} as {STEP}",
            *([f"0L as {ROWS_THERE}"] if self.has_retractions else []),
            *self._state_items({}),
        ]
        return f"select {', '.join(items)}\nfrom clock{known}"

    def _partials_of_values(self, members: DistinctSet) -> str:
        """Returns the partial aggregates of new values."""
        made: dict[str, str] = {}
        for metric in self._metrics_over(members):
            made |= metric.make(self._flag_columns(members)[members.flag_index(metric.metric)])
        # The rows of the key have its expiry.
        never = [f"cast(null as timestamp) as {EXPIRES_AT}"] if self.generations.ttl is not None else []
        by = [STEP, *self.generations.generation_columns, *self.keys]
        columns = [STEP, *self._identity_columns(members)]
        return (
            f"select {', '.join([*by, *never, *self._state_items(made)])}\n"
            f"from {self._rows_with_flag(members, self._new_values_view(members), columns)}\ngroup by {', '.join(by)}"
        )

    # -- distinct values ---------------------------------------------------------------------------

    def _identity_columns(self, members: DistinctSet) -> list[str]:
        """Columns that identify a value in the state."""
        return [*self.generations.generation_columns, *self._set_keys(), *self._value_columns(members)]

    def _values_of_batch(self, members: DistinctSet) -> str:
        """Returns the batch's values, with the FILTERs that each passes."""
        return self.generations.with_generation(self._distinct_inputs(members, [STEP]))

    def _new_values(self, members: DistinctSet, initial: str) -> list[Step]:
        """Returns the steps with the values that aren't stored yet, or not for some FILTER that they pass."""
        flags, identity = self._flag_columns(members), self._identity_columns(members)
        known = [f"bool_or({flag}) as {flag}" for flag in flags]
        fresh = [
            f"coalesce(batch.{flag}, false) and not coalesce(known.{flag}, false) as {flag}" for flag in flags
        ]
        columns = [f"batch.{name}" for name in [STEP, *identity]]
        if self.spec.grouping_sets is not None:
            batch = looked_up = f"select * from {self._batch_values_view(members)}"
        else:
            batch, values = self._values_of_batch(members), [*self._set_keys(), *self._value_columns(members)]
            looked_up = self.generations.with_generation(
                f"select {', '.join(values)} from {self.rows} where {self._not_null_condition(members)}"
            )
        part, compared_name = self._set_table(members), f"{self._set_table(members)}_met"
        compared = (
            f"with batch as (\n{batch}\n),\n"
            f"known as (\n"
            f"  select {', '.join([*identity, *known])}, true as {KNOWN}\n"
            f"  from {rows_with_values_of(identity, looked_up, part)}\n"
            f"  where part = '{part}'\n"
            f"  group by {', '.join(identity)}\n"
            f")\n"
            f"select {', '.join([*columns, *fresh])}, coalesce(known.{KNOWN}, false) as {KNOWN}\n"
            f"from batch left join known on {equal_keys_condition('batch', 'known', identity)}"
        )
        listed = ", ".join([STEP, *identity, *flags])
        new = f"select {listed} from {compared_name}\nwhere {' or '.join(flags)}"
        return [
            Step(compared_name, compared, initial=initial, state_lookups=(StateLookup(part, KNOWN),)),
            Step(self._new_values_view(members), new, persist=True, initial=initial),
        ]

    # -- values that may be retracted --------------------------------------------------------------

    def _count_columns(self, members: DistinctSet) -> list[str]:
        """Columns with the number of rows that have a value, one per FILTER."""
        return self._columns_per_condition(members, TIMES)

    def _new_counts(self, members: DistinctSet) -> str:
        """Returns the rows to append to the values' counts."""
        return self._changes_of_counts(members)

    def _changes_of_counts(self, members: DistinctSet) -> str:
        """Returns the change of the values' counts in the batch."""
        numbers = [
            f"sum(sign){f' filter (where {quote(condition)})' if condition else ''} as {number}"
            for number, condition in zip(self._count_columns(members), members.filters, strict=True)
        ]
        fixed = [STEP, *self._value_columns(members)]
        # Only these aggregates take a NULL, as one of two arguments.
        pairs = any(each.metric.function in ("min_by", "max_by") for each in self._metrics_over(members))
        where = "" if pairs else f"where {self._not_null_condition(members)}\n"
        items = ", ".join([*fixed, *self._selected_keys(), *numbers])
        return self.generations.with_generation(
            f"select {items}\nfrom {self.rows}\n{where}{self._group_by_clause(fixed)}"
        )

    def _stored_counts(self, members: DistinctSet, touched: str | None = None) -> str:
        return matching_rows(self._set_table(members), self.keys, touched)

    def _value_metrics(self, members: DistinctSet, rows: str) -> str:
        """Returns the metrics over values with a positive count, per key and generation."""
        numbers, of_key = self._count_columns(members), [*self.generations.generation_columns, *self.keys]
        made = []
        for metric in self._metrics_over(members):
            there = f"{numbers[members.flag_index(metric.metric)]} > 0"
            made += [f"{text} as {quote(name)}" for name, text in metric.make(there).items()]
        identity = [*of_key, *self._value_columns(members)]
        summed = ", ".join([*identity, *(f"sum({number}) as {number}" for number in numbers)])
        rows = f"select {summed}\nfrom (\n{rows}\n)\ngroup by {', '.join(identity)}"
        by = f"\ngroup by {', '.join(of_key)}" if of_key else ""
        return f"select {', '.join([*of_key, *made])}\nfrom (\n{rows}\n){by}"

    # -- compaction --------------------------------------------------------------------------------

    def _fold(self) -> str:
        rows = self._merged_by_key(
            self.generations.unexpired_rows(matching_rows(self.part, self.keys, None)),
            self.generations.generation_columns,
        )
        is_there = f" where {ROWS_THERE} <> 0" if self.has_retractions and self.keys else ""
        columns = [name for name in self._columns() if name != STEP]
        return f"select {', '.join([NO_STEP, *columns])} from (\n{rows}\n){is_there}"

    def _fold_values(self, members: DistinctSet) -> str:
        identity = self._identity_columns(members)
        if self.has_retractions:
            numbers = self._count_columns(members)
            made = [f"sum({number}) as {number}" for number in numbers]
            having = "\nhaving " + " or ".join(f"sum({number}) <> 0" for number in numbers)
        else:
            made, having = [f"bool_or({flag}) as {flag}" for flag in self._flag_columns(members)], ""
        source = self.generations.unexpired_rows_of_table(self._set_table(members))
        return (
            f"select {', '.join([NO_STEP, *identity, *made])}\nfrom (\n{source}\n)\n"
            f"group by {', '.join(identity)}{having}"
        )

    def _merged_by_key(
        self, rows: str, also_by: Sequence[str] = (), also: Mapping[str, str] | None = None
    ) -> str:
        """Merges state rows to one per key. `also` maps other columns to their aggregates."""
        also = {THERE: "count(*)", **(also or {})}
        if self.has_retractions:
            also[ROWS_THERE] = f"sum({ROWS_THERE})"
        if self.generations.ttl is not None:
            also[EXPIRES_AT] = f"max({EXPIRES_AT})"
            if self.has_retractions and SINCE not in also_by:
                # All rows of a key are of one generation.
                also[SINCE] = f"max({SINCE})"
        merged = self._merged_rows(f"(\n{rows}\n)", [*also_by, *self.keys], also=also)
        # Without keys, the aggregate returns a row even over no rows.
        return merged if self.keys or also_by else f"select * from (\n{merged}\n) where {THERE} > 0"

    # -- results -----------------------------------------------------------------------------------

    def emit_steps(self, all_keys: bool) -> list[Step]:
        """Returns the steps with the changed keys and their values; with `all_keys` those of all keys."""
        if all_keys:
            return [
                Step(
                    self.name,
                    self._finished_values(
                        self.generations.unexpired_rows(matching_rows(self.part, self.keys, None))
                    ),
                )
            ]
        rows = self.generations.latest_rows(matching_rows(self.part, self.keys, self.touched))
        together = self._merged_by_key(
            rows, also={KNOWN: f"bool_or({STEP} is null or {STEP} < {clock_sql(STEP)})"}
        )
        return [
            touched_keys_step(self.touched, self.part, self.keys, self.changed),
            Step(self.merged, together, state_lookups=(StateLookup(self.part, KNOWN),)),
            Step(
                self.name,
                self._finished_merged_values(self.merged, partial(self._stored_counts, touched=self.touched)),
            ),
        ]

    def groups_matching(self, rows: str, others: str, columns: Sequence[str]) -> str:
        """Returns the groups of state rows that equal a row of the relation `others` in some key columns."""
        # Expired groups are excluded, whether or not the state was compacted.
        return self._finished_values(
            self.generations.unexpired_rows(rows_of_keys(f"(\n{rows}\n)", columns, others))
        )

    def known_and_new_rows(self) -> str:
        """Returns all state rows, with those that the batch adds."""
        columns = ", ".join(self._columns())
        return (
            f"select {columns} from ({matching_rows(self.part, self.keys, None)})\n"
            f"union all\nselect {columns} from {self.changed}"
        )

    def _finished_values(self, rows: str, counts: Callable[[DistinctSet], str] | None = None) -> str:
        """Returns the values of keys, from state rows; a key may have several."""
        return self._finished_merged_values(
            f"(\n{self._merged_by_key(rows)}\n)", counts or self._stored_counts
        )

    def _finished_merged_values(self, source: str, counts: Callable[[DistinctSet], str]) -> str:
        """Returns the values of keys, from one merged state row per key.

        Args:
            counts: returns the stored counts of a distinct set's values; unused without retractions.
        """
        if self.has_retractions:
            source = self._with_value_metrics(source, counts)
        finished = [f"{metric.finish()} as {quote(metric.metric.name)}" for metric in self.metrics]
        # The global group exists even without rows.
        there = f"\nwhere {ROWS_THERE} > 0" if self.has_retractions and self.keys else ""
        return f"select {', '.join([*self.keys, *finished]) or 'true as anything'}\nfrom {source}{there}"

    def _with_value_metrics(self, groups: str, counts: Callable[[DistinctSet], str]) -> str:
        """Returns groups with the metrics over their values."""
        columns = [f"own.{name}" for name in [*self.keys, ROWS_THERE]]
        columns += [quote(name) for metric in self.metrics for name in metric.columns()]
        joins = f"{groups} as own"
        for members in self.spec.distinct_sets:
            joins += (
                f"\nleft join (\n{self._value_metrics(members, counts(members))}\n) as {quote(members.name)} "
                f"on {equal_keys_condition('own', quote(members.name), [*self.generations.generation_columns, *self.keys])}"
            )
        return f"(\nselect {', '.join(columns)}\nfrom {joins}\n)"


def identity_columns(spec: GroupAggregateSpec) -> tuple[str, ...]:
    """Returns the columns that identify a group."""
    names = tuple(key.name for key in spec.keys)
    return names if spec.grouping_sets is None else (*names, GROUPING_ID)
