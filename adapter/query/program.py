"""What one micro-batch does, as SQL: the bridge between the planner and the running code.

A `Program` is made by the planner from a model's text and carried out by `stream/`. It holds no
Spark objects and no SQL trees, only names and texts, so that `dbt-stream explain` can print it.

The texts read these views, which the running code provides before each step:

``clock``
    one row (read by `now`): ``batch_id`` BIGINT, ``watermark_before`` and ``watermark_after`` TIMESTAMP. Both are
    NULL where there is no watermark yet; ``watermark_after`` is NULL until the input was read. A
    changing value is never a literal in a text: each new text would be compiled anew. ``step`` BIGINT
    numbers micro-batches and flushes. ``now_before`` and ``now_after`` are the watermarks themselves, where the others
    are behind them (`Program.kept_for`). For each zone that windows
    are cut in, all of these once more as its clock shows them (`clock_column`).
`StreamInput.view`
    the rows of the micro-batch of that stream.
`Step.name`
    the result of each earlier step.
``state``
    the model's state table: before `Level.parts` are appended the state of earlier batches,
    after it this batch's too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

EXPIRES_AT, STEP = "expires_at", "step"
"""The columns of the state that say until when a row counts, and with which step it came."""
TABLE_BEFORE = "table_before"
"""The view of the model's table as it was before the micro-batch."""
CHANGE_TYPE, BATCH_ID = "_change_type", "_batch_id"
"""The columns of a change feed that its table doesn't have."""


def clock_column(name: str, time_zone: str | None) -> str:
    """The column of ``clock`` with a watermark as the clocks of a zone show it.

    >>> clock_column("watermark_after", "Europe/Berlin")
    'watermark_after_europe_berlin'
    """
    return f"{name}_{re.sub(r'[^a-z0-9]+', '_', time_zone.lower())}" if time_zone else name


def now(column: str) -> str:
    """A column of ``clock``, wherever a value may stand.

    Not by a join, for which Spark sends the row around with a job of its own. As a field of a struct, which Spark hands
    to the code that it compiles; a plain value it would write into it, and compile anew.

    >>> now("watermark_after")
    '(select struct(*) from clock).watermark_after'
    """
    return f"(select struct(*) from clock).{column}"


_OF_THE_CLOCK = ("watermark_before", "watermark_after", "now_before", "now_after")


@dataclass(frozen=True)
class StreamInput:
    """A relation read as a stream."""

    relation: str
    """The relation as the model's SQL names it."""
    view: str
    """The view its rows of one micro-batch are under."""
    columns: tuple[str, ...] | None
    """The only columns that are read, as written in the query (other names may be among them);
    None for all."""
    event_time: str | None
    """The column of the stream that its watermark is measured on, before any filter. None where
    the time is computed: it is measured on ``event_time`` of the rows then."""
    feed: bool = False
    """Whether the relation's change feed is read."""
    needs_time: bool = True
    """Whether rows depend on its event time. Otherwise a column that is no TIMESTAMP may be named as such: there is no
    watermark then."""


@dataclass(frozen=True)
class Asking:
    """What a step asks a part of the state for by its key, a row of the step each; counted while the step is computed."""

    part: str
    found: str
    """Whether the state has something of the row's key, over the step's columns."""
    asked: str = "true"
    """Which of the step's rows ask, where not all do."""


@dataclass(frozen=True)
class WholePart:
    """A step that reads all of a part of the state, where that is small, or is written as a whole by the same micro-batch
    (`Rewrite`), which reads these rows, too. There may be more of them than of the step that looks for some."""

    sql: str
    part: str
    of_many: bool = False
    """Whether it pays only where many rows come."""


@dataclass(frozen=True)
class Rewrite:
    """All rows of a part of the state, which come in the place of those that are there, where a micro-batch touches so much
    of it that this is no more to write, and less to read from then on. Made from a step that is a `WholePart`."""

    sql: str
    grows_by: str
    """The step with the rows that the part grows by else."""


