"""``dbt-stream translate``: writes a script of Flink SQL as a dbt project, and lists what has no translation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from ..translate.errors import Untranslatable
from ..translate.project import translate
from ..util.text import counted
from .project import ProjectError


def translate_file(file: Path, folder: Path | None, force: bool) -> Iterator[str]:
    """Translates a script, writes the project, and yields the lines to print."""
    # dbt's names of projects don't begin with a digit.
    name = re.sub(r"^(?=\d|$)", "flink_", re.sub(r"\W", "_", file.stem))
    folder = folder or Path(name)
    if not force and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectError(
            f"{folder} isn't empty. Name another folder, or overwrite the files in it with --force."
        )
    try:
        translation = translate(file.read_text(encoding="utf-8-sig"), name.lower())
    except (Untranslatable, UnicodeDecodeError) as problem:
        raise ProjectError(f"{file} can't be read: {problem}") from problem
    for path, text in translation.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    models = [text for path, text in translation.files.items() if path.endswith(".sql")]
    disabled = sum("enabled=false" in text.partition("\n")[0] for text in models)
    left_out = f", {disabled} of them disabled" if disabled else ""
    yield f"{folder}: {counted(len(models), 'model')} of {file}{left_out}."
    if translation.notes:
        yield ""
        yield "Not translated, or to check:"
        yield from (f"  {file.name}, {note}" for note in translation.notes)
        yield ""
    if not models:
        yield "There is nothing to run: the script has no query."
    elif disabled == len(models):
        yield "There is nothing to run yet: each model's file says what to change. Then remove its enabled=false."
    else:
        yield f"Run it: cd {quote(str(folder))} && dbt build"
