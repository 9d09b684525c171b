"""Where things are kept: folders under the storage root, and small files in them.

A local root is handled with `pathlib`, so that files can be looked at without a JVM; any other
through Hadoop's file systems, which Spark has.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from ..util.redaction import cause_of, without_secrets

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
_WHOLE = "fs.capability.outputstream.abortable"
"""Hadoop's word for a file system on which nothing is seen of a file until it is closed."""


def is_local(path: str) -> bool:
    """Whether a path is on this machine's file system.

    >>> is_local("/a/b"), is_local("s3a://bucket/a")
    (True, False)
    """
    return _SCHEME.match(path) is None


class StorageError(DbtRuntimeError):
    """A storage root that can't be reached."""


class Storage:
    """The storage root of a target.

    Args:
        root: an absolute local path or any Hadoop path.
        session: gives a Spark session; called only where `root` isn't local.
    """

    def __init__(self, root: str, session: Callable[[], Any]) -> None:
        self.root = root.removeprefix("file://").rstrip("/") or "/"
        self._session = session

    @property
    def is_local(self) -> bool:
        """Whether the root is on this machine's file system."""
        return is_local(self.root)

    @property
    def warehouse(self) -> str:
        """Tables' files."""
        return self.path("warehouse")

    @property
    def catalog(self) -> str:
        """The embedded catalog's file."""
        return self.path("catalog.db")

    @property
    def checkpoints(self) -> str:
        """Structured Streaming's own record of each stream's progress."""
        return self.path("checkpoints")

    @property
    def locks(self) -> str:
        """One file per model that is being written."""
        return self.path("locks")

    @property
    def progress(self) -> str:
        """The last progress of each model."""
        return self.path("progress")

    @property
    def savepoints(self) -> str:
        """What the savepoints of each model name, beside the snapshots of its tables."""
        return self.path("savepoints")

    @property
    def deployments(self) -> str:
        """What is noted of new versions of models that are built beside the old ones."""
        return self.path("deployments")

    @property
    def tables(self) -> str:
        """A note for each model: which table its files belong to."""
        return self.path("tables")

    @property
    def cleaned(self) -> str:
        """A note for each model whose sources' files are moved or removed once they are read."""
        return self.path("cleaned")

    def path(self, *parts: str) -> str:
        """A path under the root."""
        return posixpath.join(self.root, *parts)

    def read_text(self, path: str) -> str | None:
        """The content of a file; None if there is none."""
        if is_local(path):
            try:
                return Path(path).read_text(encoding="utf-8")
            except FileNotFoundError:
                return None
        files, hadoop_path = self._hadoop(path)
        if not files.exists(hadoop_path):
            return None
        stream = files.open(hadoop_path)
        try:
            return bytes(stream.readAllBytes()).decode("utf-8")
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Write a file, all or nothing: a reader sees the old text or the new one.

        An object store shows a file when it is whole, and the old one until then. To rename it there would be to delete the
        old one, and to copy.
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
        files, target_path = self._hadoop(path)
        if files.hasPathCapability(target_path, _WHOLE):
            _write(files, target_path, text)
            return
        _, partial_path = self._hadoop(partial)
        _write(files, partial_path, text)
        # FileContext replaces in one step where the file system can; FileSystem.rename can't.
        jvm = self._session()._jvm
        rename = jvm.org.apache.hadoop.fs.Options.Rename
        options = self._session().sparkContext._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(target_path.toUri(), files.getConf())
        context.rename(partial_path, target_path, options)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        if is_local(path):
            return os.path.exists(path)
        files, hadoop_path = self._hadoop(path)
        return bool(files.exists(hadoop_path))

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it. Nothing there is no error."""
        if is_local(path):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                Path(path).unlink(missing_ok=True)
            return
        files, hadoop_path = self._hadoop(path)
        files.delete(hadoop_path, True)

    def list(self, path: str) -> list[str]:
        """The names in a folder, sorted; none if there is no such folder."""
        if is_local(path):
            try:
                return sorted(os.listdir(path))
            except FileNotFoundError:
                return []
        files, hadoop_path = self._hadoop(path)
        if not files.exists(hadoop_path):
            return []
        return sorted(status.getPath().getName() for status in files.listStatus(hadoop_path))

    def files(self, path: str) -> dict[str, int]:
        """All files under a folder, however deep (or the one file), and when each was written last, in milliseconds since
        1970."""
        if is_local(path):
            files = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
            found = {}
            for file in files if os.path.isdir(path) else [path]:
                with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                    found[file] = os.stat(file).st_mtime_ns // 1_000_000
            return found
        files, hadoop_path = self._hadoop(path)
        if not files.exists(hadoop_path):
            return {}
        listed, found = files.listFiles(hadoop_path, True), {}
        while listed.hasNext():
            status = listed.next()
            found[str(status.getPath())] = int(status.getModificationTime())
        return found

    def problem(self) -> str | None:
        """Why the root can't be written; None if it can.

        Raises:
            StorageError: it can't be reached.
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

    def _hadoop(self, path: str) -> tuple[Any, Any]:
        session = self._session()
        hadoop = session._jvm.org.apache.hadoop
        hadoop_path = hadoop.fs.Path(path)
        try:
            return hadoop_path.getFileSystem(session._jsc.hadoopConfiguration()), hadoop_path
        except Exception as problem:
            # Only here: what is built in batch needs no root, and its tables may have a way of their own to the bucket.
            cause = str(getattr(problem, "java_exception", problem)).splitlines()[0]
            version = hadoop.util.VersionInfo.getVersion()
            raise StorageError(
                f"The storage root {without_secrets(self.root)} can't be reached: {without_secrets(cause)}. "
                "Where it is classes that are missing, name the Java packages of its file system under 'packages' in the "
                f"profile, as org.apache.hadoop:hadoop-aws:{version} for s3a, of the Hadoop that Spark has ({version})."
            ) from cause_of(problem)


def _write(files: Any, path: Any, text: str) -> None:
    stream = files.create(path, True)
    stream.write(bytearray(text.encode("utf-8")))
    stream.close()
