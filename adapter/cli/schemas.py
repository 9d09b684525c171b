"""``dbt-stream schemas``: JSON schemas by which an editor completes and checks the YAML of a project."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from .project import ProjectError

FILES = {
    "properties": "models/**/*.yml",
    "project": "dbt_project.yml",
    "profiles": "profiles.yml",
}
"""Schema → the files of a project that it is for."""


def write_schemas(folder: Path) -> Iterator[str]:
    """Writes the schemas, over those of another version, and yields lines that say how an editor finds them."""
    packaged = resources.files("dbt.include.spark_streaming") / "schemas"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / f"{name}.json").write_text((packaged / f"{name}.json").read_text())
    except OSError as problem:
        raise ProjectError(f"The schemas can't be written to {folder}: {problem}") from problem
    yield f"Wrote {', '.join(f'{folder / name}.json' for name in FILES)}."
    yield "For VS Code with its YAML extension, in .vscode/settings.json:"
    start = folder.as_posix() if folder.is_absolute() else f"./{folder.as_posix()}"
    yield json.dumps(
        {"yaml.schemas": {f"{start}/{name}.json": files for name, files in FILES.items()}}, indent=2
    )
