"""``dbt-stream flush``: closes a model's open windows without running dbt."""

from __future__ import annotations

from dbt_common.exceptions import DbtRuntimeError

from .. import streaming
from ..query.errors import QueryError
from ..stream import runner
from .project import Project, ProjectError


def flush_model(project: Project, name: str) -> str:
    """Closes a model's windows and says what came of it.

    Raises:
        ProjectError: the model can't be planned or flushed, and why.
    """
    node, known = project.compiled_with_known(name)
    environment = project.environment()
    try:
        program = streaming.program(node, streaming.plan(node, node["compiled_code"], known))
        described = streaming.model(node, environment, program)
        result = runner.flush(environment.session(), described, program)
    except (QueryError, DbtRuntimeError) as problem:
        raise ProjectError(str(problem)) from problem
    return f"{name}: {result.rows_out} rows out; its windows are closed."
