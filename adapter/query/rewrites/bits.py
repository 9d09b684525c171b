"""Layout of the bits of a distinct set: one bit per value and FILTER, in as many BIGINTs as needed.

>>> Bits(("words",), values=3, filters=2).set_bits_sql("words", "number", [None, "`hi`"])
'shiftleft(1L, number) | if(`hi`, shiftleft(1L, number + 3), 0)'
>>> Bits(("words",), values=1, filters=2).set_bits_sql("words", None, [None, "`hi`"])
'1 | if(`hi`, 2, 0)'
>>> bits = Bits(("words",), values=3, filters=2)
>>> bits.any_bit_set_sql(1, [0]), bits.any_bit_set_sql(1, [0, 2])
('getbit(words, 3) = 1', 'words & 40 <> 0')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WORD = 64


def words_needed(values: int, filters: int) -> int:
    """Returns the number of BIGINTs that hold the bits."""
    return -(-values * filters // WORD)


@dataclass(frozen=True)
class Bits:
    """Bits of a distinct set. The bit of value v under FILTER f has the number `f * values + v`, counted
    through the words."""

    words: tuple[str, ...]
    """Columns that hold the bits."""
    values: int
    filters: int

    def set_bits_sql(self, word: str, number: str | None, conditions: Sequence[str | None]) -> str:
        """Returns SQL for the bits of one word that a row sets.

        Args:
            number: SQL for the number of the row's value; None if there is only one value.
            conditions: SQL of each FILTER; None for none.
        """
        start = self.words.index(word) * WORD
        terms = []
        for place, condition in enumerate(conditions):
            shift = place * self.values - start
            lowest, highest = max(0, -shift), min(self.values, WORD - shift)
            if lowest >= highest:
                continue
            tests = [f"{number} >= {lowest}"] if lowest else []
            tests += [f"{number} < {highest}"] if highest < self.values else []
            tests += [condition] if condition else []
            term = (
                _mask_sql(1 << shift) if number is None else f"shiftleft(1L, {_shifted_sql(number, shift)})"
            )
            terms.append(f"if({' and '.join(tests)}, {term}, 0)" if tests else term)
        return " | ".join(terms)

    def any_bit_set_sql(self, place: int, numbers: Sequence[int]) -> str:
        """Returns SQL for whether the bit of any of these values is set, under the FILTER at a position."""
        tests = []
        for at, word in enumerate(self.words):
            here = [
                bit - at * WORD for number in numbers if (bit := place * self.values + number) // WORD == at
            ]
            if not here:
                continue
            if len(here) == 1:
                tests.append(f"getbit({word}, {here[0]}) = 1")
            elif len(here) == min(WORD, self.values * self.filters - at * WORD):
                tests.append(f"{word} <> 0")
            else:
                tests.append(f"{word} & {_mask_sql(sum(1 << bit for bit in here))} <> 0")
        return " or ".join(tests)


def _shifted_sql(number: str, shift: int) -> str:
    return number if shift == 0 else f"{number} {'+' if shift > 0 else '-'} {abs(shift)}"


def _mask_sql(mask: int) -> str:
    """Returns SQL for a mask. The highest bit of a BIGINT is its sign, and the smallest BIGINT has no
    literal."""
    value = mask - (1 << 64) if mask >> 63 else mask
    if value == -(1 << 63):
        return "shiftleft(1L, 63)"
    return f"({value})" if value < 0 else str(value)
