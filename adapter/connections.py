"""dbt's connections. All of them share the environment's one session; each is a job group in it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.connections import SparkConnectionManager, SparkConnectionWrapper
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from dbt.adapters.spark_streaming.environment import Environment, get_environment
from dbt.adapters.spark_streaming.environment.spark_errors import readable_error
from dbt.adapters.spark_streaming.sources.messages import exception_text
from dbt.adapters.spark_streaming.util.lazy_import import import_lazily
from dbt.adapters.spark_streaming.util.quoting import literal
from dbt.adapters.spark_streaming.util.redaction import redacted_cause, without_secrets
from dbt.adapters.spark_streaming.util.types import type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

    from dbt.adapters.spark_streaming.query.sql import semicolons
else:
    import_lazily(
        globals(),
        {
            "query.sql": ["semicolons"],
        },
    )

logger = AdapterLogger("Spark")

_numbers = itertools.count(1)

_PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds between attempts of a statement whose commit conflicts with another one."""

_CONFLICTS = (
    "Found conflicting files",
    "Missing required files to delete",
    "Found new conflicting delete files",
)
"""Texts in Iceberg's errors on a commit that conflicts with another one."""


class Handle(SparkConnectionWrapper):
    """The handle of a dbt connection. Runs statements one after the other, and can be cancelled."""

    def __init__(self, environment: Environment, name: str) -> None:
        self.environment = environment
        self.group = f"dbt-{next(_numbers)}"
        self.cancelled = False
        self._running = False
        self._name = name
        self._frame: DataFrame | None = None
        self._rows: list[Row] | None = None

    def cursor(self) -> Handle:
        """Returns this handle, ready for another statement."""
        self._frame = self._rows = None
        return self

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Runs a statement. A query's rows are computed when they are fetched."""
        if bindings:
            sql = sql % tuple(literal(value) for value in bindings)
        if ";" in sql:
            sql = semicolons.without_semicolons(sql)
        sql = sql.strip().removesuffix(";")
        with self.raising_dbt_errors():
            self._frame = self._run(sql)

    def _run(self, sql: str) -> DataFrame:
        """Runs a statement, and again if its commit conflicts with another one: concurrent batches of a microbatch model
        may change the same file. A statement that Iceberg refused has changed nothing."""
        for pause in (*_PAUSES, None):
            try:
                return self.environment.run(sql, self.group, self._name)
            except Exception as problem:
                text = exception_text(problem)
                if pause is None or self.cancelled or not any(phrase in text for phrase in _CONFLICTS):
                    raise
                logger.debug(f"The commit conflicts with another one; trying again in {pause} s")
                time.sleep(pause)
        raise AssertionError("unreachable")

    def prepare_thread(self, text: str) -> None:
        """Assigns the calling thread's work to this connection, and creates tables for the declared sources that a SQL or
        Python text names."""
        self.environment.enter_job_group(self.group, self._name)
        self.environment.declared.create_tables_named_in(text)

    def fetchall(self) -> list[Row] | None:
        """Returns all rows of the last statement."""
        if self._rows is None and self._frame is not None:
            with self.raising_dbt_errors():
                self._rows = self._frame.collect()
        return self._rows

    def fetchmany(self, size: int) -> list[Row]:
        """Returns the first `size` rows of the last statement."""
        if self._frame is None:
            return []
        with self.raising_dbt_errors():
            return self._frame.take(size)

    def fetchone(self) -> Row | None:
        """Returns the next row of the last statement, or None."""
        rows = self.fetchall()
        return rows.pop(0) if rows else None

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, bool]]:
        """The columns of the last statement, as the DB API describes them."""
        if self._frame is None:
            return []
        return [
            (field.name, type_text(field.dataType), None, None, None, None, field.nullable)
            for field in self._frame.schema.fields
        ]

    @property
    def schema(self) -> StructType:
        """The columns of the last statement as a Spark schema."""
        from pyspark.sql.types import StructType

        return StructType() if self._frame is None else self._frame.schema

    def cancel(self) -> None:
        """Cancels the running statement and refuses later ones."""
        self.cancelled = True
        self.environment.cancel(self.group)
        threading.Thread(target=self._cancel_until_ended, name=f"cancel-{self.group}", daemon=True).start()

    def _cancel_until_ended(self) -> None:
        # A statement that was being planned when it was cancelled still starts its jobs afterwards.
        while self._running:
            time.sleep(0.5)
            self.environment.cancel(self.group)

    def close(self) -> None:
        """Releases the rows of the last statement."""
        self._frame = self._rows = None

    def rollback(self) -> None:
        """Does nothing: each statement is its own transaction."""

    @contextmanager
    def raising_dbt_errors(self) -> Generator[None, None, None]:
        """Converts exceptions of its block to dbt errors with a readable message."""
        if self.cancelled:
            raise DbtDatabaseError("Cancelled.")
        self._running = True
        try:
            yield
        except Exception as problem:
            if self.cancelled:
                raise DbtDatabaseError("Cancelled.") from None
            if isinstance(problem, DbtRuntimeError):
                raise
            raise DbtDatabaseError(readable_error(problem)) from redacted_cause(problem)
        finally:
            self._running = False


class SparkStreamingConnectionManager(SparkConnectionManager):
    """Opens connections in the environment of the target."""

    TYPE = "spark_streaming"

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Starts Spark if needed, and gives the connection its handle."""
        if connection.state == ConnectionState.OPEN:
            return connection
        credentials: Any = connection.credentials
        environment = get_environment(credentials)
        environment.session()
        connection.handle = Handle(environment, str(connection.name))
        connection.state = ConnectionState.OPEN
        return connection

    @contextmanager
    def exception_handler(self, sql: str) -> Generator[None, None, None]:
        """Raises any exception of a statement as a dbt error."""
        try:
            yield
        except DbtRuntimeError:
            logger.debug(f"Error while running:\n{without_secrets(sql)}")
            raise
        except Exception as problem:
            logger.debug(f"Error while running:\n{without_secrets(sql)}")
            raise DbtRuntimeError(readable_error(problem)) from redacted_cause(problem)
