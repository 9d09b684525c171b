"""The credentials of a profile, validated before anything starts."""

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
from dbt.adapters.spark_streaming.sources.connectors import CONNECTORS
from dbt.adapters.spark_streaming.util.redaction import kind_of, remember, without_secrets
from dbt.adapters.spark_streaming.util.settings import SettingInfo, ValueType, names
from dbt.adapters.spark_streaming.util.text import did_you_mean, listed

METHODS = ("session", "connect")

_URI_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")
_IDENTIFIER = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_COORDINATE = re.compile(r"^[^:\s]+:[^:\s]+:[^:\s]+$")


def _mapping(what: str, values: str = "") -> ValueType:
    schema = {"type": "object"} | ({"additionalProperties": {"type": values}} if values else {})
    return ValueType("mapping", schema, what, lambda value: isinstance(value, dict))


_TEXT = ValueType("text", {"type": "string"}, "text", lambda value: isinstance(value, str))

SETTINGS = (
    SettingInfo("schema", _TEXT, "the schema (namespace) that models are built in", default_text="required"),
    SettingInfo(
        "method",
        ValueType(
            " \\| ".join(f"`{each}`" for each in METHODS), {"enum": [*METHODS]}, "text", _TEXT.is_valid
        ),
        "`session`: Spark in a JVM that dbt starts and ends. `connect`: a Spark Connect server, for models that aren't "
        "streams. Thrift, HTTP and ODBC aren't supported ([From dbt-spark](../guides/from-dbt-spark.md))",
        "session",
    ),
    SettingInfo("host", _TEXT, "`sc://host:port`, for `method: connect`", default_text="none"),
    SettingInfo(
        "master",
        _TEXT,
        "Spark's master URL, for example of a [cluster](../operate/clusters.md)",
        "local[*]",
    ),
    SettingInfo(
        "storage_root",
        _TEXT,
        "folder or Hadoop path of warehouse, catalog and checkpoints. A relative one starts at the project",
        "./.spark",
    ),
    SettingInfo("catalog", _TEXT, "name of the Iceberg catalog", "lakehouse"),
    SettingInfo(
        "catalog_options",
        _mapping("a mapping of the catalog's options to values"),
        "Iceberg's options of that catalog. With `type` or `catalog-impl` they define it (REST, Hive, Glue, Nessie …); "
        "without, they are added to those of the embedded one",
        default_text="none",
    ),
    SettingInfo(
        "connections",
        _mapping("a mapping of names to Spark's options", "object"),
        "options for sources and lookup tables, by name: [secrets](sources.md#secrets)",
        default_text="none",
    ),
    SettingInfo(
        "packages",
        ValueType(
            "list",
            {"type": "array", "items": {"anyOf": [{"enum": [*CONNECTORS]}, {"type": "string"}]}},
            "a list of Maven coordinates",
            lambda value: isinstance(value, list),
        ),
        "more Maven coordinates (`group:artifact:version`), or [names](#packages-by-name) for some; fetched once",
        default_text="none",
    ),
    SettingInfo(
        "cache_dir",
        _TEXT,
        "where fetched packages are kept. The environment variable `DBT_SPARK_STREAMING_CACHE` moves it too",
        default_text="`~/.cache/dbt-spark-streaming`",
    ),
    SettingInfo(
        "file_format",
        _TEXT,
        "default format of tables, seeds, snapshots and incremental models",
        "iceberg",
    ),
    SettingInfo(
        "server_side_parameters",
        _mapping("a mapping of Spark settings to values"),
        "any Spark setting; overrides ours",
        default_text="none",
    ),
)
"""Keys of a target of a profile, in addition to dbt's ``type`` and ``threads``. A test makes the reference and the
schemas for editors from it."""

KEYS = (*names(SETTINGS), "database")
"""The keys of a profile. dbt sets ``database`` itself. dbt-spark's other keys are for thrift, odbc and Databricks, and are
refused, because ignoring them would mislead the reader of a profile."""