@dataclass(frozen=True)
class Step:
    """A view that is made in each micro-batch."""

    name: str
    sql: str
    persist: bool = False
    """Used more than once, so computed once, by the job of the first that reads it, and kept for the micro-batch."""
    materialize: bool = False
    """A kept step that is computed when it is made, by a job of its own: with it a plan would get too large, or something
    depends on how many rows it has."""
    unless_empty: str | None = None
    """A kept step: while that has no rows, `initial` is the text to use, which only names another kept step."""
    initial: str | None = None
    """The text to use instead while the state has no rows; cheaper, with the same result. Where
    `initial` of one step or part of a level is used, so is that of all the others."""
    fresh: str | None = None
    """Of a step of `Level.emit`, the text to use instead where the steps of `Level.ingest` were made before it: it reads
    those, with the same result. After a crash the state is all there is."""
    reads: tuple[str, ...] = ()
    """All parts of the state that its texts may read: these alone say which column a name is."""
    whole: WholePart | None = None
    """What to use instead of `sql` where that is less work."""
    asks: tuple[Asking, ...] = ()
    """What `sql`, or `whole`, looks up in the state; `initial` and `fresh` don't look there."""
    lookups: tuple[Lookup, ...] = ()
    """Made before it, which reads them: the keys come out of earlier steps."""


@dataclass(frozen=True)
class Rows:
    """The rows that go into one stage: everything the user wrote below it, row by row.

    The columns ``event_time`` and ``expires_at`` (TIMESTAMP) are the running code's business:
    a row is counted and dropped when its event time is NULL, or when ``expires_at`` (the end of
    the last window it belongs to) is not after the watermark before the batch. Those that are
    left come without their event time. Queries without windows have no ``expires_at``, for no row is dropped
    for them; and no ``event_time`` where they need none.
    """

    name: str
    sql: str
    streams: tuple[str, ...]
    """The views of the streams it reads."""
    time_zone: str | None = None
    """The zone on whose clock ``expires_at`` is measured; None: UTC."""
    timed: bool = True
    """Whether it has an ``event_time``."""
    expires: bool = True
    """Whether it has an ``expires_at``."""
    read_by: str | None = None
    """The step that alone reads it, and for which it needn't be known how far its streams have come: the rows need not be
    kept for it. It is the first of `Level.ingest` that reads rows."""
    forgets: bool = False
    """Whether what a row would have met may be forgotten once the watermark has passed its event time: such a row is
    taken all the same, and counted as late."""
    by_clock: bool = False
    """Whether the watermark when it comes says which rows there are."""
    alone: bool = False
    """Whether nothing else reads its streams, so that their rows needn't be kept for it."""


@dataclass(frozen=True)
class StatePart:
    """One kind of state row; ``part`` is a partition of the state table."""

    name: str
    append: str
    """What a micro-batch adds. Where it `closes` by a column ``expires_at``, the row is of no use once
    the watermark is there."""
    fold: str
    """The same state in fewer rows, from ``state`` and ``clock``."""
    initial: str | None = None
    """As in `Step`."""
    time_zone: str | None = None
    """The zone on whose clock ``expires_at`` is measured; None: UTC."""
    lasts: int | None = None
    """Where each row is a fact of its own, so that folding takes out nothing but what has expired: the
    microseconds that a row is of use for. None: folding also puts rows together."""
    merges: bool = True
    """Whether folding puts rows together, so that it pays when the part has grown."""
    forgets: int | None = None
    """Microseconds of watermark after which there is something to forget, and the part is folded. None: never."""
    closes: str | None = EXPIRES_AT
    """The column whose greatest value is the watermark at which all of its results are out; None: they
    always are."""
    rewrite: Rewrite | None = None
    """What to use instead of `append` where that is less work; None: it only grows."""
    reads: tuple[str, ...] = ()
    """As in `Step`."""


_Made = TypeVar("_Made", Step, StatePart)


def reading(made: Iterable[_Made], parts: Iterable[StatePart]) -> tuple[_Made, ...]:
    """Steps or parts whose texts read no other parts of the state than these."""
    names = tuple(sorted({part.name for part in parts}))
    return tuple(replace(each, reads=names) for each in made)


@dataclass(frozen=True)
class Lookup:
    """A table outside that is asked for the keys of a step; its answer is what a join reads."""

    view: str
    """What the answer is under."""
    relation: str
    """The table as the model's SQL names it."""
    key: tuple[str, ...]
    """The columns it is asked by."""
    columns: tuple[str, ...] | None
    """The only columns that are needed, in lower case (other names may be among them); None: all."""
    keys: str
    """The distinct keys, as ``key_1``, ``key_2`` …"""


