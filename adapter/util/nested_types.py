"""Parses the types of arrays, maps and structs, as `typeof` or CREATE TABLE print them."""

from __future__ import annotations

import re

from .quoting import literal, quote


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


def by_name(value: str, has: str, wants: str) -> str:
    """Returns SQL for a value with the fields of its structs in the order of another type: Spark casts and inserts structs
    by position. The value itself if its fields are in that order, or are others.

    >>> by_name("s", "struct<b:int,a:date>", "struct<a:date,b:bigint>")
    "if(s is null, null, named_struct('a', s.`a`, 'b', s.`b`))"
    >>> by_name("l", "array<struct<b:int,a:int>>", "array<struct<a:int,b:int>>")
    "transform(l, __0 -> if(__0 is null, null, named_struct('a', __0.`a`, 'b', __0.`b`)))"
    >>> by_name("m", "map<int,struct<b:int,a:int>>", "map<int,struct<a:int,b:int>>")
    "transform_values(m, (__k0, __v0) -> if(__v0 is null, null, named_struct('a', __v0.`a`, 'b', __v0.`b`)))"
    >>> by_name("s", "struct<A:int,b:int>", "struct<a:bigint,b:int>"), by_name("s", "struct<a:int>", "struct<b:int>")
    ('s', 's')
    """
    return _by_name(value, has, wants, 0)


def _by_name(value: str, has: str, wants: str, depth: int) -> str:
    own, other = parts_of(has), parts_of(wants)
    if own is None or other is None or own[0] != other[0]:
        return value
    if own[0] == "struct":
        return _fields_by_name(value, has, wants, depth)
    kinds = list(zip((kind for _, kind in own[1]), (kind for _, kind in other[1]), strict=True))
    if own[0] == "array":
        one = f"__{depth}"
        found = _by_name(one, *kinds[0], depth + 1)
        return value if found == one else f"transform({value}, {one} -> {found})"
    for name, which, (kind, wanted) in zip(("keys", "values"), ("k", "v"), kinds, strict=True):
        one = f"__{which}{depth}"
        found = _by_name(one, kind, wanted, depth + 1)
        if found != one:
            value = f"transform_{name}({value}, (__k{depth}, __v{depth}) -> {found})"
    return value


def _fields_by_name(value: str, has: str, wants: str, depth: int) -> str:
    fields, wanted = fields_of(has) or [], fields_of(wants) or []
    known = {name.lower(): (name, kind) for name, kind in fields}
    names = [name.lower() for name, _ in wanted]
    if len(known) != len(fields) or sorted(names) != sorted(known):
        return value
    found, is_same = [], names == [*known]
    for name, (own, kind) in ((name, known[name.lower()]) for name, _ in wanted):
        field = f"{value}.{quote(own)}"
        made = _by_name(field, kind, dict(wanted)[name], depth)
        is_same = is_same and made == field
        found.append(f"{literal(own)}, {made}")
    return value if is_same else f"if({value} is null, null, named_struct({', '.join(found)}))"
