"""Result of planning a model's query, as frozen dataclasses; `explain` prints them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..frontend.streams import Stream
from ..program import MiniBatch
from .dataflow import Dataflow
from .lookup_keys import LookupTable
from .plain_batch_text import SliceWriter
from .untimed_rows import DroppedRows


@dataclass(frozen=True)
class Plan:
    """A model's query: its streams, and the operators that keep its result up to date."""

    streams: tuple[Stream, ...]
    dataflow: Dataflow
    static: tuple[str, ...]
    """Static relations, which are read again in each micro-batch."""
    batch: Callable[[SliceWriter], str] = field(default=lambda _: "", compare=False, repr=False)
    """Returns the text for batch, with the same rows as plain SQL; given what computes windows from slices."""
    ranks: tuple[str, ...] = ()
    """Rankings that a filter limits, as written."""
    rewrites: tuple[tuple[str, str], ...] = ()
    """Rewrites that the query's hints request, each with its description."""
    lookups: tuple[LookupTable, ...] = ()
    mini_batch: MiniBatch | None = None
    """Limits of a micro-batch, from the text's hint; None if it has none."""
    text: str = ""
    """Digest of the model's text, if known."""
    clauses: Callable[[], Sequence[tuple[str, str]]] = field(default=tuple, compare=False, repr=False)
    """Returns the clauses of the model's text, as `written_clauses` lists them."""
    unknown_functions: tuple[str, ...] = ()
    """Functions that aren't built into Spark and that planning without a session takes for scalar functions."""
    unclear_columns: tuple[str, ...] = ()
    """Columns of joins and subqueries whose relation or type is unknown without a session; a run asks Spark."""
    taken: frozenset[str] = frozenset()
    """Names of the author's that generated SQL may also use; the plan has them with a mark (`own_names`)."""
    dropped: tuple[DroppedRows, ...] = ()
    """Places where the stream drops rows without an event time, as the query for batch does, too."""

    @property
    def shape(self) -> Mapping[str, bool]:
        """Returns for each property that a materialization may require whether the query has it.

        >>> from ..planner.plan_query import plan
        >>> from ..windows.expansion import expand_window
        >>> from ..windows.window_arguments import make_window
        >>> hours = expand_window("t", make_window("tumble", "ts", "1 hour"))
        >>> plan(f"select window_end, count(*) from {hours} group by window_start, window_end").shape
        {'window_aggregate': True, 'cumulate': False, 'topn': False, 'streaming_table': True}
        """
        windows = self.dataflow.grouped_windows
        return {
            "window_aggregate": bool(windows),
            "cumulate": bool(windows) and all(window.grows for window in windows),
            "topn": bool(self.ranks),
            "streaming_table": True,
        }
