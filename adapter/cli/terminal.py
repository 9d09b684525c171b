"""The terminal that tables and trees are printed on, and tables of texts."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

_WIDE = 200
"""Characters of a line in a file or a pipe, which have no width."""


def terminal() -> Console:
    """Returns the console: as wide as the terminal, or as COLUMNS says."""
    console = Console()
    return console if console.is_terminal or os.environ.get("COLUMNS") else Console(width=_WIDE)


def text_table(
    columns: Iterable[str],
    rows: Iterable[Sequence[str]],
    title: str | None = None,
    numbers: Collection[str] = (),
) -> Table:
    """Returns a table whose texts are shown as they are: rich would read text in square brackets as markup.

    Args:
        numbers: columns that are aligned to the right.
    """
    table = Table(box=SIMPLE_HEAD, title=title and escape(title), title_justify="left")
    for name in columns:
        table.add_column(escape(name), justify="right" if name in numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
