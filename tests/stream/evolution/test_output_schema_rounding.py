"""Which casts can change a value without an error, of every pair of number types."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pytest

from dbt.adapters.spark_streaming.stream.evolution.output_schema import can_hold, is_lossy

WHOLE = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}
DECIMALS = [f"decimal({digits},{scale})" for digits in (2, 3, 5, 9, 10, 18, 19, 20, 38) for scale in (0, 2)]
BINARY = {"float": 2**24, "double": 2**53}
"""The whole number up to which a type holds each one."""


def largest_and_finest(kind: str) -> list[Decimal]:
    if kind in WHOLE:
        return [Decimal(-WHOLE[kind]), Decimal(WHOLE[kind] - 1)]
    digits, scale = map(int, kind[8:-1].split(","))
    return [Decimal(f"{'9' * digits}e-{scale}"), Decimal(f"1e-{scale}")]


def holds(known: str, value: Decimal) -> bool:
    if known in WHOLE:
        return value == int(value) and -WHOLE[known] <= value < WHOLE[known]
    if known in BINARY:
        return value == int(value) and abs(value) <= BINARY[known]
    digits, scale = map(int, known[8:-1].split(","))
    return -scale <= value.as_tuple().exponent and value.copy_abs() < 10 ** (digits - scale)  # type: ignore[operator]


@pytest.mark.parametrize("nested", ["{}", "array<{}>", "map<string,{}>", "struct<a:int,`b,c`:array<{}>>"])
def test_a_type_is_held_if_its_largest_and_finest_values_are(nested: str) -> None:
    for kind, known in product([*WHOLE, *DECIMALS], [*WHOLE, *DECIMALS]):
        held = all(holds(known, value) for value in largest_and_finest(kind))
        assert is_lossy(nested.format(kind), nested.format(known)) is not held, (kind, known)
        if can_hold(nested.format(kind), nested.format(known)):
            assert held, (kind, known)


def test_whole_numbers_in_binary_ones() -> None:
    for kind, known in product(WHOLE, BINARY):
        if not is_lossy(kind, known):
            assert all(holds(known, value) for value in largest_and_finest(kind)), (kind, known)


@pytest.mark.parametrize("known", [*WHOLE, *DECIMALS])
@pytest.mark.parametrize("kind", BINARY)
def test_binary_numbers_in_others(kind: str, known: str) -> None:
    assert is_lossy(kind, known) and not can_hold(kind, known)
