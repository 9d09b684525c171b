"""Derives the relation of groups, one row per key and grouping set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...aggregates.model import Key
from ..column_origins import input_column
from ..relation import Relation


@dataclass(frozen=True)
class GroupedRows:
    """The input of a GROUP BY and its keys, from which the properties of the groups follow (`relation`)."""

    keys: Sequence[Key]
    sets: Sequence[Sequence[str]] | None
    """Names of the keys of each grouping set; None if there is one set, of all keys."""
    alias: str
    """Alias of the grouped relation in the keys."""
    below: Relation
    """Properties of its rows."""

    @property
    def window_end_column(self) -> str | None:
        """Returns the rows' column with the end of the window that they expire with; None if there is none."""
        return self.below.ends if self.below.open_for is None else self.below.open_until

    @property
    def relation(self) -> Relation:
        """Returns the properties of the groups."""
        below, open_until = self.below, self._key_of(self.below.open_until)
        delays = {
            key: delay for column, delay in below.times.items() if (key := self._key_of(column)) is not None
        }
        ids = {key.name.lower() for key in self.keys} | ({"grouping_id"} if self.sets is not None else set())
        return Relation(
            True,
            keys=(frozenset(ids),),
            open_until=open_until,
            open_for=None if open_until is None else below.open_for,
            ends=self._key_of(self.window_end_column),
            in_time=frozenset(filter(None, map(self._key_of, below.in_time))),
            delays=delays,
            bounded=below.bounded,
        )

    def _key_of(self, column: str | None) -> str | None:
        """Returns the group key that is this column of the rows; None unless it is in every grouping set."""
        return None if column is None else self._keys_by_column.get(column)

    @cached_property
    def _keys_by_column(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for key in self.keys:
            column = input_column(key.expression, self.alias)
            if column is not None and all(key.name in members for members in self.sets or ()):
                found.setdefault(column, key.name.lower())
        return found
