"""Starts, watches and restarts models independently of each other. Running a model is a function, so this needs no Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..util.redaction import without_secrets
from ..util.text import counted
from .failures import Failure, classify_failure
from .health import FAILED, RESTARTING, RUNNING, STOPPED, WAITING, Health
from .restart_policy import RestartPolicy


class NotReady(Exception):
    """A model can't start yet: a table that it reads doesn't exist."""


class Attempt:
    """One start of a model, shared by its thread and the supervisor."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        """Set to request the end of the model."""
        self.phase = WAITING
        """`WAITING` until its stream has started, then `CATCHING_UP`, then `RUNNING`."""
        self.has_committed = False
        """Whether this attempt has committed a micro-batch."""
        self.is_over = False
        self.problem: BaseException | None = None


Work = Callable[[str, Attempt], None]
"""Runs a model until it is stopped or its stream ends. Raises if it fails."""


@dataclass
class Supervised:
    """A model and its health."""

    name: str
    state: str = WAITING
    since: float = 0.0
    last_error: str | None = None
    restarts: int = 0
    """Total number of restarts."""
    in_a_row: int = 0
    """Number of restarts since it last counted as recovered."""
    note: str | None = None
    due: float = 0.0
    """Monotonic time of the next start."""
    started: float = 0.0
    attempt: Attempt | None = None
    lacks_table: bool = False
    """Whether it waits for a table that another model creates."""
    waits: int = 0
    """Number of starts in a row that found no such table. They are no failures."""
    asked_to_stop: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it is not started again."""
        return self.state in (FAILED, STOPPED)


def run_in_thread(name: str, work: Callable[[], None]) -> None:
    """Runs work in a daemon thread."""
    threading.Thread(target=work, name=name, daemon=True).start()


@dataclass
class Supervisor:
    """Supervises models until all have ended.

    `advance` has to be called regularly and never blocks: it starts models that are due and handles those that have ended.
    """

    names: Iterable[str]
    work: Work
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    fail_fast: bool = False
    now: Callable[[], float] = time.time
    """Returns seconds since 1970, for display."""
    elapsed: Callable[[], float] = time.monotonic
    """Returns monotonic seconds, to measure durations."""
    spawn: Callable[[str, Callable[[], None]], None] = run_in_thread
    kind_of: Callable[[BaseException], Failure] = classify_failure
    say: Callable[[str], None] = print
    models: dict[str, Supervised] = field(init=False)

    def __post_init__(self) -> None:
        now, elapsed = self.now(), self.elapsed()
        self.models = {name: Supervised(name, since=now, due=elapsed) for name in self.names}

    @property
    def is_over(self) -> bool:
        return all(each.is_over for each in self.models.values())

    @property
    def failed_names(self) -> list[str]:
        return [each.name for each in self.models.values() if each.state == FAILED]

    def advance(self) -> None:
        """Starts the models that are due, and updates the state of the others."""
        for each in self.models.values():
            if each.attempt is not None:
                self._update_from_attempt(each, each.attempt)
            if each.attempt is None and not each.is_over and each.due <= self.elapsed():
                self._start_attempt(each)
        self._give_up_waiting()

    def stop(self, name: str) -> None:
        """Requests the end of a model."""
        each = self.models[name]
        each.asked_to_stop = True
        if each.attempt is not None:
            each.attempt.stop.set()
        elif not each.is_over:
            self._mark_ended(each)

    def stop_all(self) -> None:
        """Requests the end of all models."""
        for name in self.models:
            self.stop(name)

    def abandon_all(self) -> None:
        """Marks all models as stopped without waiting for their threads."""
        for each in self.models.values():
            if not each.is_over:
                each.attempt = None
                self._mark_ended(each)

    def fail_all(self, error: str) -> None:
        """Marks all models that haven't ended as failed, because Spark has ended."""
        for each in self.models.values():
            if not each.is_over:
                each.attempt = None
                each.last_error = error
                self._set_state(each, FAILED)

    def health(self, name: str) -> Health:
        each = self.models[name]
        return Health(each.name, each.state, each.since, each.last_error, each.restarts, note=each.note)

    def _start_attempt(self, each: Supervised) -> None:
        each.attempt = attempt = Attempt()
        each.started = self.elapsed()

        def run_attempt() -> None:
            try:
                self.work(each.name, attempt)
            except BaseException as problem:
                attempt.problem = problem
            attempt.is_over = True

        self.spawn(each.name, run_attempt)

    def _update_from_attempt(self, each: Supervised, attempt: Attempt) -> None:
        """Updates a model's state from its attempt."""
        is_over = attempt.is_over  # read first: the other fields are final once it is set
        if attempt.phase != WAITING:
            each.lacks_table, each.waits = False, 0
            # A restarted model stays `RESTARTING` until it has committed or caught up: it may fail again.
            if each.in_a_row == 0 or attempt.has_committed or attempt.phase == RUNNING:
                self._set_state(each, attempt.phase)
        if attempt.phase == RUNNING and self.elapsed() - each.started >= self.policy.reset_after:
            each.in_a_row, each.last_error = 0, None
        if not is_over:
            return
        each.attempt = None
        if attempt.problem is None:
            self._mark_ended(each)
        elif each.asked_to_stop:
            each.last_error = _error_sentence(attempt.problem)
            self._mark_ended(each)
        else:
            self._handle_failure(each, attempt.problem)

    def _handle_failure(self, each: Supervised, problem: BaseException) -> None:
        error = _error_sentence(problem)
        is_news, each.last_error = error != each.last_error, error
        if isinstance(problem, NotReady):
            each.lacks_table = True
            each.due = self.elapsed() + (RestartPolicy(longest=30).pause(each.waits) or 0.0)
            each.waits += 1
            self._set_state(each, WAITING)
            if is_news:
                self.say(f"{each.name}: waiting. {error}")
            return
        each.lacks_table = False
        is_transient = self.kind_of(problem) is Failure.TRANSIENT
        pause = self.policy.pause(each.in_a_row) if is_transient else None
        if pause is None:
            given_up = each.in_a_row if is_transient else 0
            self._set_state(each, FAILED)
            after = f" Given up after {counted(given_up, 'restart')}." if given_up else ""
            self.say(f"{each.name}: failed. {error}{after}")
            if self.fail_fast:
                self.say("--fail-fast: the other models are stopped.")
                self.stop_all()
            return
        each.in_a_row += 1
        each.restarts += 1
        each.due = self.elapsed() + pause
        self._set_state(each, RESTARTING)
        self.say(
            f"{each.name}: restarts in {pause:.0f} s ({counted(each.in_a_row, 'time')} in a row). {error}"
        )

    def _give_up_waiting(self) -> None:
        """Fails the models that wait for a table if all remaining models do, because none of them will create it."""
        left = [each for each in self.models.values() if not each.is_over]
        if left and all(each.lacks_table and each.attempt is None for each in left):
            for each in left:
                self._set_state(each, FAILED)
                self.say(f"{each.name}: failed. {each.last_error}")

    def _mark_ended(self, each: Supervised) -> None:
        """Marks a model as stopped, or as failed if it hasn't recovered from its last error."""
        is_failing = each.state == RESTARTING or each.lacks_table
        self._set_state(each, FAILED if is_failing else STOPPED)
        self.say(f"{each.name}: stopped{', before it had recovered' if is_failing else ''}")

    def _set_state(self, each: Supervised, state: str) -> None:
        if each.state != state:
            each.state, each.since = state, self.now()


def _error_sentence(problem: BaseException) -> str:
    found = str(getattr(problem, "msg", None) or problem) or type(problem).__name__
    return without_secrets(found).strip()
