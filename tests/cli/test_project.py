"""Which models a selection means, and which of dbt's results are errors."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from dbt.adapters.spark_streaming.cli import project as project_module
from dbt.adapters.spark_streaming.cli.project import (
    DbtProject,
    ProjectError,
    Selection,
    has_failed,
    raising_project_errors,
)

MODEL = {"original_file_path": "models/m.sql", "package_name": "shop", "fqn": ["shop", "m"]}


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (OSError(28, "No space left on device"), "No space left on device."),
        (PermissionError(13, "Permission denied", "/a"), "/a: Permission denied."),
    ],
)
def test_an_error_of_the_system_is_a_message(problem: OSError, said: str) -> None:
    with pytest.raises(ProjectError, match=f"^{said}$"), raising_project_errors():
        raise problem


def test_a_pipe_that_is_closed_is_for_click() -> None:
    with pytest.raises(BrokenPipeError), raising_project_errors():
        raise BrokenPipeError(32, "Broken pipe")


def test_an_error_of_sparks_is_a_sentence() -> None:
    """A catalog that is away ended `dbt-stream reset` with a trace."""
    with (
        pytest.raises(ProjectError, match=r"^Failed to connect: jdbc:sqlite:/lake\.db$"),
        raising_project_errors(),
    ):
        raise PySparkException("Failed to connect: jdbc:sqlite:/lake.db")


def test_what_went_well_is_not_told_as_an_error() -> None:
    entries = [
        SimpleNamespace(status="success", message="STREAM (18 rows in, 12 out, 2 batches)"),
        SimpleNamespace(status="error", message="Model m: bad row"),
        SimpleNamespace(status="skipped", message=""),
        SimpleNamespace(status="skipped", message="its upstream failed"),
        SimpleNamespace(status="pass", message="spark_streaming.on-run-end.0 passed"),
    ]
    assert [entry.message for entry in entries if has_failed(entry)] == ["Model m: bad row"]


def test_a_selection_is_of_no_other_packages_model_of_the_same_path(tmp_path: Path) -> None:
    """What is selected may be reset."""
    files = {
        "profiles.yml": "shop: {target: dev, outputs: {dev: {type: spark_streaming, schema: shop}}}\n",
        "packages.yml": "packages: [{local: dbt_packages/other}]\n",
    }
    for name, folder in {"shop": ".", "other": "dbt_packages/other"}.items():
        files[f"{folder}/dbt_project.yml"] = f"name: {name}\nprofile: shop\n"
        files[f"{folder}/models/orders.sql"] = (
            f"{{{{ config(materialized='streaming_table', schema='{name}') }}}} select 1 as a"
        )
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    project = DbtProject(tmp_path, tmp_path, None, None, None)
    for asked in ("shop.orders", "other.orders"):
        found = project.streaming_models(Selection((asked,)))
        assert [".".join(node["fqn"]) for node in found] == [asked]


@pytest.mark.parametrize("asking", [False, True])
def test_jinja_asks_the_database_where_a_command_starts_spark(
    asking: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As dbt_utils.star() does in a model that `dbt run` runs, so that the model can be verified, flushed and edited."""
    (tmp_path / "dbt_project.yml").touch()
    called: list[list[str]] = []

    def invoke(words: list[str]) -> SimpleNamespace:
        called.append(words)
        return SimpleNamespace(
            exception=ValueError("enough") if "compile" in words else None, success=True, result=None
        )

    monkeypatch.setattr(project_module, "_dbt_runner", lambda *_: SimpleNamespace(invoke=invoke))
    monkeypatch.setattr(project_module, "_model_named", lambda name, _: MODEL | {"name": name})
    with pytest.raises(ProjectError, match="enough"):
        DbtProject(tmp_path, None, None, None, None).compile_with_relations("m", may_query=asking)
    assert ("--no-introspect" in called[-1]) is not asking
