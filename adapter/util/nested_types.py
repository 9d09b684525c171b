"""Parses the types of arrays, maps and structs, as `typeof` or CREATE TABLE print them."""

from __future__ import annotations

import re

from .quoting import literal, quote


def type_parts(kind: str) -> tuple[str, list[tuple[str, str]]] | None:
    """Returns a nested type's kind in lower case, and its parts with their types: fields by name as written, others
    by position. None if the type isn't nested.

    >>> type_parts("struct<a:int,`b,c`:map<int,decimal(3,1)>>")
    ('struct', [('a', 'int'), ('`b,c`', 'map<int,decimal(3,1)>')])
    >>> type_parts("map<int,array<int>>"), type_parts("int")
    (('map', [('0', 'int'), ('1', 'array<int>')]), None)
    >>> type_parts("struct<it's o`clock:time(6),sum(a, b):int>")
    ('struct', [("it's o`clock", 'time(6)'), ('sum(a, b)', 'int')])
    """
    found = re.fullmatch(r"(array|map|struct)<(.*)>", kind, re.DOTALL | re.IGNORECASE)
    if found is None:
        return None
    parts = _split_parts(found[2])
    outer = found[1].lower()
    if outer != "struct":
        return outer, [(str(place), part.strip()) for place, part in enumerate(parts)]
    fields = [re.fullmatch(r"\s*(`(?:[^`]|``)*`|[^:]*?)\s*:\s*(.*)", part, re.DOTALL) for part in parts]
    return outer, [(field[1], field[2]) for field in fields if field is not None]


def _split_parts(parts: str) -> list[str]:
    """Returns the parts between the commas of a nested type. `typeof` prints names without quotes."""
    depth, is_quoted, found = 0, False, [""]
    for letter in parts:
        if letter == "`" and (is_quoted or re.search(r"(^|[<,])\s*$", found[-1])):
            is_quoted = not is_quoted
        if not is_quoted:
            depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth and not is_quoted:
            found.append("")
        else:
            found[-1] += letter
    return found


_TYPE = re.compile(r"[\w ]+(\([\w, ]*\))?|(array|map|struct)<.*>", re.DOTALL | re.IGNORECASE)


def row_type_columns(row: str) -> list[tuple[str, str]] | None:
    """Returns the columns of a row with their types, from its type as `typeof` prints it: a struct whose names aren't in
    quotes, whatever is in them. None if it is ambiguous.

    >>> row_type_columns("struct<my key:int,the.sum(a, b):decimal(3,1), z:struct<x y:int>>")
    [('my key', 'int'), ('the.sum(a, b)', 'decimal(3,1)'), (' z', 'struct<x y:int>')]
    >>> [row_type_columns(f"struct<a:int,{name}:int,c:int>") for name in ("b:c", "b,c", "b<c", "b>c", "b(c", "b)c")]
    [None, None, None, None, None, None]
    """
    found = re.fullmatch(r"struct<(.*)>", row, re.DOTALL | re.IGNORECASE)
    fields = [part.partition(":") for part in _split_parts(found[1])] if found is not None else []
    is_clear = all(name and _TYPE.fullmatch(kind) for name, _, kind in fields)
    return [(name, kind) for name, _, kind in fields] if fields and is_clear else None


def struct_fields(kind: str) -> list[tuple[str, str]] | None:
    """Returns the fields of a struct with their types. None if it isn't a struct.

    >>> struct_fields("struct<a:int,`b,c`:map<int,int>>"), struct_fields("int")
    ([('a', 'int'), ('b,c', 'map<int,int>')], None)
    """
    found = type_parts(kind)
    if found is None or found[0] != "struct":
        return None
    return [
        (name[1:-1].replace("``", "`") if name.startswith("`") else name, each) for name, each in found[1]
    ]


def reorder_fields_sql(value: str, has: str, wants: str) -> str:
    """Returns SQL for a value with the fields of its structs in the order of another type, because Spark casts and inserts
    structs by position. Returns `value` unchanged if its fields have that order already, or other names.

    Args:
        has, wants: the type of the value, and the type whose order it gets.

    >>> reorder_fields_sql("s", "struct<b:int,a:date>", "struct<a:date,b:bigint>")
    "if(s is null, null, named_struct('a', s.`a`, 'b', s.`b`))"
    >>> reorder_fields_sql("l", "array<struct<b:int,a:int>>", "array<struct<a:int,b:int>>")
    "transform(l, __0 -> if(__0 is null, null, named_struct('a', __0.`a`, 'b', __0.`b`)))"
    >>> reorder_fields_sql("m", "map<int,struct<b:int,a:int>>", "map<int,struct<a:int,b:int>>")
    "transform_values(m, (__k0, __v0) -> if(__v0 is null, null, named_struct('a', __v0.`a`, 'b', __v0.`b`)))"
    >>> reorder_fields_sql("s", "struct<A:int,b:int>", "struct<a:bigint,b:int>")
    's'
    >>> reorder_fields_sql("s", "struct<a:int>", "struct<b:int>")
    's'
    """
    return _reorder_fields_sql(value, has, wants, 0)


def _reorder_fields_sql(value: str, has: str, wants: str, depth: int) -> str:
    current, wanted = type_parts(has), type_parts(wants)
    if current is None or wanted is None or current[0] != wanted[0]:
        return value
    if current[0] == "struct":
        return _reorder_struct_sql(value, has, wants, depth)
    pairs = list(zip((kind for _, kind in current[1]), (kind for _, kind in wanted[1]), strict=True))
    if current[0] == "array":
        element = f"__{depth}"
        reordered = _reorder_fields_sql(element, *pairs[0], depth + 1)
        return value if reordered == element else f"transform({value}, {element} -> {reordered})"
    for name, parts in zip(("keys", "values"), pairs, strict=True):
        part = f"__{name[0]}{depth}"
        reordered = _reorder_fields_sql(part, *parts, depth + 1)
        if reordered != part:
            value = f"transform_{name}({value}, (__k{depth}, __v{depth}) -> {reordered})"
    return value


def _reorder_struct_sql(value: str, has: str, wants: str, depth: int) -> str:
    fields, wanted = struct_fields(has) or [], struct_fields(wants) or []
    known = {name.lower(): (name, kind) for name, kind in fields}
    names = [name.lower() for name, _ in wanted]
    if len(known) != len(fields) or sorted(names) != sorted(known):
        return value
    items, is_same = [], names == [*known]
    for wanted_name, wanted_kind in wanted:
        name, kind = known[wanted_name.lower()]
        field = f"{value}.{quote(name)}"
        reordered = _reorder_fields_sql(field, kind, wanted_kind, depth)
        is_same = is_same and reordered == field
        items.append(f"{literal(name)}, {reordered}")
    return value if is_same else f"if({value} is null, null, named_struct({', '.join(items)}))"
