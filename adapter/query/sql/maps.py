"""Converts MAPs, which Spark neither orders nor compares, to comparable values."""

from __future__ import annotations

import re

from ...util.nested_types import struct_fields, type_parts
from ...util.quoting import quote


def has_map(kind: str) -> bool:
    """Whether a type is or contains a MAP."""
    return re.search(r"\bmap<", kind.lower()) is not None


def orderable_sql(value: str, kind: str, depth: int = 0) -> str:
    """Returns SQL of a value that can be ordered and compared: maps become their sorted entries.

    Args:
        kind: the value's type, as `typeof` or CREATE TABLE print it.
        depth: number of enclosing lambda functions.

    >>> orderable_sql("v", "bigint"), orderable_sql("m", "map<string,int>")
    ('v', 'array_sort(map_entries(m))')
    >>> orderable_sql("a", "array<map<string,int>>")
    'transform(a, __e0 -> array_sort(map_entries(__e0)))'
    >>> orderable_sql("s", "struct<k:string,m:map<int,int>>")
    'if(s is null, null, struct(s.`k`, array_sort(map_entries(s.`m`))))'
    >>> orderable_sql("m", "map<string,map<int,int>>")
    'array_sort(transform(map_entries(m), __e0 -> struct(__e0.key, array_sort(map_entries(__e0.value)))))'
    """
    if not has_map(kind):
        return value
    each, found = f"__e{depth}", type_parts(kind)
    assert found is not None
    outer, parts = found
    if outer == "array":
        ((_, of_element),) = parts
        return f"transform({value}, {each} -> {orderable_sql(each, of_element, depth + 1)})"
    if outer == "map":
        _, (_, of_value) = parts
        entries = f"map_entries({value})"
        if has_map(of_value):
            entry = f"struct({each}.key, {orderable_sql(f'{each}.value', of_value, depth + 1)})"
            entries = f"transform({entries}, {each} -> {entry})"
        return f"array_sort({entries})"
    fields = [
        orderable_sql(f"{value}.{quote(name)}", of_field, depth)
        for name, of_field in struct_fields(kind) or ()
    ]
    return f"if({value} is null, null, struct({', '.join(fields)}))"