@dataclass(frozen=True)
class Level:
    """Rows that are judged, and what is made of them: of streams, or of what comes out of the level before. What all levels
    add to the state is written in one commit."""

    rows: tuple[Rows, ...]
    ingest: tuple[Step, ...]
    """Made from `rows` without those dropped, ``state`` as it was and ``clock``."""
    parts: tuple[StatePart, ...]
    emit: tuple[Step, ...]
    """Made for the next level, from ``state`` with what this level adds, and ``clock``."""
    known: tuple[Step, ...] = ()
    """Made before `rows`, which read them, from ``state`` and ``clock``."""
    lookups: tuple[Lookup, ...] = ()
    """Made after `known` and before `rows`, which read them."""

    @property
    def all_lookups(self) -> tuple[Lookup, ...]:
        """Those of its steps, too."""
        return (*self.lookups, *(each for step in (*self.known, *self.ingest) for each in step.lookups))


_OF_A_HISTORY = 1_000
"""Windows that may close in a stream's first micro-batch, for all that is known."""


@dataclass(frozen=True)
class Boundaries:
    """The instants at which windows close: ``offset + n * step``, in microseconds since 1970."""

    step: int
    offset: int
    time_zone: str | None = None
    """The zone whose clock they are counted on; None: UTC."""
    behind: int = 0
    """How long after them windows close."""

    def closing(self, before: int | None, after: int | None) -> int:
        """At how many of them windows may close when the watermark, so much before it and on that clock, goes from `before`
        to `after`.

        >>> Boundaries(60, 0).closing(30, 200), Boundaries(60, 0).closing(30, 59)
        (3, 0)
        """
        if after is None:
            return 0
        if before is None:
            return _OF_A_HISTORY
        return (after - self.offset) // self.step - (before - self.offset) // self.step


EVERYTHING = "select true as anything from clock"
"""What is fired where the output is all that there is."""


WHOLE = "whole"
"""What a signature says of a table that is put out anew and compared as a whole: it may have had several rows of a key."""

_SPARES = "fired.merge_from"
"""Of a session that goes on: what had closed before isn't of it."""


@dataclass(frozen=True)
class Upsert:
    """How rows of a table find those they replace."""

    key: tuple[str, ...] | None
    """The columns that identify a row; None: nothing does, and what is fired is the whole table."""
    fired: str
    """The windows (groups, rankings) whose rows are all among the output; a row of theirs that isn't is
    deleted."""
    scope: str
    """Whether a row of the table, ``old``, is of a window in ``fired``."""
    bound: tuple[str, str] | None
    """A column of the table that isn't less than one of `fired` where `scope` holds, and that one; None:
    there is no such."""
    certain: bool = True
    """Whether the key is known to tell rows apart; else that is looked at."""
    carried: Mapping[str, str] = field(default_factory=dict)
    """What columns of the table carry, where that is known: a window column, or a key of a stage."""
    change: str | None = None
    """The view with what comes and goes, where nothing identifies a row and the output is `TABLE_BEFORE` and that, added
    up; None: it isn't."""

    @property
    def is_whole(self) -> bool:
        """Whether the output is computed as a whole, and all of the table is compared with it."""
        return self.fired == EVERYTHING

    @property
    def signature(self) -> dict[str, object]:
        """How rows are found again, as plain JSON."""
        names = None if self.key is None else sorted(name.lower() for name in self.key)
        return {
            "columns": None if names is None else {name: self.carried.get(name, name) for name in names},
            # The order of the group keys is no matter, nor what spares rows that are found.
            "scope": sorted(each for each in self.scope.split(" and ") if not each.endswith(_SPARES)),
            "bound": self.bound[0] if self.bound else None,
        }


@dataclass(frozen=True)
class MiniBatch:
    """What a micro-batch is at most."""

    latency: int | None = None
    """Microseconds from one micro-batch to the next."""
    rows: int | None = None


