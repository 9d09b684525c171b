"""Builds the tree of operators, with the sink at the top, from a plan and its program."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

from ...util.quoting import shown_time
from ..generation.results import OUTPUT
from ..plan.lookup_table import LookupTable
from ..plan.operators.changelog_normalize import ChangelogNormalize
from ..plan.operators.source import Source
from ..plan.operators.window_aggregate import WindowAggregate
from ..plan.operators.window_results import WindowResults
from ..plan.plan import Plan
from ..plan.stages import RowsStage
from ..program import Program, Upsert
from ..sql import intervals
from ..windows.emission import FINAL, Emission
from . import text, window_stages
from .bounds import Bounds
from .node import APPEND, RETRACT, TABLE, UPSERT, Changelog, Node, State, make
from .operators import Operators
from .selects import Read, Selects
from .state import columns_of

_WINDOWS = "_windows"
"""Suffix of a stage's name for its windows' results before the select list."""


@dataclass(frozen=True)
class Settings:
    """Settings of a model's configs that its operators depend on."""

    table: str
    """Name of the model's table."""
    emission: Emission = FINAL
    ttl: int | None = None
    domains: Collection[str] = ()
    watermark: int = 0
    changelog: bool = False


def tree(plan: Plan, program: Program, settings: Settings) -> Node:
    """Returns the operators of a model, from the sink down to its streams."""
    found = _Builder(plan, program, settings)
    within = partial(found.within, emission=settings.emission)
    if plan.windows is not None:
        node = within(plan.windows)
    else:
        operators = Operators(
            flow=plan.dataflow,
            bounds=found.bounds,
            columns=found.columns,
            source=found.source,
            table=found.table,
            within=within,
            emission=settings.emission,
        )
        node = operators.root()
    return _sink(node, program, settings, found)


class _Builder:
    def __init__(self, plan: Plan, program: Program, settings: Settings) -> None:
        self.settings = settings
        self.streams = {stream.view: stream for stream in plan.streams}
        self.lookups = {table.view: table for table in plan.lookups}
        self.columns = columns_of(program)
        self.bounds = Bounds(settings.ttl, settings.domains)
        operators = plan.dataflow.operators
        self.feeds = {each.view for each in operators if isinstance(each, Source) and each.changelog}
        self.upsert_keys = {
            source.view: each.key
            for each in operators
            if isinstance(each, ChangelogNormalize)
            for source in each.inputs
            if isinstance(source, Source)
        }

    def source(self, view: str) -> Node:
        """Returns the node of a stream."""
        stream = self.streams[view]
        time = None
        if stream.event_time is not None:
            time = f"{shown_time(stream.event_time)}, watermark {_watermark(self.settings.watermark)}"
        changelog, what = Changelog(APPEND), text.relation(stream.relation)
        if stream.feed or view in self.feeds:
            changelog, what = Changelog(RETRACT), f"changelog of {what}"
        elif key := self.upsert_keys.get(view):
            changelog = Changelog(UPSERT, key)
        return make("Source", what, changelog, event_time=time)

    def table(self, view: str) -> Read | None:
        """Returns an external table; None if the view isn't one."""
        table = self.lookups.get(view)
        return None if table is None else Read(_external(table))

    def within(self, plan: WindowResults, emission: Emission) -> Node:
        """Returns the operators of a query over windows."""
        return _Stages(self, plan, emission).root()


class _Stages:
    """Operators of one query over windows."""

    def __init__(self, of: _Builder, plan: WindowResults, emission: Emission) -> None:
        self.of, self.plan, self.emission = of, plan, emission
        self.windows = {each.name: each for each in plan.windows}
        self.read: dict[str, Read | None] = {}

    def root(self) -> Node:
        """Returns the node of the query's result."""
        reader = Selects(self._resolve, windows=bool(self.windows))
        return reader.read(self.plan.written or self.plan.sql).node

    def _resolve(self, name: str) -> Read | None:
        if name not in self.read:
            self.read[name] = self._make(name)
        return self.read[name]

    def _make(self, name: str) -> Read | None:
        if name in self.of.streams:
            time = self.of.streams[name].event_time or ""
            return Read(self.of.source(name), time=time)
        if (table := self.of.table(name)) is not None:
            return table
        # A stage's own text names its result with a suffix.
        operator = self.windows.get(name) or self.windows.get(name.removesuffix(_WINDOWS))
        if operator is None:
            return None
        stage = operator.stage
        below = Selects(self._resolve).read(stage.written).node
        if isinstance(stage, RowsStage):
            return window_stages.rows(stage, self.emission, self.of.columns, below, stage.window.time_col)
        assert isinstance(operator, WindowAggregate)
        found = window_stages.aggregate(operator, self.emission, self.of.columns, below)
        stage = operator.stage
        if stage.name != name:
            return found
        # It is the whole SELECT, with select list and HAVING.
        self.read[f"{name}{_WINDOWS}"] = found
        return Selects(self._resolve, windows=True).read(stage.output)


def _external(table: LookupTable) -> Node:
    key = ", ".join(table.key)
    return make(
        "ExternalTable",
        text.relation(table.relation),
        Changelog(TABLE),
        notes=(f"Asked in each micro-batch for its distinct {key}.",),
        key=table.key,
    )


def _watermark(delay: int) -> str:
    return f"newest − {intervals.format(delay)}"


def _sink(node: Node, program: Program, settings: Settings, builder: _Builder) -> Node:
    """Returns the node that writes the model's table."""
    upsert = program.upsert
    notes = ["Rows are added and never change."]
    if upsert is not None:
        told = "Rows are matched by all of their columns" if upsert.key is None else "What changes is merged"
        notes = [f"{told}, in one commit per micro-batch."]
    if settings.changelog:
        notes.append(f"Every change is also appended to {text.relation(settings.table)}__changes.")
    parts = [part.name for part in program.parts if part.name == OUTPUT]
    state = tuple(
        State(part, "a row that the last micro-batch emits", "the next micro-batch", builder.columns(part))
        for part in parts
    )
    made = make(
        "Sink", text.relation(settings.table), _mode(upsert), (node,), state=state, notes=tuple(notes)
    )
    return replace(made, key=None if upsert is None else upsert.key)


def _mode(upsert: Upsert | None) -> Changelog:
    if upsert is None:
        return Changelog(APPEND)
    return Changelog(RETRACT) if upsert.key is None else Changelog(UPSERT, upsert.key)
