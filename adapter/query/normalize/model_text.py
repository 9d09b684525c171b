"""Answers questions about a model's compiled text without planning it."""

from __future__ import annotations

from sqlglot import exp

from ..frontend import hints
from ..sql.dialect import parse
from ..sql.nodes import every
from ..windows import windows
from . import on_change
from .names import ctes


def reads_streams(text: str) -> bool:
    """Whether a text may have a windowing table function or ``stream()``, determined without parsing it."""
    upper = text.upper()
    known = [*(f"{kind.upper()}(" for kind in windows.KINDS), f"/*+ {windows.STREAM.upper()} */"]
    return "/*+" in text and any(mark in upper for mark in known)


def ranks_rows(text: str) -> bool:
    """Returns whether a text ranks rows."""
    return parse(text).find(exp.RowNumber, exp.Rank, exp.DenseRank) is not None


def leaves_out_steps(text: str) -> bool:
    """Whether a text has a window with `emit='on_change'`. Its macro gives all steps, also those without new rows.

    Raises:
        QueryError: it may leave out some, and the text doesn't parse.
    """
    if "/*+" not in text or f"{windows.OPTIONS['emit']}{on_change.EMIT}" not in text:
        return False
    return any(map(on_change.is_on_change, hints.windows_under(parse(text))))


def versioned_relations(text: str) -> tuple[str, ...]:
    """Returns the relations that a text reads as of a time."""
    if windows.AS_OF.upper() not in text.upper():
        return ()
    read = map(hints.versions_as_of, every(parse(text), exp.Lateral))
    return tuple(dict.fromkeys(each.relation for each in read if each is not None))


def stream_relations(text: str) -> tuple[str, ...]:
    """Returns the relations that a text reads as streams.

    Raises:
        QueryError: see `plan`.
    """
    tree = ctes.inline_ctes(parse(text))
    hints.mark_streams(tree)
    tables = (table for table in every(tree, exp.Table) if hints.is_stream(table))
    return tuple(dict.fromkeys(map(hints.relation_name, tables)))
