"""What differs between what a state was made for and what a query wants of it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_SAID = {
    "source": "what is read below the aggregates",
    "streams": "the streams it reads",
    "grouping_sets": "the grouping sets",
    "state_ttl": "whether there is a state_ttl",
    "lives": "how it is known what has expired, by an earlier version of this package",
    "top": "the ranking",
    "enumerated": "enum_distinct",
    "kept": "how its aggregates are kept, by an earlier version of this package or of values of another type",
}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two signatures of a program; none if they mean the same.

    >>> stage = {"name": "stage_1", "metrics": {"count_all": "COUNT(*)"}, "keys": {"page": "page"}}
    >>> more = {**stage, "metrics": {"count_all": "COUNT(*)", "sum_v": "SUM(v)"}, "keys": {}}
    >>> differences({"stages": [stage]}, {"stages": [more]})
    ['the group key page is gone', 'the aggregate SUM(v) is new']
    """
    if "stages" not in old or "stages" not in new:
        return _others(old, new)
    others = _others({**old, "stages": None}, {**new, "stages": None})
    found = [_SAID.get(name, name) for name in others]
    before, after = ({stage["name"]: stage for stage in each["stages"]} for each in (old, new))
    for name in dict.fromkeys([*before, *after]):
        if name not in before or name not in after:
            found.append(f"{name} is {'new' if name in after else 'gone'}")
        else:
            found += _of_stage(before[name], after[name])
    if not found and old["stages"] != new["stages"]:
        return ["stages"]
    return list(dict.fromkeys(found))


def only_rows(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether two signatures differ in nothing but which rows go in: a filter, or what is made of a column below.

    >>> stage = {"name": "stage_1", "source": "SELECT * FROM a", "keys": {"k": "k"}}
    >>> only_rows({"stages": [stage]}, {"stages": [{**stage, "source": "SELECT * FROM a WHERE b"}]})
    True
    >>> only_rows({"stages": [stage]}, {"stages": [{**stage, "source": "SELECT * FROM a", "keys": {}}]})
    False
    """

    def without_rows(signature: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**signature, "stages": [{**stage, "source": None} for stage in signature.get("stages", ())]}

    return "stages" in old and without_rows(old) == without_rows(new)


def _of_stage(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    known = {"keys": "group key", "metrics": "aggregate"}
    for entry, what in known.items():
        yield from _of_columns(what, old.get(entry) or {}, new.get(entry) or {})
    if old.get("window") != new.get("window"):
        yield from _of_windows(old.get("window") or {}, new.get("window") or {})
    rest = [
        {key: value for key, value in each.items() if key not in (*known, "window")} for each in (old, new)
    ]
    for key in _others(*rest):
        yield _SAID.get(key, key)


def _of_columns(what: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """State columns by name, with what is in them."""
    gone = [text for text in old.values() if text not in new.values()]
    come = [text for text in new.values() if text not in old.values()]
    yield from (f"the {what} {text} is gone" for text in gone)
    yield from (f"the {what} {text} is new" for text in come)
    if not gone and not come and old != new:
        yield f"the order of its {what}s"


def _of_windows(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if old.get("kind") != new.get("kind"):
        yield f"the window is {new.get('kind')}() and was {old.get('kind')}()"
        return
    for key in _others(old, new):
        if (key, new.get("kind")) != ("step", "tumble"):  # which is its size
            yield f"the window's {key}"


def _others(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
