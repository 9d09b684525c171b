"""How far a model has come: what both commits of a micro-batch carry in their snapshot's summary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace

from .unreadable_rows import Unreadable
from .watermark import from_text, to_text

PREFIX = "stream."
COMPACTED = f"{PREFIX}compacted"
"""The property of a commit that puts small files together."""
GROWTH = f"{PREFIX}growth"
"""The property with the `Growth` of each part of the state."""
FOLLOWS = f"{PREFIX}table-snapshot"
"""The property of a commit that makes the changelog follow a table which others changed: the table's snapshot."""
_FLUSHES = 1_000
"""Steps between two micro-batches, as numbers."""


@dataclass(frozen=True)
class Growth:
    """What came to a part of the state since it was folded."""

    folded: int = 0
    """Rows when it was folded last; 0 if it never was."""
    rows: int = 0
    """Rows since then."""
    commits: int = 0
    """Micro-batches that brought rows since then."""
    loose: int = 0
    """Small files since it was folded or compacted."""
    since: int | None = None
    """The watermark when it was folded last, or began."""

    def is_older(self, micros: int, watermark: int | None) -> bool:
        """Whether the watermark has come so much further since."""
        return self.since is not None and watermark is not None and watermark - self.since >= micros


@dataclass(frozen=True)
class Cut:
    """How far a micro-batch is in that is taken in in pieces."""

    at: int
    """Rows from this event time on, in microseconds since 1970, are not in yet."""
    by: tuple[str, ...]
    """The columns that are the event time, one of each stream."""


@dataclass(frozen=True)
class Position:
    """The last step that a table has taken in.

    A table that has it is never given the same step again; that is how a micro-batch that Spark
    replays after a crash is written once.
    """

    model: str
    query_id: str
    """Structured Streaming's id of the checkpoint."""
    batch: int
    """Structured Streaming's number of the micro-batch; -1 before the first."""
    flush: int = 0
    """How many steps came after its first: its further pieces, and how many times `flush` closed the windows."""
    folded: bool = False
    """All rows of this step are out, and the state was folded since, or could be, so they can't be made again."""
    cut: Cut | None = None
    """Where the micro-batch goes on, of which only pieces are in; None: all of it is in."""
    before: int | None = None
    """The watermark before the step, in microseconds since 1970 (UTC)."""
    after: int | None = None
    """The watermark after the step."""
    newest: Mapping[str, int | None] = field(default_factory=dict)
    """The newest event time of each stream."""
    heard: Mapping[str, int] = field(default_factory=dict)
    """When each stream had rows last, by the clock on the wall."""
    idle: tuple[str, ...] = ()
    """The streams that had none for so long that they don't hold the watermark."""
    rows_in: int = 0
    """Rows read since the stream began, like all counts here."""
    late_rows: int = 0
    null_time_rows: int = 0
    unreadable: Unreadable = field(default_factory=dict)
    """Rows with values that couldn't be read."""
    rows_out: int = 0
    """In the state's summary: up to the step before, for the step's own rows come later."""
    lookup_requests: int = 0
    """To tables outside; also up to the step before, where they are joined above the state."""
    lookup_keys: int = 0
    """That these were asked for."""
    signature: str = ""
    """A digest of what the state depends on."""
    to_remake: bool = False
    """The query was edited since, so that before anything else comes in its rankings are made anew."""
    remade: bool = False
    """The step did that."""
    growth: Mapping[str, Growth] = field(default_factory=dict)
    """Of each part of the state, up to the commit before."""

    @property
    def step(self) -> tuple[int, int]:
        """What orders positions of one stream."""
        return self.batch, self.flush

    @property
    def number(self) -> int:
        """The same as one number."""
        return self.batch * _FLUSHES + self.flush

    def is_of(self, other: Position) -> bool:
        """Whether it is of the same step."""
        return self.query_id == other.query_id and self.step == other.step

    def is_after(self, other: Position) -> bool:
        """Whether it is of a later step of the same stream."""
        return self.query_id == other.query_id and self.step > other.step

    def next(self, batch: int) -> Position:
        """Where the step after it begins: a micro-batch of this number, or one more step of the same."""
        return replace(
            self,
            batch=batch,
            flush=self.flush + 1 if batch == self.batch else 0,
            folded=False,
            before=self.after,
            to_remake=False,
            remade=self.to_remake,
        )

    def properties(self) -> dict[str, str]:
        """As properties of a snapshot; times are readable, in UTC."""
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
            "heard": json.dumps({name: to_text(time) for name, time in self.heard.items()}),
            "idle": json.dumps(self.idle),
            "rows-in": str(self.rows_in),
            "late-rows": str(self.late_rows),
            "null-time-rows": str(self.null_time_rows),
            "unreadable": json.dumps(self.unreadable) if self.unreadable else None,
            "rows-out": str(self.rows_out),
            "lookup-requests": str(self.lookup_requests) if self.lookup_requests else None,
            "lookup-keys": str(self.lookup_keys) if self.lookup_keys else None,
            "signature": self.signature,
            "to-remake": "true" if self.to_remake else None,
            "remade": "true" if self.remade else None,
            "growth": growth_to_text(self.growth),
        }
        return {PREFIX + name: text for name, text in found.items() if text is not None}


def read_position(summary: Mapping[str, str]) -> Position | None:
    """The position in a snapshot's summary; None if the snapshot isn't a stream's."""
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
        cut=_cut(text("cut")),
        before=from_text(text("watermark-before")),
        after=from_text(text("watermark-after")),
        newest={name: from_text(time) for name, time in json.loads(text("newest") or "{}").items()},
        heard={name: from_text(time) or 0 for name, time in json.loads(text("heard") or "{}").items()},
        idle=tuple(json.loads(text("idle") or "[]")),
        rows_in=int(text("rows-in") or 0),
        late_rows=int(text("late-rows") or 0),
        null_time_rows=int(text("null-time-rows") or 0),
        unreadable=json.loads(text("unreadable") or "{}"),
        rows_out=int(text("rows-out") or 0),
        lookup_requests=int(text("lookup-requests") or 0),
        lookup_keys=int(text("lookup-keys") or 0),
        signature=text("signature"),
        to_remake=text("to-remake") == "true",
        remade=text("remade") == "true",
        growth=growth_from_text(text("growth")),
    )


def _cut(text: str) -> Cut | None:
    if not text:
        return None
    at, *by = json.loads(text)
    return Cut(at, tuple(by))


def growth_to_text(growth: Mapping[str, Growth]) -> str:
    """As a property of a snapshot."""
    return json.dumps({part: astuple(of_part) for part, of_part in growth.items()})


def growth_from_text(text: str) -> dict[str, Growth]:
    """The same read back."""
    return {part: Growth(*numbers) for part, numbers in json.loads(text or "{}").items()}
