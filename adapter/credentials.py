"""What a profile may say, checked before anything starts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from dbt.adapters.spark.connections import SparkCredentials
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.sources import profile_connections
from dbt.adapters.spark_streaming.util.redaction import kind_of, remember, without_secrets

METHODS = ("session", "connect")

# The keys of dbt-spark's credentials that mean something here; the others are for thrift, odbc and
# Databricks, and taking them in silence would leave the reader of a profile with a wrong idea.
INHERITED_KEYS = ("host", "schema", "method", "database", "server_side_parameters")

_URI_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")
_IDENTIFIER = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_COORDINATE = re.compile(r"^[^:\s]+:[^:\s]+:[^:\s]+$")


@dataclass
class SparkStreamingCredentials(SparkCredentials):
    """One target of a profile. Only ``type`` and ``schema`` are needed.

    Raises:
        DbtRuntimeError: a key or a value that means nothing, named.
    """

    method: Any = "session"
    """Where Spark runs. ``session``: in a JVM that dbt starts and ends. ``connect``: on the Spark
    Connect server at `host`."""

    host: str | None = "local"
    """``sc://host:port`` for ``method: connect``. Means nothing with ``method: session``."""

    master: str = "local[*]"
    """Spark's master URL for ``method: session``."""

    storage_root: str = "./.spark"
    """The folder, or Hadoop path, of everything that is kept: warehouse, catalog, checkpoints,
    state. A relative path starts at the project."""

    catalog: str = "lakehouse"
    """The name of the Iceberg catalog that models are in."""

    catalog_options: dict[str, Any] = field(default_factory=dict)
    """Options of that catalog, as Iceberg has them. With ``type`` or ``catalog-impl`` among them
    they are all there is (any REST, Hive, Glue, Nessie … catalog), without they are added to
    those of the embedded one, a SQLite file in `storage_root`."""

    server_side_parameters: dict[str, Any] = field(default_factory=dict)
    """Settings of Spark, over ours."""

    packages: list[str] = field(default_factory=list)
    """More Maven coordinates (``group:artifact:version``), fetched once."""

    cache_dir: str | None = None
    """Where fetched packages are kept, for all projects of a user. Default: the environment
    variable DBT_SPARK_STREAMING_CACHE, else ``~/.cache/dbt-spark-streaming``."""

    connections: dict[str, Any] = field(default_factory=dict)
    """By name, options of sources and lookup tables that are no project's to know: secrets above all."""

    file_format: str = "iceberg"
    """What tables, seeds, snapshots and incremental models are stored as, where their own config
    says nothing."""

    _ALIASES: ClassVar[dict[str, str]] = {}

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The keys a profile may have (beside dbt's own ``type`` and ``threads``)."""
        return (*INHERITED_KEYS, *(k for k in cls.__annotations__ if k not in (*INHERITED_KEYS, "_ALIASES")))

    @classmethod
    def validate(cls, data: Any) -> None:
        """Refuse keys and values that mean nothing.

        Raises:
            DbtRuntimeError: naming the key.
        """
        # dbt also validates what it made of the profile, which has dbt-spark's keys at their defaults.
        unset = {f.name: f.default for f in fields(SparkCredentials)}
        for key, value in data.items():
            if key not in cls.keys() and (key not in unset or value != unset[key]):
                raise DbtRuntimeError(
                    f"'{key}' is not a key of a spark_streaming profile. Known keys are: "
                    f"{', '.join(sorted((*cls.keys(), 'threads', 'type')))}."
                )
        if not data.get("schema"):
            raise DbtRuntimeError("The profile needs a 'schema': the namespace that models are built in.")
        for key, kind, what in (
            ("server_side_parameters", dict, "a mapping of Spark settings to values"),
            ("catalog_options", dict, "a mapping of the catalog's options to values"),
            ("connections", dict, "a mapping of names to Spark's options"),
            ("packages", list, "a list of Maven coordinates"),
            ("schema", str, "text"),
            ("host", str, "text"),
            ("method", str, "text"),
            ("master", str, "text"),
            ("storage_root", str, "text"),
            ("catalog", str, "text"),
            ("cache_dir", str, "text"),
            ("file_format", str, "text"),
        ):
            if data.get(key) is not None and not isinstance(data[key], kind):
                raise DbtRuntimeError(f"'{key}' in the profile must be {what}, not {kind_of(data[key])}.")
        super().validate(data)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise DbtRuntimeError(
                f"'{self.method}' is not a method of a spark_streaming profile; it is 'session' (Spark "
                "in a process of its own, the default) or 'connect' (a Spark Connect server)."
            )
        if self.method == "connect" and not str(self.host).startswith("sc://"):
            raise DbtRuntimeError(
                f"'method: connect' needs a 'host' that starts with sc://, such as sc://localhost:15002, "
                f"but the profile has {without_secrets(repr(self.host))}."
            )
        if self.method == "session" and self.host != "local":
            raise DbtRuntimeError(
                f"'host: {without_secrets(self.host)}' means nothing with 'method: session'. Say 'method: connect' to use a "
                "Spark Connect server, or 'master' to name a cluster."
            )
        if not _IDENTIFIER.match(self.catalog):
            raise DbtRuntimeError(
                f"'catalog: {self.catalog}' is not a name; it may have letters, digits and underscores."
            )
        for package in self.packages:
            if not isinstance(package, str) or not _COORDINATE.match(package):
                raise DbtRuntimeError(
                    f"'{package}' in 'packages' is not a Maven coordinate; those look like group:artifact:version."
                )
        # dbt-spark turns ANSI off, also against the profile. It stays the default here (a stream
        # should not stop for ever at one row that can't be cast), but the profile has the last word.
        ansi = self.server_side_parameters.get("spark.sql.ansi.enabled")
        # Spark says true and false in small letters, YAML gives Python's.
        self.server_side_parameters = {
            str(key): str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in self.server_side_parameters.items()
        }
        self.catalog_options = {
            str(key): str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in self.catalog_options.items()
        }
        self.connections = profile_connections.checked(self.connections)
        remember(self.connections)
        remember({**self.server_side_parameters, **self.catalog_options, **dict(self._places())})
        # dbt-spark imports PySpark for its method `session`, to see whether it is there. This package brings it, and to
        # import it takes a second.
        method, self.method = self.method, "connect"
        super().__post_init__()
        self.method = method
        self.project_root = os.getcwd()
        if ansi is not None:
            self.server_side_parameters["spark.sql.ansi.enabled"] = str(ansi).lower()

    def start_at(self, project_root: str | Path) -> None:
        """Make relative paths start at the project, wherever dbt was called."""
        self.project_root = str(project_root)
        if not _URI_SCHEME.match(self.storage_root):
            root = Path(self.storage_root).expanduser()
            self.storage_root = str((Path(project_root) / root).resolve())

    @property
    def is_local(self) -> bool:
        """Whether Spark runs on this machine alone."""
        return self.method == "session" and self.master.startswith("local")

    @property
    def type(self) -> str:
        """dbt's name of the adapter."""
        return "spark_streaming"

    @property
    def unique_field(self) -> str:
        """What dbt counts installations by, hashed."""
        return str(self.host)

    def _places(self) -> Iterable[tuple[str, Any]]:
        return ((key, getattr(self, key)) for key in ("host", "master", "storage_root"))

    def connection_info(self, *, with_aliases: bool = False) -> Iterable[tuple[str, Any]]:
        """What `dbt debug` shows."""
        for key, value in super().connection_info(with_aliases=with_aliases):
            yield key, without_secrets(value) if isinstance(value, str) else value

    def _connection_keys(self) -> tuple[str, ...]:
        return ("method", "host", "master", "schema", "catalog", "storage_root", "file_format", "packages")
