"""Where Spark runs: one small idea, with an implementation per method of the profile."""

from __future__ import annotations

import atexit
import json
import threading
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment.file_sources import DeclaredSources
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.sources.stream_source import declared_earlier
from dbt.adapters.spark_streaming.util.redaction import cause_of, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials

__all__ = ["Environment", "Storage", "close_environments", "get_environment"]


DESCRIBED = ("type", "catalog-impl", "uri", "warehouse")


class Environment(ABC):
    """A place where Spark runs, for one target of a profile, with one session in it.

    `get_environment` gives the one that fits; nothing is started before `session` is asked for.
    """

    is_remote = False
    """Whether Spark is on a server, so that Iceberg's tables can be asked in SQL only."""

    def __init__(self, credentials: SparkStreamingCredentials) -> None:
        self.credentials = credentials
        self.storage = Storage(credentials.storage_root, self.session)
        self.declared = DeclaredSources(self.session)

    @abstractmethod
    def session(self) -> SparkSession:
        """The Spark session of this process, started at the first call. Safe from any thread.

        Raises:
            DbtRuntimeError: Spark can't be had, and why.
        """

    @property
    def settings(self) -> Mapping[str, str] | None:
        """Spark's settings of the target, whether or not a session has started; None: they are a server's.

        Raises:
            DbtRuntimeError: the profile is wrong; what to write instead.
        """
        return None

    def run(self, sql: str, group: str, description: str, project_root: str) -> DataFrame:
        """Run a statement in the calling thread, as part of a group that can be cancelled."""
        self.enter(group, description)
        self.declared.make_mentioned(sql, project_root)
        try:
            return self.session().sql(sql)
        except Exception as problem:
            # A view may read a declared source that the statement doesn't name.
            if self.declared.make_mentioned(str(problem), project_root):
                return self.run(sql, group, description, project_root)
            if earlier := declared_earlier(str(problem)):
                raise DbtRuntimeError(
                    f"A view that is read here reads source {earlier} as it was declared when the view was built. Build the "
                    "view again: dbt run --select and its name."
                ) from cause_of(problem)
            raise

    @abstractmethod
    def enter(self, group: str, description: str = "") -> None:
        """Count what the calling thread does from here on to a group that can be cancelled."""

    @abstractmethod
    def cancel(self, group: str) -> None:
        """Stop what runs in a group, and what it would still run."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """What runs: Spark, Iceberg, Java."""

    @property
    def catalog(self) -> str:
        """The catalog that models are in."""
        return self.credentials.catalog

    def all_iceberg(self) -> bool:
        """Whether whatever is in the models' catalog is Iceberg's."""
        implementation = self.session().conf.get(f"spark.sql.catalog.{self.catalog}", None)
        return implementation == "org.apache.iceberg.spark.SparkCatalog"

    def describe_catalog(self) -> str:
        """The models' catalog, for `dbt debug`. Leaves out what may be secret."""
        prefix = f"spark.sql.catalog.{self.catalog}"
        conf = self.session().conf
        told = [
            f"{key} {without_secrets(value)}"
            for key in DESCRIBED
            if (value := conf.get(f"{prefix}.{key}", None))
        ]
        what = ", ".join(told) or conf.get(prefix, None) or "the session's own"
        return f"{self.catalog} ({what})"

    def ended(self) -> str | None:
        """Returns how the JVM that this process started has ended, or None if it runs. Doesn't wait."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Stop streams and Spark. The next `session` starts anew."""

    def hurry(self) -> None:
        """Has `close` do what is necessary, and nothing for the next start."""
        return

    def stop_streams(self) -> None:
        """Stop all streams of the session."""
        for query in self.session().streams.active:
            query.stop()


_lock = threading.RLock()
_environments: dict[str, Environment] = {}


def get_environment(credentials: SparkStreamingCredentials) -> Environment:
    """The environment of a target. The same target gives the same one, in all of the process."""
    relevant = {
        k: v for k, v in asdict(credentials).items() if k not in ("schema", "file_format", "connections")
    }
    # In whatever order a profile says it.
    key = json.dumps(relevant, sort_keys=True, default=repr)
    with _lock:
        if key not in _environments:
            # A process has one Spark at most, so another target's ends here.
            close_environments()
            _environments[key] = _new(credentials)
        return _environments[key]


def places(credentials: SparkStreamingCredentials, session: Callable[[], SparkSession]) -> Environment:
    """The environment of another target, for its places. It isn't to be started; a session of this process reads them."""
    found = _new(credentials)
    found.storage = Storage(credentials.storage_root, session)
    return found


def _new(credentials: SparkStreamingCredentials) -> Environment:
    if credentials.method == "connect":
        from dbt.adapters.spark_streaming.environment.connect import ConnectEnvironment

        return ConnectEnvironment(credentials)
    from dbt.adapters.spark_streaming.environment.session import SessionEnvironment

    return SessionEnvironment(credentials)


def close_environments() -> None:
    """End all that this process has started."""
    with _lock:
        while _environments:
            _environments.popitem()[1].close()


atexit.register(close_environments)
