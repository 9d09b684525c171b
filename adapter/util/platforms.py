"""The operating systems that the package runs on."""

from __future__ import annotations

import sys

SYSTEM = sys.platform


def unsupported_system_message() -> str | None:
    """Returns why the package doesn't run on this operating system, and what to do; None if it does.

    Locks on files, signals and Hadoop's files are those of POSIX.
    """
    if SYSTEM != "win32":
        return None
    return (
        "dbt-spark-streaming doesn't run on Windows. Use it in WSL (the Windows Subsystem for Linux): `wsl --install`, "
        "then install Python and this package there."
    )
