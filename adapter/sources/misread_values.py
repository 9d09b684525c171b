"""SQL that finds values that Spark's text parsers accept, but read as something else than their text says.

A time of day as a TIMESTAMP gets the date of the run, text after a DATE is cut off, a short number as a DATE counts days
from 1970, a number that is too large for a DOUBLE becomes Infinity, 200 as a TINYINT becomes -56, and 12,50 as a DECIMAL
becomes 1250.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping

from ..util.quoting import literal
from .column_types import base_type
from .file_options import by_lower_name, is_true

DATE, TIMESTAMP, TIMESTAMP_NTZ = "date", "timestamp", "timestamp_ntz"
DOUBLE, FLOAT, TINYINT, DECIMAL = "double", "float", "tinyint", "decimal"
KINDS = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ, DOUBLE, FLOAT, TINYINT, DECIMAL})
"""Types without their precision."""
_INTEGERS = frozenset({TINYINT, "smallint", "int", "bigint"})
_FORMATS = {DATE: "dateformat", TIMESTAMP: "timestampformat", DECIMAL: "locale"}
_FALLBACK = "enableDateTimeParsingFallback"
_LAST = {
    DATE: "date'9999-12-31'",
    TIMESTAMP: "timestamp'9999-12-31 23:59:59.999999'",
    TIMESTAMP_NTZ: "timestamp_ntz'9999-12-31 23:59:59.999999'",
}
_TIME_OF_DAY = r"^\s*+(?:T|\d{1,2}:)"
# Midnight after a date adds nothing to it.
_DATE = (
    r"^\s*+[+-]?\d{4,}(?:-\d{1,2}){0,2}"
    r"(?:[T ]\s*+(?:0{1,2}(?::0{1,2}){0,2}(?:\.0+)?\s*+(?:Z|UTC|GMT|[+-]\d{1,2}(?::?\d{1,2})?)?)?)?\s*+$"
)
_GROUPS = r"^\s*+[+-]?[1-9]\d{0,2}(?:,\d{2,3})*,\d{3}(?:[.eE][^,]*)?$"
"""A number with its thousands, or the Indian hundreds of thousands, set apart by commas, which Spark leaves out."""
_PLAIN_DATE = r"""\d{4}-\d\d-\d\d["']"""
# Digits, T, colon, comma, minus, plus and space, which nobody has to escape.
_ESCAPED = r"u00(?:3[0-9aA]|54|2[0bBcCdD])"


def guessed_types(options: Mapping[str, str]) -> frozenset[str]:
    """Returns the types that Spark parses without a format, given a source's options.

    >>> sorted(guessed_types({})), sorted(guessed_types({"DateFormat": "d/M/y", "locale": "de"}))
    (['date', 'decimal', 'timestamp'], ['timestamp'])
    """
    given = by_lower_name(options)
    falls_back = {DATE, TIMESTAMP} if is_true(options, _FALLBACK) else set()
    return frozenset(kind for kind, name in _FORMATS.items() if name not in given or kind in falls_back)


def misread_condition(kind: str, value: str, text: str, guessed: Collection[str]) -> str:
    """Returns SQL for whether a value has another meaning than its text."""
    if kind in (DOUBLE, FLOAT):
        return rf"abs({value}) = double('infinity') and {text} rlike '\\d'"
    if kind == TINYINT:
        return f"{value} < 0 and not startswith(trim({text}), '-')"
    if base_type(kind) == DECIMAL:
        if DECIMAL not in guessed:
            return "false"
        return f"{value} is not null and contains({text}, ',') and not {text} rlike {literal(_GROUPS)}"
    found = f"{value} > {_LAST[kind]}"
    if kind in guessed and kind == DATE:
        return f"{value} is not null and ({found} or not {text} rlike {literal(_DATE)})"
    if kind in guessed and kind == TIMESTAMP:
        return f"{value} is not null and ({found} or {text} rlike {literal(_TIME_OF_DAY)})"
    return found


def cast_text_sql(kind: str, text: str, options: Mapping[str, str]) -> str:
    """Returns SQL for the value that Spark's reader of CSV parses from a text; NULL if it can't.

    Args:
        kind: its type: a DOUBLE, a FLOAT, a DECIMAL, or one that is parsed without a format.
    """
    values = by_lower_name(options)
    empty = literal(values.get("nullvalue", ""))
    if base_type(kind) == DECIMAL:
        number = f"try_cast(replace({text}, ',', '') as {kind})"
        return rf"case when {text} <> {empty} and not {text} rlike '\\s' then {number} end"
    if kind in (DOUBLE, FLOAT):
        named = {
            "NaN": values.get("nanvalue", "NaN"),
            "Infinity": values.get("positiveinf", "Inf"),
            "-Infinity": values.get("negativeinf", "-Inf"),
        }
        cases = "".join(
            f"when {text} = {literal(name)} then {kind}('{value}') " for value, name in named.items()
        )
        # A cast also accepts `Infinity` and `NaN` in other spellings.
        number = rf"{text} rlike '\\d|^\\s*[-+]?(?:Infinity|NaN)\\s*$'"
        return (
            f"case when {text} = {empty} then null {cases}when {number} then try_cast({text} as {kind}) end"
        )
    found = f"try_cast({text} as {kind})"
    if "timezone" in values and kind == TIMESTAMP:
        zone = f"map('timeZone', {literal(values['timezone'])})"
        found = f"from_json(to_json(named_struct('x', {text})), 'x timestamp', {zone}).x"
    return f"case when {text} = {empty} then null else {found} end"


def can_cast_element(kind: str, options: Mapping[str, str]) -> bool:
    """Returns whether `cast_xml_element_sql` supports a type.

    >>> [can_cast_element(kind, {}) for kind in ("bigint", "decimal(9,2)", "date", "string", "array<int>")]
    [True, True, True, False, False]
    """
    if base_type(kind) == DECIMAL:
        return DECIMAL in guessed_types(options)
    return kind in _INTEGERS | KINDS | {"boolean"}


def cast_xml_element_sql(kind: str, text: str, options: Mapping[str, str], map_of_options: str) -> str:
    """Returns SQL for the value that Spark's reader of XML parses from a text; NULL if it can't.

    Args:
        kind: its type, for which `can_cast_element` is true.
    """
    if kind in {DOUBLE, FLOAT} | guessed_types(options):
        return cast_text_sql(kind, text, options)
    if kind in KINDS - {TINYINT, DECIMAL}:
        return f"from_json(to_json(named_struct('x', {text})), 'x {kind}', {map_of_options}).x"
    if kind == "boolean":
        return f"case when lower({text}) in ('true', '1') then true when lower({text}) in ('false', '0') then false end"
    number = f"replace({text}, ',', '')" if base_type(kind) == DECIMAL else text
    return f"try_cast({number} as {kind})"


def may_be_misread_condition(kind: str, value: str, is_many: bool) -> str:
    """Returns SQL for whether a parsed value looks misread. Other misread values are only found in the record's text
    (`dates_in_json_regex`).

    Args:
        is_many: whether it is an array of values.
    """
    if kind in (DOUBLE, FLOAT):
        if is_many:
            ends = (f"array_contains({value}, {kind}('{sign}infinity'))" for sign in ("", "-"))
            return f"({' or '.join(ends)})"
        return f"abs({value}) = double('infinity')"
    if kind == TINYINT:
        return f"{f'array_min({value})' if is_many else value} < 0"
    return f"{f'array_max({value})' if is_many else value} > {_LAST[kind]}"


def dates_in_json_regex(names: Collection[str]) -> str:
    """Returns a regular expression for JSON in which a guessed DATE may be misread.

    Args:
        names: fields that are a DATE, or an array or a map of them.
    """
    return _json_fields_regex(names, rf"(?!{_PLAIN_DATE})")


def times_in_json_regex(names: Collection[str]) -> str:
    """Returns a regular expression for JSON in which a guessed TIMESTAMP may be misread.

    Args:
        names: fields that are a TIMESTAMP, or an array or a map of them.
    """
    return _json_fields_regex(names, r"\s*+(?:T|\d{1,2}:)")


def decimals_in_json_regex(names: Collection[str]) -> str:
    """Returns a regular expression for JSON in which a DECIMAL may be misread.

    Args:
        names: fields that are a DECIMAL, or an array or a map of them.
    """
    return _json_fields_regex(names, r"[^\"',]*+,")


def _json_fields_regex(names: Collection[str], rest: str) -> str:
    found = rf"""(?:{_names_regex(names)})["']?+\s*+:\s*+(?:[\[{{]|["']{rest})"""
    # A regular expression that can begin with few characters only is fast.
    return rf"""["'{{,\\]\s*+(?:{found}|{_ESCAPED})"""


def may_be_time_of_day_condition(value: str) -> str:
    """Returns SQL for whether a TIMESTAMP is near the time of the run, from which a time of day gets its date."""
    days = "interval 2 days"
    return f"{value} > current_timestamp() - {days} and {value} < current_timestamp() + {days}"


def _names_regex(names: Iterable[str]) -> str:
    return "|".join(spelling for name in names for spelling in json_name_regexes(name))


def json_name_regexes(name: str) -> list[str]:
    """Returns regular expressions for a name as JSON may write it.

    >>> json_name_regexes("a.b"), json_name_regexes("ö")
    (['a\\\\.b'], ['ö', '\\\\\\\\u00f6'])
    """
    return list(dict.fromkeys([re.escape(name), re.escape(json.dumps(name)[1:-1])]))
