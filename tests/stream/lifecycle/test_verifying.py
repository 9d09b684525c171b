"""What may explain a difference is said where it applies."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.windows.emission import FINAL
from dbt.adapters.spark_streaming.stream.lifecycle.verifying import VerifyRequest, _difference_hints
from dbt.adapters.spark_streaming.stream.progress.position import Position


class Table:
    """A table that only its stream wrote."""

    def lineage(self) -> list[Any]:
        return []


def hints(is_edited: bool = False, static: tuple[str, ...] = ()) -> list[str]:
    request = VerifyRequest(
        text=lambda views: "",
        due=None,
        emission=FINAL,
        has_windows=False,
        is_append=True,
        state_ttl=False,
        static=static,
    )
    table: Any = Table()
    return [*_difference_hints(table, Position("m", "q", 0), request, is_edited)]


def test_nothing_is_said_of_a_model_that_was_not_edited_and_reads_only_streams() -> None:
    assert hints() == []


def test_an_edit_and_tables_are_said_each_for_itself() -> None:
    (edited,) = hints(is_edited=True)
    assert edited.startswith("Its query or its state was edited since the stream began.")
    assert hints(static=("shop.sizes",)) == [
        "A stream keeps what it emitted before a change of shop.sizes; batch computes all rows from what that table is now."
    ]
    (both,) = hints(static=("shop.sizes", "crm.customers"))
    assert (
        "a change of shop.sizes, crm.customers; batch computes all rows from what those tables are now."
        in both
    )


@pytest.mark.parametrize("count", [1, 2])
def test_late_rows_come_first(count: int) -> None:
    table: Any = Table()
    request = VerifyRequest(lambda views: "", None, FINAL, False, True, True, ("shop.sizes",))
    late, ttl, static = _difference_hints(table, Position("m", "q", 0, late_rows=count), request, False)
    assert late.startswith(f"{count} row") and "state_ttl" in ttl and "shop.sizes" in static
