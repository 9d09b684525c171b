"""Finds names in a query that are neither CTEs nor relations of the project, such as a misspelt CTE."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from ...util.text import did_you_mean
from ..errors import QueryError
from ..frontend import hints
from ..sql.dialect import parse
from ..sql.nodes import every


def check_relation_names(text: str, known: Collection[str]) -> None:
    """Raises if a query reads a name without a schema that no CTE of it has.

    Args:
        text: compiled text of a model.
        known: relations that the project describes.
    """
    tree = parse(text)
    ctes = {cte.alias for cte in every(tree, exp.CTE)}
    names = {name.lower() for name in (*ctes, *known)}
    for table in every(tree, exp.Table):
        is_bare = isinstance(table.this, exp.Identifier) and not table.db
        if is_bare and table.name.lower() not in names:
            name = hints.relation_name(table)
            raise QueryError(
                f"The query reads {name}, and no CTE has this name{did_you_mean(name, ctes)} A model is read by "
                "ref('…'), a source by source('…', '…'), another table with its schema."
            )
