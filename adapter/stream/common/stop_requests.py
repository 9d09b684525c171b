"""Watches the files that request runs of models to stop, in one thread for all models."""

from __future__ import annotations

import posixpath
import threading
import time
import weakref
from dataclasses import dataclass

from ...environment.storage import Storage, once_per_storage
from .model import StreamModel

_HERE, _AWAY = 0.5, 10.0
"""Seconds between two checks, for local and for remote folders."""


@dataclass(eq=False)
class StopRequest:
    """A watched request to stop a model: `is_asked` becomes true when this or another process makes it."""

    path: str
    is_asked: bool = False


class StopRequests:
    """Watches the folder with stop requests of all models in a separate thread, so that slow storage delays no stream.

    Args:
        every: seconds between two checks; None for the default of local or remote storage.
    """

    def __init__(self, storage: Storage, every: float | None = None) -> None:
        self._storage = weakref.ref(storage)
        self._every = every or (_HERE if storage.is_local else _AWAY)
        self._lock = threading.Lock()
        self._watched: list[StopRequest] = []
        self._thread: threading.Thread | None = None

    def watch(self, model: StreamModel, keep: bool = False) -> StopRequest:
        """Starts to watch for a request for a model. Deletes a request that already exists, unless `keep`."""
        if not keep:
            model.storage.delete(model.stop_request)
        request = StopRequest(model.stop_request)
        with self._lock:
            self._watched.append(request)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._check_requests, name="stop-requests", daemon=True
                )
                self._thread.start()
        return request

    def forget(self, request: StopRequest) -> None:
        """Stops watching for a request."""
        with self._lock:
            self._watched = [each for each in self._watched if each is not request]

    def _check_requests(self) -> None:
        while True:
            with self._lock:
                # Considers only requests that are watched before the folder is listed: for a later one, the listing may
                # show a file that `watch` has deleted since.
                watched = list(self._watched)
                if not watched:
                    self._thread = None
                    return
            names = self._requested_names() if any(not each.is_asked for each in watched) else set()
            for each in watched:
                if posixpath.basename(each.path) in names:
                    each.is_asked = True
            time.sleep(self._every)

    def _requested_names(self) -> set[str]:
        storage = self._storage()
        try:
            return set() if storage is None else set(storage.list(storage.locks))
        except Exception:
            return set()  # unavailable; the next check tries again


stop_requests = once_per_storage(StopRequests)
"""Returns this process's watcher of the stop requests of a storage root."""
