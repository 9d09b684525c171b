"""`Lineage`: which rows an operator returns, and what each of its columns is computed from, equal for texts that
mean the same.

An operator's name is a digest of its text, so another alias, a WITH around a part, or an added column below
it changes the name, although its state may still fit. The *lineage* traces each column down to the columns of
streams, independent of the names in between.

Operators with equal lineages return the same rows; others may do so, too. Text that isn't understood is compared as
written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from ..frontend.source_text import text_without_aliases
from ..sql.names import digest

STAR = "*"
"""Represents all columns that aren't known by name; it has a place since set operations match columns by position."""


@dataclass(frozen=True)
class Lineage:
    """Rows and columns of an operator, or of a query in one.

    >>> orders = Lineage("orders", (("id", "orders.id"), ("price", "orders.price")))
    >>> orders.column("ID")
    'orders.id'
    >>> orders.without_columns("price").meaning == Lineage("orders", (("id", "orders.id"),)).meaning
    True
    """

    rows: str
    """Digest of what determines the rows and their multiplicities."""
    columns: tuple[tuple[str, str], ...] = ()
    """Columns known by name (as written), each with its origin, and `STAR` for all others."""
    star: str = ""
    """Origin of all other columns; empty if there are none."""
    hidden: frozenset[str] = field(default=frozenset())
    """Columns (lower case) that `star` excludes."""

    @property
    def meaning(self) -> str:
        """Returns a digest of rows and columns. Operators with equal digests can share stored rows."""
        columns = [(name.lower(), origin) for name, origin in self.columns]
        return digest(self.rows, columns, self.star, sorted(self.hidden))

    def column(self, name: str) -> str | None:
        """Returns the origin of a column; None if it is unknown."""
        found = [origin for each, origin in self.columns if each.lower() == name.lower()]
        if len(found) == 1:
            return found[0]
        if found or not self.star or name.lower() in self.hidden:
            return None
        return digest(self.star, name.lower())

    def lists_column(self, name: str) -> bool:
        """Whether a column is known by name."""
        return any(each.lower() == name.lower() for each, _ in self.columns)

    def with_rows(self, kind: str, *parts: object) -> Lineage | None:
        """Returns the lineage of these columns in rows that are made from its rows; None if a part is None.

        Args:
            parts: what determines the new rows, besides the old ones.
        """
        rows = digest_if_known(kind, self.rows, *parts)
        return None if rows is None else replace(self, rows=rows)

    def without_columns(self, *names: str) -> Lineage:
        """Returns the lineage without some columns."""
        excluded = {name.lower() for name in names}
        hidden = self.hidden | excluded if self.star else self.hidden
        return replace(
            self,
            columns=tuple(each for each in self.columns if each[0].lower() not in excluded),
            hidden=frozenset(hidden),
        )


UNKNOWN = Lineage("")
"""Lineage of a text that isn't understood."""


def opaque_lineage(*texts: object) -> Lineage:
    """Returns a lineage whose rows and columns depend on these texts as a whole."""
    rows = digest(*texts)
    return Lineage(rows, ((STAR, rows),), star=rows)


def digest_if_known(*parts: object) -> str | None:
    """Returns a digest; None if a part, or one in a list of parts, is None because it isn't understood."""
    is_known = all(None not in part if isinstance(part, list | tuple) else part is not None for part in parts)
    return digest(*parts) if is_known else None


def lineage_by_position(*texts: object, like: Lineage) -> Lineage:
    """Returns the lineage of rows whose columns are identified by position and named like those of `like`."""
    rows = digest(*texts)
    columns = tuple((name, digest(rows, place)) for place, (name, _) in enumerate(like.columns))
    return Lineage(rows, columns, rows if like.star else "", like.hidden)


def text_lineage(kind: str, query: exp.Query, below: Sequence[Lineage], *also: object) -> Lineage:
    """Returns the lineage of a query that isn't understood: a digest of its text without its relations' names, and of
    its inputs.

    Args:
        kind: name of the operator's class.
        also: all else that its rows depend on, as plain JSON.
    """
    return opaque_lineage(kind, text_without_aliases(query), *also, *(each.meaning for each in below))
