"""Parses the types of arrays, maps and structs, as `typeof` or CREATE TABLE print them."""

from __future__ import annotations

import re


def parts_of(kind: str) -> tuple[str, list[tuple[str, str]]] | None:
    """Returns a nested type's kind in lower case, and its parts with their types: fields by name as written, others
    by position. None if the type isn't nested.

    >>> parts_of("struct<a:int,`b,c`:map<int,decimal(3,1)>>")
    ('struct', [('a', 'int'), ('`b,c`', 'map<int,decimal(3,1)>')])
    >>> parts_of("map<int,array<int>>"), parts_of("int")
    (('map', [('0', 'int'), ('1', 'array<int>')]), None)
    """
    found = re.fullmatch(r"(array|map|struct)<(.*)>", kind, re.DOTALL | re.IGNORECASE)
    if found is None:
        return None
    depth, is_quoted, parts = 0, False, [""]
    for letter in found[2]:
        is_quoted ^= letter == "`"
        if not is_quoted:
            depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth and not is_quoted:
            parts.append("")
        else:
            parts[-1] += letter
    outer = found[1].lower()
    if outer != "struct":
        return outer, [(str(place), part.strip()) for place, part in enumerate(parts)]
    fields = [re.fullmatch(r"\s*(`(?:[^`]|``)*`|[^:]*?)\s*:\s*(.*)", part, re.DOTALL) for part in parts]
    return outer, [(field[1], field[2]) for field in fields if field is not None]


def fields_of(kind: str) -> list[tuple[str, str]] | None:
    """Returns the fields of a struct with their types. None if it isn't a struct.

    >>> fields_of("struct<a:int,`b,c`:map<int,int>>"), fields_of("int")
    ([('a', 'int'), ('b,c', 'map<int,int>')], None)
    """
    found = parts_of(kind)
    if found is None or found[0] != "struct":
        return None
    return [
        (name[1:-1].replace("``", "`") if name.startswith("`") else name, each) for name, each in found[1]
    ]