@dataclass
class SparkStreamingCredentials(SparkCredentials):
    """One target of a profile. Only ``type`` and ``schema`` are required."""

    method: Any = "session"
    """Where Spark runs. ``session``: in a JVM that dbt starts and ends. ``connect``: on the Spark
    Connect server at `host`."""

    host: str | None = "local"
    """``sc://host:port`` for ``method: connect``. Not allowed with ``method: session``."""

    master: str = "local[*]"
    """Spark's master URL for ``method: session``."""

    storage_root: str = "./.spark"
    """The folder or Hadoop path of all persistent files: warehouse, catalog, checkpoints, state. A relative path starts at
    the project."""

    catalog: str = "lakehouse"
    """The name of the Iceberg catalog that models are in."""

    catalog_options: dict[str, Any] = field(default_factory=dict)
    """Iceberg's options of that catalog. With ``type`` or ``catalog-impl`` they configure any catalog (REST, Hive, Glue,
    Nessie …). Without, they are added to the options of the embedded catalog, a SQLite file in `storage_root`."""

    server_side_parameters: dict[str, Any] = field(default_factory=dict)
    """Spark settings that override those of this adapter."""

    packages: list[str] = field(default_factory=list)
    """Additional Maven coordinates (``group:artifact:version``), fetched once."""

    cache_dir: str | None = None
    """Folder of fetched packages, shared by all projects of a user. Default: the environment variable
    DBT_SPARK_STREAMING_CACHE, else ``~/.cache/dbt-spark-streaming``."""

    connections: dict[str, Any] = field(default_factory=dict)
    """Options of sources and lookup tables that don't belong in the project, such as secrets, by name."""

    file_format: str = "iceberg"
    """Default storage format of tables, seeds, snapshots and incremental models."""

    _ALIASES: ClassVar[dict[str, str]] = {}

    @classmethod
    def validate(cls, data: Any) -> None:
        """Raises unless all keys are known and all values valid."""
        # dbt also validates its own copy of the profile, which has dbt-spark's keys with their default values.
        unset = {f.name: f.default for f in fields(SparkCredentials)}
        for key, value in data.items():
            if key not in KEYS and (key not in unset or value != unset[key]):
                raise DbtRuntimeError(
                    f"'{key}' is not a key of a spark_streaming profile{did_you_mean(key, KEYS)} Known keys are: "
                    f"{', '.join(sorted((*KEYS, 'threads', 'type')))}."
                )
        if not data.get("schema"):
            raise DbtRuntimeError("The profile needs a 'schema': the namespace that models are built in.")
        for each in SETTINGS:
            if each.kind.problem(value := data.get(each.name)):
                raise DbtRuntimeError(
                    f"'{each.name}' in the profile must be {each.kind.instead}, not {kind_of(value)}."
                )
        super().validate(data)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise DbtRuntimeError(
                f"'{self.method}' is not a method of a spark_streaming profile; it is 'session' (Spark "
                "in a separate process, the default) or 'connect' (a Spark Connect server)."
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
            if not isinstance(package, str) or not (package in CONNECTORS or _COORDINATE.match(package)):
                raise DbtRuntimeError(
                    f"'{package}' in 'packages' is not a Maven coordinate; those look like group:artifact:version. Short "
                    f"names are {listed([*CONNECTORS])}."
                )
        # dbt-spark turns ANSI mode off, even if the profile turns it on. Off stays the default here (one row that can't be
        # cast should not stop a stream), but the profile can turn it on.
        ansi = self.server_side_parameters.get("spark.sql.ansi.enabled")
        # Spark writes booleans in lower case, str() of YAML's booleans doesn't.
        self.server_side_parameters = {
            str(key): str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in self.server_side_parameters.items()
        }
        if self.server_side_parameters.get("spark.sql.caseSensitive", "false").lower() != "false":
            raise DbtRuntimeError(
                "'spark.sql.caseSensitive' can't be true: names that differ in case only, such as the columns a and A, are "
                "taken for one here, as in Spark by default, and their values would be mixed up. Leave it out."
            )
        self.catalog_options = {
            str(key): str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in self.catalog_options.items()
        }
        self.connections = profile_connections.checked(self.connections)
        remember(self.connections)
        remember({**self.server_side_parameters, **self.catalog_options, **dict(self._locations())})
        # For `session` dbt-spark imports PySpark to check that it is installed. This package depends on it, and the import
        # takes a second.
        method, self.method = self.method, "connect"
        super().__post_init__()
        self.method = method
        self.project_root = os.getcwd()
        if ansi is not None:
            self.server_side_parameters["spark.sql.ansi.enabled"] = str(ansi).lower()

    def start_at(self, project_root: str | Path) -> None:
        """Resolves relative paths against the project's folder."""
        self.project_root = str(project_root)
        if not _URI_SCHEME.match(self.storage_root):
            root = Path(self.storage_root).expanduser()
            self.storage_root = str((Path(project_root) / root).resolve())

    @property
    def is_local(self) -> bool:
        """Whether Spark runs in local mode."""
        return self.method == "session" and self.master.startswith("local")

    @property
    def type(self) -> str:
        """dbt's name of the adapter."""
        return "spark_streaming"

    @property
    def unique_field(self) -> str:
        """The field that dbt hashes to count installations."""
        return str(self.host)

    def _locations(self) -> Iterable[tuple[str, Any]]:
        return ((key, getattr(self, key)) for key in ("host", "master", "storage_root"))

    def connection_info(self, *, with_aliases: bool = False) -> Iterable[tuple[str, Any]]:
        """Yields the keys and redacted values that `dbt debug` shows."""
        for key, value in super().connection_info(with_aliases=with_aliases):
            yield key, without_secrets(value) if isinstance(value, str) else value

    def _connection_keys(self) -> tuple[str, ...]:
        return ("method", "host", "master", "schema", "catalog", "storage_root", "file_format", "packages")
