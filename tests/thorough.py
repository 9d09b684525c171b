"""What CI leaves out: more of what other tests show, as `pytest -m thorough` runs it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mostly_thorough(every: Iterable[Any], in_ci: Collection[Any]) -> list[Any]:
    """Values to parametrize a test with, of which CI takes some.

    Args:
        every: all of them.
        in_ci: those that CI takes.
    """
    values = list(every)
    assert set(in_ci) <= set(values), set(in_ci) - set(values)
    return [pytest.param(each, marks=() if each in in_ci else pytest.mark.thorough) for each in values]
