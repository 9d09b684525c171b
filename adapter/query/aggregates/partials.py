"""SQL that every stage of partial aggregates shares: partials made, merged and finished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...util.quoting import quote
from ..program import Step
from .aggregate_stage import GROUPING_ID
from .metric_columns import CENTER, MetricColumns
from .model import SEEN, AggregateStage, DistinctSet, GroupStage


def known_rows(names: Sequence[str], rows: str, part: str) -> str:
    """For FROM: the rows of the state that may have the same values as some rows.

    A hash is quicker to look up than what it stands for: each value in the state is looked up. It brings few values too
    many. It is made of the wider of the types that both have them in: an INT has another hash than the same BIGINT, and a
    source's column may have become of a narrower type since.

    Args:
        names: of the values, in both.
        rows: a query.
        part: of the state.
    """
    listed = ", ".join(names)
    hashed = f"xxhash64({listed})"
    return (
        f"state left semi join (\nselect {hashed} as __hashed from (\n"
        f"select {listed} from (\n{rows}\n)\nunion all\nselect {listed} from state where part = '{part}' and false\n)"
        f"\n) on {hashed} = __hashed"
    )


def flag_columns(stage: AggregateStage | GroupStage, members: DistinctSet, called: str) -> list[str]:
    """The columns of a distinct set that say of its values which count: one for each flag, and for each value of keys
    that there are few of."""
    names = [f"{flag.name}_{called}" for flag in members.flags]
    if stage.enumerated is None:
        return names
    return [f"{name}_{number}" for name in names for number in range(len(stage.enumerated.values))]


class Partials:
    """The state columns of a GROUP BY, whatever its rows are grouped by besides its keys."""

    def __init__(self, stage: AggregateStage | GroupStage) -> None:
        self.stage = stage
        self.metrics = [MetricColumns(metric) for metric in stage.metrics]
        self.plain = [metric for metric in self.metrics if metric.metric.distinct_set is None]
        self.kept_metrics = self.metrics
        self.group_keys = [quote(key.name) for key in stage.keys]
        self.keys = [*self.group_keys, GROUPING_ID] if stage.grouping_sets is not None else self.group_keys
        self.rows = f"{stage.name}_rows"
        # Whether distinct sets are kept for the finest grouping set alone, and read for all of them.
        self.kept_for_finest = False
        # What its flags say of values.
        self.flags_say = SEEN

    def state_columns(self) -> dict[str, list[str]]:
        """The columns of the state that each metric has to itself, or in a distinct set, by its identity."""
        found = {}
        for metric in self.metrics:
            columns = metric.columns() if metric in self.kept_metrics else []
            for members in self.stage.distinct_sets:
                if members.name == metric.metric.distinct_set:
                    flags = flag_columns(self.stage, members, self.flags_say)
                    size, place = len(flags) // len(members.flags), members.place(metric.metric)
                    columns = [*columns, *flags[place * size : (place + 1) * size]]
            found[metric.metric.identity] = columns
        return found

    def set_parts(self) -> dict[str, tuple[str, list[str]]]:
        """The part of the state and the columns of values of each distinct set, by its identity."""
        return {each.identity: (self._part(each), list(each.columns)) for each in self.stage.distinct_sets}

    def _group_by(self, fixed: Iterable[str]) -> str:
        """GROUP BY of rows: a slice, values, and the user's keys, in Spark's order for grouping_id()."""
        sets = self.stage.grouping_sets
        if sets is None:
            return "group by " + ", ".join([*fixed, *self.group_keys])
        listed = ", ".join("(" + ", ".join(quote(name) for name in members) + ")" for members in sets)
        return "group by " + ", ".join([*fixed, f"grouping sets ({listed})"])

    def _selected_keys(self) -> list[str]:
        if self.stage.grouping_sets is None:
            return self.group_keys
        # By position and not by grouping_id(): the order of keys in sets is the order of first mention.
        bits = [
            f"shiftleft(cast(grouping({key}) as bigint), {len(self.group_keys) - 1 - place})"
            for place, key in enumerate(self.group_keys)
        ]
        return [*self.group_keys, f"{' + '.join(bits) or '0L'} as {GROUPING_ID}"]

    def _in_order(self, made: Mapping[str, str]) -> list[str]:
        """Select items for the state columns of a slice, NULL where nothing is made for one."""
        return [f"{made.get(name, 'null')} as {quote(name)}" for name in self._kept_columns()]

    def _distinct_metrics(self) -> list[MetricColumns]:
        return [metric for metric in self.metrics if metric.metric.distinct_set is not None]

    def _set_keys(self) -> list[str]:
        """The keys that a distinct set is kept for: not those it has columns for."""
        if self.kept_for_finest:
            return self.group_keys
        enumerated = self.stage.enumerated
        few = [] if enumerated is None else [quote(name) for name in enumerated.keys]
        return [key for key in self.keys if key not in few]

    def _selected_set_keys(self) -> list[str]:
        return self._selected_keys() if self._set_keys() == self.keys else self._set_keys()

    def _group_set_by(self, fixed: Iterable[str]) -> str:
        if self._set_keys() == self.keys:
            return self._group_by(fixed)
        return "group by " + ", ".join([*fixed, *self._set_keys()])

    def _of_kept_set(self, fixed: Sequence[str]) -> tuple[list[str], str]:
        """What rows of a distinct set in the state are grouped by: keys to select, and GROUP BY."""
        if self.kept_for_finest:
            return self._selected_keys(), self._group_by(fixed)
        return self._set_keys(), "group by " + ", ".join([*fixed, *self._set_keys()])

    def _part(self, members: DistinctSet) -> str:
        return f"{self.stage.name}_{members.name}"

    def _new(self, members: DistinctSet) -> str:
        return f"{self._part(members)}_new"

    def _values(self, members: DistinctSet) -> list[str]:
        return [quote(name) for name in members.columns]

    def _conditions(self, members: DistinctSet) -> list[str | None]:
        """What a sight has to pass for each column of a distinct set; None: nothing. There is one per
        FILTER, and per value of keys that there are few of."""
        enumerated = self.stage.enumerated
        filters = [quote(name) if name else None for name in members.filters]
        if enumerated is None:
            return filters
        numbers = [f"{quote(enumerated.number)} = {number}" for number in range(len(enumerated.values))]
        return [f"{name} and {number}" if name else number for name in filters for number in numbers]

    def _per_condition(self, members: DistinctSet, called: str) -> list[str]:
        return [quote(name) for name in flag_columns(self.stage, members, called)]

    def _flags(self, members: DistinctSet) -> list[str]:
        """A column per condition: whether a sight passes it."""
        return self._per_condition(members, SEEN)

    def _by_value(
        self, members: DistinctSet, relation: str, kept: Sequence[str], *groups: Sequence[str]
    ) -> str:
        """Rows of a distinct set, with all keys: a row for each value that has a column, and of each group
        of columns the first, one per FILTER."""
        enumerated = self.stage.enumerated
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
        columns = ", ".join([*(f"own.{name}" for name in kept), *(f"spread.{name}" for name in names)])
        return (
            f"(\nselect {columns}\nfrom {relation} as own\n"
            f"lateral view inline(array({', '.join(structs)})) spread as {', '.join(names)}\n)"
        )

    def _batch(self, members: DistinctSet) -> str:
        return f"{self._part(members)}_batch"

    def _values_read_twice(self, members: DistinctSet, values: str) -> list[Step]:
        """The step `_batch`, where its values aren't cheap to read twice: each row is in all grouping sets."""
        if self.stage.grouping_sets is None:
            return []
        return [Step(self._batch(members), values, persist=True, initial="select 1 as nothing")]

    def _flagged(self, members: DistinctSet, relation: str, kept: Sequence[str]) -> str:
        """The same of the flags, of the values of keys that it was seen with."""
        found = self._by_value(members, relation, kept, self._flags(members))
        if self.stage.enumerated is None:
            return found
        return f"{found}\nwhere {' or '.join(self._flags(members)[: len(members.filters)])}"

    def _seen(self, members: DistinctSet, within: Sequence[str]) -> str:
        """The different values in the rows, within other columns, and which FILTERs they pass."""
        flags = [
            f"bool_or({condition or 'true'}) as {flag}"
            for flag, condition in zip(self._flags(members), self._conditions(members), strict=True)
        ]
        fixed = [*within, *self._values(members)]
        anyone = " or ".join(quote(c) for c in members.filters if c) if None not in members.filters else ""
        return (
            f"select {', '.join([*fixed, *self._selected_set_keys(), *flags])}\n"
            f"from {self.rows}\nwhere {self._not_null(members)}{f' and ({anyone})' if anyone else ''}\n"
            f"{self._group_set_by(fixed)}"
        )

    def _not_null(self, members: DistinctSet) -> str:
        return " and ".join(f"{value} is not null" for value in self._values(members))

    def _all_columns(self) -> list[str]:
        return [name for metric in self.metrics for name in metric.columns()]

    def _kept_columns(self) -> list[str]:
        """Those of a slice in the state: distinct values that aren't counted before a window closes have
        a part of their own."""
        return [name for metric in self.kept_metrics for name in metric.columns()]

    def _lifted(
        self, relation: str, keys: Sequence[str], metrics: Sequence[MetricColumns], order: str = ""
    ) -> str:
        """`relation` with the columns that can be merged."""
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

    def _merged(
        self,
        relation: str,
        keys: Sequence[str],
        metrics: Sequence[MetricColumns] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> str:
        """State rows with equal keys made into one, in state columns; `also`: other columns, and how."""
        if metrics is None:
            metrics = self.kept_metrics
        also = also or {}
        lifted = self._lifted(relation, keys, metrics)
        made = [f"{text} as {name}" for name, text in also.items()]
        made += [f"{text} as {quote(name)}" for metric in metrics for name, text in metric.merge().items()]
        grouped = f"group by {', '.join(keys)}" if keys else ""
        merged = f"select {', '.join([*keys, *made])}\nfrom {lifted}\n{grouped}"
        if lifted is relation:
            return merged
        lowered = [f"{text} as {quote(name)}" for metric in metrics for name, text in metric.lower().items()]
        return f"select {', '.join([*keys, *also, *lowered])}\nfrom (\n{merged}\n)"

    def _with_missing(self, relation: str, keys: Sequence[str], present: Sequence[MetricColumns]) -> str:
        columns = [
            quote(name) if metric in present else f"null as {quote(name)}"
            for metric in self.metrics
            for name in metric.columns()
        ]
        return f"select {', '.join([*keys, *columns])} from {relation}"

    @staticmethod
    def _unioned(branches: Sequence[str]) -> str:
        return "\nunion all\n".join(branches)
