"""Session settings that silently change a query's rows, so that a state built under other settings is wrong.

The session's time zone determines the instant of a TIMESTAMP_NTZ, and the results of `date(ts)`, `hour(ts)` and casts of
strings to timestamps. ANSI mode determines the results of failed casts and overflows, and the types of mixed expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENTRY = "session"
"""Entry of a state's signature with the settings."""

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


def with_settings(signature: Mapping[str, object], spark: SparkSession) -> dict[str, object]:
    """Returns a program's signature with the session's settings added."""
    return {**signature, ENTRY: {name: _plain(spark.conf.get(name)) for name in _NAMES}}


def noted(signature: Mapping[str, object]) -> Mapping[str, str]:
    """Returns the settings in a signature; empty if an earlier version wrote it without settings."""
    found = signature.get(ENTRY)
    return found if isinstance(found, Mapping) else {}


def differences(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    """Yields the settings that differ between two signatures, in words. A setting that `old` lacks is not compared.

    >>> list(differences({}, {"session": {"spark.sql.caseSensitive": "true"}}))
    []
    >>> list(differences({"session": {"spark.sql.session.timeZone": "UTC"}},
    ...     {"session": {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.caseSensitive": "true"}}))
    ["spark.sql.session.timeZone is 'Europe/Berlin' and was 'UTC'"]
    """
    before = noted(old)
    for name, value in noted(new).items():
        if before.get(name, value) != value:
            yield f"{name} is '{value}' and was '{before[name]}'"


def _plain(value: str | None) -> str:
    """Returns a canonical spelling of a setting's value.

    >>> _plain("TRUE"), _plain("Etc/UTC"), _plain("Europe/Berlin")
    ('true', 'UTC', 'Europe/Berlin')
    """
    text = value or ""
    if text.lower() in _UTC:
        return "UTC"
    return text.lower() if text.lower() in ("true", "false") else text
