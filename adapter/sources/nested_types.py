"""Parses types from their DDL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..util.quoting import quote as quoted

_NAME = re.compile(r"`((?:[^`]|``)*)`|([^:`]+)")
_TYPE = re.compile(r"(?:struct|array|map)(?=<)|(?:\([^)]*\)|[^,<>(])+")


@dataclass(frozen=True)
class ColumnType:
    """A type."""

    name: str
    """``struct``, ``array``, ``map``, or the name of a simple type."""
    parts: Mapping[str, ColumnType]
    """The types of a struct's fields; under ``element`` or ``value`` that of an array's elements or a map's values."""

    @classmethod
    def of(cls, text: str) -> ColumnType:
        """Parses a type.

        >>> kind = ColumnType.of("struct<a:int,`b:c`:map<string,array<decimal(3,1)>>>")
        >>> list(kind.parts), kind.parts["b:c"].parts["value"].parts["element"].name
        (['a', 'b:c'], 'decimal(3,1)')
        """
        found, end = _parsed(text, 0)
        assert end == len(text), text
        return found

    def only(self, names: frozenset[str]) -> ColumnType | None:
        """Returns the type with only the parts that contain one of the named simple types; None if there are none."""
        if not self.parts:
            return self if self.name in names else None
        parts = {name: only for name, part in self.parts.items() if (only := part.only(names)) is not None}
        return ColumnType(self.name, parts) if parts else None

    @property
    def as_texts(self) -> str:
        """The type with STRING for each simple type, as DDL."""
        if self.name == "struct":
            return f"struct<{','.join(f'{quoted(n)}:{part.as_texts}' for n, part in self.parts.items())}>"
        if self.name == "array":
            return f"array<{self.parts['element'].as_texts}>"
        return f"map<string,{self.parts['value'].as_texts}>" if self.name == "map" else "string"


def _parsed(text: str, at: int) -> tuple[ColumnType, int]:
    """Returns the type that begins at a place of a text, and the place of its end."""
    name = _TYPE.match(text, at)
    assert name is not None, text
    at, parts = name.end(), {}
    if at == len(text) or text[at] != "<":
        return ColumnType(name[0], {}), at
    while text[at] != ">":
        at += 1
        part = {"array": "element", "map": "value"}.get(name[0], "")
        if name[0] == "struct" and (field := _NAME.match(text, at)):
            part, at = (field[1] or "").replace("``", "`") or field[2] or "", field.end() + 1
        if text[at] != ">":
            parts[part], at = _parsed(text, at)
    return ColumnType(name[0], parts), at + 1
