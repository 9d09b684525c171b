"""Publishes the health of models: state, time and last error, in a file next to the progress, with a heartbeat."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..environment.storage import Storage, once_per_storage
from ..stream.common.errors import StreamError
from ..stream.common.model import StreamModel
from ..stream.iceberg import owner
from ..stream.progress.watermark import to_text
from ..stream.run.lock import alive
from ..util.redaction import without_secrets
from .preparation import without_dbt_headings

WAITING, CATCHING_UP, RUNNING, RESTARTING = "waiting", "catching_up", "running", "restarting"
FAILED, STOPPED = "failed", "stopped"
ALIVE = (WAITING, CATCHING_UP, RUNNING, RESTARTING)
"""States of a model that a process supervises. They need a heartbeat."""

SERVICE, ONCE = "dbt-stream run", "dbt run"
"""The command that runs a model: until it is stopped, or once."""

CANCELLED = "Cancelled."
"""The error that dbt gets of a run that a user interrupted."""

_MISSED = 3
"""Missed heartbeats after which a process counts as dead."""


@dataclass(frozen=True)
class Health:
    """The health of a model. Times are in seconds since 1970."""

    model: str
    state: str
    since: float
    """Time at which the model entered this state."""
    last_error: str | None = None
    """The last failure, until the model has recovered from it."""
    restarts: int = 0
    """Number of restarts by the current process."""
    note: str | None = None
    """A warning of the watchdog."""
    by: str = SERVICE
    """The command that runs the model."""
    text: str | None = None
    """Checksum of the model's text that is running."""
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)
    heartbeat: float = 0.0
    every: float = 15.0
    """Seconds between heartbeats."""

    @property
    def is_alive(self) -> bool:
        """Whether a process supervises the model, according to the file."""
        return self.state in ALIVE

    def as_of(self, now: float) -> Health:
        """Returns the health at a time: failed, if the process has ended or its heartbeats are missing."""
        if not self.is_alive:
            return self
        here = self.host == socket.gethostname()
        if (not here or alive(self.pid)) and now - self.heartbeat <= _MISSED * self.every:
            return self
        ended = f"Process {self.pid} on {self.host}, which ran it, ended without saying why; its state was {self.state}."
        error = f"{ended} The error before that: {self.last_error}" if self.last_error else ended
        return replace(self, state=FAILED, since=self.heartbeat, last_error=error, note=None)

    def as_json(self) -> dict[str, Any]:
        """Returns the health as a JSON object for `dbt-stream status`."""
        return {
            "state": self.state,
            "since": to_text(int(self.since * 1e6)),
            "last_error": self.last_error,
            "restarts": self.restarts,
            "note": self.note,
            "by": self.by,
            "pid": self.pid if self.is_alive else None,
            "host": self.host if self.is_alive else None,
        }


NEVER_RAN: Mapping[str, Any] = {**Health("", STOPPED, 0.0).as_json(), "since": None, "by": None}
"""Health of a model without a file, as `Health.as_json` returns it."""


def read_health(model: StreamModel, now: float | None = None) -> Health | None:
    """Returns the current health of a model, or None if it has no health file."""
    text = model.storage.read_text(model.health)
    if text is None:
        return None
    try:
        return Health(**json.loads(text)).as_of(time.time() if now is None else now)
    except (TypeError, ValueError):
        return None  # written by another version; health is only displayed


def health_in_other_process(model: StreamModel) -> Health | None:
    """Returns the health of a model that ``dbt-stream run`` in another process supervises, else None."""
    found = None if belongs_to_other_catalog(model) else read_health(model)
    if found is None or not found.is_alive or found.by != SERVICE:
        return None
    return None if (found.pid, found.host) == (os.getpid(), socket.gethostname()) else found


def belongs_to_other_catalog(model: StreamModel) -> bool:
    """Returns whether the files of a model belong to a table of another target's catalog. False if that can't be read: the
    model's own run reports it."""
    try:
        return owner.other_catalog_problem(model) is not None
    except StreamError:
        return False


class Publisher:
    """Writes health files from a separate thread, so that callers don't wait for storage.

    Args:
        beat: seconds between heartbeats. Default: 15 for local storage, else 60.
    """

    def __init__(self, storage: Storage, beat: float | None = None) -> None:
        self.beat = beat or (15.0 if storage.is_local else 60.0)
        self._storage = weakref.ref(storage)
        self._changed = threading.Condition()
        self._latest: dict[str, Health] = {}
        self._unwritten: set[str] = set()
        self._writing = False
        self._thread: threading.Thread | None = None

    def publish(self, path: str, health: Health) -> None:
        """Schedules the health of a model to be written now, and at each heartbeat while its state is one of `ALIVE`."""
        with self._changed:
            self._latest[path] = health
            self._unwritten.add(path)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_health_files, name="health", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait_until_written(self, seconds: float) -> bool:
        """Waits until everything published is written, for `seconds` at most. Returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unwritten and not self._writing, seconds)

    def _write_health_files(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._unwritten), self.beat)
                if not self._unwritten:
                    self._unwritten = {path for path, each in self._latest.items() if each.is_alive}
                due = {path: self._latest[path] for path in self._unwritten}
                self._unwritten, self._writing = set(), True
            for path, health in due.items():
                # If the storage is unavailable, the next heartbeat tries again.
                with suppress(Exception):
                    if (storage := self._storage()) is not None:
                        write_health(storage, path, health, self.beat)
            with self._changed:
                self._writing = False
                # Models that have ended need no heartbeat.
                for path, health in due.items():
                    if not health.is_alive and self._latest.get(path) is health:
                        del self._latest[path]
                self._changed.notify_all()


publisher = once_per_storage(Publisher)
"""Returns this process's publisher for a storage root."""


def write_health(storage: Storage, path: str, health: Health, beat: float) -> None:
    """Replaces the file of a model's health."""
    found = replace(health, heartbeat=time.time(), every=beat)
    storage.write_text(path, json.dumps(asdict(found), indent=1))


@contextmanager
def publishing_health(model: StreamModel) -> Iterator[None]:
    """Publishes the health of a model while ``dbt run`` catches up with its sources, and the outcome afterwards."""
    if _is_running(model):
        # Another run is in progress; this one is about to be refused.
        yield
        return
    writer = publisher(model.storage)
    began = Health(model.name, CATCHING_UP, time.time(), by=ONCE)
    writer.publish(model.health, began)
    end = replace(began, state=STOPPED)
    try:
        yield
    except Exception as problem:
        end = _health_after_failure(model, problem) or end
        raise
    finally:
        writer.publish(model.health, replace(end, since=time.time()))
        writer.wait_until_written(5)


@contextmanager
def publishing_failure(model: StreamModel) -> Iterator[None]:
    """Publishes a failure of ``dbt run`` before it starts a model's stream."""
    try:
        yield
    except Exception as problem:
        with suppress(Exception):
            health = _health_after_failure(model, problem)
            if health is not None and owner.other_catalog_problem(model) is None and not _is_running(model):
                writer = publisher(model.storage)
                writer.publish(model.health, health)
                writer.wait_until_written(5)
        raise


def _health_after_failure(model: StreamModel, problem: Exception) -> Health | None:
    error = without_dbt_headings(without_secrets(getattr(problem, "msg", None) or problem))
    return None if error == CANCELLED else Health(model.name, FAILED, time.time(), error, by=ONCE)


def _is_running(model: StreamModel) -> bool:
    """Returns whether another run of a model is in progress, in this process or another one."""
    found = read_health(model)
    return found is not None and found.is_alive
