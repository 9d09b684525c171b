"""``dbt-stream state bootstrap``: builds a model anew, from the rows of a table and then from where its source is."""

from __future__ import annotations

import json
from dataclasses import replace

from ..project.model_names import label
from .project import Project


def bootstrap(project: Project, name: str, table: str) -> str:
    """Builds a model from the rows of a table, and has it go on from where its source is.

    Raises:
        ProjectError: there is no such model or table, or the model can't begin so.
    """
    model = label(project.streaming_model(name))
    variables = {**project.parsed_variables(), "bootstrap": {model: table}}
    replace(project, variables=json.dumps(variables)).run([name], "--full-refresh")
    return f"{name}: begun with the rows of {table}; it goes on from where its source is."