@dataclass(frozen=True)
class Program:
    """All that a streaming model does in one micro-batch."""

    inputs: tuple[StreamInput, ...]
    levels: tuple[Level, ...]
    """Usually one; what stands over the result of a window adds another. None: no state."""
    output: str
    """The rows that go to the model's table, in the order of its columns."""
    boundaries: tuple[Boundaries, ...] | None
    """A batch in which none of these is crossed puts out nothing. None: every batch may."""
    lookups: tuple[Lookup, ...] = ()
    """Made before `output`, which reads them."""
    upsert: Upsert | None = None
    """None: rows are only ever added."""
    kept_for: int = 0
    """Microseconds that state is kept after its window's end: ``watermark_before`` and
    ``watermark_after`` are that much behind ``now_before`` and ``now_after``."""
    behind: int = 0
    """Microseconds that the watermark lies further behind than its delay says."""
    time_zones: tuple[str, ...] = ()
    """The zones that ``clock`` has columns for."""
    tables: tuple[str, ...] = ()
    """Those that are read afresh at each micro-batch."""
    mini_batch: MiniBatch | None = None
    """What a micro-batch is at most; None: the sources and the trigger say."""
    again: tuple[Step, ...] = ()
    """What `output` reads, made from the state after its commit, but for steps that are there since before it."""
    only_with: str | None = None
    """A step, kept and counted, without whose rows nothing is put out; None: `output` says."""
    flushes_from_state: bool = False
    """Whether a step without rows reads nothing but the state: windows are all that is kept, and it closes some."""
    reads_clock: bool = False
    """Whether `output` reads the watermark though there is no state, so that the table's commits have to carry it on."""
    puts_out_all: bool = False
    """Whether `output` is all there is, so that without rows the table is empty."""
    has_rows_of_nothing: bool = False
    """Whether there may be rows before the streams have had any: a total is one, of 0 rows."""
    signature: dict[str, object] = field(default_factory=dict)
    """What the state depends on, as plain JSON. Kept with the state and compared on the next run."""
    operators: Callable[[], Mapping[str, str]] | None = field(default=None, compare=False, repr=False)
    """Gives by part of the state the operator that keeps it, as `dbt-stream explain` calls it. None: nobody asked."""
    alike: Callable[[], Mapping[str, object]] | None = field(default=None, compare=False, repr=False)
    """Gives what the parts of a tree of operators are of, as plain JSON (`operators.alike`): kept with the signature. None:
    it is no such."""
    remake: Callable[[Collection[str]], Program] | None = field(default=None, compare=False, repr=False)
    """The same as a step without rows that makes anew what can be from the rest of the state (rankings of groups; in a
    tree of operators what stands on the groups that are named), and puts out all there is. None: nothing can be."""

    @property
    def keeps_state(self) -> bool:
        """Returns whether micro-batches leave anything in a state table."""
        return bool(self.levels)

    @property
    def parts(self) -> tuple[StatePart, ...]:
        """All parts of the state."""
        return tuple(part for level in self.levels for part in level.parts)


def needs_time(program: Program) -> bool:
    """Returns whether what a micro-batch does depends on how far event time has come."""
    rows = (each for level in program.levels for each in level.rows)
    return (
        program.flushes_from_state
        or program.boundaries is not None
        or program.reads_clock
        or any(each.timed or each.expires or each.forgets or each.by_clock for each in rows)
        # Whatever else asks, asks the clock.
        or any(name in f"{program.levels}{program.output}{program.again}" for name in _OF_THE_CLOCK)
    )


def called(program: Program, names: Mapping[str, str]) -> Program:
    """A program whose parts of the state, and groups, are called otherwise.

    Args:
        program: the program.
        names: by the names that it has for them, which stand in its texts for nothing else, those that they are to have.

    >>> state = StatePart("rows_1a2b", "select a from step", "select rows_1a2b_row from state where part = 'rows_1a2b'")
    >>> level = Level((), (), (state,), ())
    >>> program = Program((), (level,), "", None, signature={"parts": {"join_1": ["rows_1a2b"]}})
    >>> made = called(program, {"rows_1a2b": "rows_3c4d"})
    >>> made.levels[0].parts[0].fold, made.signature
    ("select rows_3c4d_row from state where part = 'rows_3c4d'", {'parts': {'join_1': ['rows_3c4d']}})
    """
    if not names:
        return program
    listed = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"(?:{listed})(?![0-9a-f])")
    own = {name: each for each, name in names.items()}

    def text(value: str) -> str:
        return pattern.sub(lambda found: names[found.group()], value)

    made = with_texts(program, text)
    # Of groups it is told by the names of the state.
    remake = program.remake
    if remake is None:
        return made
    return replace(made, remake=lambda groups: called(remake([own.get(n, n) for n in groups]), names))


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The same with other texts in it: a program, or anything that is made of dataclasses, tuples and dictionaries.

    Args:
        value: what holds them. What it gives when it is asked, it gives so, too.
        change: makes one of another.
    """

    def asked(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: with_texts(function(*arguments), change)

    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {with_texts(key, change): with_texts(each, change) for key, each in value.items()}
    if isinstance(value, tuple | list | frozenset | set):
        return type(value)(with_texts(each, change) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        made = {
            each.name: with_texts(getattr(value, each.name), change) for each in fields(value) if each.init
        }
        return replace(value, **made)
    return asked(value) if callable(value) and not isinstance(value, type) else value
