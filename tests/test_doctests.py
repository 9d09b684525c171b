"""What docstrings show is what happens."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import dbt.adapters.spark_streaming as package

HELPERS = ["tests.reference", "tests.reference_messages", "tests.pytest_dbt.manifest"]
MODULES = [found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]


@pytest.mark.parametrize("name", MODULES + HELPERS)
def test_docstrings(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
