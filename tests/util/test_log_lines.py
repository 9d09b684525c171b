"""Each line of a run is JSON where that is asked for, those before it has begun too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.util.log_lines import log_line


def test_a_line_has_the_form_of_dbts() -> None:
    found = json.loads(log_line("3 models up", as_json=True, level="error"))
    assert (found["info"]["msg"], found["info"]["level"], found["data"]) == ("3 models up", "error", {})
    assert found["info"]["ts"].endswith("Z")
    assert log_line("3 models up", as_json=False) == "3 models up"


@pytest.mark.parametrize(("is_quiet", "lines"), [(False, 1), (True, 0)])
def test_a_run_that_is_stopped_before_it_begins_says_so_in_json(is_quiet: bool, lines: int) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from dbt.adapters.spark_streaming.cli.interrupts import end_before_start\n"
            f"end_before_start(as_json=True, is_quiet={is_quiet})",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line)["info"]["msg"] for line in done.stdout.splitlines()]
    assert found == ["stopped: before any model was up."] * lines


def test_an_error_of_a_command_is_json(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["--log-format", "json", "status", "--project-dir", str(tmp_path)])
    assert done.exit_code == 2
    found = json.loads(done.stderr)["info"]
    assert found["level"] == "error" and found["msg"].startswith("Error: ")
