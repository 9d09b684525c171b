"""The storage root: its folders, and access to small files in them.

A local root is accessed with `pathlib`, which needs no JVM, any other with Hadoop's file systems.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import shutil
import threading
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dbt_common.exceptions import DbtRuntimeError

from ..util.redaction import redacted_cause, without_secrets

_T = TypeVar("_T")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
_WHOLE = "fs.capability.outputstream.abortable"
"""Hadoop's capability of a file system in which a file isn't visible until it is closed."""


def is_local(path: str) -> bool:
    """Returns whether a path is on this machine's file system.

    >>> is_local("/a/b"), is_local("s3a://bucket/a")
    (True, False)
    """
    return _SCHEME.match(path) is None


class StorageError(DbtRuntimeError):
    """The storage root can't be reached."""


class Storage:
    """The storage root of a target.

    Args:
        root: an absolute local path or any Hadoop path.
        session: returns a Spark session. Only called if `root` isn't local.
    """

    def __init__(self, root: str, session: Callable[[], Any]) -> None:
        self.root = re.sub(r"^file:(?://)?(?=/)", "", root).rstrip("/") or "/"
        self._session = session
        self.warehouse = self.path("warehouse")
        """Folder of the tables' files."""
        self.catalog = self.path("catalog.db")
        """File of the embedded catalog."""
        self.checkpoints = self.path("checkpoints")
        """Folder of Structured Streaming's checkpoints."""
        self.locks = self.path("locks")
        """Folder with a file per running model."""
        self.progress = self.path("progress")
        """Folder of the models' last progress."""
        self.savepoints = self.path("savepoints")
        """Folder of the savepoints' metadata and checkpoints. Their rows are in snapshots of the models' tables."""
        self.deployments = self.path("deployments")
        """Folder with a file per blue/green deployment."""
        self.tables = self.path("tables")
        """Folder with a file per model that names the table its files belong to."""
        self.cleaned = self.path("cleaned")
        """Folder with a file per model whose sources move or delete files that were read (cleanSource)."""

    @property
    def is_local(self) -> bool:
        """Whether the root is on this machine's file system."""
        return is_local(self.root)

    def path(self, *parts: str) -> str:
        """Returns a path under the root."""
        return posixpath.join(self.root, *parts)

    def hide_from_git(self) -> None:
        """Writes a ``.gitignore`` of everything to a root named ``.spark``, the default inside a project."""
        file = Path(self.path(".gitignore"))
        if posixpath.basename(self.root) == ".spark" and not file.exists():
            file.write_text("*\n", encoding="utf-8")

    def read_json(self, path: str) -> dict[str, Any]:
        """Returns the JSON object in a file, or an empty one if the file doesn't exist."""
        return dict(json.loads(self.read_text(path) or "{}"))

    def read_text(self, path: str) -> str | None:
        """Returns the content of a file, or None if it doesn't exist."""
        if is_local(path):
            try:
                return Path(path).read_text(encoding="utf-8")
            except (FileNotFoundError, NotADirectoryError):
                return None
        files, hadoop_path = self._hadoop_file_system(path)
        if not files.exists(hadoop_path):
            return None
        stream = files.open(hadoop_path)
        try:
            return bytes(stream.readAllBytes()).decode("utf-8")
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Writes a file atomically: a reader sees either the old text or the new one.

        On an object store a write is atomic, while a rename would be a delete and a copy. Elsewhere a temporary file is
        renamed.
        """
        partial = f"{path}.{uuid.uuid4().hex}.partial"
        if is_local(path):
            target = Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(partial, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
            return
        files, target_path = self._hadoop_file_system(path)
        if files.hasPathCapability(target_path, _WHOLE):
            _write_hadoop_file(files, target_path, text)
            return
        _, partial_path = self._hadoop_file_system(partial)
        _write_hadoop_file(files, partial_path, text)
        # Unlike FileSystem.rename, FileContext can replace a file atomically.
        jvm = self._session()._jvm
        rename = jvm.org.apache.hadoop.fs.Options.Rename
        options = self._session().sparkContext._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(target_path.toUri(), files.getConf())
        context.rename(partial_path, target_path, options)

    def exists(self, path: str) -> bool:
        """Returns whether a file or folder exists."""
        if is_local(path):
            return os.path.exists(path)
        files, hadoop_path = self._hadoop_file_system(path)
        return bool(files.exists(hadoop_path))

    def delete(self, path: str) -> None:
        """Deletes a file, or a folder with its content, if it exists."""
        if is_local(path):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                Path(path).unlink(missing_ok=True)
            return
        files, hadoop_path = self._hadoop_file_system(path)
        files.delete(hadoop_path, True)

    def list(self, path: str) -> list[str]:
        """Returns the sorted names in a folder; empty if there is no such folder."""
        if is_local(path):
            try:
                return sorted(os.listdir(path))
            except (FileNotFoundError, NotADirectoryError):
                return []
        files, hadoop_path = self._hadoop_file_system(path)
        if not files.exists(hadoop_path):
            return []
        return sorted(status.getPath().getName() for status in files.listStatus(hadoop_path))

    def modification_times(self, path: str) -> dict[str, int]:
        """Returns the modification times, in milliseconds since 1970, of all files under a folder at any depth.

        If the path is a file, it is the only one.
        """
        if is_local(path):
            files = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
            found = {}
            for file in files if os.path.isdir(path) else [path]:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    found[file] = os.stat(file).st_mtime_ns // 1_000_000
            return found
        files, hadoop_path = self._hadoop_file_system(path)
        if not files.exists(hadoop_path):
            return {}
        listed, found = files.listFiles(hadoop_path, True), {}
        while listed.hasNext():
            status = listed.next()
            found[str(status.getPath())] = int(status.getModificationTime())
        return found

    def unwritable_reason(self) -> str | None:
        """Returns why the root can't be written, or None if it can.

        Raises:
            StorageError: the root can't be reached.
        """
        probe = self.path(f".probe-{uuid.uuid4().hex}")
        try:
            self.write_text(probe, "")
            self.delete(probe)
        except OSError as problem:
            return f"{problem.strerror or problem}"
        except StorageError:
            raise
        except Exception as problem:
            cause = getattr(problem, "java_exception", problem)
            return str(cause).splitlines()[0]
        return None

    def _hadoop_file_system(self, path: str) -> tuple[Any, Any]:
        session = self._session()
        hadoop = session._jvm.org.apache.hadoop
        hadoop_path = hadoop.fs.Path(path)
        try:
            return hadoop_path.getFileSystem(session._jsc.hadoopConfiguration()), hadoop_path
        except Exception as problem:
            # Raised only on access, because batch models don't need the root; their tables may have other credentials.
            cause = str(getattr(problem, "java_exception", problem)).splitlines()[0]
            version = hadoop.util.VersionInfo.getVersion()
            raise StorageError(
                f"The storage root {without_secrets(self.root)} can't be reached: {without_secrets(cause)}. "
                "If classes are missing, name the Java packages of its file system under 'packages' in the profile: s3 for "
                f"s3a, Maven coordinates for others, in the version of Spark's Hadoop ({version})."
            ) from redacted_cause(problem)


def once_per_storage(make: Callable[[Storage], _T]) -> Callable[[Storage], _T]:
    """Returns a function that makes one object for each storage root of this process."""
    lock = threading.Lock()
    objects: weakref.WeakKeyDictionary[Storage, _T] = weakref.WeakKeyDictionary()

    def get_or_make(storage: Storage) -> _T:
        with lock:
            if storage not in objects:
                objects[storage] = make(storage)
            return objects[storage]

    return get_or_make


def _write_hadoop_file(files: Any, path: Any, text: str) -> None:
    stream = files.create(path, True)
    stream.write(bytearray(text.encode("utf-8")))
    stream.close()
