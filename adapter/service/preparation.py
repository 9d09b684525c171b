"""Prepares models for the service: `dbt run` plans them, creates their tables, and hands their streams over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..query.program import Program
from ..stream.common.errors import StreamError
from ..stream.common.model import StreamModel


@dataclass(frozen=True)
class Prepared:
    """A model whose table exists, and the program that keeps it up to date."""

    model: StreamModel
    program: Program
    trigger: str | None
    """The interval between micro-batches that the model configures, or None."""


_handed_over: dict[str, Prepared] | None = None


@contextmanager
def preparing() -> Iterator[Mapping[str, Prepared]]:
    """Makes dbt hand streams over instead of running them. Yields a mapping, by unique id, to which they are added."""
    global _handed_over
    found: dict[str, Prepared] = {}
    _handed_over = found
    try:
        yield found
    finally:
        _handed_over = None


def hand_over(unique_id: str, prepared: Prepared) -> bool:
    """Hands a prepared model over inside `preparing`. Returns whether it did; if not, the caller runs the stream."""
    found = _handed_over
    if found is None:
        return False
    found[unique_id] = prepared
    return True


def is_preparing() -> bool:
    """Returns whether this process is inside `preparing`."""
    return _handed_over is not None


@dataclass(frozen=True)
class Outcome:
    """The result of a model in a `dbt run`."""

    name: str
    status: str
    message: str = ""
    prepared: Prepared | None = None
    problem: BaseException | None = None
    """The exception that made it fail."""


class PreparationError(StreamError):
    """dbt couldn't prepare a model. The text is dbt's message."""


class SkippedError(PreparationError):
    """dbt skipped a model, because a model that it reads failed."""


Run = Callable[[Sequence[str], Callable[[Outcome], None]], None]
"""Prepares models by name and reports each outcome. Raises errors that concern all of them."""


class Preparer:
    """Prepares models on request of their threads. Requests of about the same time share one `dbt run`.

    A process can only run dbt once at a time, and a run of many models costs little more than a run of one.

    Args:
        first: the models of the first run, which waits for the requests of all of them.
    """

    def __init__(self, run: Run, first: Sequence[str] = ()) -> None:
        self._run = run
        self._first = set(first)
        self._changed = threading.Condition()
        self._requested: set[str] = set()
        self._found: dict[str, Prepared | BaseException] = {}
        self._thread: threading.Thread | None = None
        self.is_busy = False
        """Whether dbt runs now."""

    def prepare(self, name: str, is_stop_requested: Callable[[], bool] = lambda: False) -> Prepared | None:
        """Prepares a model and returns it, or None if a stop is requested before it is ready."""
        with self._changed:
            self._found.pop(name, None)
            self._requested.add(name)
            if self._thread is None:
                self._thread = threading.Thread(target=self._prepare_requested, name="prepare", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            while name not in self._found:
                if is_stop_requested():
                    self._requested.discard(name)
                    self._first.discard(name)
                    self._changed.notify_all()
                    return None
                self._changed.wait(0.5)
            found = self._found.pop(name)
        if isinstance(found, BaseException):
            raise found
        return found

    def _prepare_requested(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._requested) and self._first <= self._requested)
                names, self._first = sorted(self._requested), set()
                self._requested.clear()
                self.is_busy = True
            try:
                self._prepare(names)
            finally:
                self.is_busy = False

    def _prepare(self, names: Sequence[str]) -> None:
        left = set(names)

        def record_outcome(outcome: Outcome) -> None:
            if outcome.name not in left:
                return
            left.discard(outcome.name)
            self._set_result(outcome.name, outcome.prepared or _preparation_error(outcome))

        try:
            self._run(names, record_outcome)
            problem: BaseException = PreparationError("dbt gave no reason; see logs/dbt.log.")
        except BaseException as raised:  # a SystemExit would end this thread, and all models would wait
            problem = raised
        for name in left:
            self._set_result(name, problem)

    def _set_result(self, name: str, found: Prepared | BaseException) -> None:
        with self._changed:
            self._found[name] = found
            self._changed.notify_all()


def _preparation_error(outcome: Outcome) -> PreparationError:
    if outcome.status == "skipped":
        return SkippedError(outcome.message or "a model that it reads failed")
    found = PreparationError(outcome.message or f"dbt says '{outcome.status}'; see logs/dbt.log.")
    found.__cause__ = outcome.problem
    return found


def without_dbt_headings(text: Any) -> str:
    """Returns a message of dbt without its headings and its macro stack.

    >>> without_dbt_headings("Runtime Error in model m (m.sql)\\n  Model m: it is wrong.\\n  \\n  > in macro x (y.sql)")
    'Model m: it is wrong.'
    """
    lines = []
    for line in str(text or "").splitlines():
        if line.strip().startswith(("> in macro", "> called by")):
            break
        lines.append(line.strip())
    while len(lines) > 1 and ("Error in model" in lines[0] or lines[0].endswith(" Error")):
        lines.pop(0)
    return "\n".join(lines).strip()
