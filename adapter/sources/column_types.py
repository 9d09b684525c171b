"""`ColumnType`: the type of a column as a tree of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..util.nested_types import struct_fields, type_parts
from ..util.quoting import quote as quoted


def base_type(kind: str) -> str:
    """Returns a simple type without its precision.

    >>> base_type("decimal(9,2)"), base_type("int")
    ('decimal', 'int')
    """
    return kind.partition("(")[0]


@dataclass(frozen=True)
class ColumnType:
    """A type, with the types of its parts."""

    name: str
    """``struct``, ``array``, ``map``, or the name of a simple type."""
    parts: Mapping[str, ColumnType]
    """The types of a struct's fields; under ``element`` or ``value`` that of an array's elements or a map's values."""

    @classmethod
    def parse(cls, text: str) -> ColumnType:
        """Parses a type.

        >>> kind = ColumnType.parse("struct<a:int,`b:c`:map<string,array<decimal(3,1)>>>")
        >>> list(kind.parts), kind.parts["b:c"].parts["value"].parts["element"].name
        (['a', 'b:c'], 'decimal(3,1)')
        """
        found = type_parts(text)
        if found is None:
            return cls(text, {})
        name, parts = found
        if name == "struct":
            return cls(name, {field: cls.parse(part) for field, part in struct_fields(text) or ()})
        return cls(name, {"element" if name == "array" else "value": cls.parse(parts[-1][1])})

    def only_types(self, names: frozenset[str]) -> ColumnType | None:
        """Returns the type with only the parts that contain one of the named simple types; None if there are none.

        >>> ColumnType.parse("struct<a:decimal(9,2),b:int>").only_types(frozenset({"decimal"})).text_ddl
        'struct<`a`:string>'
        """
        if not self.parts:
            return self if base_type(self.name) in names else None
        parts = {
            name: only for name, part in self.parts.items() if (only := part.only_types(names)) is not None
        }
        return ColumnType(self.name, parts) if parts else None

    @property
    def text_ddl(self) -> str:
        """The type with STRING for each simple type, as DDL."""
        if self.name == "struct":
            return f"struct<{','.join(f'{quoted(n)}:{part.text_ddl}' for n, part in self.parts.items())}>"
        if self.name == "array":
            return f"array<{self.parts['element'].text_ddl}>"
        return f"map<string,{self.parts['value'].text_ddl}>" if self.name == "map" else "string"
