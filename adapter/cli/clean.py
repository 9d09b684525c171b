"""``dbt-stream clean``: removes files left behind by killed runs and dropped models."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..project import stream_node, streaming
from ..query.sql import intervals
from ..stream.common.errors import StreamError
from ..stream.common.identifiers import joined_name, parts
from ..stream.lifecycle import orphans
from ..stream.run import runner
from ..util.text import counted
from .project import DbtProject, ProjectError, Selection


def clean_models(
    project: DbtProject, selection: Selection, older_than: str, dropped: bool, dry_run: bool, yes: bool
) -> Iterable[str]:
    """Removes files that nothing refers to and yields a line for each."""
    age = intervals.parse(older_than, "--older-than:")
    if age <= 0:
        raise ProjectError(f"--older-than: '{older_than}' must be longer than zero; write '3 days'.")
    before = (time.time_ns() // 1000 - age) // 1000
    nodes = project.streaming_models(selection)
    environment = project.environment()
    would = "would be" if dry_run else "were"
    with streaming.raising_dbt_errors():
        session, storage = environment.session(), environment.storage
        models = [stream_node.stream_model(node, environment) for node in nodes]
        for model in models:
            try:
                found = orphans.orphans_of_model(session, model, before, not dry_run)
            except StreamError as problem:
                yield f"{problem.msg} Its files were left alone."
                continue
            yield f"{model.name}: {counted(len(found.files), 'file')} that no commit refers to {would} removed."
            yield from (f"  {file}" for file in found.files)
            yield from found.left_alone
        files = orphans.orphans_of_storage(storage, before, not dry_run)
        if files:
            yield f"{storage.root}: {counted(len(files), 'partly written file')} {would} removed."
            yield from (f"  {file}" for file in files)
        schemas = {joined_name(parts(model.target)[:-1]) for model in models}
        for gone in orphans.dropped_models(session, storage, sorted(schemas)):
            if isinstance(gone, str):
                if dropped:
                    yield gone
                continue
            target = gone.model.target
            if not dropped:
                yield f"{target}: there is no such table, but something is left of it; --dropped lists what."
                continue
            if dry_run or not yes:
                how = "" if dry_run else " Run the command again with --yes to remove it."
                yield f"{target}: there is no such table; what is left of it would be removed.{how}"
            else:
                try:
                    runner.reset(session, gone.model)
                except StreamError as problem:
                    yield f"{problem.msg} What is left of it was left alone."
                    continue
                yield f"{target}: there is no such table; what was left of it was removed."
            yield from (f"  {left}" for left in gone.left)
