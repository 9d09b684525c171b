"""The phases of a micro-batch: what is evaluated before the watermark advances, with the input, and once windows close."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.program import Item, Step
from tests.planned import plan_of
from tests.query.trees import KNOWN, STREAM, per_window


def _kinds(items: Sequence[Item]) -> str:
    """The kinds of items in their order, each once; `Results` are steps that see what is about to be written."""
    names = (
        "Results" if isinstance(each, Step) and each.sees_changes else type(each).__name__ for each in items
    )
    return " ".join(name for name, _ in groupby(names))


@pytest.mark.parametrize(
    ("text", "arrival", "ingest", "cascade"),
    [
        (per_window("1 hour"), "Rows", "StatePart", ""),
        (
            f"select k, max(n) as n from ({per_window('1 hour')}) group by k",
            "Rows",
            "StatePart",
            "Results Step StatePart",
        ),
        (f"select k, count(*) as n from {STREAM} group by k", "Step Rows", "Step StatePart", ""),
        (f"select k from {STREAM} where k > 1", "", "", ""),
    ],
)
def test_phases(text: str, arrival: str, ingest: str, cascade: str) -> None:
    program = generate.generate_program(plan_of(text, KNOWN))
    assert [*map(_kinds, (program.arrival, program.ingest, program.cascade))] == [arrival, ingest, cascade]
    assert (*program.arrival, *program.ingest, *program.cascade) == program.items
