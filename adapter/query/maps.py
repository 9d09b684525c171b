"""MAPs, which Spark neither orders nor compares, as values that it does."""

from __future__ import annotations


def ordered(value: str, kind: str) -> str:
    """A value of a type as one that can be ordered, and compared.

    >>> ordered("v", "bigint"), ordered("m", "map<string,int>"), ordered("a", "array<map<string,int>>")
    ('v', 'array_sort(map_entries(m))', 'to_json(struct(a))')
    """
    if "map<" not in kind:
        return value
    is_plain = kind.startswith("map<") and kind.count("map<") == 1
    return f"array_sort(map_entries({value}))" if is_plain else f"to_json(struct({value}))"
