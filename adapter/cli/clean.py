"""``dbt-stream clean``: removes what killed runs and dropped models have left behind."""

from __future__ import annotations

import time
from collections.abc import Iterable

from .. import stream_node, streaming
from ..query.text import intervals
from ..stream import orphans, runner
from ..stream.errors import StreamError
from ..stream.identifiers import joined, parts
from .project import Project, ProjectError, Selection, project_errors


def clean(
    project: Project, selection: Selection, older_than: str, dropped: bool, dry_run: bool
) -> Iterable[str]:
    """Removes files that nothing refers to; a line for each thing found.

    Args:
        project: the project.
        selection: which models; empty: all streaming ones.
        older_than: how old files of tables have to be.
        dropped: whether what is left of models whose table is gone is removed too.
        dry_run: whether nothing is removed, only told.

    Raises:
        ProjectError: the age is wrong, or the catalog or the storage root can't be read.
    """
    with project_errors():
        age = intervals.parse(older_than, "--older-than:")
    if age <= 0:
        raise ProjectError(f"--older-than: '{older_than}' must be longer than nothing; write '3 days'.")
    before = (time.time_ns() // 1000 - age) // 1000
    nodes = project.streaming_models(selection)
    environment = project.environment()
    would = "would be" if dry_run else "were"
    with project_errors(), streaming.sentences():
        session, storage = environment.session(), environment.storage
        models = [stream_node.model(node, environment) for node in nodes]
        for model in models:
            try:
                files = orphans.of_model(session, model, before, not dry_run)
            except StreamError as problem:
                yield f"{problem.msg} Its files were left alone."
                continue
            yield f"{model.name}: {len(files)} files that no commit knows {would} removed."
            yield from (f"  {file}" for file in files)
        files = orphans.of_storage(storage, before, not dry_run)
        if files:
            yield f"{storage.root}: {len(files)} halves of files {would} removed."
            yield from (f"  {file}" for file in files)
        schemas = {joined(parts(model.target)[:-1]) for model in models}
        for gone in orphans.dropped(session, storage, environment.catalog, sorted(schemas)):
            if not dropped:
                yield (
                    f"{gone.target}: there is no such table, but its state, changes or checkpoint; --dropped removes them."
                )
                continue
            if not dry_run:
                runner.reset(session, gone)
            yield f"{gone.target}: there is no such table; its state, changes and checkpoint {would} removed."
