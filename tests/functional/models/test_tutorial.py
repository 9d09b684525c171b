"""The tutorial is true: its files, run in its order, give the tables and the figures that it shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main
from tests.functional.models.commands import Commands
from tests.shown import table, text_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial.md"
BLOCK = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)
FIGURES = re.compile(r"\[STREAM \((.*?)\)")


class TestTutorial(Commands):
    def test_it_gives_what_it_shows(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "200")
        root = Path(project.project_root)
        said, printed, tables = "", "", 0
        for language, title, text in BLOCK.findall(PAGE.read_text()):
            if title.startswith(("data/", "models/")):
                (root / title).parent.mkdir(parents=True, exist_ok=True)
                (root / title).write_text(text)
            elif title.startswith("table after"):
                query = "select * from {schema}.orders_per_shop order by window_end, shop"
                found = project.run_sql(query, fetch="all")
                assert [[*map(text_of, row)] for row in found] == rows(text), title
                tables += 1
            elif language == "bash" and "dbt run" in text:
                said = str(run_dbt(["run"])[0].message)
            elif text.startswith("dbt-stream") and "dbt-stream run" not in text:
                printed = CliRunner().invoke(main, [*self.options(project), *text.split()[1:]]).output
            elif language == "" and printed:
                shown_text = re.escape(plain(text)).replace("…", ".*?")
                assert re.search(shown_text, plain(printed)), printed
                printed = ""
            elif shown := FIGURES.search(text):
                assert all(figure in said for figure in shown[1].split(", ")), said
        assert tables == 3
        assert {str(result.status) for result in run_dbt(["build"])} == {"pass", "success"}
        (status,) = json.loads(CliRunner().invoke(main, [*self.options(project), "status", "--json"]).stdout)
        total, watermark = status["progress"]["total"], status["progress"]["watermark"]
        sentence = f"`rows in` becomes {total['rows_in']}, the watermark {watermark[11:19]}, and"
        assert sentence in PAGE.read_text()
        assert f"so `rows out` becomes {total['rows_out']}." in PAGE.read_text()


def plain(text: str) -> str:
    """A text without what depends on the width of the terminal."""
    return " ".join(re.sub("─+", "─", text).split())


def rows(text: str) -> list[list[str]]:
    """The rows of a table as `dbt show` prints it."""
    without_borders = "\n".join(line.strip("|") for line in text.splitlines())
    cells = table(without_borders)[1]
    return [[re.sub(r"(\d\d:\d\d):00$", r"\1", cell) or "NULL" for cell in row] for row in cells]
