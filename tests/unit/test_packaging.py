"""What is installed is what is there."""

from __future__ import annotations

import gc
import importlib
import re
from pathlib import Path

from dbt.adapters.spark_streaming.lazily import Lazily

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


def test_modules_that_are_named_as_text_are_there() -> None:
    """What imports them when they are asked for is no import that a type checker sees."""
    package = importlib.import_module("dbt.adapters.spark_streaming")
    for file in (ROOT / "adapter").glob("*.py"):
        importlib.import_module(
            f"{package.__name__}.{file.stem}" if file.stem != "__init__" else package.__name__
        )
    lazy = [each for each in gc.get_objects() if type(each) is Lazily]
    assert len(lazy) > 10
    for each in lazy:
        importlib.import_module(vars(each)["_name"])
