"""SQL of a source with a unique key: each row replaces the previous one with the same key.

A new row inserts itself and retracts the row that it replaces, as Flink's ChangelogNormalize does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....util.quoting import quote, quote_time
from ...program import STEP, StatePart, Step, clock_sql
from ..explanation import Context, Explanation
from ..lineage import Lineage, opaque_lineage
from ..operator import Operator, Wiring
from ..relation import WEIGHT, Relation
from ..state.generations import NO_STEP, equal_keys_condition, matching_rows, rows_of_keys


@dataclass(frozen=True, kw_only=True)
class ChangelogNormalize(Operator):
    """An upsert source: each row retracts the one before it with the same key. Keeps the last row of each
    key."""

    # Rows are ordered by their own time, or by arrival.
    depends_on_watermark = False

    key: tuple[str, ...]
    """Columns that identify a row, as the source declares them."""
    time: str | None
    """Column of the event time that orders the rows of a key; None if they are ordered by arrival."""

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns changes of one row per key."""
        key = frozenset(map(str.lower, self.key))
        return Relation(True, keys=(key,), bounded=self.growth is None)

    def rows_never_expire(self, below: Sequence[bool]) -> bool:
        """Returns True: a row stays until it is replaced."""
        return True

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of a source's latest rows, by its name."""
        return opaque_lineage("last row", self.name)

    def generate(self, wiring: Wiring) -> None:
        """Stores the latest row of each key, and emits it with a retraction of the previous one."""
        latest = LatestRows(self)
        wiring.steps += latest.steps()
        sign = f"cast({SIGN_OF_ROW} as bigint) as {WEIGHT}"
        wiring.add_output_step(self, f"select * except ({SIGN_OF_ROW}), {sign} from {latest.signed}")
        wiring.add_state_table(latest.state(), self)

    def explain(self, context: Context) -> Explanation:
        """Returns its key, and that one row of each key is stored."""
        state = context.state_tables({}, ("the last row of a key", "nothing: one row per key"))
        notes = ("The row that it replaces is retracted from the operators above.",)
        return self.explanation(context, self.label, state=state, notes=notes)


ORDER = "row_order"
SIGN_OF_ROW = "sign_of_row"
"""Column with 1 for a row that is inserted and -1 for one that is retracted."""
_IS_THERE = "there"
"""Column of the state table that is always true: a key is never deleted."""


class LatestRows:
    """Steps and state of a `ChangelogNormalize`: the latest row of each key.

    Where the source has an event time, a row that is older than the latest one of its key is ignored. Of two rows with
    the same time the greater one is the latest, in whichever order they arrive.
    """

    def __init__(self, operator: ChangelogNormalize) -> None:
        (source,) = operator.inputs
        self.name, self.source, self.key, self.time = operator.name, source.name, operator.key, operator.time
        # The lineage of this operator is its name, so no other query finds its state under another one.
        self.part = f"{operator.name}_rows"
        self.signed, self.changed = f"{operator.name}_signed", f"{operator.name}_changed"
        self.row = quote(f"{operator.name}_row")
        # Other operators may have keys of other types under the same names.
        self.keys = [quote(f"{operator.name}_{column}") for column in operator.key]
        self._order = [ORDER] if operator.time is not None else []

    def steps(self) -> list[Step]:
        """Returns the steps with the latest row of each key in the micro-batch, and the insertions and retractions."""
        before = self._latest_rows(matching_rows(self.part, self.keys, self.changed))
        retracted = f"select {self.row}.*, -1 as {SIGN_OF_ROW} from ({before})"
        inserted = f"select {self.row}.*, 1 as {SIGN_OF_ROW} from {self.changed} where {_IS_THERE}"
        return [
            Step(self.changed, self._newer_rows(), persist=True, initial=self._latest_rows_of_batch()),
            Step(self.signed, f"{retracted}\nunion all\n{inserted}", initial=inserted),
        ]

    def state(self) -> StatePart:
        """Returns the state table with the latest row of each key."""
        columns = [*self.keys, self.row, _IS_THERE, *self._order]
        fold = f"select {', '.join([NO_STEP, *columns])} from (\n{self._latest_rows(self._stored_rows())}\n)"
        append = f"select {', '.join([STEP, *columns])} from {self.changed}"
        return StatePart(self.part, append, fold, closes=None)

    def _latest_rows_of_batch(self) -> str:
        keys = [f"q.{quote(column)} as {key}" for column, key in zip(self.key, self.keys, strict=True)]
        row = "struct(q.*)"
        at = f"cast(q.{quote_time(self.time)} as timestamp)" if self.time else "null"
        order = f"struct({at} as at, {row} as row)"
        last = f"max_by(struct(true as {_IS_THERE}, {row} as row, {at} as at), {order}) as last"
        made = [f"last.row as {self.row}", f"last.{_IS_THERE} as {_IS_THERE}"]
        made += [f"last.at as {column}" for column in self._order]
        by = ", ".join(f"q.{quote(column)}" for column in self.key)
        return (
            f"select {clock_sql(STEP)} as {STEP}, {', '.join([*self.keys, *made])}\nfrom (\n"
            f"  select {', '.join([*keys, last])}\n  from {self.source} as q\n  group by {by}\n"
            ")"
        )

    def _newer_rows(self) -> str:
        """Returns the rows of `_latest_rows_of_batch` that aren't older than the stored ones."""
        if not self.time:
            return self._latest_rows_of_batch()
        older = (
            f"known.{ORDER} > new.{ORDER} or (known.{ORDER} is not null and new.{ORDER} is null)\n"
            f"or (known.{ORDER} <=> new.{ORDER} and known.{self.row} > new.{self.row})"
        )
        return (
            f"with new as (\n{self._latest_rows_of_batch()}\n)\n"
            "select new.* from new left anti join (\n"
            f"{self._latest_rows(rows_of_keys(f'({self._stored_rows()})', self.keys, 'new'))}\n"
            f") as known on {equal_keys_condition('new', 'known', self.keys)} and ({older})"
        )

    def _stored_rows(self) -> str:
        return matching_rows(self.part, self.keys, None)

    def _latest_rows(self, rows: str) -> str:
        """Returns the row of each key that was stored last."""
        columns = [_IS_THERE, self.row, *self._order]
        last = f"max_by(struct({', '.join(columns)}), coalesce({STEP}, -1L)) as last"
        by = ", ".join(self.keys)
        listed = ", ".join(f"last.{column} as {column}" for column in columns)
        return f"select {by}, {listed} from (\nselect {by}, {last} from (\n{rows}\n) group by {by}\n) where last.{_IS_THERE}"
