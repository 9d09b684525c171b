"""Session settings that change which rows a query gives without a word: a state made under others means something else.

A TIMESTAMP_NTZ is an instant by the session's time zone, and so are `date(ts)`, `hour(ts)` and times in texts. With ANSI
mode go what a failed cast or an overflow gives, and the types of mixed expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENTRY = "session"
"""The settings in a state's signature."""

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
    """A program's signature together with the settings it runs under."""
    return {**signature, ENTRY: {name: _plain(spark.conf.get(name)) for name in _NAMES}}


def noted(signature: Mapping[str, object]) -> Mapping[str, str]:
    """The settings in a signature; none in one of a state that was made before they were noted."""
    found = signature.get(ENTRY)
    return found if isinstance(found, Mapping) else {}


def differences(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    """What differs between the settings in two signatures; of a state made before they were noted nothing is known.

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
    """One word for what means the same.

    >>> _plain("TRUE"), _plain("Etc/UTC"), _plain("Europe/Berlin")
    ('true', 'UTC', 'Europe/Berlin')
    """
    text = value or ""
    if text.lower() in _UTC:
        return "UTC"
    return text.lower() if text.lower() in ("true", "false") else text
