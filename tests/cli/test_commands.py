"""The command line, before it reads a project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli import verify
from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.flush import flushed
from dbt.adapters.spark_streaming.cli.multi_word_option import MultiWordOption
from dbt.adapters.spark_streaming.cli.project import DbtProject, Selection, has_failed
from dbt.adapters.spark_streaming.cli.status import print_table
from dbt.adapters.spark_streaming.query.frontend.streams import Known
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], ()),
        (["--select", "a"], ("a",)),
        (["--select", "a", "tag:b", "+c"], ("a", "tag:b", "+c")),
        (["--select", "a b", "--json"], ("a", "b")),
        (["--json", "-s", "a", "-s", "b", "c"], ("a", "b", "c")),
        (["--select=a", "--json"], ("a",)),
        (["--select", "a,b", "--json"], ("a,b",)),
    ],
)
def test_an_option_of_several_words(given: list[str], words: tuple[str, ...]) -> None:
    found: list[tuple[str, ...]] = []

    @click.command()
    @click.option("--json", is_flag=True)
    @click.option("--select", "-s", cls=MultiWordOption)
    def command(json: bool, select: tuple[str, ...]) -> None:
        assert json == ("--json" in given)
        found.append(select)

    done = CliRunner().invoke(command, given)
    assert (done.exit_code, found) == (0, [words]), done.output


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
there("pyspark", "py4j", "sqlglot", "pandas", "pyarrow")
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


def test_a_selection_that_matches_nothing_is_told_from_a_project_without_streams(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table([], Selection(select=("nope", "tag:x"), exclude=("y",)))
    assert capsys.readouterr().out == (
        "No streaming model is selected by --select nope tag:x --exclude y; `dbt-stream status` lists those there are.\n"
    )
    print_table([], Selection())
    assert capsys.readouterr().out == "The project has no streaming models.\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "select window_end, count(*) as n from WINDOW group by window_start, window_end",
            "its windows are closed",
        ),
        ("select * from WINDOW", "it emits each row as it arrives, so nothing was held back"),
        (
            "select item, count(*) as n from (select /*+ STREAM */ * from bids) group by item",
            "it has no windows, and holds no rows back now",
        ),
    ],
)
def test_what_a_flush_says(text: str, said: str) -> None:
    window = expansion.expand("bids", window_arguments.make("tumble", "ts", "5 minutes"))
    plan = plan_query.plan(text.replace("WINDOW", window), ttl=DAY, known={"bids": Known("ts")})
    assert flushed("m", 3, plan) == f"m: 3 rows out; {said}."


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (["status"], (".", None, None, None)),
        (["--target", "a", "status"], (".", "a", None, None)),
        (["status", "--target", "b"], (".", "b", None, None)),
        (["-t", "a", "status", "-t", "b"], (".", "b", None, None)),
        (["status", "-s", "x", "y", "--vars", "{a: 1}", "--json"], (".", None, None, "{a: 1}")),
        (["--profile", "p", "status", "--project-dir", "/tmp"], ("/tmp", None, "p", None)),
        (["state", "--profile", "p", "show", "x", "-t", "b"], (".", "b", "p", None)),
    ],
)
def test_the_project_is_named_before_and_after_the_command(
    arguments: list[str],
    where: tuple[str, str | None, str | None, str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[DbtProject] = []

    def note(project: DbtProject, *_: object) -> list[object]:
        found.append(project)
        return []

    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.status.collect", note)
    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.state.show", note)
    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.state.print_state", lambda _: None)
    monkeypatch.delenv("DBT_PROJECT_DIR", raising=False)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    (project,) = found
    assert (str(project.folder), project.target, project.profile, project.variables) == where


def test_environment_variables_name_the_project_unless_an_option_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[DbtProject] = []

    def note(project: DbtProject, _: object) -> list[object]:
        found.append(project)
        return []

    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.status.collect", note)
    for arguments in (["status"], ["status", "--project-dir", "/tmp"]):
        CliRunner().invoke(main, arguments, env={"DBT_PROJECT_DIR": "/usr"})
    assert [str(each.folder) for each in found] == ["/usr", "/tmp"]


def test_what_went_well_is_not_told_as_an_error() -> None:
    entries = [
        SimpleNamespace(status="success", message="STREAM (18 rows in, 12 out, 2 batches)"),
        SimpleNamespace(status="error", message="Model m: bad row"),
        SimpleNamespace(status="skipped", message=""),
        SimpleNamespace(status="skipped", message="its upstream failed"),
        SimpleNamespace(status="pass", message="spark_streaming.on-run-end.0 passed"),
    ]
    assert [entry.message for entry in entries if has_failed(entry)] == ["Model m: bad row"]


def test_models_are_named_or_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DbtProject, "selected", lambda *_: ["a", "b"])
    monkeypatch.setattr(verify, "verify", lambda _, name: {"model": name, "equal": name == "a"})
    monkeypatch.setattr(verify, "print_verified", lambda found: print(found["model"]))
    for arguments, output, code in (
        (["a"], "a", 0),
        (["-s", "tag:x", "+b"], "a b", 1),
        (["--exclude", "c"], "a b", 1),
        (["b", "--json"], '{ "model": "b", "equal": false }', 1),
        (["-s", "x", "--json"], '[ { "model": "a", "equal": true }, { "model": "b", "equal": false } ]', 1),
    ):
        done = CliRunner().invoke(main, ["verify", *arguments])
        assert (" ".join(done.output.split()), done.exit_code) == (output, code), arguments
    for arguments in ([], ["a", "-s", "b"]):
        done = CliRunner().invoke(main, ["verify", *arguments])
        assert "Name one model, or select models with --select." in done.output
        assert done.exit_code == 2
