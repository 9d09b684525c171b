"""What a command imports and starts: no more than it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli import savepoints
from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.project import DbtProject, Selection


def test_json_has_no_values_that_json_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state may have a DOUBLE that is NaN, and a MAP whose keys are dates."""
    row = {"avg": float("nan"), "most": float("-inf"), "days": {date(2026, 3, 1): [1.5]}}
    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.state.inspect_state", lambda *_: {"sample": (row,)})
    done = CliRunner().invoke(main, ["state", "show", "m", "--json"])

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(done.output, parse_constant=refuse) == {
        "sample": [{"avg": "NaN", "most": "-Infinity", "days": {"2026-03-01": [1.5]}}]
    }


def _printed(by: str) -> str:
    """What a program prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", by], capture_output=True, text=True, check=True)
    return done.stdout.rstrip()


def test_what_dbt_needs_to_read_a_project_plans_nothing_and_runs_nothing() -> None:
    """PySpark and sqlglot take as long to import as dbt."""
    found = _printed(
        "import sys; from dbt.adapters.spark_streaming import Plugin\n"
        "made = Plugin.credentials.from_dict({'schema': 'shop'})\n"
        "print(made.method, [name for name in ('pyspark', 'py4j', 'sqlglot', 'numpy') if name in sys.modules])"
    )
    assert found == "session []"


def test_help_imports_neither_dbt_nor_spark() -> None:
    """Either would take seconds."""
    found = _printed(
        "import sys; from dbt.adapters.spark_streaming.cli.commands import main\n"
        "try: main(['state', '--help'])\n"
        "finally: print([name for name in ('dbt.cli', 'dbt.adapters.base', 'pyspark', 'sqlglot') if name in sys.modules])"
    )
    assert "savepoint" in found
    assert found.endswith("[]")


_PROJECT = {
    "dbt_project.yml": "name: shop\nprofile: shop\n",
    "profiles.yml": "shop: {target: dev, outputs: {dev: {type: spark_streaming, schema: shop}}}\n",
    "models/events.sql": "select timestamp'2026-03-01' as at, 1 as v",
    "models/counts.sql": "{{ config(materialized='streaming_table') }}\n"
    "select window_start, window_end, count(*) as n from {{ tumble(ref('events'), 'at', '1 minute') }} group by all",
}

_EACH_IN_TURN = """
import sys
from dbt.adapters.spark_streaming.cli.commands import main
from dbt.cli.main import dbtRunner

started = []
sys.addaudithook(lambda event, args: started.append(str(args[0])) if event == "subprocess.Popen" else None)

def there(*names):
    print("imported", [name for name in names if name in sys.modules])

def ours(*command):
    try:
        main(command)
    except SystemExit as ended:
        assert not ended.code, ended.code

ours("status")
assert dbtRunner().invoke(["--quiet", "parse"]).success
assert dbtRunner().invoke(["--quiet", "ls"]).success
# dbt 1.12 imports sqlglot itself, for metrics.
there("pyspark", "py4j", *(() if "metricflow" in sys.modules else ("sqlglot",)), "pandas", "pyarrow")
ours("explain", "counts")
there("pyspark", "py4j", "pandas", "pyarrow")
print("java", [each for each in started if "java" in each])
"""


def test_what_only_looks_at_a_project_needs_no_spark(tmp_path: Path) -> None:
    """To import PySpark takes two tenths of a second, sqlglot one, to start Java several seconds."""
    for name, text in _PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", _EACH_IN_TURN], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("imported", "java"))]
    assert lines == ["imported []", "imported []", "java []"]
    assert "has not run" in done.stdout and "On-time firing" in done.stdout


@pytest.mark.parametrize("command", [["reset", "--yes"], ["flush"], ["stop"]])
def test_nothing_changes_where_a_name_is_misspelt(tmp_path: Path, command: list[str]) -> None:
    for name, text in _PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    by = f"from dbt.adapters.spark_streaming.cli.commands import main; main([*{command}, 'counts', 'typo'])"
    done = subprocess.run(
        [sys.executable, "-c", by], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "There is no streaming model 'typo'" in done.stderr
    assert "counts" not in done.stdout


def test_an_error_that_dbt_raises_is_all_that_is_printed(tmp_path: Path) -> None:
    """dbt leaves its pool of threads open, from which Python would print a stack trace when it ends."""
    for name, text in {**_PROJECT, "models/counts.sql": "{{ confg() }}"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    by = "from dbt.adapters.spark_streaming.cli.commands import main; main(['explain', 'counts'])"
    done = subprocess.run(
        [sys.executable, "-c", by], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Error: Model counts (models/counts.sql): 'confg' is undefined.")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "done"),
    [
        (["restore", "m", "before"], "m before"),
        (["restore", "-s", "tag:x", "before"], "x before"),
        (["restore", "before", "--select", "tag:x"], "x before"),
        (["undo", "-s", "tag:x"], "x None"),
        (["restore", "m"], "Missing argument 'NAME'."),
        (["restore", "m", "before", "after"], "Got unexpected extra argument (after)."),
        (["undo"], "Name a model, or select one with --select."),
        (["undo", "-s", "tag:many"], "tag:many selects 2 models, and this is for one at a time: x, y."),
    ],
)
def test_a_command_of_one_model_takes_a_selection_too(
    arguments: list[str], done: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def selected(_: object, selection: Selection) -> list[str]:
        return ["x", "y"] if selection.select == ("tag:many",) else ["x"]

    monkeypatch.setattr(DbtProject, "selected_names", selected)
    monkeypatch.setattr(savepoints, "restore_savepoint", lambda _, model, name: f"{model} {name}")
    assert done in CliRunner().invoke(main, ["state", *arguments]).output


@pytest.mark.parametrize("group", [[], ["state"], ["deploy"]])
def test_no_line_of_a_help_is_cut(group: list[str]) -> None:
    """At 80 columns, as click has them at most."""
    lines = CliRunner().invoke(main, [*group, "--help"]).output.partition("Commands:")[2].splitlines()
    assert len(lines) > 5
    assert [line for line in lines if line.endswith("...")] == []
