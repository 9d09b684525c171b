"""On Windows both commands say at once that the package doesn't run there."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from dbt.adapters.factory import AdapterContainer
from dbt_common.exceptions import DbtRuntimeError

import dbt.adapters.spark_streaming as package
from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.util import platforms

SAID = "dbt-spark-streaming doesn't run on Windows. Use it in WSL"


def test_here_it_runs() -> None:
    assert platforms.unsupported_system_message() is None


def test_on_windows_dbt_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """`dbt` loads the plug-in of the profile's type before it does anything else with it."""
    monkeypatch.setattr(platforms, "SYSTEM", "win32")
    monkeypatch.delitem(vars(package), "Plugin", raising=False)
    with pytest.raises(DbtRuntimeError, match=SAID):
        AdapterContainer().load_plugin("spark_streaming")


@pytest.mark.parametrize("command", [["status"], ["state", "diff", "m"], ["run"]])
def test_on_windows_dbt_stream_says_so(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "SYSTEM", "win32")
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert f"Error: {SAID}" in done.output
