"""Finds columns that a config names and the query doesn't have."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from ..frontend import hints
from ..frontend.streams import RelationInfo, is_printed_by_macro
from ..sql.dialect import parse
from ..sql.nodes import every


def unknown_names(names: Collection[str], text: str, known: Mapping[str, RelationInfo]) -> list[str]:
    """Returns the names that certainly belong to no column of a query.

    >>> unknown_names(["city", "ctiy"], "select city, count(*) from t group by city", {})
    ['ctiy']
    >>> unknown_names(["city", "ctiy"], "select city, count(*) from (select * from t) group by city", {})
    []
    """
    tree = parse(text)
    if any(map(_is_authors_star, every(tree, exp.Star))):
        return []  # a star may include them
    names_in_text = {node.name.lower() for node in every(tree, exp.Identifier)}
    read = {hints.relation_name(table).lower() for table in every(tree, exp.Table)}
    for relation, declared in known.items():
        if relation.lower() in read:
            names_in_text |= {name.lower() for name in (*declared.key, *declared.columns)}
    # A name that isn't an identifier may be Spark's name of a computed column.
    return [name for name in names if name.isidentifier() and name.lower() not in names_in_text]


def _is_authors_star(star: exp.Star) -> bool:
    """Whether a ``*`` is the author's, and selects columns."""
    select = star.find_ancestor(exp.Select)
    is_printed_there = select is not None and (
        hints.is_marked_as_stream(select)
        or hints.window_of(select) is not None
        or is_printed_by_macro(select)
    )
    return not is_printed_there and not isinstance(star.parent, exp.Count)
