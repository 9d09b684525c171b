"""The window functions: what a macro prints, and the arithmetic of windows and slices.

A row belongs to exactly one *slice*; a window is a run of slices (Apache Flink calls this slice
sharing). All arithmetic is on microseconds since 1970-01-01, as SQL over BIGINT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from . import intervals
from .errors import QueryError
from .program import Boundaries

KINDS = ("tumble", "hop", "cumulate")
STREAM = "stream"
"""The hint that marks a relation as a stream without giving it windows."""


@dataclass(frozen=True)
class Window:
    """A window function over a time column. Lengths are in microseconds.

    `size` is the length of a window (of the longest one for cumulate), `step` the distance of
    window ends: the size for tumble, the slide for hop.
    """

    kind: str
    time_col: str
    size: int
    step: int
    offset: int = 0
    emit: str = "every_step"

    @property
    def slice(self) -> int:
        """The length of a slice."""
        return gcd(self.size, self.step) if self.kind == "hop" else self.step

    @property
    def boundaries(self) -> Boundaries:
        """When windows close."""
        return Boundaries(self.step, (self.offset + self.size) % self.step)

    @property
    def grows(self) -> bool:
        """Whether windows with the same start follow each other, each holding the one before."""
        return self.kind == "cumulate"

    def slice_end(self, micros: str) -> str:
        """SQL for the end of the slice an instant lies in."""
        return f"{micros} - {_pmod(micros, self.offset, self.slice)} + {self.slice}"

    def start(self, micros: str) -> str:
        """SQL for the start of the window (of the longest one) an instant lies in; not for hop."""
        return f"{micros} - {_pmod(micros, self.offset, self.size)}"

    def first_end(self, slice_end: str) -> str:
        """SQL for the end of the first window that holds a slice."""
        if self.kind != "hop":
            return slice_end
        return f"{slice_end} + {_pmod(f'-({slice_end})', -(self.offset + self.size), self.step)}"

    def last_end(self, slice_end: str) -> str:
        """SQL for the end of the last window that holds a slice."""
        if self.kind == "tumble":
            return slice_end
        if self.kind == "cumulate":
            return f"{self.start(f'({slice_end} - 1)')} + {self.size}"
        return self.end_until(f"({slice_end} + {self.size - self.slice})")

    def end_until(self, micros: str) -> str:
        """SQL for the last window end at or before an instant."""
        return f"{micros} - {_pmod(micros, self.offset + self.size, self.step)}"

    def end_after(self, micros: str) -> str:
        """SQL for the first window end after an instant."""
        return f"{self.end_until(micros)} + {self.step}"

    def hint(self) -> str:
        """The hint that carries this window through the compiled text."""
        lengths = [self.size] if self.kind == "tumble" else [self.step, self.size]
        arguments = [f"'{intervals.format(length)}'" for length in (*lengths, self.offset)]
        if self.emit != "every_step":
            arguments.append(f"'{self.emit}'")
        return f"{self.kind.upper()}({quote(self.time_col)}, {', '.join(arguments)})"

    def __str__(self) -> str:
        lengths = intervals.format(self.size)
        if self.kind != "tumble":
            lengths = f"{intervals.format(self.step)}, {lengths}"
        offset = f", offset {intervals.format(self.offset)}" if self.offset else ""
        emit = f", emit {self.emit}" if self.emit != "every_step" else ""
        return f"{self.kind}({self.time_col}, {lengths}{offset}{emit})"


def make(
    kind: str, time_col: str, *lengths: object, offset: object = "0 seconds", emit: str = "every_step"
) -> Window:
    """A checked `Window` from the arguments of its macro, in the macro's order.

    Raises:
        QueryError: a length that doesn't parse or fit the others; the message names both.
    """
    names = {"tumble": ("size",), "hop": ("slide", "size"), "cumulate": ("step", "max_size")}[kind]
    if len(lengths) != len(names):
        raise QueryError(f"{kind}() takes {' and '.join(names)}, found {len(lengths)} lengths.")
    values = [
        intervals.parse(length, f"{kind}(): {name}") for name, length in zip(names, lengths, strict=True)
    ]
    for name, value, text in zip(names, values, lengths, strict=True):
        if value <= 0:
            raise QueryError(f"{kind}(): {name} '{text}' must be longer than nothing.")
    step, size = values[0], values[-1]
    if kind == "cumulate" and size % step:
        raise QueryError(
            f"cumulate(): max_size '{lengths[1]}' is not a multiple of step '{lengths[0]}'; "
            "choose a step that divides max_size."
        )
    if kind == "hop" and step > size:
        raise QueryError(
            f"hop(): slide '{lengths[0]}' is longer than size '{lengths[1]}', so rows would lie in no window; "
            "make the slide at most the size."
        )
    if emit not in ("every_step", "on_change"):
        raise QueryError(f"{kind}(): emit '{emit}' is unknown; write 'every_step' or 'on_change'.")
    if not time_col or not str(time_col).strip():
        raise QueryError(f"{kind}(): time_col is empty; name the column that holds the event time.")
    shift = intervals.parse(offset, f"{kind}(): offset") % (step if kind == "hop" else size)
    return Window(kind, unquote(str(time_col)), size, step, shift, emit)


def from_hint(name: str, arguments: Sequence[str]) -> Window:
    """The window that `Window.hint` wrote."""
    kind, (time_col, *texts) = name.lower(), arguments
    count = 1 if kind == "tumble" else 2
    offset = texts[count] if len(texts) > count else "0 seconds"
    emit = texts[count + 1] if len(texts) > count + 1 else "every_step"
    return make(kind, time_col, *texts[:count], offset=offset, emit=emit)


def expand(relation: str, window: Window) -> str:
    """A subquery in plain Spark SQL that gives every row its windows: what the macro prints.

    Rows without an event time are in no window. For readers and engines that know nothing of
    streams; the planner reads the hint and takes only the relation from it.
    """
    ts = micros(window.time_col)
    slice_end = window.slice_end(ts)
    if window.kind == "tumble":
        ends = f"lateral view explode(array({slice_end})) windows as end_micros"
    else:
        first, last = window.first_end(f"({slice_end})"), window.last_end(f"({slice_end})")
        ends = f"lateral view explode(sequence({first}, {last}, {window.step})) windows as end_micros"
    start = window.start("(end_micros - 1)") if window.grows else f"end_micros - {window.size}"
    condition = f"input.{quote(window.time_col)} is not null"
    if window.emit == "on_change":
        # Only the steps in which a key has new data: known where rows are grouped, not here.
        condition += " /* emit = on_change: silent steps are left out by the planner */"
    return (
        f"(\n  select /*+ {window.hint()} */ input.*,\n"
        f"    timestamp_micros({start}) as window_start,\n"
        f"    timestamp_micros(end_micros) as window_end,\n"
        f"    timestamp_micros(end_micros - 1) as window_time\n"
        f"  from (select * from {relation}) as input\n"
        f"  {ends}\n"
        f"  where {condition}\n)"
    )


def expand_stream(relation: str) -> str:
    """What ``stream(relation)`` prints: the relation, marked."""
    return f"(select /*+ {STREAM.upper()} */ * from {relation})"


def micros(time_col: str) -> str:
    """SQL for a time column of ``input`` as microseconds; TIMESTAMP_NTZ is taken in the session's zone."""
    return f"unix_micros(cast(input.{quote(time_col)} as timestamp))"


def quote(name: str) -> str:
    """A column name as Spark reads it back."""
    return "`" + name.replace("`", "``") + "`"


def unquote(name: str) -> str:
    """A column name without its quotes."""
    name = name.strip()
    return name[1:-1].replace("``", "`") if len(name) > 1 and name[0] == name[-1] == "`" else name


def _pmod(micros: str, offset: int, modulus: int) -> str:
    offset %= modulus
    return f"pmod({micros}{f' - {offset}' if offset else ''}, {modulus})"
