"""What is installed is what is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_folder_of_the_adapter_is_installed() -> None:
    """The folders are named one by one; an editable install finds those too that aren't."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")  # Python 3.10 reads no TOML
    listed = re.findall(r'^    "(dbt\.[\w.]+)",$', text, re.MULTILINE)
    package = "dbt.adapters.spark_streaming"
    found = {
        ".".join([package, *file.parent.relative_to(ROOT / "adapter").parts])
        for file in (ROOT / "adapter").rglob("__init__.py")
        if "include" not in file.parts
    }
    assert {name for name in listed if name.startswith(package)} == found
