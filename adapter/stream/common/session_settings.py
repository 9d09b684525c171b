"""Compares session settings that affect a query's rows: a state that was built under other settings is wrong.

The session's time zone determines the instant of a TIMESTAMP_NTZ, and the results of `date(ts)`, `hour(ts)` and casts of
strings to timestamps. ANSI mode determines the results of failed casts and overflows, and the types of mixed expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ZONE = "spark.sql.session.timeZone"
_NAMES = (
    _ZONE,
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.timestampType",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.legacy.sizeOfNull",
)
_UTC = {"utc", "etc/utc", "gmt", "etc/gmt", "z", "zulu", "+00:00", "utc+00:00", "utc+0", "universal"}


def settings_of(spark: SparkSession) -> dict[str, str]:
    """Returns the session's settings, for a signature."""
    return {name: _canonical_value(spark.conf.get(name)) for name in _NAMES}


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yields the settings that differ, in words.

    >>> list(differences({"spark.sql.session.timeZone": "UTC"}, {"spark.sql.session.timeZone": "Europe/Berlin"}))
    ["spark.sql.session.timeZone is 'Europe/Berlin' and was 'UTC'"]
    """
    for name, value in new.items():
        if old.get(name, value) != value:
            yield f"{name} is '{value}' and was '{old[name]}'"


def _canonical_value(value: str | None) -> str:
    """Returns a canonical spelling of a setting's value.

    >>> _canonical_value("TRUE"), _canonical_value("Etc/UTC"), _canonical_value("Europe/Berlin")
    ('true', 'UTC', 'Europe/Berlin')
    """
    text = value or ""
    if text.lower() in _UTC:
        return "UTC"
    return text.lower() if text.lower() in ("true", "false") else text
