"""What the planner found in a model's text, as frozen dataclasses; `explain` shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..frontend.streams import Stream
from ..program import MiniBatch
from .base import Dataflow, WindowResults
from .untimed_rows import DroppedRows


@dataclass(frozen=True)
class LookupTable:
    """A table outside that joins ask for the keys of a micro-batch."""

    relation: str
    """As the compiled text names it."""
    view: str
    """What its answer is under."""
    key: tuple[str, ...]
    """The columns that it is asked by."""
    columns: tuple[str, ...] | None
    """Columns the query may use; None: all."""


@dataclass(frozen=True)
class Plan:
    """A model's query: its streams, and the operators that keep it up to date."""

    streams: tuple[Stream, ...]
    dataflow: Dataflow
    static: tuple[str, ...]
    """Relations read afresh at each micro-batch."""
    batch: str | None = None
    """The query in batch; None: it is put together from the stages of windows."""
    ranks: tuple[str, ...] = ()
    """The rankings that a filter ends, as the user wrote them."""
    rewrites: tuple[tuple[str, str], ...] = ()
    """The rewrites that the query asks for, and what they do."""
    lookups: tuple[LookupTable, ...] = ()
    mini_batch: MiniBatch | None = None
    """What a micro-batch is at most, where the text says so."""
    text: str = ""
    """Digest of the model's text, where it is known."""
    clauses: Callable[[], Sequence[tuple[str, str]]] = field(default=tuple, compare=False, repr=False)
    """Gives the clauses of that text, as `written_clauses` tells them."""
    unknown_functions: tuple[str, ...] = ()
    """Functions that aren't Spark's own, planned without a session: taken for functions of a row."""
    unclear_columns: tuple[str, ...] = ()
    """Columns of joins and of queries in expressions, planned without a session: a run asks it which relation has them, and
    of which type they are."""
    taken: frozenset[str] = frozenset()
    """Names of the author's that generated SQL may have for something else; they are marked in here (`own_names`)."""
    dropped: tuple[DroppedRows, ...] = ()
    """Where the stream drops rows without an event time, which a text for batch then leaves out, too."""

    @property
    def windows(self) -> WindowResults | None:
        """As of `Dataflow`."""
        return self.dataflow.windows

    @property
    def shape(self) -> Mapping[str, bool]:
        """What a materialization may ask of a query."""
        windows = self.dataflow.grouped
        return {
            "window_aggregate": bool(windows),
            "cumulate": bool(windows) and all(window.grows for window in windows),
            "topn": bool(self.ranks),
            "streaming_table": True,
        }
