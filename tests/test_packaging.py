"""What is installed is what is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from dbt.adapters.spark_streaming.util.lazy_import import LazyModule

ROOT = Path(__file__).parents[1]


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


def test_modules_that_are_named_as_text_are_there() -> None:
    """What imports them when they are asked for is no import that a type checker sees."""
    found = set()
    for file in (ROOT / "adapter").rglob("*.py"):
        if "LazyModule(" not in file.read_text():
            continue
        parts = file.relative_to(ROOT / "adapter").with_suffix("").parts
        module = importlib.import_module(".".join(("dbt.adapters.spark_streaming", *parts)))
        found |= {vars(each)["_name"] for each in vars(module).values() if type(each) is LazyModule}
    assert len(found) > 10
    for name in found:
        importlib.import_module(name)
