"""Compares a window operator of a state with that of an edited query. Its state can't be regrouped by other windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from ...query.state_signature import AggregateState, TopState, WindowOperatorState, WindowOutput, WindowState
from ...util.text import counted
from . import effect
from .aggregates import compare_aggregates, key_differences
from .effect import Evolution


def compare_windows(
    found: Evolution, old: WindowOperatorState, new: WindowOperatorState, same_rows: bool, is_edited: bool
) -> None:
    """Adds the effect on a window operator."""
    found.refused += _window_differences(old.window, new.window)
    had, has = old.aggregates, new.aggregates
    if (had is None) != (has is None):
        found.refused.append(effect.NOW_ROWS if has is None else effect.NOW_AGGREGATES)
        return
    if had is not None and has is not None:
        found.refused += key_differences(had.keys, has.keys)
    # Whether the inputs differ at most in the names of relations or in the order of conditions.
    plain = [None if each.buffer is None else each.buffer.plain for each in (old, new)]
    inputs = (plain, (old.source_digest, new.source_digest))
    is_same = any(was is not None and was == now for was, now in inputs)
    if _have_inputs_changed(old, new):
        found.refused.append(effect.BELOW)
    if had is not None and has is not None:
        found.refused += _grouping_differences(had, has)
    if old.source != new.source and not is_same and not same_rows:
        found.refused.append(effect.SOURCE)
    if old.streams != new.streams:
        found.refused.append(effect.STREAMS)
    if old.buffer is not None and new.buffer is not None:
        if old.buffer.top is None and new.buffer.top is None:
            found.buffered_columns.add(new.buffer.column)
        _compare_top(found, old.buffer.top, new.buffer.top, is_edited)
    if had is None or has is None or had.keys != has.keys:
        return  # with other keys no aggregate can be kept
    # If the source differs, the edit is refused (or accepted) for all aggregates, so their inputs needn't be compared.
    same_rows = same_rows or (old.source != new.source and not is_same)
    compare_aggregates(found, new.name, had, has, same_rows)


def _grouping_differences(old: AggregateState, new: AggregateState) -> Iterator[str]:
    if old.enumerated != new.enumerated:
        yield effect.ENUMERATED
    if old.grouping_sets != new.grouping_sets:
        yield effect.GROUPING_SETS
    if old.key_order != new.key_order:
        yield effect.KEY_ORDER


def _compare_top(found: Evolution, old: TopState | None, new: TopState | None, is_edited: bool) -> None:
    """Adds the effect on a ranking's rows. N can decrease, because the state has the rows of all ranks up to the old N, or
    all rows if there was no ranking."""
    if new is None:
        if old is not None:
            found.refused.append(effect.RANKING)
    elif old is None:
        if is_edited:
            found.limited_rankings.append(f"the ranking of {counted(new.rows, 'row')} instead of all rows")
    elif (old.function, old.partition, old.order) != (new.function, new.partition, new.order):
        found.refused.append(effect.RANKING)
    else:
        found.limit_ranking(old.rows, new.rows, may_have_expired=True)


def _have_inputs_changed(old: WindowOperatorState, new: WindowOperatorState) -> bool:
    """Returns whether the results of other windows that an operator reads have changed."""
    return old.below.keys() != new.below.keys() or not all(
        _has_same_output(old.below[name], new.below[name]) for name in new.below
    )


def _has_same_output(was: WindowOutput, now: WindowOutput) -> bool:
    """Returns whether two outputs have the same rows, and the columns that both have are the same.

    >>> was, others = {"a": "x", "b": "y"}, ({"b": "y", "c": "z"}, {"a": "y"})
    >>> [_has_same_output(WindowOutput("SELECT * FROM w", was), WindowOutput("SELECT * FROM w", each)) for each in others]
    [True, False]
    """
    both = was.columns.keys() & now.columns.keys()
    return was.rows == now.rows and all(was.columns[each] == now.columns[each] for each in both)


def _window_differences(old: WindowState, new: WindowState) -> Iterator[str]:
    """Yields the differences between two windows, in words.

    >>> list(_window_differences(WindowState("tumble", size=60, step=60), WindowState("tumble", size=90, step=90)))
    ["the window's size"]
    """
    if old.kind != new.kind:
        yield f"the window is {new.kind}() and was {old.kind}()"
        return
    for name in sorted(each.name for each in fields(WindowState)):
        is_step_of_tumble = (name, new.kind) == ("step", "tumble")  # the step of tumble() is its size
        if getattr(old, name) != getattr(new, name) and not is_step_of_tumble:
            yield f"the window's {name}"
