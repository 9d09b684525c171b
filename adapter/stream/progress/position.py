"""The position of a model, which the commits of a micro-batch carry in their snapshots' summaries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace

from .unreadable_rows import Unreadable
from .watermark import from_text, to_text

PREFIX = "stream."
COMPACTED = f"{PREFIX}compacted"
"""Property of a commit that compacts small files."""
GROWTH = f"{PREFIX}growth"
"""Property with the `PartGrowth` of each state table."""
FOLLOWS = f"{PREFIX}table-snapshot"
"""Property of a changelog's commit that adds other writers' changes of the table: the table's snapshot."""
_STEPS = 1_000
"""How many numbers (`Position.number`) are reserved for the epochs of a micro-batch. A micro-batch with more epochs takes
    numbers of the next micro-batch."""


@dataclass(frozen=True)
class PartGrowth:
    """Growth of a state table since it was last compacted."""

    folded: int = 0
    """Rows after the last compaction; 0 if there was none."""
    rows: int = 0
    """Rows added since then."""
    commits: int = 0
    """Micro-batches that added rows since then."""
    loose: int = 0
    """Small files added since the last compaction or the last merge of files."""
    since: int | None = None
    """The watermark at the last compaction, or when the state table got its first rows."""

    def is_older(self, micros: int, watermark: int | None) -> bool:
        """Returns whether the watermark has advanced by at least `micros` microseconds since the last compaction."""
        return self.since is not None and watermark is not None and watermark - self.since >= micros


@dataclass(frozen=True)
class SplitPoint:
    """How far a micro-batch is ingested that is ingested in pieces, in order of event time."""

    at: int
    """Rows from this event time on, in microseconds since 1970, are not ingested yet."""
    by: tuple[str, ...]
    """The event-time column of each stream."""


@dataclass(frozen=True)
class Position:
    """The last epoch that was committed to a table, and totals up to then. An epoch is a micro-batch, a piece of one, a
    flush, a rebuild or an edit.

    A table never gets the same epoch twice. So a micro-batch that Spark replays after a crash is written exactly once.
    """

    model: str
    query_id: str
    """Structured Streaming's id of the query."""
    batch: int
    """Structured Streaming's number of the micro-batch; -1 before the first."""
    flush: int = 0
    """Number of the epoch in its micro-batch: 0 for the first (unless its `number` is taken), then further pieces, flushes,
    rebuilds and edits."""
    folded: bool = False
    """Whether all rows of this epoch are emitted, so that the state may be compacted."""
    cut: SplitPoint | None = None
    """Where the next piece of the micro-batch begins; None if all pieces are ingested."""
    before: int | None = None
    """The watermark before the epoch, in microseconds since 1970 (UTC)."""
    after: int | None = None
    """The watermark after the epoch."""
    newest: Mapping[str, int | None] = field(default_factory=dict)
    """The newest event time of each stream."""
    last_arrival: Mapping[str, int] = field(default_factory=dict)
    """Processing time at which each stream last had rows."""
    idle: tuple[str, ...] = ()
    """The idle streams, which don't hold back the watermark."""
    rows_in: int = 0
    """Rows read. All counts are totals since the stream began."""
    late_rows: int = 0
    null_time_rows: int = 0
    unreadable: Unreadable = field(default_factory=dict)
    """Rows with values that couldn't be read."""
    rows_out: int = 0
    """Rows emitted. In the state's summary without those of this epoch, which are emitted later."""
    lookup_requests: int = 0
    """Requests to external tables. In the state's summary without those for the output of this epoch."""
    lookup_keys: int = 0
    """Keys in these requests."""
    signature: str = ""
    """A digest of the parts of the query that the state depends on."""
    text: str = ""
    """A digest of the query's text; empty if it is unknown."""
    is_edited: bool = False
    """Whether the query or the state was edited since the stream began."""
    needs_rebuild: bool = False
    """Whether the query was edited, so that operators have to be rebuilt before the next input."""
    is_rebuild: bool = False
    """Whether the epoch rebuilds operators."""
    growth: Mapping[str, PartGrowth] = field(default_factory=dict)
    """Growth of each state table up to the previous commit."""

    @property
    def step(self) -> tuple[int, int]:
        """(`batch`, `flush`): positions of a stream are ordered by it."""
        return self.batch, self.flush

    @property
    def number(self) -> int:
        """The epoch as one number, as state rows store it. It is greater than the numbers of all earlier epochs."""
        return self.batch * _STEPS + self.flush

    def is_same_step(self, other: Position) -> bool:
        """Returns whether both positions are the same epoch of the same stream."""
        return self.query_id == other.query_id and self.step == other.step

    def is_after(self, other: Position) -> bool:
        """Returns whether this is a later epoch of the same stream."""
        return self.query_id == other.query_id and self.step > other.step

    def with_text(self, text: str | None) -> Position:
        """Returns the position with the digest of the query's text, marked as edited if that has changed."""
        other = bool(text and self.text and text != self.text)
        return replace(self, text=text or self.text, is_edited=self.is_edited or other)

    def next_epoch(self, batch: int) -> Position:
        """Returns the position of the next epoch: of micro-batch `batch`, which may be the current one."""
        return replace(
            self,
            batch=batch,
            flush=max(0, self.number + 1 - batch * _STEPS),
            folded=False,
            before=self.after,
            needs_rebuild=False,
            is_rebuild=self.needs_rebuild,
        )

    def properties(self) -> dict[str, str]:
        """Returns the position as properties of a snapshot, with times as text in UTC."""
        found = {
            "model": self.model,
            "query-id": self.query_id,
            "batch-id": str(self.batch),
            "flush": str(self.flush),
            "folded": json.dumps(self.folded),
            "cut": None if self.cut is None else json.dumps([self.cut.at, *self.cut.by]),
            "watermark-before": to_text(self.before),
            "watermark-after": to_text(self.after),
            "newest": json.dumps({name: to_text(time) for name, time in self.newest.items()}),
            "heard": json.dumps({name: to_text(time) for name, time in self.last_arrival.items()}),
            "idle": json.dumps(self.idle),
            "rows-in": str(self.rows_in),
            "late-rows": str(self.late_rows),
            "null-time-rows": str(self.null_time_rows),
            "unreadable": json.dumps(self.unreadable) if self.unreadable else None,
            "rows-out": str(self.rows_out),
            "lookup-requests": str(self.lookup_requests) if self.lookup_requests else None,
            "lookup-keys": str(self.lookup_keys) if self.lookup_keys else None,
            "signature": self.signature,
            "text": self.text or None,
            "edited": "true" if self.is_edited else None,
            "to-remake": "true" if self.needs_rebuild else None,
            "remade": "true" if self.is_rebuild else None,
            "growth": growth_to_text(self.growth),
        }
        return {PREFIX + name: text for name, text in found.items() if text is not None}


