"""SQL of a stream whose rows replace each other: the last row of each key.

The stream is the change feed of another model, which says what came and went, or a source with a
declared key, of which each row takes the place of the one before it.
"""

from __future__ import annotations

from ....util.quoting import quote, quote_time
from ...program import BATCH_ID, CHANGE_TYPE, STEP, StatePart, Step, now
from ..plan import KeyedStage
from .key_generations import NO_STEP, matching, of_keys, same, touched_in_step
from .window_buffer import row_column

THERE, ORDER = "there", "row_order"
SIGN_OF_ROW, SIGNED = "sign_of_row", "_signed"
"""The column of a row's sign, and how the view of rows with one is called after its stage."""
_CAME = f"{CHANGE_TYPE} in ('insert', 'update_after')"


class ChangelogNormalize:
    """The pieces of a `KeyedStage`. It has what a ranking needs of `Groups`."""

    def __init__(self, stage: KeyedStage) -> None:
        self.stage, self.name = stage, stage.name
        self.part = f"{stage.name}_rows"
        self.changed, self.touched = f"{stage.name}_changed", f"{stage.name}_touched"
        self.row = row_column(stage.name)
        # Not under their own names: other stages may have keys of other types that are called the same.
        self.keys = [quote(f"{stage.name}_{column}") for column in stage.key]

    # -- before the commit -------------------------------------------------------------------------

    def known(self) -> list[Step]:
        """The keys of the batch with their rows, and what that adds and takes away."""
        if self.stage.signed and self.stage.feed:
            sign = f"if({_CAME}, 1, -1) as {SIGN_OF_ROW}"
            rows = f"select * except ({CHANGE_TYPE}, {BATCH_ID}), {sign} from {self.stage.view}"
            return [Step(self.name + SIGNED, rows)]
        steps = [Step(self.changed, self._changed(), persist=True, initial=self._of_batch())]
        if self.stage.signed:
            before = self._known_rows()
            gone = f"select {self.row}.*, -1 as {SIGN_OF_ROW} from ({before})"
            came = f"select {self.row}.*, 1 as {SIGN_OF_ROW} from {self.changed} where {THERE}"
            steps.append(Step(self.name + SIGNED, f"{gone}\nunion all\n{came}", initial=came))
        else:
            steps.append(Step(self.name, f"select {self.row}.* from {self.changed} where {THERE}"))
        return steps

    def _of_batch(self) -> str:
        """The last row of each key in the batch."""
        keys = [f"q.{quote(column)} as {key}" for column, key in zip(self.stage.key, self.keys, strict=True)]
        if self.stage.feed:
            there = _CAME
            order = f"struct({BATCH_ID} as batch, {there} as there)"
            row, kept = f"struct(q.* except ({CHANGE_TYPE}, {BATCH_ID}))", "null"
        else:
            row, there = "struct(q.*)", "true"
            kept = f"cast(q.{quote_time(self.stage.time)} as timestamp)" if self.stage.time else "null"
            order = f"struct({kept} as at, {row} as row)"
        last = f"max_by(struct({there} as {THERE}, {row} as row, {kept} as at), {order}) as last"
        made = [f"last.row as {self.row}", f"last.{THERE} as {THERE}"]
        made += [f"last.at as {column}" for column in self._order]
        by = ", ".join(f"q.{quote(column)}" for column in self.stage.key)
        return (
            f"select {now(STEP)} as {STEP}, {', '.join([*self.keys, *made])}\nfrom (\n"
            f"  select {', '.join([*keys, last])}\n  from {self.stage.view} as q\n  group by {by}\n"
            ")"
        )

    def _changed(self) -> str:
        if self.stage.feed or not self.stage.time:
            return self._of_batch()
        # A row that is older than the one its key has came too late to replace it. Of two of one time the greater one is
        # there, in whichever order they come.
        older = (
            f"known.{ORDER} > new.{ORDER} or (known.{ORDER} is not null and new.{ORDER} is null)\n"
            f"or (known.{ORDER} <=> new.{ORDER} and known.{self.row} > new.{self.row})"
        )
        return (
            f"with new as (\n{self._of_batch()}\n)\n"
            f"select new.* from new left anti join (\n{self._latest(of_keys(f'({self._state()})', self.keys, 'new'))}\n"
            f") as known on {same('new', 'known', self.keys)} and ({older})"
        )

    def _state(self) -> str:
        return matching(self.part, self.keys, None)

    def _known_rows(self) -> str:
        """The rows that those of the batch replace."""
        return self._latest(matching(self.part, self.keys, self.changed))

    def _latest(self, rows: str) -> str:
        """The row that each key has."""
        columns = [THERE, self.row, *self._order]
        last = f"max_by(struct({', '.join(columns)}), coalesce({STEP}, -1L)) as last"
        by = ", ".join(self.keys)
        shown = ", ".join(f"last.{column} as {column}" for column in columns)
        return f"select {by}, {shown} from (\nselect {by}, {last} from (\n{rows}\n) group by {by}\n) where last.{THERE}"

    @property
    def _order(self) -> list[str]:
        """The column that rows of a key follow each other by, where they have one."""
        return [ORDER] if self.stage.time is not None and not self.stage.feed else []

    def ingest(self) -> list[Step]:
        """All is made before the rows of other stages are read."""
        return []

    def parts(self) -> list[StatePart]:
        """The rows, or only those of the last steps where nothing looks back at them."""
        if self.stage.signed and self.stage.feed:
            return []
        columns = [*self.keys, self.row, THERE, *self._order]
        fold = f"select {', '.join([NO_STEP, *columns])} from (\n{self._latest(self._state())}\n)"
        if not self.stage.stored:
            fold += "\nwhere false"
        append = f"select {', '.join([STEP, *columns])} from {self.changed}"
        return [StatePart(self.part, append, fold, closes=None)]

    # -- results -----------------------------------------------------------------------------------

    def emit(self, whole: bool) -> list[Step]:
        """The keys that changed, with their rows; all keys for `whole`."""
        if self.stage.signed:
            return []
        state = matching(self.part, self.keys, None if whole else self.touched)
        touched = [] if whole else [touched_in_step(self.touched, self.part, self.keys, self.changed)]
        return [*touched, Step(self.name, f"select {self.row}.* from (\n{self._latest(state)}\n)")]

    def known_and_new(self) -> str:
        """All rows of state together with those the batch is about to add."""
        columns = ", ".join([STEP, *self.keys, self.row, THERE, *self._order])
        return f"select {columns} from ({self._state()})\nunion all\nselect {columns} from {self.changed}"

    def of(self, rows: str, others: str, columns: list[str]) -> str:
        """The rows of keys, of those that another relation has in part."""
        return f"select {self.row}.* from (\n{self._latest(of_keys(f'({rows})', columns, others))}\n)"
