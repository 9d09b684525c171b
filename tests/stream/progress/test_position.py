"""A commit carries the model's position, in a summary that people can read."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

from dbt.adapters.spark_streaming.stream.progress.position import (
    PartGrowth,
    Position,
    read_position,
    with_output_counts,
)

POSITION = Position(
    model="curves",
    query_id="q1",
    batch=12,
    flush=1,
    folded=True,
    before=-1,
    after=1_772_323_200_000_001,
    newest={"clicks": 1_772_323_200_000_001, "orders": None},
    rows_in=5,
    late_rows=4,
    null_time_rows=3,
    rows_out=2,
    signature="abc",
    growth={"slices": PartGrowth(folded=7, rows=3, commits=2, loose=1)},
)


def test_a_position_survives_its_way_through_a_summary() -> None:
    assert read_position(POSITION.properties()) == POSITION


def test_a_position_without_watermarks_does_too() -> None:
    fresh = Position("curves", "q1", batch=0)
    assert read_position(fresh.properties()) == fresh


def test_others_snapshots_have_no_position() -> None:
    assert read_position({"operation": "replace", "added-records": "3"}) is None


def test_times_in_a_summary_can_be_read_by_people() -> None:
    properties = POSITION.properties()
    assert properties["stream.watermark-before"] == "1969-12-31T23:59:59.999999Z"
    assert json.loads(properties["stream.newest"]) == {
        "clicks": "2026-03-01T00:00:00.000001Z",
        "orders": None,
    }


def test_steps_have_numbers_that_grow() -> None:
    steps = [
        Position("m", "q", batch, flush)
        for batch, flush in ((-1, 0), (0, 0), (0, 1), (1, 0), (57, 0), (57, 2))
    ]
    assert [step.number for step in steps] == [-1000, 0, 1, 1000, 57000, 57002]
    assert all(later.is_after(earlier) for earlier, later in itertools.pairwise(steps))
    assert not replace(steps[5], query_id="other").is_after(steps[0])


def test_a_query_with_another_text_is_an_edit_from_then_on() -> None:
    begun = Position("m", "q", 0).with_text("a")
    assert begun.text == "a" and not begun.is_edited
    assert begun.with_text("a") == begun.with_text(None) == begun
    edited = begun.with_text("b")
    assert edited.text == "b" and edited.is_edited
    assert read_position(edited.next_epoch(1).properties()) == edited.next_epoch(1)
    assert edited.with_text("b").is_edited


def test_no_two_steps_have_one_number() -> None:
    """After a thousand edits between two micro-batches, rows of the state would count as newer than the next ones."""
    step = Position("m", "q", batch=3, flush=998)
    edited = replace(step.next_epoch(3), needs_rebuild=True)
    rebuilt = edited.next_epoch(3)
    assert rebuilt.is_rebuild and not rebuilt.needs_rebuild
    following = [
        edited,
        rebuilt,
        rebuilt.next_epoch(4),
        rebuilt.next_epoch(4).next_epoch(4),
        rebuilt.next_epoch(4).next_epoch(5),
        rebuilt.next_epoch(7),
    ]
    assert [each.step for each in following] == [(3, 999), (3, 1000), (4, 1), (4, 2), (5, 0), (7, 0)]
    assert [each.number for each in following] == [3999, 4000, 4001, 4002, 5000, 7000]
    assert all(later.is_after(earlier) for earlier, later in itertools.pairwise(following[:4]))
    assert Position("m", "q", batch=-1, flush=1).next_epoch(0).step == (0, 0)


def test_a_table_counts_what_the_last_epoch_of_its_state_has_emitted() -> None:
    state = Position("m", "q", 3, rows_in=9, rows_out=4, lookup_requests=2)
    table = replace(state, rows_in=0, rows_out=6, lookup_requests=1)
    assert with_output_counts(state, table) == replace(state, rows_out=6)
    assert with_output_counts(state, None) == state
