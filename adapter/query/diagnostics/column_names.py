"""Finds columns that a config names and the query doesn't have."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from ..frontend import hints
from ..frontend.streams import Known, is_printed
from ..sql.dialect import parse
from ..sql.nodes import every


def unknown(names: Collection[str], text: str, known: Mapping[str, Known]) -> list[str]:
    """Returns the names that certainly no column of a query has.

    >>> unknown(["city", "ctiy"], "select city, count(*) from t group by city", {})
    ['ctiy']
    >>> unknown(["city", "ctiy"], "select city, count(*) from (select * from t) group by city", {})
    []
    """
    tree = parse(text)
    if any(map(_is_authors, every(tree, exp.Star))):
        return []  # a star may include them
    said = {node.name.lower() for node in every(tree, exp.Identifier)}
    read = {hints.relation_name(table).lower() for table in every(tree, exp.Table)}
    for relation, what in known.items():
        if relation.lower() in read:
            said |= {name.lower() for name in (*what.key, *what.columns)}
    # A name that isn't an identifier may be Spark's name of a computed column.
    return [name for name in names if name.isidentifier() and name.lower() not in said]


def _is_authors(star: exp.Star) -> bool:
    """Whether the author wrote this ``*``, for columns."""
    select = star.find_ancestor(exp.Select)
    is_printed_there = select is not None and (
        hints.marked_as_stream(select) or hints.window_of(select) is not None or is_printed(select)
    )
    return not is_printed_there and not isinstance(star.parent, exp.Count)
