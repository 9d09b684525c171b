"""Derives what is known of the rows of a SELECT with OVER."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from ...normalize import conditions
from ...normalize.rankings import ranks
from ...sql.clauses import output_column_of, over_clauses
from ...sql.dialect import canonical
from ..column_origins import outputs_of_select, passed_window_end
from ..relation import Relation


@dataclass(frozen=True)
class PartitionedRows:
    """Rows of one relation, partitioned by OVER clauses."""

    select: exp.Select
    """The SELECT with OVER."""
    alias: str
    """Alias of the relation."""
    below: Relation
    """Properties of its rows."""
    bounds: Mapping[str, int]
    """Column of a ranking → the last rank that is used."""

    @cached_property
    def common_keys(self) -> list[exp.Expr]:
        """The partition keys that all OVER clauses have."""
        over = over_clauses(self.select)
        lists = [[canonical(key) for key in each.args.get("partition_by") or ()] for each in over]
        first = over[0].args.get("partition_by") or []
        return [key for key in first if all(canonical(key) in texts for texts in lists)]

    @cached_property
    def keys(self) -> tuple[frozenset[str], ...]:
        """Sets of columns that each identify a row: the keys of the relation, and those that a rank gives."""
        passed: tuple[frozenset[str], ...] = ()
        if not conditions.may_multiply_rows(self.select):
            passed = outputs_of_select(self.select, self.alias).passed_keys(self.below.keys)
        return (*passed, *rank_keys(self.select, {} if passed else self.bounds))

    @property
    def window_end_column(self) -> str | None:
        """Returns the column with the end of the window that rows expire with; None if there is none."""
        return passed_window_end(self.select, self.alias, self.below, self.common_keys)


def rank_keys(select: exp.Select, bounds: Mapping[str, int]) -> tuple[frozenset[str], ...]:
    """Returns the keys of a SELECT with ROW_NUMBER: the number and its partition keys; the partition keys
    alone if only the first row is kept.

    >>> from ...sql.dialect import parse
    >>> text = "select k, row_number() over (partition by k order by v) as n from t"
    >>> [sorted(key) for last in (1, 2) for key in rank_keys(parse(text), {"n": last})]
    [['k'], ['k', 'n']]
    """
    if conditions.has_generator(select):
        return ()
    for name, rank in ranks.rankings(select).items():
        if isinstance(rank.this, exp.RowNumber):
            within = [output_column_of(select, key) for key in rank.args.get("partition_by") or ()]
            if None not in within:
                columns = {*filter(None, within)}
                return (frozenset(columns if bounds.get(name) == 1 else {name, *columns}),)
    return ()
