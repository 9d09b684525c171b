"""The docs' examples: each query plans, with its configs, and the rows that a page shows are those it gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from dbt.adapters.spark_streaming.project import model_configs, streaming
from dbt.adapters.spark_streaming.query.rewrites import rewriting
from tests import examples
from tests.examples import KNOWN, READS_STREAM, ROOT, compiled
from tests.planned import plan_of

BLOCK = re.compile(r"^```sql\n(.*?)^```", re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
REPOSITORY = "https://github.com/dbt-spark-streaming/dbt-spark-streaming"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def queries() -> Iterator[Any]:
    """Every query over a windowing table function or a stream whose results aren't shown."""
    for page in PAGES:
        shown = {example.query for example in examples.examples(page)}
        for number, block in enumerate(BLOCK.findall(page.read_text()), 1):
            if block not in shown and re.search(r"\bselect\b", block) and READS_STREAM.search(block):
                yield pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")


@pytest.mark.parametrize("block", list(queries()))
def test_examples_plan(block: str) -> None:
    text, config = compiled(block)
    materialized = config.setdefault("materialized", "streaming_table")
    if materialized in model_configs.MATERIALIZATIONS:
        node = {"name": "example", "config": config}
        streaming.model_program(node, streaming.plan_model(node, text, KNOWN))
    else:
        plan_of(text, KNOWN)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if [*examples.examples(page)]], ids=lambda page: page.stem
)
def test_results_are_those_shown(page: Path) -> None:
    for example in examples.examples(page):
        for shown, header, rows in example.results():
            assert shown.header == header, example.name
            assert sorted(shown.rows) == sorted(rows), f"{example.name}, {shown.title}"


def test_the_guide_shows_what_the_rewrites_print() -> None:
    blocks = iter(BLOCK.findall((ROOT / "docs" / "guides" / "rewrites.md").read_text()))
    shown = {}
    for block in blocks:
        if found := re.search(r"{% call (\w+)", block):
            shown[found[1]] = (block, next(blocks))
    assert shown.keys() == rewriting.REWRITES.keys()
    for name, (block, printed) in shown.items():

        def macro(caller: Any, name: str = name, **options: Any) -> str:
            return rewriting.rewrite(name, caller(), **options)

        text = Environment().from_string(block).render(**{name: macro}, ref=lambda table: f"shop.{table}")
        assert text.strip() == printed.strip()


def test_links_and_their_headings_are_there() -> None:
    lost = []
    for page in PAGES:
        text = FENCED.sub("", page.read_text())
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            _, ours, within = target.rpartition(f"{REPOSITORY}/blob/main/")
            path, _, heading = within.partition("#")
            if "://" in target and not ours:
                continue
            file = ((ROOT if ours else page.parent) / path).resolve() if path else page
            if not file.exists() or (heading and heading not in headings(file)):
                lost.append(f"{page.relative_to(ROOT)}: {target}")
    assert lost == []


def test_every_page_is_in_the_navigation() -> None:
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES if "docs" in page.parts}
    listed = re.findall(r"^ +- [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(pages)


def headings(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    found = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", each).strip().lower()) for each in found}


def test_the_modules_are_there_that_contributors_are_sent_to() -> None:
    """A module without a folder is in that of the one before it in its row."""
    table = (ROOT / "CONTRIBUTING.md").read_text().split("## Where would I change …")[1].split("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ") and "---" not in row][1:]
    missing = []
    for row in rows:
        folder = ROOT / "adapter"
        for path in re.findall(r"`([\w/]+(?:\.py|\.sql|/))`", row.rpartition(" | ")[2]):
            root = ROOT if path.startswith(("macros/", "tests/", "bench/")) else ROOT / "adapter"
            module = root / path if "/" in path else folder / path
            folder = module if path.endswith("/") else module.parent
            if not module.exists():
                missing.append(path)
    assert len(rows) > 20 and not missing
