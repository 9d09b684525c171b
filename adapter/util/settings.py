"""Describes settings that a user writes: their types and meanings, for checks, for the reference and for editors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .quoting import option_text
from .sizes import parse_size


@dataclass(frozen=True)
class ValueType:
    """The type of a setting."""

    name: str
    schema: Mapping[str, Any]
    """JSON schema of its values."""
    instead: str = ""
    """End of the message on an invalid value: what to write."""
    is_valid: Callable[[Any], bool] | None = None
    """Returns whether a value is valid. None if the reader of the setting checks it."""
    unit: str = ""

    def problem(self, value: Any) -> str | None:
        """Returns what is wrong with a value, or None. None as a value counts as not given.

        >>> FLAG.problem("yes"), FLAG.problem(None)
        ("is 'yes'; write true or false", None)
        """
        if value is None or self.is_valid is None or self.is_valid(value):
            return None
        return f"is {value!r}; {self.instead}"


@dataclass(frozen=True)
class SettingInfo:
    """A setting, under the name that a user writes."""

    name: str
    kind: ValueType
    meaning: str
    """Markdown; links start at ``docs/reference``."""
    default: Any = None
    """The value if the setting is left out. None if there is none, or if `default_text` describes it."""
    default_text: str = ""


def is_name(value: Any) -> bool:
    """Returns whether a value is a text that isn't blank."""
    return isinstance(value, str) and bool(value.strip())


def is_columns(value: Any) -> bool:
    """Returns whether a value is a column or a list of columns."""
    return is_name(value) or (isinstance(value, list | tuple) and bool(value) and all(map(is_name, value)))


def is_plain_mapping(value: Any) -> bool:
    """Returns whether a value is a mapping without mappings and lists among its values."""
    return isinstance(value, Mapping) and not any(
        isinstance(each, Mapping | list | tuple) for each in value.values()
    )


def is_count(value: Any, least: int = 1) -> bool:
    """Returns whether a value is a whole number within limits.

    >>> is_count(5), is_count(0), is_count(True), is_count(0, least=0)
    (True, False, False, True)
    """
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 31


def one_of_type(*values: str) -> ValueType:
    """Returns the type of a setting that has one of a few values.

    >>> one_of_type("skip", "fail").problem("wait")
    "is 'wait'; write 'skip' or 'fail'"
    """
    quoted = [f"'{each}'" for each in values]
    instead = f"write {', '.join(quoted[:-1])} or {quoted[-1]}"
    name = " \\| ".join(f"`{each}`" for each in quoted)
    return ValueType(name, {"enum": [*values]}, instead, lambda value: value in values)


def count_type(example: str, least: int = 1, unit: str = "") -> ValueType:
    """Returns the type of a setting that is a whole number. `example` ends the message on an invalid value."""
    schema = {"type": "integer", "minimum": least}
    return ValueType("number", schema, f"write {example}", lambda value: is_count(value, least), unit)


def mapping_type(example: str) -> ValueType:
    """Returns the type of a setting that has names and values. `example` is one of them, in YAML."""
    return ValueType(
        "mapping", {"type": "object"}, f"write names with their values, as in {example}", is_plain_mapping
    )


def text_type(instead: str) -> ValueType:
    """Returns the type of a setting that is a text. `instead` ends the message on an invalid value."""
    return ValueType("text", {"type": "string", "minLength": 1}, instead, is_name)


_INTERVAL = {"type": "string", "pattern": r"\d\s*[A-Za-z]", "examples": ["10 minutes", "1 day 12 hours"]}

INTERVAL = ValueType("interval", _INTERVAL, unit="a number and a unit: weeks … microseconds")
"""An interval, which `query.sql.intervals` parses."""

FLAG = ValueType(
    "`true` \\| `false`", {"type": "boolean"}, "write true or false", lambda value: isinstance(value, bool)
)

SIZE = ValueType(
    "size",
    {"type": ["string", "integer"], "examples": ["64 MB", "1g"]},
    "write a size, as in '64 MB'",
    lambda value: 0 < (parse_size(value) or 0) < 1 << 63,
    "bytes, or with KB, MB, GB",
)

_COLUMN_LIST = {"type": "array", "items": {"type": "string"}}

COLUMNS = ValueType(
    "column, or list",
    {"anyOf": [{"type": "string", "minLength": 1}, {**_COLUMN_LIST, "minItems": 1}]},
    "write a column or a list of columns",
    is_columns,
)

COLUMN_LIST = ValueType(
    "list of columns",
    _COLUMN_LIST,
    "write a list of columns, as in ['city']",
    lambda value: isinstance(value, list) and all(map(is_name, value)),
)


def interval_or_type(*words: str) -> ValueType:
    """Returns the type of a setting that is an interval or one of a few words."""
    alternatives = "".join(f" \\| `'{each}'`" for each in words)
    return ValueType(
        f"interval{alternatives}", {"anyOf": [{"enum": [*words]}, _INTERVAL]}, unit=INTERVAL.unit
    )


def as_options(values: Mapping[Any, Any]) -> dict[str, str]:
    """Returns a mapping of YAML in the form of Spark's options. None counts as not given.

    >>> as_options({"multiLine": True, "mode": None, 1: 2})
    {'multiLine': 'true', '1': '2'}
    """
    return {str(key): option_text(value) for key, value in values.items() if value is not None}


def setting_names(settings: Sequence[SettingInfo]) -> tuple[str, ...]:
    """Returns the names of settings, in order."""
    return tuple(each.name for each in settings)
