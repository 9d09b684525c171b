"""``dbt-stream explain``: a model's streams, its tree of operators, when windows fire, and the SQL of a micro-batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ..project import stream_node, streaming
from ..project.model_names import versioned_name
from ..project.stream_config import StreamConfig
from ..query.diagnostics import unknown_relations
from ..query.errors import QueryError
from ..query.explain.tree import operators_in_order, tree_as_dict
from ..query.frontend.streams import RelationInfo
from ..query.plan.author_text import relation_text
from ..query.plan.explanation import FROM_CHANGES, Explanation, KeptMetric, State
from ..query.plan.operators.window_close import WindowClose
from ..query.plan.plan import Plan
from ..query.program import Lookup, Program, Rows, StatePart, Step
from ..query.sql import dialect, intervals
from ..query.windows.emission import Emission
from ..sources.stream_source import with_declared_names
from ..util.quoting import time_name_text
from ..util.text import counted
from .terminal import terminal

_LONGEST = 300
"""Maximum length of an operator's description on the terminal. The JSON has the whole description."""


@dataclass(frozen=True)
class Explained:
    """A planned model."""

    node: Mapping[str, Any]
    plan: Plan
    program: Program
    settings: StreamConfig
    tree: Explanation


def explain_node(node: Mapping[str, Any], known: Mapping[str, RelationInfo]) -> Explained:
    """Plans a compiled model.

    Raises:
        QueryError: it can't be planned, or reads a name that the project doesn't know.
    """
    with stream_node.errors_with_model_name(node):
        unknown_relations.check_relation_names(node["compiled_code"], known)
    plan = streaming.plan_model(node, node["compiled_code"], known)
    program = streaming.model_program(node, plan)
    config = stream_node.stream_settings(node)
    return Explained(node, plan, program, config, streaming.operator_tree(node, plan, program, config))


def plan_as_json(model: Explained) -> dict[str, Any]:
    """Returns a model's plan as a JSON object."""
    return {
        "model": versioned_name(model.node),
        "materialized": model.node["config"]["materialized"],
        "table": model.node["relation_name"],
        "settings": asdict(model.settings),
        "streams": [
            {
                "relation": with_declared_names(stream.relation),
                "columns": None if stream.columns is None else list(stream.columns),
                "event_time": stream.event_time and time_name_text(stream.event_time),
                "watermark": _watermark_text(model),
                "changelog": stream.feed,
            }
            for stream in model.plan.streams
        ],
        "tree": tree_as_dict(model.tree),
        "results": list(_result_sentences(model)),
        "rewrites": [{"rewrite": rewrite, "effect": effect} for rewrite, effect in model.plan.rewrites],
        "lookups": [
            {"relation": with_declared_names(each.relation), "key": list(each.key)}
            for each in model.plan.lookups
        ],
        "static_tables": list(map(with_declared_names, model.plan.static)),
        "unknown_functions": list(model.plan.unknown_functions),
        "unclear_columns": list(model.plan.unclear_columns),
        "sql": [{"step": step, "sql": text} for step, text in _titled_statements(model.program)],
    }


def print_plan(model: Explained, sql: bool) -> None:
    """Prints a model's plan on the terminal, and the SQL of a micro-batch if it is asked for."""
    console, node = terminal(), model.node
    console.print(
        f"[bold]{node['name']}[/bold]  {node['config']['materialized']}  → {node['relation_name']}\n"
    )
    console.print(_render_tree(model.tree))
    console.print()
    console.print(_streams_table(model))
    for sentence in _sentences_below_tree(model):
        console.print(sentence, markup=False, highlight=False)
    if sql:
        for title, text in _titled_statements(model.program):
            console.print(
                Panel(Syntax(_formatted_sql(text), "sql", word_wrap=True), title=title, title_align="left")
            )


# -- the tree --------------------------------------------------------------------------------------


def _render_tree(root: Explanation) -> RenderableType:
    """Renders each operator above its inputs. An operator that is read several times is shown once, with a number that
    the other places refer to."""
    read = Counter(each.identity for node in operators_in_order(root) for each in node.inputs)
    numbers: dict[str, int] = {}
    for node in operators_in_order(root):
        if read[node.identity] > 1:
            numbers[node.identity] = len(numbers) + 1
    shown: set[str] = set()

    def add_operator(node: Explanation, into: Tree) -> None:
        branch = into.add(_render_operator(node, numbers.get(node.identity), node.identity in shown))
        if node.identity not in shown:
            shown.add(node.identity)
            for each in node.inputs:
                add_operator(each, branch)

    holder = Tree(_render_operator(root, None, False), guide_style="dim")
    for each in root.inputs:
        add_operator(each, holder)
    return holder


