"""Sources that `sources.yml` declares as lookup tables: external JDBC tables that lookup joins query by key."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from ...query.errors import QueryError
from ...query.sql import intervals
from ...sources import profile_connections
from ...sources.stream_source import DeclaredSource
from ...util.redaction import register_secrets, yaml_kind
from ...util.settings import (
    INTERVAL,
    SettingInfo,
    as_options,
    count_type,
    mapping_type,
    setting_names,
    text_type,
)
from ...util.text import did_you_mean

SETTINGS = (
    SettingInfo(
        "url",
        text_type("write a JDBC URL"),
        "JDBC URL, as in `jdbc:postgresql://host/database`",
        default_text="required",
    ),
    SettingInfo(
        "dbtable",
        text_type("write a table"),
        "the table, or a query: `(select … from …) as t`",
        default_text="the source's name",
    ),
    SettingInfo(
        "driver",
        text_type("write a class"),
        "the driver's class; its Maven coordinates are `packages` of the [profile](profile.md)",
        default_text="by the URL",
    ),
    SettingInfo("options", mapping_type("{fetchsize: 1000}"), "Spark's JDBC options and the driver's own"),
    SettingInfo(
        "connection",
        text_type("write the name of a connection"),
        "options from the profile, which may include `url` and `driver`",
    ),
    SettingInfo(
        "cache_ttl",
        INTERVAL,
        "how long a key isn't looked up again, in processing time",
        default_text="no cache",
    ),
    SettingInfo(
        "chunk_size",
        count_type("a whole number"),
        "keys per request. Oracle takes 1000 values in a statement, SQL Server 2100",
        500,
    ),
    SettingInfo(
        "retries", count_type("a whole number", least=0), "how often a failed request is tried again", 3
    ),
)
"""Keys of a source's ``meta.lookup``. The reference and the schemas for editors are made from them."""

KEYS = setting_names(SETTINGS)

_OWN_OPTIONS = ("url", "dbtable", "driver", "query")


@dataclass(frozen=True)
class LookupSource:
    """A source that lookup joins query by key."""

    name: str
    """``source.table``, for messages."""
    relation: str
    """Name of the source in SQL."""
    options: Mapping[str, str] = field(repr=False)
    """Spark's JDBC options, with ``url`` and ``dbtable``. They may contain secrets."""
    cache_ttl: int | None = None
    """Microseconds for which the rows of a key are cached; None if they are not."""
    chunk_size: int = 500
    """Number of keys in one request."""
    retries: int = 3
    """Number of retries of a failed request."""

    @property
    def as_table(self) -> DeclaredSource:
        """The source as a JDBC table of the session's catalog, for anything but lookup joins."""
        return DeclaredSource(self.name, self.relation, "jdbc", self.options)

    @classmethod
    def from_config(cls, name: str, relation: str, config: Any, table: str) -> LookupSource:
        """Reads the ``lookup`` mapping of a source's ``meta``.

        Args:
            table: name of the database table if the mapping has no ``dbtable``.

        Raises:
            DbtRuntimeError: a key or a value is invalid. The message names the source.
        """
        if not isinstance(config, Mapping):
            raise DbtRuntimeError(
                f"Source {name}: 'lookup' must be a mapping with a 'url', not {yaml_kind(config)}."
            )
        for key in config:
            if key not in KEYS:
                raise DbtRuntimeError(
                    f"Source {name}: '{key}' is not a key of 'lookup'{did_you_mean(key, KEYS)} "
                    f"Known keys are: {', '.join(sorted(KEYS))}."
                )
        options = _checked_options(name, {} if config.get("options") is None else config["options"])
        profile_connections.warn_of_secrets(name, {**options, "url": config.get("url")})
        connection = dict(profile_connections.connection_options(name, config.get("connection")))
        # The connection may give 'url' and 'driver' too; those of the source take precedence.
        config = {**{key: connection.pop(key) for key in ("url", "driver") if key in connection}, **config}
        url = config.get("url")
        if not isinstance(url, str) or not url.startswith("jdbc:"):
            # The message doesn't show the URL, which may contain a password.
            raise DbtRuntimeError(
                f"Source {name}: 'lookup' needs a 'url' that starts with jdbc:, as in jdbc:postgresql://host/database. "
                "A 'connection' may have it."
            )
        texts = {"url": url, "dbtable": _text_setting(name, config, "dbtable", table)}
        if config.get("driver") is not None:
            texts["driver"] = _text_setting(name, config, "driver", "")
        return cls(
            name,
            relation,
            {**profile_connections.override_connection(connection, options), **texts},
            cache_ttl=_interval_setting(name, config.get("cache_ttl")),
            chunk_size=_number_setting(name, config, "chunk_size", cls.chunk_size, 1),
            retries=_number_setting(name, config, "retries", cls.retries, 0),
        )


def _checked_options(name: str, options: Any) -> dict[str, str]:
    if not isinstance(options, Mapping):
        raise DbtRuntimeError(f"Source {name}: 'options' of 'lookup' must be a mapping of names to values.")
    for key in options:
        if str(key).lower() in _OWN_OPTIONS:
            instead = "'dbtable', which may be (select …) as t" if key == "query" else f"'{key}'"
            raise DbtRuntimeError(
                f"Source {name}: '{key}' doesn't belong under 'options' of 'lookup'; write {instead} next to it."
            )
    return as_options(options)


def _text_setting(name: str, config: Mapping[str, Any], key: str, default: str) -> str:
    value = default if config.get(key) is None else config[key]
    if not isinstance(value, str) or not value.strip():
        raise DbtRuntimeError(f"Source {name}: '{key}' of 'lookup' must be text, not {yaml_kind(value)}.")
    return value


def _number_setting(name: str, config: Mapping[str, Any], key: str, default: int, least: int) -> int:
    value = default if config.get(key) is None else config[key]
    if isinstance(value, str) and value.isdigit():
        value = int(value)  # env_var returns text
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DbtRuntimeError(
            f"Source {name}: '{key}' of 'lookup' is {value!r}; write a whole number of at least {least}."
        )
    return value


def _interval_setting(name: str, value: Any) -> int | None:
    if value is None:
        return None
    try:
        length = intervals.parse(value, f"Source {name}: 'cache_ttl' of 'lookup'")
    except QueryError as problem:
        raise DbtRuntimeError(str(problem)) from problem
    if length <= 0:
        raise DbtRuntimeError(
            f"Source {name}: 'cache_ttl' of 'lookup' is '{value}', which must be longer than zero; leave it out to "
            "ask for every key of each micro-batch."
        )
    return length


_registered: dict[str, LookupSource] = {}
_lock = threading.Lock()


def register(source: LookupSource) -> None:
    """Registers a source in this process."""
    register_secrets(source.options)
    with _lock:
        _registered[source.relation] = source


def forget_lookup_sources() -> None:
    """Deletes all registered sources, before another run."""
    with _lock:
        _registered.clear()


def lookup_source(relation: str) -> LookupSource | None:
    """Returns the registered source with a name in SQL, or None."""
    return _registered.get(relation)
