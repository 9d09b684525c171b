"""What is known of rows in windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbt.adapters.spark_streaming.query.plan.relation import Relation
from dbt.adapters.spark_streaming.query.plan.relations.windowed import RowsInWindows
from dbt.adapters.spark_streaming.query.windows.windows import Window

HOUR = Window("tumble", "ts", 60, 60)
HOP = Window("hop", "ts", 60, 30)
SESSION = Window("session", "ts", 60, 1)
TIMED = Relation(event_time="ts", delays={"at": 7})


def test_windows_of_a_time_that_is_bounded_close_when_no_row_can_come() -> None:
    found = RowsInWindows(HOUR, replace(TIMED, event_time=None, delays={"ts": 5, "at": 7}), False).relation
    assert (found.open_until, found.open_for, found.ends) == ("window_end", 5, None)
    assert found.delays == {"ts": 65, "window_start": 65, "window_end": 5, "window_time": 5}


def test_nothing_is_known_of_starts_on_a_local_clock() -> None:
    found = RowsInWindows(replace(HOUR, time_zone="Europe/Berlin"), TIMED, False).relation
    assert found.delays == {"window_end": 0, "window_time": 0}


@pytest.mark.parametrize(("time_zone", "more"), [(None, set()), ("Europe/Berlin", {"window_start"})])
def test_a_row_may_be_in_several_windows_that_end_at_once_where_the_clock_is_put_forward(
    time_zone: str | None, more: set[str]
) -> None:
    below = Relation(keys=(frozenset({"k"}),))
    found = RowsInWindows(replace(HOP, time_zone=time_zone), below, False).relation
    assert found.keys == (frozenset({"k", "window_end", *more}),)


@pytest.mark.parametrize(
    ("window", "below", "fires_again"),
    [
        (HOUR, TIMED, True),
        (SESSION, TIMED, False),
        (HOUR, replace(TIMED, changes=True), False),
        (HOUR, Relation(), False),
    ],
)
def test_a_window_may_get_rows_for_ever(window: Window, below: Relation, fires_again: bool) -> None:
    found = RowsInWindows(window, below, fires_again).relation
    assert (found.open_until, found.open_for, found.delays) == ("window_end", None, {})
    assert found.changes == below.changes


def test_rows_of_windows_that_fire_again_go_with_the_windows_below() -> None:
    below = Relation(True, ends="end", in_time=frozenset({"ts"}))
    assert RowsInWindows(HOUR, below, True).relation.ends == "window_end"
    assert RowsInWindows(HOUR, below, False).relation.ends is None


def test_a_row_is_identified_by_its_key_and_its_window() -> None:
    below = Relation(keys=(frozenset({"k"}), frozenset({"window_start"})))
    assert RowsInWindows(HOUR, below, False).relation.keys == (frozenset({"k"}),)
    assert RowsInWindows(HOP, below, False).relation.keys == (frozenset({"k", "window_end"}),)


def test_a_row_may_change_the_session_of_others() -> None:
    assert RowsInWindows(SESSION, TIMED, False).recomputed_relation.changes
