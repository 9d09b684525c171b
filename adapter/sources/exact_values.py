"""Compares parsed JSON with its text, and corrects values that Spark's parser changes without an error.

Spark reformats a number in a STRING column, 2.50 as 2.5 and 1e400 as "Infinity": it gets its original text back. A value
with another meaning than its text (`misread_values`) becomes NULL, as others that can't be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..util.quoting import literal
from ..util.quoting import quote as quoted
from .column_types import ColumnType, base_type
from .json_texts import STRING
from .misread_values import (
    DATE,
    DECIMAL,
    KINDS,
    TIMESTAMP,
    dates_in_json_regex,
    decimals_in_json_regex,
    json_name_regexes,
    may_be_misread_condition,
    may_be_time_of_day_condition,
    misread_condition,
    times_in_json_regex,
)

RAW = "__raw_record"
"""The column for the text of an unreadable record."""
_TEXT = "string"
_CHECKED = KINDS | {_TEXT}
_DEPTH = 8
"""Levels of nested objects and arrays that the text of a value may have."""
_NUMBER = r"[-+]?(?:[0-9][0-9.eE+-]*+|INF|Infinity|NaN)"
_NUMBERS = rf"""\G((?:{STRING}|'(?:[^'\\]++|\\.)*+'|[^"'0-9+\-IN]++)*+)({_NUMBER})"""
_QUOTED = '$1"$2"'
# What a number with a point or an exponent looks like when Spark has formatted it, and in JSON.
_FORMATTED = r'^(?:-?\d++[.eE]|"-?(?:Infinity|NaN)"$)'
_UNQUOTED = r"[:\[,]\s*+[-+]?(?:\d++[.eE]|I|N)"


def _nested_value_regex(depth: int) -> str:
    inner = f"|{_nested_value_regex(depth - 1)}" if depth else ""
    return rf"""[\[{{](?:[^\[\]{{}}"'/\\]++|{STRING}{inner})*+[\]}}]"""


@dataclass(frozen=True)
class ExactValues:
    """SQL that corrects values of parsed records."""

    types: Mapping[str, str]
    """The columns of a record, with their types."""
    options: str
    """SQL for the map of Spark's options to parse with."""
    options_with_raw: str
    """SQL for the map `options` with `RAW` as the column for the text of an unreadable record."""
    guessed: Collection[str] = ()
    """Types that are parsed without a format: `misread_values.guessed_types`."""

    @cached_property
    def _column_types(self) -> dict[str, ColumnType]:
        return {name: ColumnType.parse(kind) for name, kind in self.types.items()}

    @cached_property
    def _checked_types(self) -> dict[str, ColumnType]:
        found = {name: kind.only_types(_CHECKED) for name, kind in self._column_types.items()}
        return {name: kind for name, kind in found.items() if kind is not None}

    def may_differ_condition(self, record: str, text: str) -> str:
        """Returns SQL for whether a parsed record looks as if it had other values than its text.

        >>> ExactValues({"n": "int", "b": "tinyint"}, "map()", "map()").may_differ_condition("record", "text")
        'coalesce(record.`b` < 0, false)'
        """
        leaves = [
            leaf
            for name, kind in self._checked_types.items()
            for leaf in _simple_values(kind, name, f"{record}.{quoted(name)}")
        ]
        formatted = [
            f"array_join({leaf.value}, '\\n') rlike {literal('(?m)' + _FORMATTED)}"
            if leaf.is_many
            else f"({leaf.value} >= '\"' and {leaf.value} < ':' and {leaf.value} rlike {literal(_FORMATTED)})"
            for leaf in leaves
            if leaf.kind == _TEXT
        ]
        found = [
            may_be_misread_condition(leaf.kind, leaf.value, leaf.is_many)
            for leaf in leaves
            if leaf.kind != _TEXT and base_type(leaf.kind) != DECIMAL
        ]
        if formatted:
            found.append(f"(({' or '.join(formatted)}) and {text} rlike {literal(_UNQUOTED)})")
        dates, times, decimals = (
            [leaf for leaf in leaves if base_type(leaf.kind) == kind and kind in self.guessed]
            for kind in (DATE, TIMESTAMP, DECIMAL)
        )
        if decimals:
            found.append(f"{text} rlike {literal(decimals_in_json_regex(_leaf_names(decimals)))}")
        if dates:
            found.append(f"{text} rlike {literal(dates_in_json_regex(_leaf_names(dates)))}")
        if times:
            near = [
                f"{leaf.value} is not null" if leaf.is_many else may_be_time_of_day_condition(leaf.value)
                for leaf in times
            ]
            found.append(
                f"(({' or '.join(near)}) and {text} rlike {literal(times_in_json_regex(_leaf_names(times)))})"
            )
        return f"coalesce({' or '.join(found)}, false)" if found else "false"

    def corrected_columns_sql(self, record: str, texts: str) -> str:
        """Returns SQL for a parsed record's columns with corrected values, as arguments of `named_struct`.

        Args:
            texts: SQL for its checked values as `checked_texts_sql` gives them.
        """
        return self._corrected_fields_sql(self._column_types, self._checked_types, record, texts, 0)

    def checked_texts_sql(self, text: str) -> str:
        """Returns SQL for the checked values of a record as texts."""
        columns = {name: kind.text_ddl for name, kind in self._checked_types.items()} | {RAW: "string"}
        schema = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        # Between quotes, a number keeps its digits.
        quoting = f"regexp_replace({text}, {literal(_NUMBERS)}, {literal(_QUOTED)})"
        found, plain = (
            f"from_json({each}, {literal(schema)}, {self.options_with_raw})" for each in (quoting, text)
        )
        return f"transform(array({found}), __x -> if(__x.{RAW} is null, __x, {plain}))[0]"

    def column_text_sql(self, name: str, texts: str) -> str | None:
        """Returns SQL for the text of a column that isn't nested; None if it isn't among the checked values."""
        kind = self._checked_types.get(name)
        return None if kind is None or kind.parts else f"{texts}.{quoted(name)}"

    def is_misread_condition(self, name: str, record: str, texts: str) -> str:
        """Returns SQL for whether a column, or a value in it, has another meaning than its text."""
        if name not in self._checked_types or self._checked_types[name].only_types(KINDS) is None:
            return "false"
        return self._is_value_misread_condition(
            self._checked_types[name], f"{record}.{quoted(name)}", f"{texts}.{quoted(name)}", 0
        )

    def any_misread_condition(self, record: str, texts: str) -> str:
        """Returns SQL for whether any value has another meaning than its text."""
        return _any_condition(self.is_misread_condition(name, record, texts) for name in self._checked_types)

    def column_with_nested_text_sql(self, name: str, value: str, text: str) -> str:
        """Returns SQL for a column, with the original text for a STRING that is an object or an array in the record.

        Args:
            value: SQL for the column's parsed value.
            text: SQL for the record's text.
        """
        if self.types[name] != _TEXT:
            return value
        named = rf'(?s)"(?:{"|".join(json_name_regexes(name))})"\s*+:\s*+({_nested_value_regex(_DEPTH)})'
        texts = f"regexp_extract_all({text}, {literal(named)}, 1)"
        again = f"""from_json(concat('{{"x":', __c, '}}'), 'x string', {self.options}).x"""
        found = f"try_element_at(filter({texts}, __c -> {again} = {value}), 1)"
        # The parsed text is the original one if it follows the only field of that name in the record.
        field = json.dumps(name)
        is_there = f"contains({text}, concat({literal(field + ':')}, {value}))"
        is_only = f"octet_length(replace({text}, {literal(field)}, '')) = octet_length({text}) - {len(field)}"
        return (
            f"case when not ({_is_nested_text_condition(value)}) or ({is_there} and {is_only}) then {value} "
            f"else coalesce({found}, {value}) end"
        )

    def may_have_nested_text_condition(self, record: str) -> str:
        """Returns SQL for whether a STRING of a record may be an object or an array, for `column_with_nested_text_sql`."""
        names = [name for name, kind in self.types.items() if kind == _TEXT]
        found = " or ".join(_is_nested_text_condition(f"{record}.{quoted(name)}") for name in names)
        return f"coalesce({found}, false)" if found else "false"

    def _is_value_misread_condition(self, kind: ColumnType, value: str, text: str, depth: int) -> str:
        if not kind.parts:
            if kind.name == _TEXT:
                return "false"
            return f"coalesce({misread_condition(kind.name, value, text, self.guessed)}, false)"
        if kind.name == "struct":
            found = _any_condition(
                self._is_value_misread_condition(
                    part, f"{value}.{quoted(name)}", f"{text}.{quoted(name)}", depth
                )
                for name, part in kind.parts.items()
            )
            return f"({found})"
        found = _replace_elements_sql(
            kind, kind, value=value, text=text, depth=depth, of_one=self._is_value_misread_condition
        )
        values = found if kind.name == "array" else f"map_values({found})"
        return f"coalesce(exists({values}, __q -> __q), false)"

    def _corrected_fields_sql(
        self,
        parts: Mapping[str, ColumnType],
        checked: Mapping[str, ColumnType],
        value: str,
        text: str,
        depth: int,
    ) -> str:
        """Returns SQL for the fields of a struct, corrected, as arguments of `named_struct`."""
        fields = []
        for name, part in parts.items():
            field = f"{value}.{quoted(name)}"
            if name in checked:
                field = self._corrected_value_sql(part, checked[name], field, f"{text}.{quoted(name)}", depth)
            fields.append(f"{literal(name)}, {field}")
        return ", ".join(fields)

    def _corrected_value_sql(
        self, kind: ColumnType, checked: ColumnType, value: str, text: str, depth: int
    ) -> str:
        """Returns SQL for a value with its parts corrected.

        Args:
            checked: the type with only the parts to check.
            depth: how many arrays and maps it is in.
        """
        if kind.name == "struct" and kind.parts:
            fields = self._corrected_fields_sql(kind.parts, checked.parts, value, text, depth)
            return f"if({value} is null, null, named_struct({fields}))"
        if kind.parts:

            def corrected_element(checked: ColumnType, value: str, text: str, depth: int) -> str:
                (part,) = kind.parts.values()
                return self._corrected_value_sql(part, checked, value, text, depth)

            replaced = _replace_elements_sql(
                kind, checked, value=value, text=text, depth=depth, of_one=corrected_element
            )
            return f"coalesce({replaced}, {value})"
        if kind.name == _TEXT:
            return f"if({_is_nested_text_condition(value)} or {text} is null, {value}, {text})"
        return f"if({self._is_value_misread_condition(kind, value, text, depth)}, null, {value})"


def _any_condition(conditions: Iterable[str]) -> str:
    """Returns SQL for whether any condition holds."""
    return " or ".join(each for each in conditions if each != "false") or "false"


def _leaf_names(leaves: Iterable[_Leaf]) -> list[str]:
    return sorted({leaf.name for leaf in leaves})


def _is_nested_text_condition(value: str) -> str:
    """Returns SQL for whether a text begins as a JSON object or array."""
    return f"startswith({value}, '{{') or startswith({value}, '[')"


def _replace_elements_sql(
    kind: ColumnType,
    checked: ColumnType,
    value: str,
    text: str,
    depth: int,
    of_one: Callable[[ColumnType, str, str, int], str],
) -> str:
    """Returns SQL for an array or a map with each value replaced."""
    (part,) = checked.parts.values()
    key, one, other = f"__k{depth}", f"__a{depth}", f"__b{depth}"
    if kind.name == "array":
        return f"zip_with({value}, {text}, ({one}, {other}) -> {of_one(part, one, other, depth + 1)})"
    found = of_one(part, one, f"try_element_at({text}, {key})", depth + 1)
    return f"transform_values({value}, ({key}, {one}) -> {found})"


@dataclass(frozen=True)
class _Leaf:
    name: str
    kind: str
    value: str
    """SQL for the value, or for an array of them."""
    is_many: bool


def _simple_values(kind: ColumnType, name: str, path: str, is_many: bool = False) -> Iterator[_Leaf]:
    """Yields the simple values of a column."""
    if not kind.parts:
        yield _Leaf(name, kind.name, path, is_many)
    elif kind.name == "struct":
        for field, part in kind.parts.items():
            yield from _simple_values(part, field, f"{path}.{quoted(field)}", is_many)
    elif kind.name == "array":
        yield from _simple_values(kind.parts["element"], name, f"flatten({path})" if is_many else path, True)
    else:
        values = f"flatten(transform({path}, __m -> map_values(__m)))" if is_many else f"map_values({path})"
        yield from _simple_values(kind.parts["value"], name, values, True)
