"""The environment that Spark runs in, with an implementation per ``method`` of the profile."""

from __future__ import annotations

import atexit
import json
import threading
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING

from dbt_common.exceptions import DbtRuntimeError

from ..sources.stream_source import name_declared_earlier
from ..util.redaction import redacted_cause, without_secrets
from .file_sources import DeclaredSources
from .storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from ..credentials import SparkStreamingCredentials

__all__ = ["ICEBERG_CATALOG", "Environment", "Storage", "close_environments", "get_environment"]


ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
"""The class of a catalog that only contains Iceberg tables."""
_DESCRIBED = ("type", "catalog-impl", "uri", "warehouse")
"""Options of a catalog that `dbt debug` shows."""


class Environment(ABC):
    """Spark for one target of a profile, with one session.

    `get_environment` returns the environment of a target. Spark starts with the first call of `session`.
    """

    is_remote = False
    """Whether Spark runs on a server, so that Iceberg tables can only be read with SQL."""

    def __init__(self, credentials: SparkStreamingCredentials) -> None:
        self.credentials = credentials
        self.storage = Storage(credentials.storage_root, self.session)
        self.declared = DeclaredSources(self.session)

    @abstractmethod
    def session(self) -> SparkSession:
        """Returns the Spark session of this process, which the first call starts. Thread-safe."""

    @property
    def settings(self) -> Mapping[str, str] | None:
        """Spark's settings of the target, without starting a session. None if a server has them."""
        return None

    def run(self, sql: str, group: str, description: str) -> DataFrame:
        """Runs a statement in the calling thread, as part of a job group that can be cancelled."""
        self.enter_job_group(group, description)
        self.declared.create_tables_named_in(sql)
        try:
            return self.session().sql(sql)
        except Exception as problem:
            # A view may read a declared source that the statement doesn't name.
            if self.declared.create_tables_named_in(str(problem)):
                return self.run(sql, group, description)
            if earlier := name_declared_earlier(str(problem)):
                raise DbtRuntimeError(
                    f"A view that is read here reads source {earlier} as it was declared when the view was built. Build the "
                    "view again: dbt run --select and its name."
                ) from redacted_cause(problem)
            raise

    @abstractmethod
    def enter_job_group(self, group: str, description: str = "") -> None:
        """Assigns the calling thread's later work to a job group that can be cancelled."""

    @abstractmethod
    def cancel(self, group: str) -> None:
        """Cancels the running and future jobs of a group."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Returns the versions of Spark, Iceberg and Java."""

    @property
    def catalog(self) -> str:
        return self.credentials.catalog

    def has_only_iceberg(self, schema: Sequence[str]) -> bool:
        """Returns whether a schema is in a catalog that only contains Iceberg tables.

        Args:
            schema: the parts of its name. Without a catalog it is in the models' catalog.
        """
        catalog = schema[0] if len(schema) > 1 else self.catalog
        implementation = self.session().conf.get(f"spark.sql.catalog.{catalog}", None)
        return implementation == ICEBERG_CATALOG

    def describe_catalog(self) -> str:
        """Describes the models' catalog for `dbt debug`, without secrets."""
        prefix = f"spark.sql.catalog.{self.catalog}"
        conf = self.session().conf
        shown = [
            f"{key} {without_secrets(value)}"
            for key in _DESCRIBED
            if (value := conf.get(f"{prefix}.{key}", None))
        ]
        what = ", ".join(shown) or conf.get(prefix, None) or "the session's own"
        return f"{self.catalog} ({what})"

    def jvm_end_message(self) -> str | None:
        """Returns how the JVM of this process ended, or None if it is running. Doesn't block."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Stops all streams and Spark. The next call of `session` starts Spark again."""

    def speed_up_close(self) -> None:
        """Makes `close` skip the work that only speeds up the next start."""
        return

    def stop_streams(self) -> None:
        for query in self.session().streams.active:
            query.stop()


_lock = threading.RLock()
_environments: dict[str, Environment] = {}


def get_environment(credentials: SparkStreamingCredentials) -> Environment:
    """Returns the environment of a target. There is one per target in a process."""
    relevant = {
        k: v for k, v in asdict(credentials).items() if k not in ("schema", "file_format", "connections")
    }
    key = json.dumps(relevant, sort_keys=True, default=repr)
    with _lock:
        if key not in _environments:
            # A process can only run one Spark, so that of another target is closed.
            close_environments()
            _environments[key] = _make_environment(credentials)
        return _environments[key]


def unstarted_environment(
    credentials: SparkStreamingCredentials, session: Callable[[], SparkSession]
) -> Environment:
    """Returns the environment of another target, to locate its files and tables. It must not be started.

    Args:
        session: returns the session of this process, which reads the other target's storage.
    """
    found = _make_environment(credentials)
    found.storage = Storage(credentials.storage_root, session)
    return found


def _make_environment(credentials: SparkStreamingCredentials) -> Environment:
    if credentials.method == "connect":
        from .connect import ConnectEnvironment

        return ConnectEnvironment(credentials)
    from .session import SessionEnvironment

    return SessionEnvironment(credentials)


def close_environments() -> None:
    """Closes all environments of this process."""
    with _lock:
        while _environments:
            _environments.popitem()[1].close()


atexit.register(close_environments)
