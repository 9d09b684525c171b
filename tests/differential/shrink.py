"""What goes wrong, smaller: queries without some of their parts, tables without some of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from tests.differential.tables import Tables
from tests.differential.tree import (
    UPSTREAM,
    Case,
    Group,
    Invalid,
    Join,
    Limit,
    Model,
    Node,
    Over,
    Rank,
    Select,
    Shared,
    Stream,
    Windowed,
    children,
    nodes,
)


def smaller(node: Node) -> Iterator[Node]:
    """Queries with one part less, the smallest first. Some have no meaning."""
    yield from children(node)
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Node):
            for less in smaller(value):
                yield replace(node, **{each.name: less})
    yield from _simpler(node)


def _simpler(node: Node) -> Iterator[Node]:
    for name in _LISTS.get(type(node), ()):
        listed = getattr(node, name)
        for at in range(len(listed)):
            less = (*listed[:at], *listed[at + 1 :])
            yield replace(node, **{name: less})
    for name, value in _DEFAULTS.get(type(node), {}).items():
        if getattr(node, name) != value:
            yield replace(node, **{name: value})
    if isinstance(node, Windowed):
        plain = replace(node.over, offset="0 seconds", time_zone=None, emit="every_step")
        if plain != node.over:
            yield replace(node, over=plain)
    if isinstance(node, Join) and isinstance(node.left, Shared) and node.left == node.right:
        for below in smaller(node.left.input):
            yield replace(node, left=Shared(below), right=Shared(below))


_LISTS: dict[type[Node], tuple[str, ...]] = {
    Select: ("where", "items"),
    Group: ("metrics", "keys"),
    Rank: ("order", "partition"),
    Limit: ("order",),
    Join: ("items", "on"),
    Over: ("partition",),
}
_DEFAULTS: dict[type[Node], dict[str, Any]] = {
    Select: {"explode": None},
    Group: {"having": None, "sets": ""},
    Rank: {"keep": False, "qualify": False, "function": "row_number"},
    Limit: {"skipped": 0},
    Join: {"kind": "inner", "more": "", "where": "", "table": None},
}


def smaller_cases(case: Case) -> Iterator[Case]:
    """Cases with one part less that have a meaning."""
    for made in _cases(case):
        try:
            made.check()
        except Invalid:
            continue
        yield made


def _cases(case: Case) -> Iterator[Case]:
    if case.upstream is not None:
        yield replace(case, model=case.upstream, upstream=None)
    for root in smaller(case.model.root):
        reads = any(isinstance(node, Stream) and node.name == UPSTREAM for node in nodes(root))
        yield replace(case, model=replace(case.model, root=root), upstream=case.upstream if reads else None)
    for config in _without_one(case.model.config):
        yield replace(case, model=Model(case.model.root, config))
    if case.upstream is not None:
        for config in _without_one(case.upstream.config):
            yield replace(case, upstream=Model(case.upstream.root, config))
        for root in smaller(case.upstream.root):
            yield _on(case, Model(root, case.upstream.config))
    for fewer in (1, 2, 3):
        if fewer < case.cuts:
            yield replace(case, cuts=fewer)


def _on(case: Case, upstream: Model) -> Case:
    """The same case over another model upstream, if that has all columns."""
    try:
        there = {column.name for column in upstream.root.columns}
    except Invalid:
        return replace(case, upstream=upstream)

    def changed(node: Node) -> Node:
        if isinstance(node, Stream) and node.name == UPSTREAM:
            return Stream(UPSTREAM, tuple(column for column in node.of if column.name in there))
        parts = {
            each.name: changed(value)
            for each in fields(node)
            if isinstance(value := getattr(node, each.name), Node)
        }
        return replace(node, **parts) if parts else node

    return replace(case, upstream=upstream, model=replace(case.model, root=changed(case.model.root)))


def _without_one(config: tuple[tuple[str, Any], ...]) -> Iterator[tuple[tuple[str, Any], ...]]:
    for at in range(len(config)):
        yield (*config[:at], *config[at + 1 :])


def fewer_rows(tables: Tables) -> Iterator[Tables]:
    """Tables without some of their rows, a stream at a time: first without half of them, then quarters, and so on."""
    for name, pieces in tables.streams.items():
        if any(pieces):
            yield _with(tables, name, tuple(() for _ in pieces))
    for parts in (2, 4, 8, 16, 32, 64):
        for name, pieces in tables.streams.items():
            total = sum(map(len, pieces))
            if total < parts // 2 or total <= 1:
                continue
            for part in range(parts):
                low, high = total * part // parts, total * (part + 1) // parts
                if low < high:
                    yield _with(tables, name, _without(pieces, low, high))


def _without(pieces: Any, low: int, high: int) -> Any:
    kept, at = [], 0
    for piece in pieces:
        kept.append(tuple(row for place, row in enumerate(piece, at) if not low <= place < high))
        at += len(piece)
    return tuple(kept)


def _with(tables: Tables, name: str, pieces: Any) -> Tables:
    return Tables({**tables.streams, name: pieces})


def shrink(
    case: Case, tables: Tables, still_wrong: Callable[[Case, Tables], bool], tries: int = 60
) -> tuple[Case, Tables]:
    """The smallest case that is found in so many tries and still goes wrong, with few rows.

    Args:
        case: what goes wrong.
        tables: with these rows.
        still_wrong: whether another does.
        tries: how often that is asked.
    """
    left = tries

    def asked(other: Case, rows: Tables) -> bool:
        nonlocal left
        left -= 1
        return still_wrong(other, rows)

    # Rows first by halves: what follows is quicker then.
    tables = _fewer(case, tables, asked, lambda: left > tries * 3 // 4)
    found = True
    while found and left > tries // 4:
        found = False
        for other in smaller_cases(case):
            if left <= tries // 4:
                break
            if asked(other, tables):
                case, found = other, True
                break
    tables = _fewer(case, tables, asked, lambda: left > 0)
    return case, tables


def _fewer(
    case: Case, tables: Tables, asked: Callable[[Case, Tables], bool], more: Callable[[], bool]
) -> Tables:
    found = True
    while found and more():
        found = False
        for rows in fewer_rows(tables):
            if not more():
                break
            if asked(case, rows):
                tables, found = rows, True
                break
    return tables
