"""Builds the tree that `explain` prints: the sink, below it the plan's operators, and what streams and tables they read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from ...util.quoting import time_name_text
from ..generation.generator import Generator
from ..generation.results import OUTPUT
from ..plan.author_text import relation_text
from ..plan.explanation import APPEND, RETRACT, TABLE, UPSERT, Changelog, Context, Explanation, State
from ..plan.operator import Operator
from ..plan.operators.changelog_normalize import ChangelogNormalize
from ..plan.plan import Plan
from ..plan.upserts import result_operator
from ..program import Program, StateNames, StatePart
from ..sql import intervals
from ..sql.dialect import parse
from ..sql.names import digest
from ..windows.emission import FINAL, Emission


@dataclass(frozen=True)
class Settings:
    """Settings from a model's configs that its operators depend on."""

    table: str
    """Name of the model's table."""
    emission: Emission = FINAL
    ttl: int | None = None
    domains: Collection[str] = ()
    """Columns of the config ``constant_domains``."""
    watermark: int = 0
    """Delay of the watermark in microseconds."""
    changelog: bool = False
    """Whether the table's changes are also written to a changelog."""
    names: StateNames = field(default_factory=dict)


def build_tree(plan: Plan, program: Program, settings: Settings) -> Explanation:
    """Returns the operators of a model, from the sink down to its streams."""
    builder = _Builder(plan, program, settings)
    return _explain_sink(builder.explanation_of(plan.dataflow.root), program, settings)


class _Builder:
    """Collects the operators' explanations, and adds the streams and tables that they read."""

    def __init__(self, plan: Plan, program: Program, settings: Settings) -> None:
        flow = plan.dataflow
        self.columns = {part.name: _state_columns(part) for part in program.parts}
        made = Generator(
            flow, settings.ttl, emission=settings.emission, tables=plan.lookups, names=settings.names
        )
        parts = made.state_tables | {
            each.name: [part.name for part in each.window_steps(settings.emission, settings.names).parts()]
            for each in flow.window_operators
        }
        self.context = Context(
            ttl=settings.ttl,
            domains=bool(settings.domains),
            emission=settings.emission,
            relations=_explain_streams(plan, settings) | _explain_external_tables(plan),
            rows_of=made.operators_of_buffered_rows,
            names=settings.names,
        )
        self.own_parts: dict[str, list[str]] = {}
        self.shared_parts: dict[str, list[str]] = {}
        seen: set[str] = set()
        for each in flow.operators:
            names = parts.get(each.name, [])
            self.own_parts[each.name] = [part for part in names if part not in seen]
            self.shared_parts[each.name] = [part for part in names if part in seen]
            seen.update(names)
        self.state_names = {group.name: settings.names.get(name, name) for name, group in flow.groups.items()}
        self.upserts: dict[str, tuple[str, ...]] = {}
        """Name of an operator → key by which its rows replace others."""
        result = result_operator(flow)
        if result is not None and result.key is not None:
            self.upserts = dict.fromkeys(
                [result.operator.name, *(each.name for each in result.path)], result.key
            )
        elif (
            plan.dataflow.windows is not None
            and program.upsert is not None
            and program.upsert.key is not None
        ):
            self.upserts = {flow.root.name: program.upsert.key}
        for each in flow.operators:
            if isinstance(each, ChangelogNormalize):
                self.upserts |= {source.name: each.key for source in each.inputs}
        self.found: dict[str, Explanation] = {}

    def explanation_of(self, operator: Operator) -> Explanation:
        """Returns an operator's explanation with its inputs. An operator without one is replaced by its input."""
        if operator.name not in self.found:
            self.found[operator.name] = self._explain_operator(operator)
        return self.found[operator.name]

    def _explain_operator(self, operator: Operator) -> Explanation:
        inputs = [self.explanation_of(each) for each in operator.inputs]
        name = operator.name
        context = replace(
            self.context,
            upserts=self.upserts.get(name),
            state={part: self.columns.get(part, ()) for part in self.own_parts[name]},
            state_name=self.state_names.get(name, name),
        )
        found = operator.explain(context)
        if found is None:
            return inputs[0]
        read = [self.context.relations.get(each) or _explain_table(each) for each in found.reads]
        return replace(found, inputs=(*inputs, *read), shares=tuple(self.shared_parts[name]))


def _state_columns(part: StatePart) -> tuple[str, ...]:
    """Returns the columns of a state table, from the text that compacts it or, if that has a star, that appends to it."""
    for made in (part.fold, part.append):
        names = tuple(parse(made).named_selects)
        if "*" not in names and "" not in names:
            return names
    return ()


# -- leaves and root -------------------------------------------------------------------------------


def _leaf(operator: str, description: str, mode: str = TABLE, *notes: str) -> Explanation:
    return Explanation(operator, description, digest(operator, description), Changelog(mode), notes=notes)


def _explain_streams(plan: Plan, settings: Settings) -> dict[str, Explanation]:
    found = {}
    for stream in plan.streams:
        made = _leaf("Source", relation_text(stream.relation), APPEND)
        if stream.feed:
            made = _leaf("Source", f"changelog of {made.description}", RETRACT)
        if stream.event_time is not None:
            watermark = f"watermark newest − {intervals.format(settings.watermark)}"
            made = replace(made, event_time=f"{time_name_text(stream.event_time)}, {watermark}")
        found[stream.view] = made
    return found


def _explain_external_tables(plan: Plan) -> dict[str, Explanation]:
    found = {}
    for table in plan.lookups:
        note = f"Asked in each micro-batch for its distinct {', '.join(table.key)}."
        made = _leaf("ExternalTable", relation_text(table.relation), TABLE, note)
        found[table.view] = replace(made, key=table.key)
    return found


def _explain_table(name: str) -> Explanation:
    return _leaf("Table", relation_text(name), TABLE, "Read again in each micro-batch.")


def _explain_sink(root: Explanation, program: Program, settings: Settings) -> Explanation:
    """Returns the node that writes the model's table."""
    upsert = program.upsert
    notes, changelog = ["Rows are added and never change."], Changelog(APPEND)
    if upsert is not None:
        changelog = Changelog(RETRACT) if upsert.key is None else Changelog(UPSERT, upsert.key)
        how = "Rows are matched by all of their columns" if upsert.key is None else "Changes are merged"
        notes = [f"{how}, in one commit per micro-batch."]
    if settings.changelog:
        notes.append(f"Every change is also appended to {relation_text(settings.table)}__changes.")
    return replace(
        _leaf("Sink", relation_text(settings.table), APPEND, *notes),
        changelog=changelog,
        key=None if upsert is None else upsert.key,
        state=tuple(
            State(
                part.name,
                "a row that the last micro-batch emits",
                "the next micro-batch",
                _state_columns(part),
            )
            for part in program.parts
            if part.name == OUTPUT
        ),
        inputs=(root,),
    )
