"""What the type of an array, a map or a struct is put together of, as Spark's `typeof` or CREATE TABLE has it."""

from __future__ import annotations

import re


def parts_of(kind: str) -> tuple[str, list[tuple[str, str]]] | None:
    """What a type is, in lower case, and its parts with their types: fields by their names as they stand, others by their
    places. None: it isn't put together.

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
    """The fields of a struct, by their names, with their types; None: it is something else.

    >>> fields_of("struct<a:int,`b,c`:map<int,int>>"), fields_of("int")
    ([('a', 'int'), ('b,c', 'map<int,int>')], None)
    """
    found = parts_of(kind)
    if found is None or found[0] != "struct":
        return None
    return [
        (name[1:-1].replace("``", "`") if name.startswith("`") else name, each) for name, each in found[1]
    ]
