"""The relations of a script: how a model reads them, and what is known of their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ..query.sql.clauses import relations as from_items
from ..query.windows.expansion import WINDOW_COLUMNS
from .flink_parser import WINDOW, WindowCall


@dataclass
class NamedRelation:
    """A table or a view of a script."""

    name: str
    call: str
    """The call of ref() or source() that a model reads it by."""
    is_inlined: bool = False
    """Whether it is an ephemeral model, whose own text marks the streams that it reads."""
    columns: Sequence[str] | None = None
    """Its columns; None if they aren't known."""
    processing_times: frozenset[str] = frozenset()
    """Columns with the processing time, which its translation leaves out."""
    event_time: str | None = None
    delay: str = "0 seconds"
    """The lag of its watermark."""
    key: Sequence[str] = ()
    connector: str = ""
    versions: Versions | None = None
    reads: Mapping[str, NamedRelation] = field(default_factory=dict)
    """The relations that an ephemeral model reads."""

    @property
    def is_model(self) -> bool:
        """Whether it is the table or the text of a model."""
        return self.call.startswith("ref(")


@dataclass(frozen=True)
class Versions:
    """A view of the last row of each key. Its versions are the rows of the relation below it."""

    of: NamedRelation
    key: Sequence[str]


Resolve = Callable[..., NamedRelation]


def window_call_of(table: exp.Expr) -> WindowCall | None:
    """Returns the windowing TVF in the place of a table; None if it is a table."""
    found: WindowCall | None = table.meta.get(WINDOW)
    return found


def ctes_of(tree: exp.Query) -> dict[str, exp.Query]:
    return {each.alias: each.this for each in tree.find_all(exp.CTE)}


def column_names(query: exp.Expr, resolve: Resolve, ctes: Mapping[str, exp.Query]) -> list[str] | None:
    """Returns the names of a query's columns; None if they aren't known."""
    if isinstance(query, exp.Subquery):
        return query.alias_column_names or column_names(query.this, resolve, ctes)
    if isinstance(query, exp.SetOperation):
        return column_names(query.this, resolve, ctes)
    if isinstance(query, exp.Table):
        return query.alias_column_names or _table_column_names(query, resolve, ctes)
    if not isinstance(query, exp.Select):
        return None
    found: list[str] = []
    for item in query.expressions:
        if not item.is_star:
            found.append(item.alias_or_name)
            continue
        of = item.table if isinstance(item, exp.Column) else ""
        for each in from_items(query):
            if of and each.alias_or_name != of:
                continue
            names = column_names(each, resolve, ctes)
            if names is None:
                return None
            found += names
    return found


def _table_column_names(
    table: exp.Table, resolve: Resolve, ctes: Mapping[str, exp.Query]
) -> list[str] | None:
    window = window_call_of(table)
    read = window.relation if window else table
    if read.name in ctes and not read.db:
        query = ctes[read.name]
        left = {name: each for name, each in ctes.items() if name != read.name}
        names = column_names(query, resolve, left)
    else:
        relation = resolve(dotted_name(read))
        names = None if relation.columns is None else list(relation.columns)
    return names if names is None or not window else [*names, *WINDOW_COLUMNS]


def dotted_name(table: exp.Table) -> str:
    """Returns the name of a table as it is written."""
    return ".".join(part.name for part in table.parts)
