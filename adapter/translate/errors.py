"""Notes on parts of a script that can't be translated, with their lines."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from ..query.sql.nodes import every
from ..util.redaction import redact_by_form


@dataclass(frozen=True, order=True)
class Note:
    """Something in a script that has no translation, or one that you should check."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {redact_by_form(self.text)}"


class Notes(list[Note]):
    """The notes on a script."""

    def add(self, at: exp.Expr | int, text: str) -> None:
        """Adds a note on a line, or on the line of a node."""
        self.append(Note(at if isinstance(at, int) else line_of(at) or 0, text))


class Untranslatable(Exception):
    """Raised for a query that has no translation. Its model is written as a comment."""

    def __init__(self, text: str, at: exp.Expr | int | None = None) -> None:
        super().__init__(text)
        self.line = at if isinstance(at, int) or at is None else line_of(at)


def line_of(node: exp.Expr) -> int | None:
    """Returns the line of the first name in a node; None if there is none."""
    found = [each.meta["line"] for each in every(node, exp.Expr) if "line" in each.meta]
    return min(found) if found else None
