"""A model as its next run would have it: planned, with its sources and the columns that its query gives now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..project import stream_node, streaming
from ..query.frontend.streams import Known
from ..query.plan.plan import Plan
from ..query.program import Program
from ..query.sql.functions import QueryRunner
from ..stream.common.model import StreamModel
from ..stream.evolution.output_schema import check_table
from ..util.types import type_text
from .project import Project, owned, project_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Planned(NamedTuple):
    """A model, and a session to look at it or change it in."""

    session: SparkSession
    model: StreamModel
    program: Program


@dataclass(frozen=True)
class Query:
    """A model's query."""

    node: Mapping[str, Any]
    """dbt's, compiled."""
    known: Mapping[str, Known]
    """What the project says of the relations it reads."""
    plan: Plan
    ask: QueryRunner

    @property
    def sql(self) -> str:
        """Its compiled text."""
        return str(self.node["compiled_code"])


def planned(project: Project, name: str) -> Planned:
    """Plans a model. Spark is started, and its sources are made readable.

    Raises:
        ProjectError: the model can't be planned, or what it reads isn't there.
    """
    return planned_with_query(project, name)[0]


def planned_with_query(project: Project, name: str) -> tuple[Planned, Query]:
    """The same, with the query.

    Raises:
        ProjectError: as in `planned`.
    """
    node, known = project.compiled_with_known(name, asking=True)
    environment = project.environment()
    sql = str(node["compiled_code"])
    with project_errors():
        ask = streaming.asks(environment, str(project.folder))
        plan = streaming.plan_as_in_run(node, sql, known, environment, str(project.folder))
        program = streaming.program(node, plan)
        model = owned(environment, stream_node.model(node, environment, program, str(project.folder)))
        environment.declared.make_mentioned(sql, str(project.folder))
        session = environment.session()
        gives = streaming.columns_of(session, sql, ask)
    return Planned(session, replace(model, columns=gives), program), Query(node, known, plan, ask)


def check_types(session: SparkSession, model: StreamModel, gives: Mapping[str, str]) -> None:
    """Passes a query whose values the model's table can hold: it may have been edited since the last run, which is what
    else looks at that.

    Args:
        session: a session.
        model: the model.
        gives: the query's columns and their types.

    Raises:
        StreamError: they would be cut off.
    """
    if session.catalog.tableExists(model.target):
        fields = session.table(model.target).schema.fields
        check_table(model, gives, {field.name: type_text(field.dataType) for field in fields})
