"""The project that `dbt-stream demo` makes: all of it is built, and it has what its README says."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

import dbt.include.spark_streaming
import pytest
from dbt.tests.util import run_dbt

DEMO = Path(dbt.include.spark_streaming.__path__[0]) / "demo"


def texts(folder: str) -> dict[str, str]:
    return {file.name: file.read_text() for file in (DEMO / folder).iterdir()}


@pytest.mark.thorough
class TestDemo:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return texts("models")

    @pytest.fixture(scope="class")
    def tests(self) -> dict[str, str]:
        return texts("tests")

    def test_it_is_built_from_its_history(self, project: Any) -> None:
        script = shutil.copy(DEMO / "orders.py", project.project_root)
        orders = runpy.run_path(script)
        orders["write_history"](8, orders["now_in_minutes"]())
        results = run_dbt(["build"])
        assert {each.status.value for each in results} == {"success", "pass"}
        assert len(results) == 8
        (windows,) = (each.adapter_response for each in results if each.node.name == "orders_per_shop")
        assert (windows["late_rows"], windows["unreadable_rows"]) == (1, 1)
        assert windows["windows"]["open"] in (1, 2)  # at the minute that it is