def _render_operator(node: Explanation, number: int | None, is_repeated: bool) -> RenderableType:
    """Renders one operator: its description, changelog mode, state, metrics and notes.

    Args:
        number: its number, if several operators read it.
        is_repeated: whether it is shown above, so that the number suffices.
    """
    head = Text()
    if number is not None:
        head.append(f"[{number}] ", style="cyan")
    head.append(node.operator, style="bold")
    head.append(f"  {_shorten(node.description)}")
    if is_repeated:
        head.append(f"  as [{number}] above", style="dim")
        return head
    mode = str(node.changelog)
    if node.key is not None and node.changelog.kind == "retract":
        mode += f" · key {', '.join(node.key) or 'one row'}"
    if node.event_time is not None and all(each.event_time != node.event_time for each in node.inputs):
        mode += f" · event time {node.event_time}"
    parts: list[RenderableType] = [head, Text(mode, style="dim")]
    if node.computing.recomputes:
        parts.append(Text(f"{node.computing}: {node.computing.cost}", style="yellow"))
    parts += [_state_line(each) for each in node.state]
    parts += [Text(f"state {part}: of another operator", style="green") for part in node.shares]
    parts += [_metric_line(each) for each in node.metrics]
    parts += [Text(note, style="dim") for note in node.notes]
    return Group(*parts)


def _state_line(state: State) -> Text:
    line = Text(f"state {state.part}", style="green")
    line.append(f": {state.rows}; clears: {state.clears}", style="default")
    return line


def _metric_line(metric: KeptMetric) -> Text:
    line = Text(metric.sql, style="magenta")
    line.append(f" → {', '.join(metric.columns)}" if metric.columns else "", style="default")
    line.append(f": {metric.how}", style="default")
    return line


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# -- streams and sentences -------------------------------------------------------------------------


def _watermark_text(model: Explained) -> str:
    text = f"newest − {intervals.format(model.settings.watermark)}"
    if len(model.plan.streams) > 1:
        text += ", the smallest of all streams"
        if model.settings.idle_timeout is not None:
            text += f" but idle ones (no rows for {intervals.format(model.settings.idle_timeout)})"
    return text


def _streams_table(model: Explained) -> Table:
    table = Table(title="Streams", title_justify="left", box=None, title_style="bold", padding=(0, 2, 0, 0))
    names = [with_declared_names(relation_text(stream.relation)) for stream in model.plan.streams]
    table.add_column("relation", header_style="dim", overflow="fold", min_width=max(map(len, names)))
    for heading in ("columns read", "event time", "watermark"):
        table.add_column(heading, header_style="dim", overflow="fold")
    for name, stream in zip(names, model.plan.streams, strict=True):
        columns = "all" if stream.columns is None else "those the query names"
        if stream.event_time is None and not model.plan.dataflow.window_specs:
            table.add_row(name, columns, "none", "none")
        else:
            table.add_row(
                name, columns, time_name_text(stream.event_time or "computed"), _watermark_text(model)
            )
    return table


def _sentences_below_tree(model: Explained) -> Iterator[str]:
    """Yields the sentences below the tree."""
    plan = model.plan
    yield ""
    yield from _result_sentences(model)
    if limits := _mini_batch_sentence(model):
        yield limits
    tree = dialect.parse(model.node["compiled_code"])
    if tree.args.get("order") is not None and tree.args.get("limit") is None:
        yield "The ORDER BY at the end has no effect, since a table has no order: sort where it is read."
    for rewrite, effect in plan.rewrites:
        yield f"{rewrite}: {effect}."
    for lookup in plan.lookups:
        yield (
            f"External table {with_declared_names(relation_text(lookup.relation))}: its rows are looked up by the distinct "
            f"values of {', '.join(lookup.key)}; in the SQL they are {lookup.view}."
        )
    if plan.unknown_functions:
        yield (
            f"Unknown functions: {', '.join(plan.unknown_functions)}. This plan takes each for a function of one "
            "row; a run asks Spark whether it is an aggregate, and then plans it as one."
        )
    if plan.unclear_columns:
        yield (
            f"The relation or type of {', '.join(plan.unclear_columns)} is unknown here; a run asks Spark, and may "
            "find a cheaper plan than this."
        )


