"""``dbt-stream state bootstrap``: rebuilds a model from the rows of a table and continues at its source's current offset."""

from __future__ import annotations

import json
from dataclasses import replace

from ..project.model_names import label
from .project import DbtProject


def bootstrap(project: DbtProject, name: str, table: str) -> str:
    """Rebuilds a model from the rows of a table; later runs continue at its source's current offset.

    Raises:
        ProjectError: there is no such model or table, or the model can't be bootstrapped.
    """
    model = label(project.streaming_model(name))
    variables = {**project.parsed_variables(), "bootstrap": {model: table}}
    replace(project, variables=json.dumps(variables)).run([name], "--full-refresh")
    return f"{name}: begun with the rows of {table}; it continues from where its source is."
