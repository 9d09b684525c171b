"""Parses and checks the configs of a streaming model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..query.errors import QueryError
from ..query.sql import intervals
from ..query.windows import emission
from ..query.windows.emission import FINAL, Emission
from ..stream.common.model import CHANGELOG_RETENTION, FROM_NOW, MIGRATE, Retention
from ..util.sizes import parse_size
from ..util.text import did_you_mean
from .model_configs import ALL, AVAILABLE_NOW, FOREVER, SKIP, STREAMING, TABLES, check_configs


@dataclass(frozen=True)
class StreamConfig:
    """The settings of a streaming model, as `model_configs.STREAMING` describes them.

    Lengths of time are in microseconds. None is for a config that is left out: no limit, or what the query needs.
    """

    watermark: int = 0
    trigger: str | None = None
    """Interval between micro-batches; None to read all available input and stop."""
    emission: Emission = FINAL
    upsert: bool = False
    """Whether a row of the table is replaced by a later row with the same key."""
    changelog: bool = False
    changelog_retention: int | None = CHANGELOG_RETENTION
    idle_timeout: int | None = None
    state_ttl: int | None = None
    constant_domains: tuple[str, ...] = ()
    output_mode: str | None = None
    unique_key: tuple[str, ...] = ()
    retention: Retention = field(default_factory=Retention)
    allow_recompute: bool = True
    on_state_change: str = MIGRATE
    on_new_metric: str = FROM_NOW
    on_running: str = SKIP


_CONFIGS = {each.name: each for each in STREAMING}
_OF_TABLES = {each.name: each for each in TABLES}

# dbt's own configs that have no meaning for streams.
_OF_INCREMENTAL_MODELS = frozenset(
    {"incremental_strategy", "incremental_predicates", "batch_size", "begin", "concurrent_batches"}
)

_NAMES_IN_FLINK = {
    "table.exec.state.ttl": "state_ttl",
    "table.exec.source.idle-timeout": "idle_timeout",
    "table.exec.mini-batch.allow-latency": "trigger",
}
"""Config of Flink → config here, for a proposal."""


def read_stream_config(config: Mapping[str, Any], standard: frozenset[str]) -> StreamConfig:
    """Returns a model's settings from its config.

    Args:
        standard: the keys that dbt itself knows.

    Raises:
        QueryError: a key is unknown, or a value is wrong or not supported. The message names it.
    """
    _check_keys(config, standard)
    results = emission.emission_from_configs(config)
    if results.may_update_results and config.get("output_mode") == "append":
        raise QueryError(
            "config 'output_mode' is 'append', but early firing and late_updates change emitted rows; leave "
            "output_mode out, or write 'upsert'."
        )
    watermark, trigger = _watermark_delay(config), _trigger_interval(config)
    unique = config.get("unique_key")
    return StreamConfig(
        watermark,
        trigger,
        results,
        upsert=results.may_update_results or config.get("output_mode") == "upsert",
        changelog=_value_or_default(config, "changelog"),
        changelog_retention=_changelog_retention(_value_or_default(config, "changelog_retention")),
        idle_timeout=_positive_interval(
            config,
            "idle_timeout",
            "longer than zero; write how long a stream may be idle before the others continue without it, as in "
            "'10 minutes'",
        ),
        state_ttl=_positive_interval(
            config,
            "state_ttl",
            "longer than zero; write after how long without rows a key expires, as in '7 days'",
        ),
        constant_domains=tuple(_value_or_default(config, "constant_domains")),
        output_mode=config.get("output_mode"),
        unique_key=(unique,) if isinstance(unique, str) else tuple(unique or ()),
        retention=_retention(config),
        allow_recompute=_value_or_default(config, "allow_recompute"),
        on_state_change=_value_or_default(config, "on_state_change"),
        on_new_metric=_value_or_default(config, "on_new_metric"),
        on_running=_value_or_default(config, "on_running"),
    )


def _check_keys(config: Mapping[str, Any], standard: frozenset[str]) -> None:
    """Raises if a key is unknown or not for streaming models, or if a value is invalid."""
    for key, value in config.items():
        if key in _CONFIGS:
            if problem := _CONFIGS[key].kind.problem(value):
                raise QueryError(f"config '{key}' {problem}.")
        elif key in _OF_INCREMENTAL_MODELS:
            if value is not None:
                raise QueryError(
                    f"config '{key}' is for incremental models; leave it out of a streaming one."
                )
        elif key in _OF_TABLES:
            if value is not None and _OF_TABLES[key].models != ALL:
                raise QueryError(
                    f"config '{key}' is for {_OF_TABLES[key].models} models. Leave it out; for buckets write partition_by: "
                    "bucket(16, id)."
                )
            check_configs([_OF_TABLES[key]], config)
        elif key not in standard:
            raise QueryError(
                f"config '{key}' is unknown for a streaming model"
                f"{did_you_mean(_NAMES_IN_FLINK.get(key.lower(), key), _CONFIGS)} Its own are: "
                f"{', '.join(sorted(_CONFIGS))}. What is only meant for readers goes under 'meta'."
            )


def _watermark_delay(config: Mapping[str, Any]) -> int:
    """Returns the delay of the watermark, in microseconds."""
    found = intervals.parse(_value_or_default(config, "watermark"), "config 'watermark':")
    if found < 0:
        raise QueryError(
            f"config 'watermark' '{config['watermark']}' is negative; write how far rows may be out of order."
        )
    return found


def _trigger_interval(config: Mapping[str, Any]) -> str | None:
    """Returns the interval between micro-batches; None to read the available input once."""
    found = _value_or_default(config, "trigger")
    if found == AVAILABLE_NOW:
        return None
    if intervals.parse(found, "config 'trigger':") <= 0:
        raise QueryError(f"config 'trigger' '{found}' must be longer than zero, or 'available_now'.")
    return str(found)


def _positive_interval(config: Mapping[str, Any], key: str, wanted: str) -> Any:
    """Returns the microseconds of an interval that must be positive; None if there is none.

    Args:
        wanted: end of the message for other intervals: how long it must be, and what to write.
    """
    value = _value_or_default(config, key)
    if value is None:
        return None
    found = intervals.parse(value, f"config '{key}':")
    if found <= 0:
        raise QueryError(f"config '{key}' '{value}' must be {wanted}.")
    return found


def _retention(config: Mapping[str, Any]) -> Retention:
    return Retention(
        max_snapshot_age=_positive_interval(
            config,
            "max_snapshot_age",
            "longer than zero; write how long readers of the table may take, as in '1 hour'",
        ),
        max_snapshots=_value_or_default(config, "max_snapshots"),
        target_file_size=parse_size(_value_or_default(config, "target_file_size")) or 0,
    )


def _value_or_default(config: Mapping[str, Any], key: str) -> Any:
    """Returns the value of a config, or its default if it is None. An empty value counts as given."""
    value = config.get(key)
    return _CONFIGS[key].default if value is None else value


def _changelog_retention(value: Any) -> int | None:
    """Returns the microseconds for which a changelog keeps each change; None if it keeps all."""
    if value == FOREVER:
        return None
    age = intervals.parse(value, "config 'changelog_retention' (other than 'forever'):")
    if age < 0:
        raise QueryError(
            f"config 'changelog_retention' '{value}' is negative; write how long each change is kept, as in '7 days', or "
            "'forever'."
        )
    return age
