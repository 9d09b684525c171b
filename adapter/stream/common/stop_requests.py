"""Notices files that ask runs of models to end, in one thread for all of them."""

from __future__ import annotations

import posixpath
import threading
import time
import weakref
from dataclasses import dataclass

from ...environment.storage import Storage
from .model import StreamModel

_HERE, _AWAY = 0.5, 10.0
"""Seconds from one look to the next, at folders of this machine and at others."""


@dataclass(eq=False)
class StopRequest:
    """Whether somebody, who may be in another process, wants a model to end."""

    path: str
    is_asked: bool = False


class StopRequests:
    """Looks at the folder with stop requests, once for all models, in a thread of its own.

    Storage that is away delays only this thread.

    Args:
        storage: where the folder is.
        every: seconds between two looks; default: by how far away the storage is.
    """

    def __init__(self, storage: Storage, every: float | None = None) -> None:
        self._storage = weakref.ref(storage)
        self._every = every or (_HERE if storage.is_local else _AWAY)
        self._lock = threading.Lock()
        self._watched: list[StopRequest] = []
        self._thread: threading.Thread | None = None

    def watch(self, model: StreamModel) -> StopRequest:
        """Looks for requests for a model from now on. One that is there already is deleted."""
        model.storage.delete(model.stop_request)
        request = StopRequest(model.stop_request)
        with self._lock:
            self._watched.append(request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="stop-requests", daemon=True)
                self._thread.start()
        return request

    def forget(self, request: StopRequest) -> None:
        """Looks for a request no more."""
        with self._lock:
            self._watched = [each for each in self._watched if each is not request]

    def _look(self) -> None:
        while True:
            with self._lock:
                # Only those that are watched before the folder is listed: the file of a later one may be an old one.
                watched = list(self._watched)
                if not watched:
                    self._thread = None
                    return
            names = self._names() if any(not each.is_asked for each in watched) else set()
            for each in watched:
                if posixpath.basename(each.path) in names:
                    each.is_asked = True
            time.sleep(self._every)

    def _names(self) -> set[str]:
        storage = self._storage()
        try:
            return set() if storage is None else set(storage.list(storage.locks))
        except Exception:
            return set()  # away; it is looked at again


_lock = threading.Lock()
_by_storage: weakref.WeakKeyDictionary[Storage, StopRequests] = weakref.WeakKeyDictionary()


def stop_requests(storage: Storage) -> StopRequests:
    """Returns what looks at the requests of a storage root, of which a process needs one."""
    with _lock:
        if storage not in _by_storage:
            _by_storage[storage] = StopRequests(storage)
        return _by_storage[storage]
