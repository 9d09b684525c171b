"""The health of a model: its state, since when, its last error. A small file beside its progress, with a heartbeat."""

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

from ..environment.storage import Storage
from ..stream.common.model import StreamModel
from ..stream.iceberg import owner
from ..stream.progress.watermark import to_text
from ..util.redaction import without_secrets

WAITING, CATCHING_UP, RUNNING, RESTARTING = "waiting", "catching_up", "running", "restarting"
FAILED, STOPPED = "failed", "stopped"
ALIVE = (WAITING, CATCHING_UP, RUNNING, RESTARTING)
"""States of a model that a process looks after. They need a heartbeat."""

SERVICE, ONCE = "dbt-stream run", "dbt run"
"""What looks after a model: until it is stopped, or once."""

CANCELLED = "Cancelled."
"""What dbt is told of a run that somebody interrupted."""

_MISSED = 3
"""Heartbeats that may be missing before a process counts as dead."""


@dataclass(frozen=True)
class Health:
    """What is known of a model."""

    model: str
    state: str
    since: float
    """When it came into this state; seconds since 1970, as all times here."""
    last_error: str | None = None
    """What it failed of the last time, until it is started again and has no failure."""
    restarts: int = 0
    """By the process that looks after it."""
    note: str | None = None
    """What a watchdog has to say."""
    by: str = SERVICE
    text: str | None = None
    """The checksum of the model's text that it runs with."""
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)
    heartbeat: float = 0.0
    every: float = 15.0
    """Seconds from one heartbeat to the next."""

    @property
    def is_alive(self) -> bool:
        """Whether a process looks after the model."""
        return self.state in ALIVE

    def as_of(self, now: float) -> Health:
        """Returns what holds now: a model whose process is gone has failed, whatever its file says."""
        if not self.is_alive:
            return self
        here = self.host == socket.gethostname()
        if (not here or _is_there(self.pid)) and now - self.heartbeat <= _MISSED * self.every:
            return self
        ended = f"Process {self.pid} on {self.host}, which ran it, ended without a word; it was {self.state} then."
        error = f"{ended} The error before that: {self.last_error}" if self.last_error else ended
        return replace(self, state=FAILED, since=self.heartbeat, last_error=error, note=None)

    def shown(self) -> dict[str, Any]:
        """Returns it for people and their programs."""
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


NEVER_RAN: Mapping[str, Any] = {
    "state": STOPPED,
    "since": None,
    "last_error": None,
    "restarts": 0,
    "note": None,
    "by": None,
    "pid": None,
    "host": None,
}
"""What is shown of a model without a file."""


def read_health(model: StreamModel, now: float | None = None) -> Health | None:
    """Returns the health of a model as of now, or None if no run has noted any."""
    text = model.storage.read_text(model.health)
    if text is None:
        return None
    try:
        return Health(**json.loads(text)).as_of(time.time() if now is None else now)
    except (TypeError, ValueError):
        return None  # not ours to read, and only what is looked at


def kept_elsewhere(model: StreamModel) -> Health | None:
    """Returns the health of a model that another process's ``dbt-stream run`` looks after, else None."""
    found = None if owner.problem(model) else read_health(model)
    if found is None or not found.is_alive or found.by != SERVICE:
        return None
    return None if (found.pid, found.host) == (os.getpid(), socket.gethostname()) else found


class Publisher:
    """Writes the health of models from a thread of its own, so that nobody waits for storage.

    Args:
        storage: where the files are.
        beat: seconds between heartbeats; default: by how far away the storage is.
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
        """Has the newest health of a model written soon, and again at each heartbeat while a process looks after it."""
        with self._changed:
            self._latest[path] = health
            self._unwritten.add(path)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="health", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def settle(self, seconds: float) -> bool:
        """Waits until all that was published is written, for a time; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unwritten and not self._writing, seconds)

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._unwritten), self.beat)
                if not self._unwritten:
                    self._unwritten = {path for path, each in self._latest.items() if each.is_alive}
                due = {path: self._latest[path] for path in self._unwritten}
                self._unwritten, self._writing = set(), True
            for path, health in due.items():
                # Storage that is away is written again at the next heartbeat.
                with suppress(Exception):
                    if (storage := self._storage()) is not None:
                        write_health(storage, path, health, self.beat)
            with self._changed:
                self._writing = False
                # Those that ended stay as they were written.
                for path, health in due.items():
                    if not health.is_alive and self._latest.get(path) is health:
                        del self._latest[path]
                self._changed.notify_all()


_lock = threading.Lock()
_by_storage: weakref.WeakKeyDictionary[Storage, Publisher] = weakref.WeakKeyDictionary()


def publisher(storage: Storage) -> Publisher:
    """Returns what writes the health of the models of a storage root, of which a process needs one."""
    with _lock:
        if storage not in _by_storage:
            _by_storage[storage] = Publisher(storage)
        return _by_storage[storage]


def write_health(storage: Storage, path: str, health: Health, beat: float) -> None:
    """Replaces the file of a model's health."""
    found = replace(health, heartbeat=time.time(), every=beat)
    storage.write_text(path, json.dumps(asdict(found), indent=1))


@contextmanager
def noted(model: StreamModel) -> Iterator[None]:
    """Notes that ``dbt run`` takes in what a model's streams have, and what came of it."""
    if _is_kept(model):
        # This run is going to be refused.
        yield
        return
    writer = publisher(model.storage)
    began = Health(model.name, CATCHING_UP, time.time(), by=ONCE)
    writer.publish(model.health, began)
    end = replace(began, state=STOPPED)
    try:
        yield
    except Exception as problem:
        end = _failed(model, problem) or end
        raise
    finally:
        writer.publish(model.health, replace(end, since=time.time()))
        writer.settle(5)


@contextmanager
def noted_if_it_fails(model: StreamModel) -> Iterator[None]:
    """Notes that ``dbt run`` couldn't begin with a model."""
    try:
        yield
    except Exception as problem:
        with suppress(Exception):
            health = _failed(model, problem)
            if health is not None and owner.problem(model) is None and not _is_kept(model):
                writer = publisher(model.storage)
                writer.publish(model.health, health)
                writer.settle(5)
        raise


def _failed(model: StreamModel, problem: Exception) -> Health | None:
    error = without_secrets(getattr(problem, "msg", None) or problem)
    return None if error == CANCELLED else Health(model.name, FAILED, time.time(), error, by=ONCE)


def _is_kept(model: StreamModel) -> bool:
    """Returns whether another run of a model is going on, in this process or another one."""
    found = read_health(model)
    return found is not None and found.is_alive


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
