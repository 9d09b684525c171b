"""An option takes several words, as dbt's own do."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli.multi_word_option import MultiWordOption


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
