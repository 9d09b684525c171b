"""The credentials of a profile, validated before anything starts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from dbt.adapters.spark.connections import SparkCredentials
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.sources import profile_connections
from dbt.adapters.spark_streaming.sources.connectors import CONNECTORS
from dbt.adapters.spark_streaming.util.paths import expand_home
from dbt.adapters.spark_streaming.util.redaction import register_secrets, without_secrets, yaml_kind
from dbt.adapters.spark_streaming.util.settings import (
    SettingInfo,
    ValueType,
    as_options,
    is_name,
    setting_names,
)
from dbt.adapters.spark_streaming.util.text import did_you_mean, listed

METHODS = ("session", "connect")

_URI_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")
_IDENTIFIER = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_COORDINATE = re.compile(r"^[^:\s]+:[^:\s]+:[^:\s]+$")


def _mapping(instead: str, values: str = "") -> ValueType:
    """Returns the type of a mapping. `instead` ends the message on an invalid value, `values` is a JSON type."""
    schema = {"type": "object"} | ({"additionalProperties": {"type": values}} if values else {})
    return ValueType("mapping", schema, instead, lambda value: isinstance(value, dict))


_TEXT = ValueType("text", {"type": "string", "minLength": 1}, "text", is_name)

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
    SettingInfo("host", _TEXT, "`sc://host:port`, for `method: connect`"),
    SettingInfo(
        "master", _TEXT, "Spark's master URL, for example of a [cluster](../operate/clusters.md)", "local[*]"
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
    ),
    SettingInfo(
        "connections",
        _mapping("a mapping of names to Spark's options", "object"),
        "options for sources and lookup tables, by name: [secrets](sources.md#secrets)",
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
    ),
    SettingInfo(
        "cache_dir",
        _TEXT,
        "where fetched packages are kept. A relative one starts at the project. The environment variable "
        "`DBT_SPARK_STREAMING_CACHE` moves it too",
        default_text="`~/.cache/dbt-spark-streaming`",
    ),
    SettingInfo(
        "file_format", _TEXT, "default format of tables, seeds, snapshots and incremental models", "iceberg"
    ),
    SettingInfo(
        "server_side_parameters",
        _mapping("a mapping of Spark settings to values"),
        "any Spark setting; overrides ours",
    ),
)
"""Keys of a target of a profile, in addition to dbt's ``type`` and ``threads``. `tests.reference_pages` generates the
reference and the editors' JSON schemas from them."""

KEYS = (*setting_names(SETTINGS), "database")
"""The keys of a profile. dbt sets ``database`` itself. dbt-spark's other keys are for thrift, odbc and Databricks, and are
refused, because ignoring them would mislead the reader of a profile."""


@dataclass
class SparkStreamingCredentials(SparkCredentials):
    """One target of a profile. Only ``type`` and ``schema`` are required."""

    # `SETTINGS` describes the fields.
    method: Any = "session"
    host: str | None = "local"
    master: str = "local[*]"
    storage_root: str = "./.spark"
    catalog: str = "lakehouse"
    catalog_options: dict[str, Any] = field(default_factory=dict)
    server_side_parameters: dict[str, Any] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)
    cache_dir: str | None = None
    connections: dict[str, Any] = field(default_factory=dict)
    file_format: str = "iceberg"
    _ALIASES: ClassVar[dict[str, str]] = {}

    @classmethod
    def translate_aliases(cls, kwargs: dict[str, Any], recurse: bool = False) -> dict[str, Any]:
        """See `Credentials.translate_aliases`. A key without a value counts as not given. YAML gives it the value None, also
        if the lines below it are comments."""
        given = {key: value for key, value in kwargs.items() if value is not None}
        return dict(super().translate_aliases(given, recurse))

    @classmethod
    def validate(cls, data: Any) -> None:
        """Raises unless all keys are known and all values valid."""
        # dbt also validates its own copy of the profile, which has dbt-spark's keys with their default values.
        defaults = {f.name: f.default for f in fields(SparkCredentials)}
        for key, value in data.items():
            if key not in KEYS and (key not in defaults or value != defaults[key]):
                raise DbtRuntimeError(
                    f"'{key}' is not a key of a spark_streaming profile{did_you_mean(key, KEYS)} Known keys are: "
                    f"{', '.join(sorted((*KEYS, 'threads', 'type')))}."
                )
        if not data.get("schema"):
            raise DbtRuntimeError("The profile needs a 'schema': the namespace that models are built in.")
        for setting in SETTINGS:
            if setting.kind.problem(value := data.get(setting.name)):
                raise DbtRuntimeError(
                    f"'{setting.name}' in the profile must be {setting.kind.instead}, not {yaml_kind(value)}."
                )
        for name in ("server_side_parameters", "catalog_options"):
            for key, value in (data.get(name) or {}).items():
                if isinstance(value, dict | list):
                    raise DbtRuntimeError(
                        f"'{key}' in '{name}' of the profile is {yaml_kind(value)}, and must be one value. Write names in "
                        "full, as in spark.driver.memory: 4g."
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
        self.server_side_parameters = as_options(self.server_side_parameters)
        if self.server_side_parameters.get("spark.sql.caseSensitive", "false").lower() != "false":
            raise DbtRuntimeError(
                "'spark.sql.caseSensitive' can't be true: names that differ in case only, such as the columns a and A, are "
                "taken for one here, as in Spark by default, and their values would be mixed up. Leave it out."
            )
        self.catalog_options = as_options(self.catalog_options)
        self.connections = profile_connections.check_connections(self.connections)
        register_secrets(self.connections)
        locations = {key: getattr(self, key) for key in ("host", "master", "storage_root")}
        register_secrets({**self.server_side_parameters, **self.catalog_options, **locations})
        # For `session` dbt-spark imports PySpark to check that it is installed. This package depends on it, and the import
        # takes a second.
        method, self.method = self.method, "connect"
        super().__post_init__()
        self.method = method
        if ansi is not None:
            self.server_side_parameters["spark.sql.ansi.enabled"] = str(ansi).lower()

    def resolve_paths(self, project_root: str | Path) -> None:
        """Resolves relative paths against the project's folder."""
        if not _URI_SCHEME.match(self.storage_root):
            self.storage_root = str((Path(project_root) / expand_home(self.storage_root)).resolve())
        if self.cache_dir is not None:
            self.cache_dir = str((Path(project_root) / expand_home(self.cache_dir)).resolve())

    @property
    def is_local(self) -> bool:
        """Whether Spark runs in local mode."""
        return self.method == "session" and self.master.startswith("local")

    @property
    def type(self) -> str:
        """dbt's name of the adapter."""
        return "spark_streaming"

    def connection_info(self, *, with_aliases: bool = False) -> Iterable[tuple[str, Any]]:
        """Yields the keys and redacted values that `dbt debug` shows."""
        for key, value in super().connection_info(with_aliases=with_aliases):
            yield key, without_secrets(value) if isinstance(value, str) else value

    def _connection_keys(self) -> tuple[str, ...]:
        return ("method", "host", "master", "schema", "catalog", "storage_root", "file_format", "packages")
