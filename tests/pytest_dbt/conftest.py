"""Writes the manifest that `[tool.pytest.ini_options] dbt_manifest_file_path` names."""

from __future__ import annotations

import pytest
from pytest_dbt.dbt_context import DbtContextSingleton

from tests.pytest_dbt.manifest import write_manifest

MODELS = ["airline_days", "carrier_delays"]


@pytest.fixture(scope="session", autouse=True)
def manifest(pytestconfig: pytest.Config) -> None:
    path = pytestconfig.rootpath / pytestconfig.getini("dbt_manifest_file_path")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_manifest(pytestconfig.rootpath, MODELS, path)
    # pytest may be called from anywhere.
    DbtContextSingleton.getInstance().dbt_manifest_file_path = str(path)
