"""``dbt-stream run``: streaming models that keep going, all at once, in one Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from .. import stream_node, streaming
from ..environment import Environment
from ..query.program import Program
from ..query.text import intervals
from ..stream.model import StreamModel
from ..stream.runner import RunningStream
from .interrupts import interrupts
from .live import Board
from .project import Project, ProjectError, Selection, project_errors

_LOOK = 0.5
"""Seconds from one look at the streams to the next."""


@dataclass
class Running:
    """A model that keeps going, and what became of it."""

    name: str
    stream: RunningStream
    problem: str | None = None
    stopped: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or another."""
        return self.stopped or self.problem is not None

    def look(self) -> None:
        """See whether it failed, or is asked to stop."""
        try:
            if self.stream.query.isActive and not self.stream.is_asked_to_stop:
                return
            self.stream.wait(_LOOK)
            self.stopped = True
        except DbtRuntimeError as problem:
            self.problem = str(problem.msg)
        self.stream.stop()

    @property
    def became(self) -> str | None:
        """What to say of it, once it has ended."""
        return self.problem or ("stopped" if self.stopped else None)


def run_models(project: Project, selection: Selection, every: str) -> bool:
    """Keeps the selected models up to date until they are stopped.

    `dbt run` comes first: it makes the tables and takes in what is there.

    Args:
        project: the project.
        selection: which models; empty: all streaming ones.
        every: the interval between micro-batches of models whose trigger is 'available_now'.

    Returns:
        Whether all of them went well until they were stopped.

    Raises:
        ProjectError: nothing is selected, or a model can't start.
    """
    with project_errors():
        interval = intervals.parse(every, "--every:")
    if interval <= 0:
        raise ProjectError(f"--every: '{every}' must be longer than nothing; write '1 second'.")
    names = [str(node["name"]) for node in project.streaming_models(selection)]
    if not names:
        raise ProjectError("No streaming model is selected; `dbt-stream status` lists those there are.")
    nodes, graph = project.run(names)
    for name in sorted({*names} - {str(node["name"]) for node in nodes}):
        # By `dbt-stream stop`, or it wouldn't have come to this.
        print(f"{name}: stopped")
    environment = project.environment()
    models = [described(project, environment, node, graph, intervals.format(interval)) for node in nodes]
    with interrupts() as signals:
        return _keep_going(environment, models, signals)


def described(
    project: Project, environment: Environment, node: Mapping[str, Any], graph: Any, every: str
) -> tuple[StreamModel, Program]:
    """A model as the running code wants it, that keeps going."""
    sql = str(node["compiled_code"])
    with project_errors():
        root = str(project.folder)
        program = streaming.program(node, streaming.plan_in_run(node, sql, environment, graph, root))
        model = stream_node.model(node, environment, program, root, graph)
        interval = streaming.interval(stream_node.config(node), program)
    environment.declared.make_mentioned(sql, root)
    return replace(model, trigger=interval or every), program


def _keep_going(
    environment: Environment, models: Sequence[tuple[StreamModel, Program]], signals: list[int]
) -> bool:
    running: list[Running] = []
    try:
        for model, program in models:
            with project_errors():
                running.append(Running(model.name, RunningStream(environment.session(), model, program)))
        with Board([model for model, _ in models]) as board:
            while not signals and not all(each.is_over for each in running):
                for each in running:
                    if not each.is_over:
                        each.look()
                board.show({each.name: each.became for each in running})
                time.sleep(_LOOK)
    finally:
        for each in running:
            each.stream.stop()
    return all(each.problem is None for each in running)
