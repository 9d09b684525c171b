"""Rows of open windows are kept where no partial aggregates say the same, each once however many windows it is in."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.plan.operators.window_buffer import WindowBuffer
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of


def window(kind: str, *lengths: str, **options: Any) -> str:
    return expansion.expand_window("bids", window_arguments.make_window(kind, "ts", *lengths, **options))


HOP = window("hop", "5 minutes", "1 hour")
SESSION = window("session", "5 minutes", partition_by=["k"])
MEDIAN = "select window_start, window_end, k, percentile(v, 0.5) as m from {} group by 1, 2, 3"


def buffer(text: str) -> WindowBuffer:
    (found,) = plan_of(text).dataflow.window_operators
    assert isinstance(found, WindowBuffer)
    return found


def test_the_reason_is_named() -> None:
    assert "percentile(…) is not kept as partial aggregates" == buffer(MEDIAN.format(HOP)).spec.reason


@pytest.mark.parametrize("rows", [HOP, SESSION])
def test_a_row_is_kept_until_its_last_window_closes(rows: str) -> None:
    found = buffer(MEDIAN.format(rows))
    (part,) = found.window_steps().parts()
    assert part.name == f"{found.name}_rows" and part.closes == "expires_at"
    assert "explode" not in part.append, "once, however many windows it is in"


def test_a_ranking_keeps_the_rows_that_can_be_in_it() -> None:
    ranks = (
        f"select *, row_number() over (partition by window_start, window_end, k order by v) as rn from {HOP}"
    )
    top = buffer(f"select * from ({ranks}) where rn <= 3").spec.top
    assert top is not None and top.rows == 3
    assert buffer(MEDIAN.format(HOP)).spec.top is None
