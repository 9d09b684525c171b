"""MAPs, which Spark neither orders nor compares, as values that it does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .windows import quote


def has_map(kind: str) -> bool:
    """Whether a type is, or has in it, a MAP."""
    return re.search(r"\bmap<", kind.lower()) is not None


def ordered(value: str, kind: str, depth: int = 0) -> str:
    """A value of a type as one that can be ordered, and compared: maps are their entries in order.

    Args:
        value: SQL.
        kind: its type, as Spark's `typeof` prints it, or as in CREATE TABLE.
        depth: in how many lambda functions it stands.

    >>> ordered("v", "bigint"), ordered("m", "map<string,int>")
    ('v', 'array_sort(map_entries(m))')
    >>> ordered("a", "array<map<string,int>>")
    'transform(a, __e0 -> array_sort(map_entries(__e0)))'
    >>> ordered("s", "struct<k:string,m:map<int,int>>")
    'if(s is null, null, struct(s.`k`, array_sort(map_entries(s.`m`))))'
    >>> ordered("m", "map<string,map<int,int>>")
    'array_sort(transform(map_entries(m), __e0 -> struct(__e0.key, array_sort(map_entries(__e0.value)))))'
    """
    if not has_map(kind):
        return value
    each = f"__e{depth}"
    outer, _, inner = kind.strip().removesuffix(">").partition("<")
    if outer.lower() == "array":
        return f"transform({value}, {each} -> {ordered(each, inner, depth + 1)})"
    if outer.lower() == "map":
        _, of_value = _parted(inner)
        entries = f"map_entries({value})"
        if has_map(of_value):
            entry = f"struct({each}.key, {ordered(f'{each}.value', of_value, depth + 1)})"
            entries = f"transform({entries}, {each} -> {entry})"
        return f"array_sort({entries})"
    fields = [ordered(f"{value}.{quote(name)}", of_field, depth) for name, of_field in fields_in(kind)]
    return f"if({value} is null, null, struct({', '.join(fields)}))"


def fields_in(struct: str) -> Sequence[tuple[str, str]]:
    """The names and types of a struct.

    >>> fields_in("struct<k:string,`a:b`:int,m:map<string,decimal(10,2)>>")
    [('k', 'string'), ('a:b', 'int'), ('m', 'map<string,decimal(10,2)>')]
    """
    found = []
    for field in _parted(struct.strip()[len("struct<") : -1]):
        quoted = re.fullmatch(r"`((?:[^`]|``)*)`:(.*)", field)
        name, kind = quoted.groups() if quoted else field.partition(":")[::2]
        found.append((name.replace("``", "`") if quoted else name, kind.strip()))
    return found


def _parted(text: str) -> list[str]:
    """What commas part, those in brackets and quotes left alone."""
    found, depth, begun, in_quotes = [], 0, 0, False
    for place, letter in enumerate(text + ","):
        in_quotes ^= letter == "`"
        depth += 0 if in_quotes else (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0 and not in_quotes:
            found.append(text[begun:place].strip())
            begun = place + 1
    return found
