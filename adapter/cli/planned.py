"""Loads a model as its next run would: compiled, planned, with its sources and the columns of its query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ..project import stream_node, streaming
from ..query.frontend.streams import RelationInfo
from ..query.plan.plan import Plan
from ..query.program import Program
from ..query.sql.functions import QueryRunner
from ..stream.common.model import StreamModel
from ..stream.evolution.output_schema import check_table
from ..util.types import column_types
from .project import DbtProject, model_if_owned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Query:
    """The query of a model and its plan."""

    node: Mapping[str, Any]
    """dbt's compiled node of the model."""
    known: Mapping[str, RelationInfo]
    """The relations that the model reads, as the project describes them."""
    plan: Plan
    ask: QueryRunner
    """Runs the queries that planning needs."""

    @property
    def sql(self) -> str:
        """The compiled SQL of the model."""
        return str(self.node["compiled_code"])


Planned: TypeAlias = tuple["SparkSession", StreamModel, Program]
"""A session to inspect or change a model in, the model, and its program."""


def plan_next_run(project: DbtProject, name: str) -> Planned:
    """Plans a model, in a Spark session in which its sources are declared."""
    return plan_next_run_with_query(project, name)[0]


def plan_next_run_with_query(project: DbtProject, name: str) -> tuple[Planned, Query]:
    """Plans a model as `plan_next_run` does, and also returns its query."""
    node, known = project.compile_with_relations(name, may_query=True)
    environment = project.environment()
    sql = str(node["compiled_code"])
    ask = streaming.query_runner(environment)
    plan = streaming.plan_with_known_relations(node, sql, known, environment)
    program = streaming.model_program(node, plan)
    model = model_if_owned(environment, stream_node.stream_model(node, environment, program))
    environment.declared.create_tables_named_in(sql)
    session = environment.session()
    columns = streaming.query_columns(session, sql, ask)
    return (session, replace(model, columns=columns), program), Query(node, known, plan, ask)


def check_column_types(session: SparkSession, model: StreamModel, columns: Mapping[str, str]) -> None:
    """Raises unless the model's table can hold the values of the query, which may have been edited since the last run."""
    if session.catalog.tableExists(model.target):
        check_table(model, columns, column_types(session.table(model.target).schema))
