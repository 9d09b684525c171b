"""The site of the docs: it is built without a warning, its search finds the words of the field, each page can be edited."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from lunr import lunr

ROOT = Path(__file__).parents[1]

FOUND = {
    "latency": "compare/when-to-use/",
    "TTL": "guides/aggregations/",
    "state ttl": "guides/aggregations/",
    "tumbling": "guides/windows/",
    "hopping": "guides/windows/",
    "exactly once": "concepts/",
    "CDC": "guides/changelogs/",
    "late rows": "guides/late-data/",
    "watermark": "guides/late-data/",
    "lookup join": "guides/lookup-joins/",
    "temporal join": "guides/temporal-joins/",
    "deduplication": "guides/deduplication/",
    "kafka": "reference/sources/",
    "backfill": "guides/backfill/",
    "savepoint": "guides/savepoints/",
    "WSL": "install/",
    "rank upper bound": "reference/messages/",
    "state checkpoint gone": "reference/messages/",
}
"""What a reader types → a page that is among the first results."""
FIRST = 10
TAG = re.compile("<[^>]+>")
TITLE, TEXT = 1000, 1
"""How much the site's search makes of a word in a title, and in a text."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        build, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def search(site: Path) -> Any:
    found: Mapping[str, Any] = json.loads((site / "search/search_index.json").read_text())
    sections = [
        {"location": each["location"], **{key: TAG.sub(" ", each[key]) for key in ("title", "text")}}
        for each in found["docs"]
    ]
    fields = [{"field_name": "title", "boost": TITLE}, {"field_name": "text", "boost": TEXT}]
    return lunr(ref="location", fields=fields, documents=sections).search


@pytest.mark.parametrize("words", FOUND)
def test_search_finds_the_words_of_the_field(search: Any, words: str) -> None:
    """All of the words are asked for, as the site's search does."""
    pages = [each["ref"].partition("#")[0] for each in search(" ".join(f"+{word}" for word in words.split()))]
    assert FOUND[words] in list(dict.fromkeys(pages))[:FIRST]


def test_each_page_is_for_phones_and_links_to_its_file(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs")
        folder = site / (name.parent if name.stem == "index" else name.with_suffix(""))
        text = (folder / "index.html").read_text()
        assert 'name="viewport" content="width=device-width' in text
        assert re.search(rf'href="[^"]+/edit/main/docs/{re.escape(name.as_posix())}"', text), name
        assert "md-tabs" in text and "(prefers-color-scheme: dark)" in text


def test_no_table_breaks_a_name(site: Path) -> None:
    """Code in a cell stays in one line, and the theme scrolls a wide table: each page is as wide as a phone."""
    (rule,) = re.findall(
        r"(\.md-typeset td code,.*?)}", (site / "stylesheets/extra.css").read_text(), re.DOTALL
    )
    assert "white-space: nowrap" in rule
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert "stylesheets/extra.css" in text or page.name == "404.html"
        assert not re.search(r"<td[^>]*><code>[^<]*\\\|", text), page


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|link rel="(?:stylesheet|icon)")[^>]* (?:src|href)="([^"]+)"', page.read_text()
        )
        assert loaded
        assert [each for each in loaded if "://" in each] == [], page


def test_each_picture_is_drawn_by_a_command_and_shown() -> None:
    pages = "".join(page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    commands = "".join(
        (ROOT / name).read_text() for name in ("docs/make_pictures.py", "bench/report.py", "bench/compare.py")
    )
    pictures = sorted((ROOT / "docs/images").iterdir())
    assert pictures
    for picture in pictures:
        assert picture.name in pages
        assert picture.name in commands or f'"{picture.stem}"' in commands, picture
