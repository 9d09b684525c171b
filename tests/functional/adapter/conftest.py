"""What dbt's own test classes need to know of this adapter."""

from __future__ import annotations

import getpass

import pytest


@pytest.fixture(scope="class")
def profile_user() -> str:
    """Who owns tables: Iceberg notes the user of the process."""
    return getpass.getuser()
