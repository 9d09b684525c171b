"""Changes of open windows are held back until these close; changes of closed windows pass."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.window_close import WindowClose
from dbt.adapters.spark_streaming.query.program import StatePart
from dbt.adapters.spark_streaming.query.sql.intervals import DAY, MINUTE
from tests.planned import tree_of
from tests.query.trees import COUNTED, IN_TIME, KNOWN, LAST, OTHER, STREAM, windows_over


def closed(rows: str) -> tuple[WindowClose, StatePart]:
    plan = tree_of(COUNTED.format(windows_over(rows)), KNOWN, DAY, ("k",))
    program = generate.generate_program(plan, ttl=DAY)
    (found,) = (each for each in plan.dataflow.operators if isinstance(each, WindowClose))
    (part,) = (each for each in program.parts if each.name == found.name)
    return found, part


def test_what_waits_is_kept_until_the_window_ends() -> None:
    found, part = closed(LAST)
    assert found.window_end.startswith("window_end")
    assert "as expires_at" in part.append and part.closes == "expires_at"


def test_changes_of_one_row_are_added_up_while_they_wait() -> None:
    _, part = closed(LAST)
    assert "sum(" in part.fold, "a row that came and went is emitted never"


def test_a_window_of_joined_rows_closes_when_no_row_can_come_any_more() -> None:
    joined = f"(select l.ts, l.k, l.v from {STREAM} as l left join {OTHER} as r on {IN_TIME})"
    found, _ = closed(joined)
    assert found.open_for is not None and found.open_for >= 5 * MINUTE
