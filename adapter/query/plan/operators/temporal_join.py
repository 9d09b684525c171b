"""`TemporalJoin`: joins each row with the version of a key that was valid at the row's event time.

Rows wait until the watermark has passed their time, when only late versions of that time can still arrive, and are
emitted once. Of each key the state has the version that is valid at the watermark, and later ones. A late version is
stored, and joined with rows that still wait (Flink's event-time temporal join).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....util.quoting import quote
from ...program import BATCH_ID, CHANGE_TYPE, STEP, Rows, StateNames, StatePart, Step, clock_sql
from ...windows.expansion import VALID_UNTIL
from ..column_origins import outputs_of_select
from ..explanation import WHEN_EMITTED, Context, Explanation
from ..lineage import Lineage, text_lineage
from ..operator import Operator, QueryOperator, Wiring, inputs_first, with_inputs
from ..query_summary import Summary
from ..relation import EVENT_TIME, WINDOW_END, Relation, delayed_origin
from ..state.buffered_rows import ROW
from ..state.generations import DUE, NO_STEP, due_time_sql, passed_condition
from .source import Source, views_below

_TIME = "__time"


def arrive_as_streams(rows: Operator) -> bool:
    """Whether rows are those of streams. Otherwise an operator below has compared them with the watermark."""
    return not any(each.inputs_compared_with_watermark for each in inputs_first(rows))


@dataclass(frozen=True, kw_only=True)
class TemporalJoin(QueryOperator):
    """Joins append-only rows with the version of a key that was valid at their event time; a row is emitted
    once, when the watermark has passed its time. Keeps rows that wait, and of each key the version that is
    valid at the watermark, and later ones.

    In its query the versions have the column `VALID_UNTIL`.
    """

    alias: str
    """Name of the rows in `keys`."""
    time: str
    """Event time of the rows."""
    version_time: str
    """Column with the time from which a version is valid."""
    version_key: tuple[str, ...]
    """Columns that identify what a row is a version of."""
    keys: tuple[str, ...]
    """For each column of `version_key`, the SQL over the rows that the column is compared with."""
    compared_by: tuple[str, ...]
    """For each column of `version_key`, the operator: ``=`` or ``<=>``."""
    ordered: str = ROW
    """SQL that orders the versions of one time."""

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns the rows, emitted when the watermark is after their time. For a time that is a window's last instant, that
        is when the window closes; for its end, it is a microsecond later."""
        rows = below[0]
        complete_by = dict(rows.complete_by)
        if rows.complete_by.get(self.time) == WINDOW_END:
            of_window = ("window_time", WINDOW_END)
            complete_by = {
                name: delayed_origin(origin, 1)
                for name, origin in rows.complete_by.items()
                if origin in of_window
            }
        passed = outputs_of_select(self.query, self.alias)
        return Relation(
            complete_by=passed.with_output_names({**complete_by, self.time: EVENT_TIME}),
            keys=passed.passed_keys(rows.keys),
        )

    @property
    def rows_arrive_in_order(self) -> bool:
        """Whether rows arrive when the watermark reaches their time, so that none is late."""
        return self.time in self.inputs[0].relation.complete_by

    @property
    def rows_are_of_stream(self) -> bool:
        """Whether rows arrive as those of streams, and may be late."""
        return not self.rows_arrive_in_order and arrive_as_streams(self.inputs[0])

    @property
    def reads_changelog(self) -> bool:
        """Whether the versions are rows of a changelog, with its metadata: a delete ends the last version of its key."""
        versions = self.inputs[1]
        return isinstance(versions, Source) and versions.changelog

    @property
    def inputs_compared_with_watermark(self) -> tuple[Operator, ...]:
        """Returns its inputs, apart from rows that come from other operators."""
        return self.inputs if self.rows_are_of_stream else self.inputs[1:]

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of its text and of its key."""
        changes = ["changes"] if self.reads_changelog else []
        return text_lineage(
            "TemporalJoin", self.tree, below, list(self.version_key), self.version_time, *changes
        )

    def generate(self, wiring: Wiring) -> None:
        """Stores rows until the watermark has passed their time, and versions while they are valid."""
        join = _RowsAndVersions(self, wiring.names)
        wiring.rows += join.rows_compared_with_watermark()
        wiring.steps += join.steps()
        wiring.add_state_table(join.state_of_rows(), self)
        wiring.add_state_table(join.state_of_versions(), self)

    def explain(self, context: Context) -> Explanation:
        """Returns its joins, the rows that wait, and the versions that are stored."""
        waits = f"a row that waits for the watermark to pass its {self.time}"
        valid = f"a version of {', '.join(self.version_key)} that is valid at the watermark or later"
        rows = {_RowsAndVersions(self, context.names).rows_part: (waits, WHEN_EMITTED)}
        state = context.state_tables(rows, (valid, "when the next one is valid"))
        notes = (f"A row is emitted once, when the watermark has passed its {self.time}.",)
        return self.explanation(context, Summary().describe(self.query)[1], state=state, notes=notes)


class _RowsAndVersions:
    """Steps and state of a `TemporalJoin`."""

    def __init__(self, operator: TemporalJoin, names: StateNames) -> None:
        self.operator, self.name = operator, operator.name
        self.rows, self.versions = f"{self.name}_rows", f"{self.name}_versions"
        self.rows_part, self.versions_part = (names.get(name, name) for name in (self.rows, self.versions))
        self.due, self.touched = f"{self.name}_due", f"{self.name}_touched"
        self.keys = [f"__key_{number}" for number in range(len(operator.keys))]

    def rows_compared_with_watermark(self) -> list[Rows]:
        """Returns the inputs. Late rows are dropped and counted, late versions are counted."""
        rows, versions = self.operator.inputs
        time, begins = (f"own.{quote(name)}" for name in (self.operator.time, self.operator.version_time))
        expires = due_time_sql(f"cast({time} as timestamp)")
        packed = f"struct(own.*) as {ROW}"
        of_rows = Rows(
            self.rows,
            f"select {packed}, {time} as event_time, {expires} as expires_at\nfrom {rows.name} as own",
            views_below(rows),
        )
        of_versions = Rows(
            self.versions,
            f"select {packed}, {begins} as event_time\nfrom {versions.name} as own",
            views_below(versions),
            expires=False,
            forgets=True,
        )
        return [of_rows, of_versions] if self.operator.rows_are_of_stream else [of_versions]

    def steps(self) -> list[Step]:
        """Returns the steps with the rows that are due, their keys, and their join with versions."""
        new_rows, stored = self._new_rows(), self._stored_rows(self.rows_part, self.operator.time)
        had_passed = passed_condition(_TIME, "watermark_before")
        waited = f"{new_rows}\nunion all\nselect * from (\n{stored}\n) where not {had_passed}"
        due, first = (
            f"select * from (\n{rows}\n) where {passed_condition(_TIME)}" for rows in (waited, new_rows)
        )
        keys = ", ".join(f"{key} as {name}" for key, name in zip(self.operator.keys, self.keys, strict=True))
        touched = (
            f"select distinct {keys} from (select {ROW}.* from {self.due}) as {quote(self.operator.alias)}"
        )
        new = self._with_time(self.versions, self.operator.version_time)
        versions = f"{new}\nunion all\n{self._stored_rows(self.versions_part, self.operator.version_time)}"
        return [
            Step(self.due, due, persist=True, initial=first),
            Step(self.touched, touched, persist=True),
            Step(self.name, self._joined_rows(versions), persist=True, initial=self._joined_rows(new)),
        ]

    def state_of_rows(self) -> StatePart:
        """Returns the state table of the rows that wait."""
        stored = self._stored_rows(self.rows_part, self.operator.time)
        items = f"{ROW} as {self._row_column(self.rows_part)}, {due_time_sql(_TIME)} as {DUE}"
        return StatePart(
            self.rows_part,
            f"select {clock_sql(STEP)} as {STEP}, {items} from (\n{self._new_rows()}\n)",
            f"select {NO_STEP}, {items} from (\n{stored}\n) where not {passed_condition(_TIME)}",
            closes=DUE,
        )

    def state_of_versions(self) -> StatePart:
        """Returns the state table of the versions that are valid at the watermark or later. The last delete of a key stays:
        a late version from before it ends there."""
        versions = self._with_valid_until(self._stored_rows(self.versions_part, self.operator.version_time))
        ends = f"cast({VALID_UNTIL} as timestamp)"
        valid = f"({VALID_UNTIL} is null or not {passed_condition(ends)})"
        item = f"{ROW} as {self._row_column(self.versions_part)}"
        new = self._with_time(self.versions, self.operator.version_time)
        return StatePart(
            self.versions_part,
            f"select {clock_sql(STEP)} as {STEP}, {item} from (\n{new}\n)",
            f"select {NO_STEP}, {item} from (\n{versions}\n) where {valid}",
            closes=None,
        )

    def _joined_rows(self, versions: str) -> str:
        """Returns the join of the rows that are due with the versions of their keys."""
        compared = zip(self.operator.version_key, self.operator.compared_by, self.keys, strict=True)
        on = " and ".join(f"own.{ROW}.{quote(name)} {by} touched.{key}" for name, by, key in compared)
        touched = (
            f"select own.* from (\n{versions}\n) as own left semi join {self.touched} as touched on {on}"
        )
        valid = f"select {ROW}.*, {VALID_UNTIL} from (\n{self._with_valid_until(touched)}\n)"
        if self.operator.reads_changelog:
            valid = f"select * except ({CHANGE_TYPE}, {BATCH_ID}) from (\n{valid}\n) where {CHANGE_TYPE} <> 'delete'"
        return with_inputs(self.operator.sql, [f"select {ROW}.* from {self.due}", valid])

    def _with_valid_until(self, versions: str) -> str:
        """Returns versions with the time at which the next one of their key begins. Versions of one time are ordered by
        micro-batch in a changelog, and by `TemporalJoin.ordered` otherwise: only the last of them is ever valid."""
        begins = f"{ROW}.{quote(self.operator.version_time)}"
        by = ", ".join(f"{ROW}.{quote(name)}" for name in self.operator.version_key)
        tie = f"{ROW}.{BATCH_ID}" if self.operator.reads_changelog else self.operator.ordered
        within = f"over (partition by {by} order by {begins}, {tie})"
        return f"select *, lead({begins}) {within} as {VALID_UNTIL} from (\n{versions}\n)"

    def _new_rows(self) -> str:
        if self.operator.rows_are_of_stream:
            return self._with_time(self.rows, self.operator.time)
        packed = f"(select struct(*) as {ROW} from {self.operator.inputs[0].name})"
        rows = self._with_time(packed, self.operator.time)
        if self.operator.rows_arrive_in_order:
            return rows
        late = passed_condition(_TIME, "watermark_before")
        return f"select * from (\n{rows}\n) where {_TIME} is not null and not {late}"

    def _with_time(self, relation: str, time: str) -> str:
        return f"select {ROW}, cast({ROW}.{quote(time)} as timestamp) as {_TIME} from {relation}"

    def _stored_rows(self, part: str, time: str) -> str:
        stored = f"select {self._row_column(part)} as {ROW} from state where part = '{part}'"
        return self._with_time(f"(\n{stored}\n)", time)

    @staticmethod
    def _row_column(part: str) -> str:
        return quote(f"{part}_row")
