"""Rejects models whose materialization doesn't exist. Runs when the project is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from ..util.text import did_you_mean, listed
from .model_configs import MATERIALIZATIONS

_MACRO = re.compile(r"materialization_(\w+)_(?:default|spark|spark_streaming)")
_WITHOUT_MACRO = "ephemeral"
_NOT_OF_MODELS = {"seed", "snapshot", "test", "unit", "clone", "function"}


def check_materializations(nodes: Iterable[Any], macros: Iterable[Any]) -> None:
    """Raises if no macro builds a model."""
    known = {found[1] for macro in macros if (found := _MACRO.fullmatch(macro.name))} | {_WITHOUT_MACRO}
    for node in nodes:
        name = node.config.materialized
        if node.resource_type == "model" and name not in known:
            batch = sorted(known - _NOT_OF_MODELS - {*MATERIALIZATIONS})
            raise DbtRuntimeError(
                f"Model {node.name}: there is no materialization '{name}'{did_you_mean(name, known - _NOT_OF_MODELS)} "
                f"Models that are kept up to date from a stream are materialized as {listed([*MATERIALIZATIONS])}, "
                f"others as {listed(batch)}."
            )
