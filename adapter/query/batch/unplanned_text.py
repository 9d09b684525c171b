"""Writes a model's text for batch, even if it can't be planned as a stream."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import QueryError
from ..frontend.streams import Known
from ..normalize.model_text import stream_relations
from ..plan.plain_batch_text import plain_batch_text
from ..plan.untimed_rows import DroppedRows
from ..planner.plan_query import plan
from ..sql.functions import QueryRunner


def text_in_batch(text: str, ask: QueryRunner | None = None, known: Mapping[str, Known] | None = None) -> str:
    """Returns the text for batch of a query that doesn't stay within windows, even if it can't be planned as a stream.

    Args:
        text: compiled text of a model.
        ask, known: see `plan`.

    Raises:
        QueryError: as plain SQL it would return rows that a stream leaves out.
    """
    return plain_batch_text(text, ask, known or {}, _dropped_rows(text, ask, known or {}))


def _dropped_rows(text: str, ask: QueryRunner | None, known: Mapping[str, Known]) -> tuple[DroppedRows, ...]:
    """Returns the places where a stream of the text drops rows without an event time."""
    timed = {name.lower() for name, what in known.items() if what.event_time is not None}
    try:
        if not timed or timed.isdisjoint(name.lower() for name in stream_relations(text)):
            return ()
        return plan(text, known, ask=ask, may_grow=True).dropped
    except QueryError:
        return ()  # it can't be planned as a stream
