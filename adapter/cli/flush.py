"""``dbt-stream flush``: closes a model's open windows without running dbt."""

from __future__ import annotations

from contextlib import suppress

from dbt_common.exceptions import DbtRuntimeError

from ..project import stream_node, streaming
from ..query.errors import QueryError
from ..query.plan.plan import Plan
from ..stream.run import runner
from ..util.text import counted
from .planned import check_column_types
from .project import DbtProject


def flush_model(project: DbtProject, name: str) -> str:
    """Closes a model's windows and returns a sentence with the result."""
    node, known = project.compile_with_relations(name, may_query=True)
    environment = project.environment()
    sql = str(node["compiled_code"])
    plan = streaming.plan_with_known_relations(node, sql, known, environment)
    program = streaming.model_program(node, plan)
    model = stream_node.stream_model(node, environment, program)
    session, columns = environment.session(), None
    # A source may have been dropped; a flush doesn't read it.
    with suppress(QueryError, DbtRuntimeError):
        environment.declared.create_tables_named_in(sql)
        columns = streaming.query_columns(session, sql, streaming.query_runner(environment))
    if columns is not None:
        check_column_types(session, model, columns)
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
