"""The terminal that tables and trees are printed on."""

from __future__ import annotations

import os

from rich.console import Console

_WIDE = 200
"""Characters of a line in a file or a pipe, which have no width."""


def terminal() -> Console:
    """Returns the console: as wide as the terminal, or as COLUMNS says."""
    console = Console()
    return console if console.is_terminal or os.environ.get("COLUMNS") else Console(width=_WIDE)
