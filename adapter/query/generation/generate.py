"""Generates the program of a micro-batch from a `Plan`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from ..identity.fingerprints import fingerprints
from ..normalize.names import own_names
from ..plan import lookup_keys
from ..plan.operator import inputs_first, with_inputs
from ..plan.operators.project import Project
from ..plan.operators.source import Source
from ..plan.operators.union_all import UnionAll
from ..plan.operators.window_results import WindowResults
from ..plan.plan import Plan
from ..plan.state.window_steps import WindowSpec, WindowSteps
from ..plan.upsert_keys import upsert_of_windows
from ..program import NEW_STATE, Item, Program, Rows, StateNames, Step, StreamInput, limit_reads
from ..state_signature import Signature
from ..windows.emission import FINAL, Emission
from .generator import Generator
from .plan_size import with_bounded_plans
from .results import can_be_rebuilt, result_program
from .signature import state_signature


def generate_program(
    plan: Plan,
    emission: Emission = FINAL,
    upsert: bool = False,
    ttl: int | None = None,
    names: StateNames = NEW_STATE,
) -> Program:
    """Returns the program of one micro-batch of a plan.

    Args:
        emission: when results are emitted.
        upsert: whether rows replace those of the same key even if no result changes.
        ttl: microseconds until an idle key of a query without windows expires; None for never.
        names: names of state tables, groups and windows in the state.

    Raises:
        QueryError: results would change, but nothing identifies their rows.
    """

    def made(replayed: Collection[str] | None = None) -> Program:
        with own_names.unmark_errors():
            found = _generate_program(plan, emission, upsert, ttl, names=names, replayed=replayed)
            return own_names.separate_names(found, plan.taken)

    # Results of windows whose state has been dropped can't be emitted again.
    can_remake = can_be_rebuilt(plan.dataflow) and not emission.may_update_results
    return replace(
        made(),
        with_names=partial(generate_program, plan, emission, upsert, ttl),
        rebuild=made if can_remake else None,
    )


def _generate_program(
    plan: Plan,
    emission: Emission,
    upsert: bool,
    ttl: int | None,
    names: StateNames,
    replayed: Collection[str] | None,
) -> Program:
    """Returns the program of one micro-batch.

    Args:
        replayed: groups and rankings of rows that are read from the state as if they were new, so that
            everything above them is rebuilt; None if nothing is.
    """
    windows = plan.dataflow.windows
    made = Generator(plan.dataflow, ttl, replayed or (), emission, plan.lookups, names=names)
    signature = state_signature(plan, made)
    replaces = emission.may_update_results or (upsert and windows is not None)
    if not plan.dataflow.is_stateless:
        return _stateful_program(plan, made, replaces, signature, replayed)
    if windows is not None and replaces:
        upsert_of_windows(windows, (), emission)  # refuses
    return _stateless_program(plan, signature)


def _stateful_program(
    plan: Plan,
    made: Generator,
    replaces: bool,
    signature: Signature,
    replayed: Collection[str] | None,
) -> Program:
    """Returns the program of a tree of operators: windows first.

    Args:
        made: the steps and the state of the dataflow.
        replaces: whether results of windows replace those of the same key.
    """
    flow = plan.dataflow
    items = _window_items(made, replaces)
    emitted = [each for each in items if isinstance(each, Step) and each.sees_changes]
    result = result_program(made, emitted, replaces, replayed)
    is_result = flow.windows is not None
    while is_result and isinstance(items[-1], Step):
        items.pop()  # nothing reads the results before the commit
    items += [*made.steps_before_rows, *made.rows]
    items += with_bounded_plans(
        [*made.steps, *result.items_of_kind(Step)], {rows.read_by or "" for rows in made.rows}
    )
    items += [*made.parts.values(), *result.parts]

    return replace(
        result,
        **_common_fields(
            plan, made.window_steps, has_ttl=any(each.forgets is not None for each in made.parts.values())
        ),
        items=tuple(items),
        is_full_output=replayed is not None,
        has_rows_without_input=any(each.has_rows_without_input for each in flow.operators),
        signature=signature,
        fingerprints=None if is_result else cache(partial(fingerprints, flow, made.owners, made.names)),
        skip_if_empty=None if replayed is not None else result.skip_if_empty,
        flushes_from_state=is_result,
        allowed_lateness=made.emission.last,
    )


def _stateless_program(plan: Plan, signature: Signature) -> Program:
    """Returns the program of a stateless query: one query and one commit."""
    texts: dict[str, str] = {}
    queries: list[lookup_keys.KeyQuery] = []
    for each in plan.dataflow.operators:
        inputs = [texts[below.name] for below in each.inputs]
        if isinstance(each, Source):
            texts[each.name] = f"select * from {each.view}"
        elif isinstance(each, UnionAll):
            texts[each.name] = "\nunion all\n".join(f"select * from (\n{text}\n)" for text in inputs)
        elif isinstance(each, Project):
            texts[each.name] = with_inputs(each.sql, inputs)
            read = {name for below in inputs_first(each) if below is not each for name in below.tables_read}
            queries += [
                query.with_input_queries(inputs, read)
                for query in lookup_keys.key_queries(each.query, plan.lookups)
            ]
        elif isinstance(each, WindowResults):
            texts[each.name] = each.sql
            queries += lookup_keys.key_queries(each.query, plan.lookups)
    output = texts[plan.dataflow.root.name]
    return Program(
        **_common_fields(plan),
        items=(),
        output=output,
        boundaries=None,
        flushes_from_state=plan.dataflow.windows is not None,
        lookups=lookup_keys.ordered_lookups(queries, plan.lookups),
        signature=signature,
    )


def _common_fields(plan: Plan, windows: Sequence[WindowSteps] = (), has_ttl: bool = False) -> dict[str, Any]:
    """Returns the fields of a `Program` that follow from its streams and windows. `has_ttl`: whether state expires."""
    specs = [each.spec for each in windows]
    needs_time = has_ttl or plan.dataflow.depends_on_watermark
    return {
        "inputs": tuple(
            StreamInput(s.relation, s.view, s.columns, s.event_time, s.feed, needs_time=needs_time)
            for s in plan.streams
        ),
        "tables": plan.static,
        "filters_on_arrival": plan.dataflow.filters_on_arrival,
        "mini_batch": plan.mini_batch,
        "time_zones": _time_zones(specs),
        "extra_delay": _watermark_delay(specs),
    }


def _time_zones(specs: Sequence[WindowSpec]) -> tuple[str, ...]:
    """Returns the time zones in which windows are aligned."""
    return tuple(sorted({spec.window.time_zone for spec in specs if spec.window.time_zone}))


def _window_items(made: Generator, replaces: bool) -> list[Item]:
    """Returns the items of windows: those over streams, then those over the results of others. With `replaces`, the
    step that lists the windows that have a result is cached, as it is read again."""
    items: list[Item] = []
    for listed in _windows_by_level(made.window_steps):
        windows = [(each, each.parts()) for each in listed]
        lookups = lookup_keys.required_lookups([each.spec.read for each, _ in windows], made.tables)
        reads = Counter(view for each, _ in windows for view in each.spec.streams)
        items += [step for each, parts in windows for step in limit_reads(each.open_sessions(), parts)]
        items += lookups
        items += [
            Rows(
                f"{each.spec.name}_rows",
                each.rows_sql(each.spec.rows, clock=True),
                each.spec.streams,
                each.window.time_zone,
                is_single_reader=made.flow.windows is not None
                and not (each.spec.reads or lookups)
                and all(reads[view] == 1 for view in each.spec.streams),
            )
            for each, _ in windows
        ]
        items += [step for each, parts in windows for step in limit_reads(each.ingest_steps(), parts)]
        items += [part for _, parts in windows for part in limit_reads(parts, parts)]
        items += [
            replace(
                step, sees_changes=True, persist=step.persist or (replaces and step.name == each.windows_step)
            )
            for each, parts in windows
            for step in limit_reads(each.emit_steps(), parts)
        ]
    return items


def _windows_by_level(windows: Sequence[WindowSteps]) -> Iterator[list[WindowSteps]]:
    """Yields the windows over streams, then those over results of these, and so on."""
    done, left = set[str](), list(windows)
    while left:
        ready = [each for each in left if done.issuperset(each.spec.reads)]
        assert ready, [each.spec.name for each in left]
        yield ready
        done |= {each.spec.name for each in ready}
        left = [each for each in left if each.spec.name not in done]


def _watermark_delay(specs: Sequence[WindowSpec]) -> int:
    """Returns by how many microseconds the watermark is held back. It is 1 for sessions: a row at the very end of a
    session is in it, and isn't late when the watermark is exactly there.

    It is 0 with sessions over windows: windows are emitted when the held-back watermark is at their end, and a session that
    ends with their `window_time`, a microsecond earlier, would be closed by then.
    """
    merging = [spec for spec in specs if spec.window.merges]
    return int(bool(merging) and not any(spec.reads for spec in merging))
