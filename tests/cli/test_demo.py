"""`dbt-stream demo`: the files that it makes, and that its models are planned."""

from __future__ import annotations

import compileall
import json
import os
import runpy
import shutil
from datetime import datetime, timezone
from pathlib import Path

import dbt.include.spark_streaming
import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.project import DbtProject, Selection

NOON = datetime(2025, 6, 1, 12, 0, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a demo")
    done = CliRunner().invoke(main, ["demo", str(folder)])
    assert (done.exit_code, "dbt build" in done.output) == (0, True)
    assert f"cd '{folder}'" in done.output
    return folder


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    done = CliRunner().invoke(main, ["demo", str(tmp_path)])
    assert done.exit_code == 2
    assert f"{tmp_path} isn't empty; name another folder" in done.output
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_a_folder_that_cannot_be_written_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise shutil.Error([("a", "b", "[Errno 28] No space left on device")])

    monkeypatch.setattr(shutil, "copytree", fail)
    done = CliRunner().invoke(main, ["demo", str(tmp_path / "shop")])
    assert done.exit_code == 2
    assert "shop can't be written: " in done.output and "No space left on device" in done.output


def test_what_pip_compiled_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = tmp_path / "packaged"
    shutil.copytree(Path(dbt.include.spark_streaming.__path__[0]) / "demo", packaged / "demo")
    compileall.compile_dir(packaged, quiet=1)
    monkeypatch.setattr(dbt.include.spark_streaming, "__path__", [str(packaged)])
    assert CliRunner().invoke(main, ["demo", str(tmp_path / "shop")]).exit_code == 0
    assert not (tmp_path / "shop/__pycache__").exists()


def test_git_leaves_out_what_runs_write(demo: Path) -> None:
    assert {".spark/", "target/", "logs/"} <= set((demo / ".gitignore").read_text().split())
    assert not (demo / "gitignore").exists()


def test_all_models_are_streams_that_are_planned(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBT_SEND_ANONYMOUS_USAGE_STATS", "false")
    project = DbtProject(demo, demo, None, None, None)
    names = project.selected_names(Selection(select=("*",)))
    assert sorted(names) == ["orders_per_shop", "revenue_today", "top_products"]
    for name in names:
        done = CliRunner().invoke(
            main, ["explain", name, "--project-dir", str(demo), "--profiles-dir", str(demo)]
        )
        assert (done.exit_code, name in done.output) == (0, True), done.output


def test_the_history_has_a_late_order_and_a_bad_value(demo: Path) -> None:
    files = sorted((demo / "data/orders").iterdir(), key=lambda file: file.stat().st_mtime)
    assert [file.name for file in files] == sorted(file.name for file in files)
    assert len(files) == 12
    orders = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    *before, last = orders
    late = [each for each in last if each["ordered_at"] < before[5][0]["ordered_at"]]
    assert [each["order_id"] for each in late] == [1]
    assert [each["order_id"] for each in last if isinstance(each["cents"], str)] == [2]
    assert all(isinstance(each["cents"], int) for hour in before for each in hour)


def test_orders_of_a_minute_are_the_same_each_time(demo: Path) -> None:
    orders_of = runpy.run_path(str(demo / "orders.py"))["orders_of"]
    assert orders_of(NOON) == orders_of(NOON) != []
