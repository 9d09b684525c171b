"""A copy of integration_tests/ to run dbt in."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = "shop"


def copy_project(folder: Path, outputs: Mapping[str, Mapping[str, Any]]) -> None:
    """Copy the project, with this repository as its package.

    Args:
        folder: it isn't there yet.
        outputs: the profile's targets; the first is the one that is used.
    """
    ignored = shutil.ignore_patterns(
        "target", "dbt_packages", "logs", ".spark", ".cluster", ".kafka", ".cloud"
    )
    shutil.copytree(ROOT / "integration_tests", folder, ignore=ignored)
    targets = {name: {**target, "schema": SCHEMA} for name, target in outputs.items()}
    for name, content in (
        ("packages.yml", {"packages": [{"local": str(ROOT)}]}),
        ("profiles.yml", {"shop": {"target": next(iter(targets)), "outputs": targets}}),
    ):
        (folder / name).write_text(yaml.safe_dump(content))
