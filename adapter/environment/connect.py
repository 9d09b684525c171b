"""The environment of ``method: connect``: a session on a Spark Connect server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment import Environment

from ..util.redaction import redacted_cause, without_secrets
from .session import iceberg_version
from .spark_errors import readable_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..credentials import SparkStreamingCredentials

logger = AdapterLogger("Spark")

DEFAULT_CATALOG = "lakehouse"


class ConnectEnvironment(Environment):
    """A session on a running server, with the server's catalogs."""

    is_remote = True

    def __init__(self, credentials: SparkStreamingCredentials) -> None:
        super().__init__(credentials)
        self._lock = threading.RLock()
        self._session: SparkSession | None = None

    def session(self) -> SparkSession:
        with self._lock:
            if self._session is None:
                self._session = self._connect()
            return self._session

    def _connect(self) -> SparkSession:
        try:
            from pyspark.sql.connect.session import SparkSession as RemoteSession
        except ImportError as problem:
            raise DbtRuntimeError(
                "'method: connect' needs pyspark's client for Spark Connect, which isn't installed: "
                f"pip install 'dbt-spark-streaming[connect]'. ({readable_error(problem)})"
            ) from problem
        host = str(self.credentials.host)
        try:
            session = RemoteSession.builder.remote(host).create()
            session.version  # noqa: B018  the first request to the server
        except Exception as problem:
            raise DbtRuntimeError(
                f"There is no Spark Connect server at {without_secrets(host)}: {readable_error(problem).splitlines()[0]}"
            ) from redacted_cause(problem)
        for key, value in self.credentials.server_side_parameters.items():
            try:
                session.conf.set(key, value)
            except Exception as problem:
                raise DbtRuntimeError(
                    f"'{key}' in 'server_side_parameters' can't be set on a server that runs already. Set it where "
                    "the server is started."
                ) from redacted_cause(problem)
        if self.credentials.catalog != DEFAULT_CATALOG:
            session.catalog.setCurrentCatalog(self.credentials.catalog)
        return session  # type: ignore[return-value]

    @property
    def catalog(self) -> str:
        """The catalog that models are in: the server's current one, unless the profile names one."""
        return self.session().catalog.currentCatalog()

    def enter_job_group(self, group: str, description: str = "") -> None:
        session = self.session()
        session.clearTags()
        session.addTag(group)

    def cancel(self, group: str) -> None:
        if self._session is not None:
            self.stop_streams()
            self._session.interruptTag(group)

    def versions(self) -> dict[str, str]:
        session = self.session()
        return {"Spark": f"{session.version} (the server's)", "Iceberg": iceberg_version(session)}

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                try:
                    session.stop()
                except Exception as problem:
                    logger.debug(f"While leaving the server: {without_secrets(problem)}")