def read_position(summary: Mapping[str, str]) -> Position | None:
    """Returns the position in a snapshot's summary, or None if no stream made the snapshot."""
    if f"{PREFIX}batch-id" not in summary:
        return None

    def text(name: str) -> str:
        return summary.get(PREFIX + name, "")

    return Position(
        model=text("model"),
        query_id=text("query-id"),
        batch=int(text("batch-id")),
        flush=int(text("flush") or 0),
        folded=text("folded") == "true",
        cut=_parse_split(text("cut")),
        before=from_text(text("watermark-before")),
        after=from_text(text("watermark-after")),
        newest={name: from_text(time) for name, time in json.loads(text("newest") or "{}").items()},
        last_arrival={name: from_text(time) or 0 for name, time in json.loads(text("heard") or "{}").items()},
        idle=tuple(json.loads(text("idle") or "[]")),
        rows_in=int(text("rows-in") or 0),
        late_rows=int(text("late-rows") or 0),
        null_time_rows=int(text("null-time-rows") or 0),
        unreadable=json.loads(text("unreadable") or "{}"),
        rows_out=int(text("rows-out") or 0),
        lookup_requests=int(text("lookup-requests") or 0),
        lookup_keys=int(text("lookup-keys") or 0),
        signature=text("signature"),
        text=text("text"),
        is_edited=text("edited") == "true",
        needs_rebuild=text("to-remake") == "true",
        is_rebuild=text("remade") == "true",
        growth=growth_from_text(text("growth")),
    )


def with_output_counts(position: Position, target: Position | None) -> Position:
    """Returns the last epoch of a state with the counters of the model's table. The table's counters may be newer, because
    the state is written before the output.

    Args:
        target: the last epoch of the table; None if there is none.
    """
    if target is None:
        return position
    later = {
        name: max(getattr(position, name), getattr(target, name))
        for name in ("rows_out", "lookup_requests", "lookup_keys")
    }
    return replace(position, **later)


def _parse_split(text: str) -> SplitPoint | None:
    if not text:
        return None
    at, *by = json.loads(text)
    return SplitPoint(at, tuple(by))


def growth_to_text(growth: Mapping[str, PartGrowth]) -> str:
    """Returns the growth of state tables as a property of a snapshot."""
    return json.dumps({part: astuple(of_part) for part, of_part in growth.items()})


def growth_from_text(text: str) -> dict[str, PartGrowth]:
    """Parses a property that `growth_to_text` wrote."""
    return {part: PartGrowth(*numbers) for part, numbers in json.loads(text or "{}").items()}
