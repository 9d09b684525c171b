"""Fetches Java packages once into the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from ..sources.connectors import ICEBERG_VERSION
from ..util.paths import expand_home
from .java import Java, Jvm, proxy_flags, truststore_flags, write_truststore

logger = AdapterLogger("Spark")

ICEBERG = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG_VERSION}"
SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
LOCAL_FILES = "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"
"""A local file system for Hadoop. Hadoop's own starts a `chmod` process for each file, some thirty in a micro-batch."""
LOCAL_FILES_CLASS = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
"""The class of `LOCAL_FILES` in Hadoop's settings."""


def default_cache() -> Path:
    """Returns the user's cache folder, shared by all projects."""
    if own := os.environ.get("DBT_SPARK_STREAMING_CACHE"):
        return expand_home(own)
    return expand_home(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "dbt-spark-streaming"


def jars_of_packages(
    coordinates: Sequence[str],
    java: Java,
    cache: Path,
    settings: Mapping[str, str] | None = None,
    fetch: Callable[[Sequence[str], Java, Path, Mapping[str, str]], list[Path]] | None = None,
) -> list[Path]:
    """Returns the jars of packages and of their dependencies. Only the first call for a set uses the network.

    Args:
        settings: Spark settings. ``spark.jars.excludes``, ``spark.jars.repositories`` and ``spark.jars.ivySettings`` are
            used. By default packages come from Spark's default repositories.
        fetch: downloads packages, given the other arguments, and returns all jars. By default Spark's Ivy does.
    """
    settings = settings or {}
    wanted = {"packages": sorted(set(coordinates)), "excludes": settings.get("spark.jars.excludes", "")}
    digest = hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:16]
    record = cache / "resolved" / f"{digest}.json"
    if found := _recorded_jars(record):
        return found
    try:
        with _file_lock(cache / "fetching.lock"):
            # Another process may have fetched them while this one waited.
            if found := _recorded_jars(record):
                return found
            logger.info(f"Fetching {', '.join(wanted['packages'])}, once, into {cache}")
            paths = (fetch or _fetch_packages)(wanted["packages"], java, cache, settings)
            record.parent.mkdir(parents=True, exist_ok=True)
            partial = record.with_suffix(".partial")
            partial.write_text(json.dumps({**wanted, "jars": [str(path) for path in paths]}, indent=1))
            partial.replace(record)
    except OSError as problem:
        raise DbtRuntimeError(
            f"Java packages are kept in {cache}, which can't be written: {problem.strerror}. Name another folder "
            "as 'cache_dir' in the profile, or in the environment variable DBT_SPARK_STREAMING_CACHE."
        ) from problem
    logger.info(f"Fetched {_folder_megabytes(cache / 'ivy' / 'jars')} MB of Java packages")
    return paths


def _recorded_jars(record: Path) -> list[Path] | None:
    try:
        paths = [Path(path) for path in json.loads(record.read_text())["jars"]]
    except (OSError, ValueError, KeyError):
        return None
    return paths if all(path.is_file() for path in paths) else None


def _fetch_packages(
    packages: Sequence[str], java: Java, cache: Path, settings: Mapping[str, str]
) -> list[Path]:
    truststore = cache / "truststore.jks"
    write_truststore(truststore)
    # The certificates of a system's Java are usually right. Behind a proxy that only Python knows, Python's are.
    attempts = [truststore_flags(truststore)] if java.from_wheel else [[], truststore_flags(truststore)]
    problem = ""
    for flags in attempts:
        jvm = Jvm(java, flags=["-Xmx256m", *proxy_flags(), *flags])
        try:
            with _logging_progress(cache / "ivy"):
                return _resolve_with_ivy(jvm, packages, cache, settings)
        except Exception as exception:
            problem = "\n".join([str(getattr(exception, "java_exception", exception)), *jvm.last_lines])
            logger.debug(problem)
        finally:
            jvm.close()
    raise DbtRuntimeError(
        f"The Java packages {', '.join(packages)} couldn't be fetched. Check the network and the names; behind a "
        "company's mirror, name it in 'server_side_parameters' as spark.jars.ivySettings or "
        f"spark.jars.repositories. The error was:\n{_error_lines(problem)}"
    )


def _resolve_with_ivy(
    jvm: Jvm, packages: Sequence[str], cache: Path, settings: Mapping[str, str]
) -> list[Path]:
    java = jvm.gateway.jvm
    found = java.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(
        True,
        settings.get("spark.jars.excludes"),
        ",".join(packages),
        settings.get("spark.jars.repositories"),
        # Not ~/.m2 or ~/.ivy2, where an incomplete entry makes Ivy fail.
        str(cache / "ivy"),
        java.scala.Option.apply(settings.get("spark.jars.ivySettings")),
    )
    return [Path(found.apply(index)) for index in range(found.size())]


@contextmanager
def _logging_progress(folder: Path, every: float = 5) -> Iterator[None]:
    """Logs the size of a folder every `every` seconds."""
    done = threading.Event()

    def log_size() -> None:
        while not done.wait(every):
            logger.info(f"… {_folder_megabytes(folder)} MB so far")

    watcher = threading.Thread(target=log_size, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _folder_megabytes(folder: Path) -> int:
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # renamed when complete
                size += os.stat(os.path.join(parent, name)).st_size
    return round(size / 1e6)


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _error_lines(text: str) -> str:
    """Returns the lines of Ivy's output that contain errors."""
    lines = [line.strip() for line in text.splitlines()]
    telling = [
        line
        for line in lines
        if any(word in line for word in ("unresolved", "not found", "error", "Exception", "PKIX", "refused"))
        and not line.startswith("at ")
    ]
    return "\n".join(list(dict.fromkeys(telling or lines))[-8:])
