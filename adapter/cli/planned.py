"""A model as its next run would have it: planned, with its sources and the columns that its query gives now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from .. import streaming
from ..query.program import Program
from ..stream.model import StreamModel
from .project import Project, project_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Planned(NamedTuple):
    """A model, and a session to look at it or change it in."""

    session: SparkSession
    model: StreamModel
    program: Program


def planned(project: Project, name: str) -> Planned:
    """Plans a model. Spark is started, and its sources are made readable.

    Raises:
        ProjectError: the model can't be planned, or what it reads isn't there.
    """
    node, known = project.compiled_with_known(name, asking=True)
    environment = project.environment()
    sql = str(node["compiled_code"])
    with project_errors():
        ask = streaming.asks(environment, str(project.folder))
        program = streaming.program(node, streaming.plan(node, sql, known, ask))
        model = streaming.model(node, environment, program, str(project.folder))
        environment.declared.make_mentioned(sql, str(project.folder))
        session = environment.session()
        gives = streaming.columns_of(session, sql, ask)
    return Planned(session, replace(model, columns=gives), program)
