"""SQL that all aggregations share: it makes partial aggregates from rows, merges and finishes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...util.quoting import quote
from ..program import Step
from .aggregate_builder import GROUPING_ID
from .metric_columns import CENTER, MetricColumns
from .model import SEEN, DistinctSet, GroupAggregateSpec, WindowAggregateSpec


def rows_with_values_of(names: Sequence[str], rows: str, part: str) -> str:
    """Returns a relation for FROM: the state rows whose values may occur in the given rows.

    It joins on a hash, which is quicker to look up than the values; few other rows match. Both sides are hashed in the
    wider of their types (hence the empty UNION ALL branch), because an INT has another hash than an equal BIGINT, and a
    source column may have become narrower since.

    Args:
        names: columns of the values, on both sides.

    >>> print(rows_with_values_of(["k"], "select k from batch", "groups"))
    state left semi join (
    select xxhash64(k) as __hashed from (
    select k from (
    select k from batch
    )
    union all
    select k from state where part = 'groups' and false
    )
    ) on xxhash64(k) = __hashed
    """
    listed = ", ".join(names)
    hashed = f"xxhash64({listed})"
    return (
        f"state left semi join (\nselect {hashed} as __hashed from (\n"
        f"select {listed} from (\n{rows}\n)\nunion all\nselect {listed} from state where part = '{part}' and false\n)"
        f"\n) on {hashed} = __hashed"
    )


def flag_columns(
    spec: WindowAggregateSpec | GroupAggregateSpec, members: DistinctSet, suffix: str
) -> list[str]:
    """Returns the columns of a distinct set with a suffix: one per flag, or per flag and combination of enumerated keys."""
    names = [f"{flag.name}_{suffix}" for flag in members.flags]
    if spec.enumerated is None:
        return names
    return [f"{name}_{number}" for name in names for number in range(len(spec.enumerated.values))]


class Partials:
    """State columns of a GROUP BY and the SQL over them that is independent of windows.

    Args:
        name: begins the names of its state tables.
    """

    def __init__(self, spec: WindowAggregateSpec | GroupAggregateSpec, name: str) -> None:
        self.spec, self.name_in_state = spec, name
        self.metrics = [MetricColumns(metric) for metric in spec.metrics]
        self.plain = [metric for metric in self.metrics if metric.metric.distinct_set is None]
        self.stored_metrics = self.metrics
        self.group_keys = [quote(key.name) for key in spec.keys]
        self.keys = [*self.group_keys, GROUPING_ID] if spec.grouping_sets is not None else self.group_keys
        self.rows = f"{spec.name}_rows"
        # Whether values are stored for the finest grouping set only, from which those of the others are computed.
        self.stores_finest = False
        # Suffix of the flag columns (see `FLAGS`).
        self.flag_suffix = SEEN

    def state_columns(self) -> dict[str, list[str]]:
        """Maps each metric's identity to its state columns, including those in its distinct set."""
        found = {}
        for metric in self.metrics:
            columns = metric.columns() if metric in self.stored_metrics else []
            for members in self.spec.distinct_sets:
                if members.name == metric.metric.distinct_set:
                    flags = flag_columns(self.spec, members, self.flag_suffix)
                    size, place = len(flags) // len(members.flags), members.flag_index(metric.metric)
                    columns = [*columns, *flags[place * size : (place + 1) * size]]
            found[metric.metric.identity] = columns
        return found

    def distinct_set_tables(self) -> dict[str, tuple[str, list[str]]]:
        """Maps each distinct set's identity to its state table and value columns."""
        return {
            each.identity: (self._set_table(each), list(each.columns)) for each in self.spec.distinct_sets
        }

    def _group_by_clause(self, fixed: Iterable[str]) -> str:
        """Returns the GROUP BY clause over `fixed` columns and the author's keys, in the order of grouping_id()."""
        sets = self.spec.grouping_sets
        if sets is None:
            return "group by " + ", ".join([*fixed, *self.group_keys])
        listed = ", ".join("(" + ", ".join(quote(name) for name in members) + ")" for members in sets)
        return "group by " + ", ".join([*fixed, f"grouping sets ({listed})"])

    def _selected_keys(self) -> list[str]:
        if self.spec.grouping_sets is None:
            return self.group_keys
        # Computed from the keys' positions; grouping_id() counts in the order in which the sets first mention a key.
        bits = [
            f"shiftleft(cast(grouping({key}) as bigint), {len(self.group_keys) - 1 - place})"
            for place, key in enumerate(self.group_keys)
        ]
        return [*self.group_keys, f"{' + '.join(bits) or '0L'} as {GROUPING_ID}"]

    def _state_items(self, made: Mapping[str, str]) -> list[str]:
        """Returns select items for all state columns of a slice, NULL for those not in `made`."""
        return [f"{made.get(name, 'null')} as {quote(name)}" for name in self._stored_columns()]

    def _metrics_over(self, members: DistinctSet) -> list[MetricColumns]:
        return [metric for metric in self.metrics if metric.metric.distinct_set == members.name]

    def _set_keys(self) -> list[str]:
        """Keys of a distinct set's rows: all but enumerated keys, for which it has columns."""
        if self.stores_finest:
            return self.group_keys
        enumerated = self.spec.enumerated
        with_columns = [] if enumerated is None else [quote(name) for name in enumerated.keys]
        return [key for key in self.keys if key not in with_columns]

    def _selected_set_keys(self) -> list[str]:
        return self._selected_keys() if self._set_keys() == self.keys else self._set_keys()

    def _group_by_clause_of_set(self, fixed: Iterable[str]) -> str:
        if self._set_keys() == self.keys:
            return self._group_by_clause(fixed)
        return "group by " + ", ".join([*fixed, *self._set_keys()])

    def _stored_set_keys(self, fixed: Sequence[str]) -> tuple[list[str], str]:
        """Returns the keys to select, and the GROUP BY over `fixed` columns and keys, to read a stored distinct set."""
        if self.stores_finest:
            return self._selected_keys(), self._group_by_clause(fixed)
        return self._set_keys(), "group by " + ", ".join([*fixed, *self._set_keys()])

    def _set_table(self, members: DistinctSet) -> str:
        return f"{self.name_in_state}_{members.name}"

    def _new_values_view(self, members: DistinctSet) -> str:
        return f"{self._set_table(members)}_new"

    def _value_columns(self, members: DistinctSet) -> list[str]:
        return [quote(name) for name in members.columns]

    def _conditions(self, members: DistinctSet) -> list[str | None]:
        """Returns the conditions of a distinct set's columns, one per FILTER and combination of enumerated keys; None for a
        column for which all values count."""
        enumerated = self.spec.enumerated
        filters = [quote(name) if name else None for name in members.filters]
        if enumerated is None:
            return filters
        numbers = [f"{quote(enumerated.number)} = {number}" for number in range(len(enumerated.values))]
        return [f"{name} and {number}" if name else number for name in filters for number in numbers]

    def _columns_per_condition(self, members: DistinctSet, suffix: str) -> list[str]:
        return [quote(name) for name in flag_columns(self.spec, members, suffix)]

    def _flag_columns(self, members: DistinctSet) -> list[str]:
        """Flag columns that say whether a value passes each condition."""
        return self._columns_per_condition(members, SEEN)

    def _rows_by_value(
        self, members: DistinctSet, relation: str, own: Sequence[str], *groups: Sequence[str]
    ) -> str:
        """Returns rows of a distinct set with all keys. Each combination of enumerated keys gets a row, with one column per
        FILTER from each of `groups`, which have a column per FILTER and combination."""
        enumerated = self.spec.enumerated
        if enumerated is None:
            return relation
        filters, size = len(members.filters), len(enumerated.values)
        structs = []
        for number, values in enumerate(enumerated.values):
            fields = [f"'{n}', {value}" for n, value in enumerate(values)]
            fields += [
                f"'{group[n].strip('`')}', {group[n * size + number]}"
                for group in groups
                for n in range(filters)
            ]
            structs.append(f"named_struct({', '.join(fields)})")
        names = [*map(quote, enumerated.keys), *(name for group in groups for name in group[:filters])]
        columns = ", ".join([*(f"own.{name}" for name in own), *(f"spread.{name}" for name in names)])
        return (
            f"(\nselect {columns}\nfrom {relation} as own\n"
            f"lateral view inline(array({', '.join(structs)})) spread as {', '.join(names)}\n)"
        )

    def _batch_values_view(self, members: DistinctSet) -> str:
        return f"{self._set_table(members)}_batch"

    def _cached_values_steps(self, members: DistinctSet, values: str) -> list[Step]:
        """Returns the step that caches the new values, which two steps read, if there are grouping sets, which repeat each
        row."""
        if self.spec.grouping_sets is None:
            return []
        return [Step(self._batch_values_view(members), values, persist=True, initial="select 1 as nothing")]

    def _rows_with_flag(self, members: DistinctSet, relation: str, columns: Sequence[str]) -> str:
        """Returns the rows of a distinct set, with all keys, for which at least one flag holds."""
        found = self._rows_by_value(members, relation, columns, self._flag_columns(members))
        if self.spec.enumerated is None:
            return found
        return f"{found}\nwhere {' or '.join(self._flag_columns(members)[: len(members.filters)])}"

    def _distinct_inputs(self, members: DistinctSet, within: Sequence[str]) -> str:
        """Returns a query for the distinct values in the input rows per `within`, with the FILTERs that each passes."""
        flags = [
            f"bool_or({condition or 'true'}) as {flag}"
            for flag, condition in zip(self._flag_columns(members), self._conditions(members), strict=True)
        ]
        fixed = [*within, *self._value_columns(members)]
        anyone = " or ".join(quote(c) for c in members.filters if c) if None not in members.filters else ""
        return (
            f"select {', '.join([*fixed, *self._selected_set_keys(), *flags])}\n"
            f"from {self.rows}\nwhere {self._not_null_condition(members)}{f' and ({anyone})' if anyone else ''}\n"
            f"{self._group_by_clause_of_set(fixed)}"
        )

    def _not_null_condition(self, members: DistinctSet) -> str:
        return " and ".join(f"{value} is not null" for value in self._value_columns(members))

    def _all_columns(self) -> list[str]:
        return [name for metric in self.metrics for name in metric.columns()]

    def _stored_columns(self) -> list[str]:
        """State columns of a slice, or a group. Metrics that are computed from stored values have none."""
        return [name for metric in self.stored_metrics for name in metric.columns()]

    def _with_lifted_columns(
        self, relation: str, keys: Sequence[str], metrics: Sequence[MetricColumns], order: str = ""
    ) -> str:
        """Returns `relation` with its lifted columns, which SQL aggregates can merge."""
        if not any(metric.aggregate.lift for metric in metrics):
            return relation
        over = f"over (partition by {', '.join(keys)}{order})" if keys else f"over ({order.strip()})"
        centers = [
            f"first_value({quote(metric.column('mean'))}, true) {over} as {quote(metric.column(CENTER))}"
            for metric in metrics
            if metric.aggregate.needs_center
        ]
        lifts = [f"{text} as {quote(name)}" for metric in metrics for name, text in metric.lift().items()]
        centered = f"(select *, {', '.join(centers)} from {relation})" if centers else relation
        return f"(select *, {', '.join(lifts)} from {centered})"

    def _merged_rows(
        self,
        relation: str,
        keys: Sequence[str],
        metrics: Sequence[MetricColumns] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> str:
        """Returns a query that merges state rows with equal keys. `also` maps other output columns to their
        aggregates."""
        if metrics is None:
            metrics = self.stored_metrics
        also = also or {}
        lifted = self._with_lifted_columns(relation, keys, metrics)
        made = [f"{text} as {name}" for name, text in also.items()]
        made += [f"{text} as {quote(name)}" for metric in metrics for name, text in metric.merge().items()]
        grouped = f"group by {', '.join(keys)}" if keys else ""
        merged = f"select {', '.join([*keys, *made])}\nfrom {lifted}\n{grouped}"
        if lifted is relation:
            return merged
        lowered = [f"{text} as {quote(name)}" for metric in metrics for name, text in metric.lower().items()]
        return f"select {', '.join([*keys, *also, *lowered])}\nfrom (\n{merged}\n)"

    def _with_missing_columns(
        self, relation: str, keys: Sequence[str], present: Sequence[MetricColumns]
    ) -> str:
        columns = [
            quote(name) if metric in present else f"null as {quote(name)}"
            for metric in self.metrics
            for name in metric.columns()
        ]
        return f"select {', '.join([*keys, *columns])} from {relation}"

    @staticmethod
    def _union_all(branches: Sequence[str]) -> str:
        return "\nunion all\n".join(branches)
