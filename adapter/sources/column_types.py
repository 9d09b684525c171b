"""`ColumnType`: the type of a column as a tree of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..util.nested_types import fields_of, parts_of
from ..util.quoting import quote as quoted


def base(kind: str) -> str:
    """Returns a simple type without its precision.

    >>> base("decimal(9,2)"), base("int")
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
    def of(cls, text: str) -> ColumnType:
        """Parses a type.

        >>> kind = ColumnType.of("struct<a:int,`b:c`:map<string,array<decimal(3,1)>>>")
        >>> list(kind.parts), kind.parts["b:c"].parts["value"].parts["element"].name
        (['a', 'b:c'], 'decimal(3,1)')
        """
        found = parts_of(text)
        if found is None:
            return cls(text, {})
        name, parts = found
        if name == "struct":
            return cls(name, {field: cls.of(part) for field, part in fields_of(text) or ()})
        return cls(name, {"element" if name == "array" else "value": cls.of(parts[-1][1])})

    def only(self, names: frozenset[str]) -> ColumnType | None:
        """Returns the type with only the parts that contain one of the named simple types; None if there are none.

        >>> ColumnType.of("struct<a:decimal(9,2),b:int>").only(frozenset({"decimal"})).as_texts
        'struct<`a`:string>'
        """
        if not self.parts:
            return self if base(self.name) in names else None
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
