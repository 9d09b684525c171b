"""A lock that allows one writer per model and is released when the writing process ends.

The JVM holds the lock, because it is the JVM that writes: it may complete a commit a moment after its Python process was
killed, and the next run must not read the tables before. The operating system releases the lock when the JVM ends, for
any reason. A remote storage root has no such locks; there, Spark itself detects two writers of one checkpoint.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.errors import StreamError
from ..common.model import StreamModel
from ..common.session import jvm
from ..iceberg import owner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE = 15.0
"""Seconds to wait until the JVM ends whose Python process has ended."""

_held: set[str] = set()
_guard = threading.Lock()


@contextmanager
def model_lock(spark: SparkSession, model: StreamModel) -> Iterator[None]:
    """Holds the model's lock for the length of the block. Raises `StreamError` if another run holds it (the message
    names the process), or the model's files belong to another table."""
    if not model.storage.is_local:
        owner.check_owner(spark, model)
        yield
        return
    path = Path(model.lock)
    # A process must not open the file twice: closing it once would release the lock.
    with _guard:
        if model.lock in _held:
            raise _in_use_error(model, os.getpid())
        _held.add(model.lock)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = jvm(spark).java.io.RandomAccessFile(model.lock, "rw")
        try:
            _wait_for_lock(model, file.getChannel())
            file.setLength(0)
            file.write(json.dumps({"pid": os.getpid()}).encode())
            owner.check_owner(spark, model)
            yield
        finally:
            file.close()
    finally:
        with _guard:
            _held.discard(model.lock)


def is_held(model: StreamModel) -> bool | None:
    """Returns whether any process is running the model, or None if the storage is remote."""
    if not model.storage.is_local:
        return None
    try:
        file = open(model.lock, "rb")
    except FileNotFoundError:
        return False
    with file:
        try:
            # Closing the file would release locks of this process; but the JVM, another process, holds the lock.
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def check_free(model: StreamModel) -> None:
    """Raises if a run of the model is detected. Doesn't need Spark."""
    if is_held(model):
        raise _in_use_error(model, _holding_process(model))


def _wait_for_lock(model: StreamModel, channel: object) -> None:
    deadline, is_taken = time.monotonic() + _PATIENCE, False
    while channel.tryLock() is None:  # type: ignore[attr-defined]
        holder = _holding_process(model)
        if (is_taken and (holder is None or alive(holder))) or time.monotonic() > deadline:
            raise _in_use_error(model, holder)
        is_taken = True  # unless `is_held` in another process has locked the file for a moment
        time.sleep(0.1)


def _holding_process(model: StreamModel) -> int | None:
    try:
        return int(json.loads(Path(model.lock).read_text(encoding="utf-8"))["pid"])
    except (OSError, ValueError, KeyError):
        return None


def alive(pid: int) -> bool:
    """Returns whether a process of this machine exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _in_use_error(model: StreamModel, holder: int | None) -> StreamError:
    who = f"process {holder}" if holder else "another process"
    if model.is_deployment_version:
        return StreamError(
            f"Model {model.name}: {model.target}, a version of it, is being written ({who} holds {model.lock}). Wait until "
            "that ends."
        )
    return StreamError(
        f"Model {model.name}: another run of it is in progress ({who} holds {model.lock}). Wait until it ends, or "
        f"stop it with `dbt-stream stop {model.name}`."
    )