def _result_sentences(model: Explained) -> Iterator[str]:
    """Yields sentences that say when the table changes and which operators recompute."""
    recomputing = [node for node in operators_in_order(model.tree) if node.computing.how != FROM_CHANGES]
    flow = model.plan.dataflow
    if flow.window_specs:
        yield from _firing_sentences(model.settings.emission)
        if flow.windows is None:
            yield "Operators above windows change their result in the micro-batch in which the windows fire."
    elif closes := [each for each in flow.operators if isinstance(each, WindowClose)]:
        waits = {each.open_for for each in closes if each.open_for is not None}
        for delay in sorted(waits):
            at = _window_end_text(model.settings.emission.complete + delay)
            yield (
                f"On-time firing: when the watermark reaches {at}; no row of the window can arrive after that, so its "
                "result never changes."
            )
        if any(each.open_for is None for each in closes):
            yield from _on_time_sentences(model.settings.emission)
            yield "After that a window's result changes in the micro-batch in which its input changes."
    elif not any(node.state for node in operators_in_order(model.tree)):
        yield "No state: each row goes to the table in the micro-batch that it arrives in."
    else:
        yield "No windows: the table changes in each micro-batch, by the rows that arrived in it."
    if recomputing:
        names = ", ".join(f"{node.operator} ({node.computing})" for node in recomputing)
        yield f"Recomputed: {names}. With allow_recompute: false this query is refused."
    elif not model.settings.allow_recompute:
        yield "Nothing is recomputed, as allow_recompute: false asks."


def _on_time_sentences(emission: Emission) -> Iterator[str]:
    """Yields sentences on the early and the on-time firing of a window."""
    if emission.first is not None:
        again = f", then every {intervals.format(emission.update)}" if emission.update else ""
        at = _window_end_text(emission.first)
        yield f"Early firing: when the watermark reaches {at}{again}, for windows that have rows."
    yield f"On-time firing: when the watermark reaches {_window_end_text(emission.complete)}."


def _window_end_text(offset: int) -> str:
    length = intervals.format(abs(offset))
    return "window_end" if not offset else f"window_end {'−' if offset < 0 else '+'} {length}"


def _firing_sentences(emission: Emission) -> Iterator[str]:
    """Yields sentences on all firings of a window: early, on-time and late."""
    yield from _on_time_sentences(emission)
    if emission.late_updates:
        yield (
            f"Late firing: each late row updates its result until {_window_end_text(emission.last)}, the end of allowed "
            "lateness; "
            "then the state is cleared and later rows are dropped and counted."
        )
    else:
        yield "Allowed lateness: none. Then the state is cleared; later rows are dropped and counted."


def _mini_batch_sentence(model: Explained) -> str:
    """Returns a sentence with the configured interval and size of micro-batches, or an empty text."""
    limits = []
    if (interval := streaming.micro_batch_interval(model.settings, model.plan)) is not None:
        limits.append(f"one every {interval} while the stream keeps going")
    hint = model.plan.mini_batch
    if hint is not None and hint.rows is not None:
        limits.append(f"of at most {counted(hint.rows, 'row')}, as far as the sources can tell")
    return f"Micro-batches: {'; '.join(limits)}." if limits else ""


# -- the SQL ---------------------------------------------------------------------------------------


def _titled_statements(program: Program) -> Iterator[tuple[str, str]]:
    """Yields the statements of a micro-batch, each with a title."""
    for item in program.items:
        if isinstance(item, Lookup):
            yield from _lookup_key_statements([item])
        elif isinstance(item, Rows):
            yield f"{item.name}: rows in", item.sql
        elif isinstance(item, StatePart):
            yield f"state += {item.name}", item.append
            if item.rewrite is not None:
                yield f"state = {item.name}, if half of it changes", item.rewrite.sql
        elif item.sees_changes:
            yield f"{item.name}: results", item.sql
        else:
            yield f"{item.name}{' (computed once)' if item.persist else ''}", item.sql
            if item.full_scan is not None:
                yield (
                    f"{item.name}, if {item.full_scan.part} is small or rewritten completely",
                    item.full_scan.sql,
                )
    shown = {step.name for step in program.items_of_kind(Step)}
    for step in program.output_steps:
        if step.name not in shown:
            yield f"{step.name}: results", step.sql
    yield from _lookup_key_statements(program.lookups)
    yield "rows out", program.output


def _lookup_key_statements(lookups: Sequence[Lookup]) -> Iterator[tuple[str, str]]:
    for lookup in lookups:
        yield f"{lookup.view}: keys to look up in {with_declared_names(lookup.relation)}", lookup.keys


def _formatted_sql(text: str) -> str:
    try:
        return dialect.sql(dialect.parse(text), pretty=True)
    except QueryError:
        return text
