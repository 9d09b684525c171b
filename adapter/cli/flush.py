"""``dbt-stream flush``: closes a model's open windows without running dbt."""

from __future__ import annotations

from .. import stream_node, streaming
from ..stream import runner
from .project import Project, project_errors


def flush_model(project: Project, name: str) -> str:
    """Closes a model's windows and says what came of it.

    Raises:
        ProjectError: the model can't be planned or flushed, and why.
    """
    node, known = project.compiled_with_known(name, asking=True)
    environment = project.environment()
    with project_errors():
        ask = streaming.asks(environment, str(project.folder))
        program = streaming.program(node, streaming.plan(node, node["compiled_code"], known, ask))
        described = stream_node.model(node, environment, program)
        result = runner.flush(environment.session(), described, program)
    return f"{name}: {result.rows_out} rows out; its windows are closed."
