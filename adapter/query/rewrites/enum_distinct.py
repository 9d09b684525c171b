"""COUNT(DISTINCT …) grouped by a column with few known values: one distinct set with a bit per value, then
expanded to rows.

Without the rewrite a user seen under five channels is five rows of the distinct set; with it, one row with
five bits. FILTERs are bits too. More than 64 bits are stored in several columns.

>>> from ..sql.dialect import parse, sql
>>> tree = parse("select city, c, count(distinct u) as users from t where c in ('A', 'B') group by city, c")
>>> print(sql(enum_distinct(tree), pretty=True))
WITH enum_rows AS (
  /* 1. The rows, and the number of each c. */
  SELECT
    city,
    c,
    u,
    CASE WHEN c = 'A' THEN 0 WHEN c = 'B' THEN 1 END AS c_number
  FROM t
  WHERE
    c IN ('A', 'B')
), enum_groups AS (
  /* 2. The groups that have rows, and where their counts stand. */
  SELECT
    city,
    c,
    MAX(c_number) AS place
  FROM enum_rows
  GROUP BY
    city,
    c
), enum_set AS (
  /* 3. The distinct set: each u once for each city, with a bit for each c. */
  SELECT
    city,
    u,
    BIT_OR(SHIFTLEFT(CAST(1 AS BIGINT), c_number)) AS bits
  FROM enum_rows
  GROUP BY
    city,
    u
), enum_counts AS (
  /* 4. Its bits, counted. */
  SELECT
    city,
    ARRAY(
      COUNT(u) FILTER(WHERE GETBIT(bits, 0) = 1),
      COUNT(u) FILTER(WHERE GETBIT(bits, 1) = 1)
    ) AS count_distinct_u
  FROM enum_set
  GROUP BY
    city
)
/* 5. Each group with its counts. */
SELECT
  enum_groups.city AS city,
  enum_groups.c AS c,
  enum_counts.count_distinct_u[enum_groups.place] AS users
FROM enum_groups
JOIN enum_counts
  ON enum_groups.city IS NOT DISTINCT FROM enum_counts.city
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from sqlglot import exp

from ..errors import QueryError
from ..sql.dialect import sql
from ..sql.names import Names
from . import enumerable, refusals
from .bits import Bits, words_needed
from .each_select import rewrite_each
from .grouped import Call, GroupedSelect, GroupKey, grouping_sets, has_distinct
from .steps import NamedQuery, add_ctes, column, conjunction, named_item, parse_expression

FUNCTIONS = frozenset({"count", "sum", "avg", "mean"})
MOST_BITS = 1024
NOTHING = (
    "There is no COUNT(DISTINCT …) in this query, so there is no distinct set to put values into; leave the "
    "rewrite out."
)


def enum_distinct(tree: exp.Query) -> exp.Query:
    """Returns a query with the same rows that uses distinct sets with a bit per value. Changes the tree."""
    return rewrite_each(
        tree,
        lambda select: has_distinct(select, FUNCTIONS),
        lambda select, names: _EnumDistinct(select, names).rewritten_query(),
        NOTHING,
    )


@dataclass(frozen=True)
class _Dimension:
    """A group key with few values."""

    key: GroupKey
    size: int
    """Number of its values."""
    number_of_row: exp.Expr
    """SQL for the number of a row's value."""
    number: str
    """Column with the number of a row's value."""


_Cell = tuple[int | None, ...]
"""Identifies a count: for each dimension the number of a value, or None for all of its values."""


