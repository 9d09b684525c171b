"""``dbt-stream flush``: closes a model's open windows without running dbt."""

from __future__ import annotations

from contextlib import suppress

from dbt_common.exceptions import DbtRuntimeError

from ..project import stream_node, streaming
from ..query.errors import QueryError
from ..query.plan.plan import Plan
from ..stream.run import runner
from ..util.text import counted
from .planned import check_types
from .project import DbtProject


def flush_model(project: DbtProject, name: str) -> str:
    """Closes a model's windows and returns a sentence with the result."""
    node, known = project.compiled_with_relations(name, asking=True)
    environment = project.environment()
    sql = str(node["compiled_code"])
    plan = streaming.plan_as_in_run(node, sql, known, environment)
    program = streaming.program(node, plan)
    model = stream_node.model(node, environment, program)
    session, columns = environment.session(), None
    # A source may have been dropped; a flush doesn't read it.
    with suppress(QueryError, DbtRuntimeError):
        environment.declared.make_mentioned(sql)
        columns = streaming.columns_of(session, sql, streaming.query_runner(environment))
    if columns is not None:
        check_types(session, model, columns)
    result = runner.flush(session, model, program)
    return flush_sentence(name, result.rows_out, plan)


def flush_sentence(name: str, rows_out: int, plan: Plan) -> str:
    """Returns a sentence with the result of a flush."""
    if plan.dataflow.is_stateless:
        left = "it emits each row as it arrives, so nothing was held back"
    elif plan.dataflow.has_windows:
        left = "its windows are closed"
    else:
        left = "it has no windows, and holds no rows back now"
    return f"{name}: {counted(rows_out, 'row')} out; {left}."
