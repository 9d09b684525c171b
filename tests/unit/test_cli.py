"""The command line, before it reads a project."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli.words import Words


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
    @click.option("--select", "-s", cls=Words)
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
