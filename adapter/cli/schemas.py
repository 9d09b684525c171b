"""``dbt-stream schemas``: JSON schemas by which an editor completes and checks the YAML of a project."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from .project import ProjectError

FILES = {"properties": "models/**/*.yml", "project": "dbt_project.yml", "profiles": "profiles.yml"}
"""Schema → the files of a project that it is for."""


def write_schemas(folder: Path) -> Iterator[str]:
    """Writes the schemas, over those of another version, and yields lines that say how an editor finds them.

    Raises:
        ProjectError: a file of another kind has the name of one of them, or the folder can't be written.
    """
    packaged = resources.files("dbt.include.spark_streaming") / "schemas"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = {folder / f"{name}.json": (packaged / f"{name}.json").read_text() for name in FILES}
        for file in files:
            if file.exists() and not _is_own_schema(file.read_bytes()):
                raise ProjectError(
                    f"{file} isn't a schema that this command wrote, so nothing is written. Name another folder, as in "
                    "`dbt-stream schemas dbt_schemas`."
                )
        for file, text in files.items():
            file.write_text(text)
    except OSError as problem:
        raise ProjectError(f"The schemas can't be written to {folder}: {problem}") from problem
    yield f"Wrote {', '.join(f'{folder / name}.json' for name in FILES)}."
    yield "For VS Code with its YAML extension, in .vscode/settings.json:"
    start = folder.as_posix() if folder.is_absolute() else f"./{folder.as_posix()}"
    yield json.dumps(
        {"yaml.schemas": {f"{start}/{name}.json": files for name, files in FILES.items()}}, indent=2
    )


def _is_own_schema(content: bytes) -> bool:
    """Returns whether a file is a schema of this package, of any version.

    >>> titles = ("Models and sources of dbt-spark-streaming", "Mine")
    >>> [_is_own_schema(json.dumps({"title": each}).encode()) for each in titles], _is_own_schema(b"[1")
    ([True, False], False)
    """
    try:
        found = json.loads(content)
    except ValueError:
        return False
    return isinstance(found, dict) and str(found.get("title", "")).endswith("dbt-spark-streaming")
