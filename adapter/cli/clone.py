"""``dbt-stream state clone``: a model continues from the state of another one, in this target or another."""

from __future__ import annotations

from dataclasses import replace

from ..environment import unstarted_environment
from ..environment.session import catalog_settings
from ..project import stream_node
from ..stream.common.model import StreamModel
from ..stream.lifecycle import cloning
from ..stream.run.lock import check_free
from ..util.text import counted
from .planned import plan_next_run
from .project import DbtProject, ProjectError


def clone_model(
    project: DbtProject, name: str, original: str | None, target: str | None, savepoint: str | None
) -> str:
    """Copies state, rows and offsets of another model into an empty one and returns sentences with the result."""
    if original is None and target is None:
        raise ProjectError(
            f"Say what {name} is to be a clone of: --from and a model of the project, or --from-target and a target of the "
            "profile."
        )
    source = _model_to_copy(project, original or name, target)
    session, model, program = plan_next_run(project, name)
    check_free(model)
    cloning.check_clone(session, model, program, source, savepoint)
    if not session.catalog.tableExists(model.target):
        # The materialization creates the table; with --empty it reads no rows.
        project.run([name], "--empty")
    done = cloning.clone(session, model, program, source, savepoint)
    of = f"savepoint '{savepoint}' of {source.name}" if savepoint else source.name
    where = f" in target {target}" if target else ""
    watermark = f"watermark {done.watermark}" if done.watermark else "no watermark yet"
    state = "no state" if done.state_rows is None else f"{counted(done.state_rows, 'row')} of state"
    lines = [
        f"{name}: continues from {of}{where}, at micro-batch {done.batch}, {watermark}, with {state} and "
        f"{counted(done.table_rows, 'row')} of its table.",
        f"The next run (`dbt run --select {name}`) reads what came since.",
    ]
    if done.next_run is not None:
        lines.append(
            f"Its query differs from {source.name}'s; the next run migrates the state to it ({done.next_run})."
        )
    return "\n".join(lines)


def _model_to_copy(project: DbtProject, name: str, target: str | None) -> StreamModel:
    """Returns the model to copy, as a model of this target's session."""
    if target is None:
        return stream_node.stream_model(project.streaming_model(name), project.environment())
    other = replace(project, target=target)
    node, credentials = other.streaming_model(name), other.credentials()
    here = project.environment()
    there = unstarted_environment(credentials, here.session)
    if catalog_settings(credentials, there.storage) != catalog_settings(here.credentials, here.storage):
        raise ProjectError(
            f"The tables of target '{target}' are in another catalog than those of this one, so {name} can't be copied "
            "from there. A clone is made within one catalog: give both targets the same 'catalog' and "
            "'catalog_options'; 'schema' and 'storage_root' may differ."
        )
    return stream_node.stream_model(node, there)
