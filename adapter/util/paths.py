"""Paths that a user writes in a project, a profile or an environment variable."""

from __future__ import annotations

from pathlib import Path

from dbt_common.exceptions import DbtRuntimeError


def expand_home(path: str) -> Path:
    """Returns a path with the home folder that ``~`` or ``~user`` at its beginning means.

    Raises:
        DbtRuntimeError: that folder isn't known, as in a container whose user has no entry in /etc/passwd.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise DbtRuntimeError(
            f"The path {path} begins with a home folder that isn't known: HOME isn't set, or there is no such user. Set "
            "HOME, or write a path that begins with /."
        ) from None
