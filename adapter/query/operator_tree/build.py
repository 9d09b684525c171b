"""A plan and its program → the tree of operators, the sink first."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from .. import intervals
from ..clauses import joined
from ..dialect import parse
from ..emission import FINAL, Emission
from ..operators.generate import OUTPUT
from ..plan import (
    AggregateStage,
    GroupStage,
    JoinStage,
    KeptStage,
    KeyedStage,
    LookupTable,
    Plan,
    Stage,
    TopStage,
)
from ..program import Program, Upsert
from . import text, unwindowed, window_stages
from .node import APPEND, RETRACT, TABLE, UPSERT, Changelog, Node, State, in_order, make
from .operators import Operators
from .selects import CHANGES, RECOMPUTED, Read, Selects, project
from .state import columns_of


@dataclass(frozen=True)
class Settings:
    """What a model's configs say that its operators depend on."""

    table: str
    """The model's own."""
    emission: Emission = FINAL
    ttl: int | None = None
    domains: Collection[str] = ()
    watermark: int = 0
    changelog: bool = False


def tree(plan: Plan, program: Program, settings: Settings) -> Node:
    """The operators of a model, from what goes to its table down to its streams."""
    found = _Builder(plan, program, settings)
    flow = plan.dataflow
    if flow is not None:
        within = partial(found.within, emission=settings.emission)
        node = Operators(flow, found.bounds, found.columns, found.source, within, settings.emission).root()
    else:
        node = found.within(plan, settings.emission)
        whole = program.upsert is not None and program.upsert.is_whole
        if whole and not any(each.computing.recomputes for each in in_order(node)):
            # Row by row, over all rows there are.
            node = replace(node, computing=RECOMPUTED, changelog=Changelog(RETRACT))
    return _sink(node, program, settings, found)


class _Builder:
    def __init__(self, plan: Plan, program: Program, settings: Settings) -> None:
        self.settings = settings
        self.streams = {stream.view: stream for stream in plan.streams}
        self.lookups = {table.view: table for table in plan.lookups}
        self.columns = columns_of(program)
        self.bounds = unwindowed.Bounds(settings.ttl, settings.domains)
        self.upsert_keys: Mapping[str, tuple[str, ...]] = {
            stage.view: stage.key for stage in plan.stages if isinstance(stage, KeyedStage)
        }
        self.feeds = set()
        for each in plan.dataflow.operators if plan.dataflow else ():
            if getattr(each, "changelog", False):
                self.feeds.add(getattr(each, "view", ""))

    def source(self, view: str) -> Node:
        """A stream."""
        stream = self.streams[view]
        time = None
        if stream.event_time is not None:
            time = f"{stream.event_time}, watermark {_watermark(self.settings.watermark)}"
        changelog, what = Changelog(APPEND), text.relation(stream.relation)
        if stream.feed or view in self.feeds:
            changelog, what = Changelog(RETRACT), f"changelog of {what}"
        elif key := self.upsert_keys.get(view):
            changelog = Changelog(UPSERT, key)
        return make("Source", what, changelog, event_time=time)

    def within(self, plan: Plan, emission: Emission) -> Node:
        """The operators of a plan in stages."""
        return _Stages(self, plan, emission).root()


class _Stages:
    """The operators of one plan in stages."""

    def __init__(self, of: _Builder, plan: Plan, emission: Emission) -> None:
        self.of, self.plan, self.emission = of, plan, emission
        self.stages: dict[str, Stage] = {stage.name: stage for stage in plan.stages}
        self.read: dict[str, Read | None] = {}
        self.windowed = bool(plan.windowed)

    def root(self) -> Node:
        """What comes out of the plan."""
        computing = RECOMPUTED if self.plan.whole else CHANGES
        reader = Selects(self._resolve, windows=self.windowed, computing=computing)
        return reader.read(self.plan.written or self.plan.output).node

    def _resolve(self, name: str) -> Read | None:
        if name not in self.read:
            self.read[name] = self._make(name)
        return self.read[name]

    def _make(self, name: str) -> Read | None:
        if name in self.of.streams:
            time = self.of.streams[name].event_time or ""
            return Read(self.of.source(name), time=time)
        if (table := self.of.lookups.get(name)) is not None:
            return Read(_external(table))
        stage = self.stages.get(name)
        if stage is None:
            # What a stage's own texts call its result.
            for suffix in ("_windows", "_signed"):
                stage = self.stages.get(name.removesuffix(suffix)) if name.endswith(suffix) else stage
            return None if stage is None else self._of(stage)
        found = self._of(stage)
        if isinstance(stage, AggregateStage):
            # It stands for the whole SELECT, with its select list and HAVING.
            self.read[f"{name}_windows"] = found
            return Selects(self._resolve, windows=True).read(stage.output)
        return found

    def _of(self, stage: Stage) -> Read:
        of = self.of
        rows = Selects(self._resolve)
        if isinstance(stage, KeyedStage):
            return unwindowed.normalized(stage, of.bounds, of.columns, of.source(stage.view))
        if isinstance(stage, JoinStage):
            return self._join(stage, rows)
        below = rows.read(stage.written)
        if isinstance(stage, AggregateStage):
            return window_stages.aggregate(stage, self.emission, of.columns, below.node)
        if isinstance(stage, GroupStage):
            return unwindowed.groups(stage, of.bounds, of.columns, below.node)
        if isinstance(stage, TopStage):
            return unwindowed.top(stage, of.bounds, of.columns, below)
        if isinstance(stage, KeptStage):
            return unwindowed.kept(stage, of.bounds, of.columns, below.node)
        return window_stages.rows(stage, self.emission, of.columns, below.node, stage.window.time_col)

    def _join(self, stage: JoinStage, rows: Selects) -> Read:
        select = parse(stage.written)
        assert isinstance(select, exp.Select)
        inputs = tuple(rows.relation(node).node for node, _ in joined(select))
        node = unwindowed.join(stage, self.of.bounds, self.of.columns, inputs)
        select.set("joins", None)
        return Read(project(node, select))


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
    """What goes to the table."""
    upsert = program.upsert
    notes = ["Rows are added and never change."]
    if upsert is not None:
        told = (
            "Rows are told apart by all of their columns" if upsert.key is None else "What changes is merged"
        )
        notes = [f"{told}, in one commit per micro-batch."]
    if settings.changelog:
        notes.append(f"Every change is also appended to {text.relation(settings.table)}__changes.")
    parts = [part.name for level in program.levels for part in level.parts if part.name == OUTPUT]
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