class _EnumDistinct:
    def __init__(self, select: exp.Select, names: Names) -> None:
        refusals.check_repeatable(select)
        refusals.check_read_twice(select)
        windows = refusals.windows_read(select)
        refusals.check_steps(windows)
        for window in windows:
            if window.merges:
                raise QueryError(
                    f"{window.kind}() computes the bounds of a window from its rows, so values of a key may differ in "
                    "their windows "
                    "and can't share a distinct set; leave enum_distinct out."
                )
        self.grouped = GroupedSelect(select, names, FUNCTIONS)
        self.dimensions = self._dimensions(names)
        self.others = [
            key.name for key in self.grouped.keys if key.name not in {d.key.name for d in self.dimensions}
        ]
        # For each grouping set: the other keys and the dimensions that it has.
        sets = self.grouped.sets or [tuple(key.name for key in self.grouped.keys)]
        of_others = (tuple(key for key in self.others if key in members) for members in sets)
        self.other_sets = list(dict.fromkeys(of_others))
        of_dimensions = (tuple(d.key.name in members for d in self.dimensions) for members in sets)
        self.shapes = list(dict.fromkeys(of_dimensions))
        self.cells: list[_Cell] = [
            cell
            for shape in self.shapes
            for cell in product(
                *(range(d.size) if there else [None] for d, there in self._dimensions_with(shape))
            )
        ]
        self.filters = list(dict.fromkeys(call.filter for call in self.grouped.distinct))
        self.size = prod(d.size for d in self.dimensions)
        self._check_size()
        number_of_words = words_needed(self.size, len(self.filters))
        words = [
            names.new("bits" if number_of_words == 1 else f"bits_{n + 1}") for n in range(number_of_words)
        ]
        self.bits = Bits(tuple(words), self.size, len(self.filters))
        self.rows, self.groups = names.new("enum_rows"), names.new("enum_groups")
        self.set, self.counts = names.new("enum_set"), names.new("enum_counts")
        self.place = names.new("place")
        # Groups need a step for their values, and for aggregates without a distinct set.
        self.has_groups = bool(self.dimensions or self.grouped.other_calls)

    def rewritten_query(self) -> exp.Select:
        counted = ", ".join(" and ".join(values) for values in self.grouped.distinct_sets)
        of = ", ".join(d.key.name for d in self.dimensions) or "FILTER"
        fixed = f" for each {', '.join(self.others)}" if self.others else ""
        steps = [NamedQuery(self.rows, self._rows_comment(), self._select_rows())]
        if self.has_groups:
            and_more = "; the aggregates that need no distinct set" if self.grouped.other_calls else ""
            where = ", and where their counts stand" if self.dimensions else ""
            steps.append(
                NamedQuery(self.groups, f"The groups that have rows{where}{and_more}.", self._select_groups())
            )
        steps += [
            NamedQuery(
                self.set,
                f"The distinct set: each {counted} once{fixed}, with a bit for each {of}.",
                self._select_distinct_set(),
            ),
            NamedQuery(self.counts, "Its bits, counted.", self._select_counts()),
        ]
        final = self.grouped.query_over_results(self)
        last = (
            "Each group with its counts." if self.has_groups else "The author's select list over the counts."
        )
        return add_ctes(self._add_from(final), steps, last)

    # -- dimensions --------------------------------------------------------------------------------

    def _dimensions(self, names: Names) -> list[_Dimension]:
        found = []
        for key in self.grouped.keys:
            values = enumerable.possible_values(self.grouped.select, key.node)
            if values is not None and len(values) > 1:
                number = enumerable.number_of_value(key.node, values)
                found.append(_Dimension(key, len(values), number, names.new(f"{key.name}_number")))
        return found

    def _check_size(self) -> None:
        bits = self.size * len(self.filters)
        if bits > MOST_BITS:
            raise QueryError(
                f"{self.size} values and {len(self.filters)} FILTERs make {bits} bits, more than the {MOST_BITS} that "
                "pay; list fewer values, or leave enum_distinct out."
            )
        if bits <= 1:
            raise enumerable.no_values_error([key.node for key in self.grouped.keys], self.grouped.select)

    # -- the steps ---------------------------------------------------------------------------------

    def _rows_comment(self) -> str:
        numbered = ", ".join(d.key.name for d in self.dimensions)
        return f"The rows, and the number of each {numbered}." if numbered else "The rows."

    def _select_rows(self) -> exp.Select:
        return self.grouped.rows(*(named_item(d.number_of_row, d.number) for d in self.dimensions))

    def _select_groups(self) -> exp.Select:
        places = [named_item(self._position_in_counts(), self.place)] if len(self.cells) > 1 else []
        plain = [named_item(call.text.copy(), call.name) for call in self.grouped.other_calls]
        items = [*self.grouped.key_columns(), *self.grouped.flag_items(), *places, *plain]
        made = exp.Select(expressions=items or [exp.Literal.number(1)]).from_(self.rows)
        made.set("group", self.grouped.group_by())
        return made

    def _position_in_counts(self) -> exp.Expr:
        """Returns the position of a group's counts within the array of its other keys."""
        made, start = [], 0
        for shape in self.shapes:
            text = str(start) if start or not any(shape) else ""
            size = 1
            for dimension, there in reversed(self._dimensions_with(shape)):
                if there:
                    number = f"max({sql(column(dimension.number))})"
                    text = " + ".join(filter(None, [number if size == 1 else f"{number} * {size}", text]))
                    size *= dimension.size
            tests = [
                f"grouping({sql(column(dimension.key.name))}) = {0 if there else 1}"
                for dimension, there in self._dimensions_with(shape)
                if dimension.key.name in self.grouped.flags
            ]
            made.append((" and ".join(tests), text))
            start += size
        if len(made) == 1:
            return parse_expression(made[0][1])
        return parse_expression(
            " ".join(["case", *(f"when {test} then {text}" for test, text in made), "end"])
        )

    def _dimensions_with(self, shape: tuple[bool, ...]) -> list[tuple[_Dimension, bool]]:
        return list(zip(self.dimensions, shape, strict=True))

    def _flagged_keys(self) -> list[str]:
        """Returns the keys that distinguish the grouping sets of the other keys."""
        return [key for key in self.others if not all(key in members for members in self.other_sets)]

    def _select_distinct_set(self) -> exp.Select:
        values = list(dict.fromkeys(name for members in self.grouped.distinct_sets for name in members))
        numbers: list[str] = []
        size = 1
        for dimension in reversed(self.dimensions):
            name = sql(column(dimension.number))
            numbers.insert(0, name if size == 1 else f"{name} * {size}")
            size *= dimension.size
        conditions = [sql(column(name)) if name else None for name in self.filters]
        words = [
            named_item(
                parse_expression(
                    f"bit_or({self.bits.set_bits_sql(word, ' + '.join(numbers) or None, conditions)})"
                ),
                word,
            )
            for word in self.bits.words
        ]
        flags = [
            item
            for item in self.grouped.flag_items()
            if item.this.expressions[0].name in self._flagged_keys()
        ]
        made = exp.Select(expressions=[*map(column, [*self.others, *values]), *flags, *words]).from_(
            self.rows
        )
        made.set("group", exp.Group(expressions=self._grouping_keys()))
        return made

    def _grouping_keys(self) -> list[exp.Expr]:
        sets = self.grouped.distinct_sets
        if len(self.other_sets) > 1:
            return [grouping_sets([(*others, *values) for others in self.other_sets for values in sets])]
        others = [column(name) for name in self.other_sets[0]]
        return [*others, *(map(column, sets[0]) if len(sets) == 1 else [grouping_sets(sets)])]

    def _select_counts(self) -> exp.Select:
        keys = [
            column(name) for name in [*self.others, *(self.grouped.flags[k] for k in self._flagged_keys())]
        ]
        counts = [named_item(self._counts_of_call(call), call.name) for call in self.grouped.distinct]
        made = exp.Select(expressions=[*keys, *counts]).from_(self.set)
        if keys:
            made.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        return made

    def _counts_of_call(self, call: Call) -> exp.Expr:
        assert call.distinct is not None
        values = ", ".join(sql(column(name)) for name in call.distinct)
        function = "avg" if call.function == "mean" else call.function
        place = self.filters.index(call.filter)
        each = [
            f"{function}({values}) filter (where {self.bits.any_bit_set_sql(place, self._combination_numbers(cell))})"
            for cell in self.cells
        ]
        return parse_expression(f"array({', '.join(each)})" if len(each) > 1 else each[0])

    def _combination_numbers(self, cell: _Cell) -> list[int]:
        """Returns the numbers of all combinations of values that a cell counts."""
        numbers = [0]
        for dimension, chosen in zip(self.dimensions, cell, strict=True):
            own = range(dimension.size) if chosen is None else [chosen]
            numbers = [number * dimension.size + one for number in numbers for one in own]
        return numbers

    # -- the outer SELECT --------------------------------------------------------------------------

    def _add_from(self, final: exp.Select) -> exp.Select:
        if not self.has_groups:
            return final.from_(self.counts)
        flags = [self.grouped.flags[key] for key in self._flagged_keys()]
        compared: list[tuple[type[exp.Expr], str]] = [(exp.NullSafeEQ, key) for key in self.others]
        compared += [(exp.EQ, flag) for flag in flags]
        tests = [
            kind(this=column(name, self.groups), expression=column(name, self.counts))
            for kind, name in compared
        ]
        final = final.from_(self.groups)
        if not tests:
            return final.join(exp.to_table(self.counts), join_type="cross")
        return final.join(exp.to_table(self.counts), on=conjunction(tests))

    def key(self, name: str) -> exp.Expr:
        """Returns the column of a group key, or of a flag of grouping sets."""
        return column(name, self.groups if self.has_groups else self.counts)

    def call(self, call: Call) -> exp.Expr:
        """Returns an aggregate: a column of the group, or the group's element of the counts."""
        if call.distinct is None:
            return column(call.name, self.groups)
        counts = column(call.name, self.counts)
        if len(self.cells) == 1:
            return counts
        return exp.Bracket(this=counts, expressions=[column(self.place, self.groups)], offset=0)
