"""The page of the protocol names all that is stored."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.query import state_signature
from dbt.adapters.spark_streaming.stream.progress.position import Position, SplitPoint
from dbt.adapters.spark_streaming.stream.storage import checkpoint

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/project/protocol.md").read_text()
STREAM = ROOT / "adapter/stream"
POSITION = Position(
    "m",
    "q",
    0,
    cut=SplitPoint(0, ("at",)),
    before=0,
    after=0,
    unreadable={"s": {"": 1}},
    lookup_requests=1,
    lookup_keys=1,
    text="t",
    is_edited=True,
    needs_rebuild=True,
    is_rebuild=True,
)
"""One with all of the properties."""


def test_it_is_of_the_version_that_is_written() -> None:
    assert f"describes **version {state_signature.VERSION}**" in PAGE


@pytest.mark.parametrize("name", sorted(POSITION.properties()))
def test_it_names_each_property_of_a_position(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_it_names_each_other_property() -> None:
    """The texts of the code that begin with the prefix; what follows a name in braces is no name."""
    code = "".join(path.read_text() for path in STREAM.rglob("*.py"))
    names = re.findall(r'f"\{PREFIX\}([a-z-]+)"', code)
    assert "signature" in names
    assert [name for name in names if f"`stream.{name}`" not in PAGE] == []


ENTRIES = {
    kind: [field.name for field in fields(getattr(state_signature, kind))]
    for kind in (
        "Signature",
        "WindowOperatorState",
        "WindowOutput",
        "AggregateState",
        "MetricState",
        "BufferState",
        "TreeState",
        "GroupState",
        "RowKey",
    )
}


@pytest.mark.parametrize("kind", ENTRIES)
def test_it_names_each_entry_of_a_signature(kind: str) -> None:
    assert [name for name in ENTRIES[kind] if f"`{name}`" not in PAGE] == []


def test_it_names_no_other_entry() -> None:
    section = PAGE.split("## The signature")[1].split("\n## ")[0]
    named = [
        name
        for cell in re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    ]
    assert "windows" in named
    assert {*named} <= {name for names in ENTRIES.values() for name in names}


def test_it_names_each_file_of_a_checkpoint() -> None:
    files = [f"{note}.json" for note in checkpoint.NOTES]
    assert "sources.json" in files
    assert [file for file in files if f"| `{file}` |" not in PAGE] == []
