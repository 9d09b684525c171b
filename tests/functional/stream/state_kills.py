"""A process that does something to a model's state, and is killed at a fail point on the way.

Its argument is a JSON file: the profile's ``target``, the ``model`` and ``events`` tables, the query's ``text`` and
``columns``, and what is to be ``done``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query import state_edit
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.lifecycle.editing import edit
from dbt.adapters.spark_streaming.stream.lifecycle.restoring import restore, undo
from dbt.adapters.spark_streaming.stream.run.runner import run_stream
from dbt.adapters.spark_streaming.stream.run.saving import save

CORRECTION = "insert into state (part, k, sum_v) values ('{part}', 'a', 1000)"
"""Of the part with the groups."""


def model_of(told: dict[str, Any], spark: Any) -> StreamModel:
    """The model of which something is told."""
    target = told["model"]
    return StreamModel(
        name=target.rpartition(".")[2],
        target=target,
        state=f"{target}__state",
        storage=Storage(told["target"]["storage_root"], lambda: spark),
        sources=(StreamSource("events", told["events"]),),
        changelog=True,
        columns=told["columns"],
        on_new_metric=told["on_new_metric"],
    )


def program_of(text: str) -> Program:
    """What a micro-batch of a query does."""
    return generate.generate_program(plan_query.plan(text, {"events": RelationInfo("ts")}, domains=["k"]))


def do(done: str, spark: Any, model: StreamModel, program: Program) -> None:
    """Do something to the state."""
    if done in ("migrate", "backfill"):
        run_stream(spark, model, program)
    elif done == "edit":
        (part,) = (part.name for part in program.parts)
        change = state_edit.parse_state_edit(CORRECTION.format(part=part))
        edit(spark, model, program, change.rows, change.more, False)
    elif done == "savepoint":
        save(spark, model, "second")
    elif done == "undo":
        undo(spark, model, program)
    else:
        restore(spark, model, program, "first")


def main() -> None:
    from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
    from dbt.adapters.spark_streaming.environment import get_environment

    told = json.loads(Path(sys.argv[1]).read_text())
    options = {key: value for key, value in told["target"].items() if key not in ("type", "threads")}
    spark = get_environment(SparkStreamingCredentials(schema="default", **options)).session()
    do(told["done"], spark, model_of(told, spark), program_of(told["text"]))


if __name__ == "__main__":
    main()
